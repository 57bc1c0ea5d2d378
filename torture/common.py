"""Shared by the parts: failures, figures, contents of folders, and the environment of a process under test."""

import hashlib
import os
import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any

ROOT = Path(__file__).parent.parent
KEPT = ROOT / "torture-failures"  # the folders of failed cases
_TEMPORARY = re.compile(r"\.(.+)\.[0-9a-f]{32}\.tmp")


@dataclass(frozen=True)
class Failure:
    """A failed case."""

    part: str
    case: int
    what: str  # the command, and the fault or damage
    why: str  # the check that failed
    folder: Path | None = None

    def repeat(self, seed: int) -> str:
        return f"python -m torture --only {self.part} --seed {seed} --case {self.case}"


@dataclass
class Outcome:
    """The figures of a part, and its failures."""

    counts: Counter[str] = field(default_factory=Counter)
    failures: list[Failure] = field(default_factory=list)
    _lock: Lock = field(default_factory=Lock)

    def add(self, what: str, number: int = 1) -> None:
        with self._lock:
            self.counts[what] += number


@dataclass(frozen=True)
class Options:
    """Options of a part."""

    seed: int
    long: bool
    work: Path  # an empty folder, in memory if possible, since the disk itself is not tested
    count: int | None = None  # cases of the part, instead of its default
    cases: tuple[int, ...] = ()  # only these
    kind: str | None = None  # only cases of this kind
    on_case: Callable[[str], None] = lambda line: None  # called after each, with a line of progress


def work_folder() -> Path:
    memory = Path("/dev/shm")
    return Path(tempfile.mkdtemp(prefix="torture-", dir=memory if os.access(memory, os.W_OK) else None))


def environment(work: Path, **more: str) -> dict[str, str]:
    """Return the environment of a process under test: separate caches, but shared compiled programs."""
    mine = {name: value for name, value in os.environ.items() if not name.startswith(("LADDERNET_", "RAY_", "PG"))}
    # Less optimisation, on both sides of a comparison, since compiling takes most of the time of a small run.
    return {
        **mine,
        "PYTHONPATH": str(ROOT),
        "PYTHONDONTWRITEBYTECODE": "1",
        "XLA_FLAGS": "--xla_backend_optimization_level=0",
        "JAX_PLATFORMS": "cpu",
        "JAX_COMPILATION_CACHE_DIR": str(work / "cache" / "xla"),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "LADDERNET_CACHE": str(work / "cache" / "laddernet"),
        "OPENBLAS_NUM_THREADS": "1",
        "MPLCONFIGDIR": str(work / "cache" / "matplotlib"),
        **more,
    }


def contents(folder: Path) -> dict[str, bytes]:
    """Read every file below a folder except locks; names of unfinished files lose their random part."""
    found = {}
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not path.is_symlink() and not path.name.endswith(".lock"):
            name = _TEMPORARY.sub(r".\1.tmp", str(path.relative_to(folder)))
            found[name] = path.read_bytes()
    return found


def digest(files: Mapping[str, bytes]) -> str:
    whole = hashlib.sha256()
    for name, content in sorted(files.items()):
        whole.update(f"{name}\0{len(content)}\0".encode())
        whole.update(content)
    return whole.hexdigest()


def complaint(code: int, err: str) -> str | None:
    """Return why a user should not see this exit code and text on stderr; None if both are right.

    A refusal is one line that begins with ``laddernet:``, or the usage error of the command line's parser.
    """
    if "Traceback (most recent call last)" in err:
        return "a traceback: " + last_line(err)
    if code == 0:
        return None
    if code == 2 and ("Usage:" in err or "╭─ Error" in err):
        return None
    # Warnings and notices are separate lines before the sentence with the reason.
    lines = [line for line in err.splitlines() if line.strip()]
    sentences = [line for line in lines if line.startswith("laddernet: ")]
    if code not in (1, 2):
        return f"exit code {code}: {last_line(err)}"
    if not sentences:
        return f"exit code {code} without a sentence: {last_line(err)}"
    if lines[-1] != sentences[-1]:
        return f"the last line on stderr is not a sentence of laddernet: {last_line(err)}"
    return None


def last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1][:300] if lines else "(nothing)"


def keep(folder: Path, part: str, seed: int, case: int, about: str) -> Path:
    """Copy the folder of a failed case to `KEPT`."""
    place = KEPT / f"{part}-{seed}-{case}"
    shutil.rmtree(place, ignore_errors=True)
    place.parent.mkdir(exist_ok=True)
    shutil.copytree(folder, place, symlinks=True, ignore=_special, ignore_dangling_symlinks=True)
    (place / "torture.txt").write_text(about, errors="replace")
    return place


def _special(folder: str, names: list[str]) -> list[str]:
    """List sockets and pipes, which cannot be copied."""
    return [name for name in names if not (Path(folder, name).is_file() or Path(folder, name).is_dir())]


def describe(argv: list[str] | tuple[str, ...]) -> str:
    import shlex

    return ascii(shlex.join(["laddernet", *argv]))[1:-1]


def changed(before: Mapping[str, bytes], after: Mapping[str, bytes]) -> list[str]:
    """List the files of ``before`` that are gone or different."""
    return [name for name, content in before.items() if after.get(name) != content]


def without_seconds(result: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in result.items() if name != "seconds"}

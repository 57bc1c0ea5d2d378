"""``python -m torture``: run the parts, print a line of figures for each, and write results/torture.md."""

import argparse
import compileall
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

from rich.console import Console

from torture import faults, inputs, kills, report
from torture.common import ROOT, Failure, Options, Outcome, work_folder

PARTS: dict[str, Any] = {"inputs": inputs, "faults": faults, "kills": kills}
SHOWN = {name: PARTS[name].figures for name in ("kills", "inputs", "faults")}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m torture", description=__doc__)
    parser.add_argument("--only", action="append", choices=PARTS, help="this part; may be repeated")
    parser.add_argument("--long", action="store_true", default=os.environ.get("LONG") == "1", help="hours, not minutes")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, help="cases of a part (kills: signals), instead of its default")
    parser.add_argument("--case", type=int, nargs="+", default=[], help="only these cases, as failures name them")
    parser.add_argument("--kind", help="only cases of this kind")
    parser.add_argument("--add", action="store_true", help="add the figures to those of earlier runs of the same code")
    parser.add_argument("--no-report", action="store_true", help="do not write results/torture.md")
    given = parser.parse_args()
    err = Console(stderr=True)
    failed = 0
    compileall.compile_dir(ROOT / "laddernet", quiet=2)  # the processes under test write no bytecode
    for name in given.only or PARTS:
        work, code = work_folder(), report.code()
        asked = Options(given.seed, given.long, work, given.count, tuple(given.case), given.kind)
        started = time.monotonic()
        try:
            shim = _shim(work)
            with _progress(err, name) as on_case:
                outcome: Outcome = PARTS[name].run(replace(asked, on_case=on_case), shim)
        finally:
            shutil.rmtree(work, ignore_errors=True)
        seconds = time.monotonic() - started
        figures = list(PARTS[name].figures(outcome))
        print(
            f"{name}: "
            + "; ".join(f"{what} {value}" for what, value in figures)
            + f"; failures {len(outcome.failures)}"
        )
        _print_failures(outcome, given.seed)
        sys.stdout.flush()
        failed += len(outcome.failures)
        if not given.no_report and not given.case:
            report.write(name, SHOWN, outcome, code, seconds, given)
    return 1 if failed else 0


def _print_failures(outcome: Outcome, seed: int, most: int = 3) -> None:
    """Print some failures of each kind; the folders of all are kept."""
    sorts: dict[tuple[str, str], list[Failure]] = {}
    for failure in outcome.failures:
        sorts.setdefault((failure.what.partition(":")[0], report.general(failure.why)), []).append(failure)
    for (what, why), found in sorted(sorts.items(), key=lambda sort: -len(sort[1])):
        print(f"\n{len(found)} × {what}: {why}")
        for failure in found[:most]:
            print(f"  {failure.what[:500]}\n    {failure.why[:500]}\n    {failure.repeat(seed)}")
            if failure.folder:
                print(f"    {failure.folder}")


def _shim(work: Path) -> Path | None:
    """Compile the shim; None without a C compiler: then the part that needs it is left out."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None or sys.platform != "linux":
        return None
    library = work / "faults.so"
    source = Path(__file__).with_name("faults.c")
    subprocess.run([compiler, "-O1", "-Wall", "-shared", "-fPIC", "-o", library, source, "-ldl"], check=True)
    return library


class _progress:
    """Show the progress of a part: a status line on a terminal, elsewhere a line per minute."""

    def __init__(self, console: Console, name: str) -> None:
        self._status = console.status(f"{name} …") if console.is_terminal else None
        self._name = name
        self._printed = time.monotonic()

    def _print(self, line: str) -> None:
        if time.monotonic() - self._printed >= 60:
            self._printed = time.monotonic()
            print(f"{datetime.now():%H:%M:%S} {self._name}: {line}", file=sys.stderr, flush=True)

    def __enter__(self) -> Callable[[str], None]:
        if self._status is None:
            return self._print
        self._status.start()
        status = self._status
        return lambda line: status.update(f"{self._name}: {line}")

    def __exit__(self, *_: object) -> None:
        if self._status is not None:
            self._status.stop()


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    sys.exit(main())

"""How native kernels are compiled, once a machine, and which files of the cache are loaded."""

import ctypes
import errno
import os
import subprocess
import sys
import threading
import uuid
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support import PATIENCE

from laddernet.files import writing
from laddernet.kernels import native

SOURCE = '#include "native.h"\n'


def libraries(cache: Path) -> list[Path]:
    return sorted((cache / "native").glob("*.so"))


@pytest.fixture
def cache(compiler: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("LADDERNET_CACHE", str(folder))
    return folder


def test_it_is_compiled_once_a_machine(cache: Path) -> None:
    assert native._register(SOURCE, {})
    (first,) = libraries(cache)
    when = first.stat().st_mtime_ns
    assert native._register(SOURCE, {})
    assert libraries(cache) == [first]
    assert first.stat().st_mtime_ns == when
    assert native._register(SOURCE + "\n", {})
    assert len(libraries(cache)) == 2


def test_threads_that_begin_at_once_register_it_once(cache: Path) -> None:
    source = (native.FOLDER / "native.c").read_text(encoding="utf-8") + f"// {uuid.uuid4()}\n"
    name = f"laddernet_{uuid.uuid4().hex}"
    barrier = threading.Barrier(6)

    def register(_: int) -> bool:
        barrier.wait()
        return native.registered(source, {"product": name})

    with ThreadPoolExecutor(6) as pool:
        assert all(pool.map(register, range(6)))
    assert len(libraries(cache)) == 1
    result = jax.ffi.ffi_call(name, native.float32((1, 1)))(
        jnp.full((1, 1), 2.0), jnp.full((1, 1), 3.0), pairs=np.int32(0)
    )
    assert float(np.asarray(result)[0, 0]) == 6


AT_ONCE = """
import threading
from concurrent.futures import ThreadPoolExecutor
from laddernet.kernels import native
barrier = threading.Barrier(6)
def begin(_):
    barrier.wait()
    return native.available()
input()
with ThreadPoolExecutor(6) as pool:
    print(*pool.map(begin, range(6)))
"""


@pytest.mark.process
def test_processes_with_several_threads_that_begin_at_once_compile_it_once(cache: Path) -> None:
    command = [sys.executable, "-c", AT_ONCE]
    started = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    for process in started:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    for process in started:
        out, err = process.communicate(timeout=PATIENCE)
        assert (out.split(), err) == (["True"] * 6, "")
    assert len(libraries(cache)) == 1


def flip(library: Path) -> None:
    code = bytearray(library.read_bytes())
    code[len(code) // 2] ^= 1
    library.write_bytes(code)


def in_the_way(library: Path) -> None:
    library.rename(library.parent / "other")
    library.symlink_to("other")


@pytest.mark.parametrize(
    "damage",
    [
        lambda library: library.write_bytes(b""),
        lambda library: library.write_bytes(library.read_bytes()[:4096]),
        flip,
        in_the_way,
        lambda library: library.chmod(0o666),
        pytest.param(
            lambda library: os.chown(library, 65534, -1),
            marks=pytest.mark.skipif(os.geteuid() != 0, reason="Only root can give a file away."),
        ),
    ],
    ids=["empty", "truncated", "flipped", "link", "writable", "owner"],
)
def test_a_library_that_is_damaged_or_not_owned_by_the_user_is_compiled_again(
    cache: Path, damage: Callable[[Path], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert native._register(SOURCE, {})
    (library,) = libraries(cache)
    whole = library.read_bytes()
    damage(library)
    loaded: list[bytes] = []
    load = ctypes.CDLL
    monkeypatch.setattr(ctypes, "CDLL", lambda path: (loaded.append(Path(path).read_bytes()), load(path))[1])
    assert native._cached(cache / "native", library.stem[:32]) is None
    assert native._register(SOURCE, {})
    (code,) = loaded
    (anew,) = libraries(cache)
    assert anew.read_bytes() == code
    assert len(code) == len(whole)
    assert anew.lstat().st_mode & 0o777 == 0o644
    assert anew.lstat().st_uid == os.geteuid()


def test_the_folder_is_private(cache: Path) -> None:
    assert native._register(SOURCE, {})
    assert (cache / "native").stat().st_mode & 0o777 == 0o700
    (cache / "native").chmod(0o755)  # as an earlier version made it
    assert native._register(SOURCE, {})
    assert (cache / "native").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("whose", ["another's", "anybody's", "a link"])
def test_nothing_is_loaded_from_a_folder_that_others_may_write_to(
    cache: Path, whose: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert native._register(SOURCE, {})
    (library,) = libraries(cache)
    if whose == "another's":
        user = os.geteuid()
        monkeypatch.setattr(os, "geteuid", lambda: user + 1)
    elif whose == "anybody's":
        (cache / "native").chmod(0o777)
    else:
        (cache / "native").rename(cache / "elsewhere")
        (cache / "native").symlink_to("elsewhere")
    monkeypatch.setattr(native, "_cached", None)  # what would read it
    when = library.stat().st_mtime_ns
    with pytest.warns(RuntimeWarning, match="it is not used as a cache; set LADDERNET_CACHE to a folder of your own"):
        assert native._register(SOURCE, {})
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # once is enough
        assert native._register(SOURCE, {})
    assert libraries(cache) == [library]
    assert library.stat().st_mtime_ns == when


def test_without_a_writable_cache_kernels_are_compiled_each_time(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache.write_text("not a folder")
    assert native._register(SOURCE, {})
    cache.unlink()

    def full(path: Path, data: bytes) -> None:
        with writing(path):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(native, "write_atomic", full)
    assert native._register(SOURCE, {})
    assert not libraries(cache)
    (cache / "native" / "lock").unlink()
    (cache / "native" / "lock").mkdir()  # cannot be locked
    assert native._register(SOURCE, {})


@pytest.mark.parametrize("command", ["cc -m64", "env cc"])
def test_a_compiler_may_have_arguments(cache: Path, monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    monkeypatch.setenv("CC", command)
    assert native._register(SOURCE, {})
    assert libraries(cache)

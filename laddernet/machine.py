"""The machine that a process is on: its cores, its memory."""

import ctypes
import os
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


# Fits may overlap in several threads: the last to end gives back what the first found.
_pinning = threading.Lock()
_fits_on_cores = 0
_cores_before: list[int] = []


@contextmanager
def on_cores(n_jobs: int | None) -> Iterator[None]:
    """Keep all threads of this process to so many cores meanwhile: XLA has no other switch once it has begun.

    None and -1 are all, -2 all but one, and so on.
    """
    if n_jobs is None or n_jobs == -1 or not hasattr(os, "sched_setaffinity"):
        yield
        return
    global _fits_on_cores, _cores_before
    with _pinning:
        if not _fits_on_cores:
            _cores_before = sorted(os.sched_getaffinity(0))
        _fits_on_cores += 1
        _keep_to(_cores_before[: n_jobs if n_jobs > 0 else len(_cores_before) + 1 + n_jobs])
    try:
        yield
    finally:
        with _pinning:
            _fits_on_cores -= 1
            if not _fits_on_cores:
                _keep_to(_cores_before)


def _keep_to(cores: Sequence[int]) -> None:
    for thread in Path("/proc/self/task").iterdir():
        try:
            os.sched_setaffinity(int(thread.name), cores)
        except ProcessLookupError:  # it has ended
            continue


def return_free_memory() -> None:
    """Give back what the compiler allocated and freed, some hundred MB that glibc would keep for itself."""
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)

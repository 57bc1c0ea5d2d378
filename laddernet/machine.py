"""The cores and the memory of this machine."""

import ctypes
import errno
import math
import os
import socket
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from itertools import count
from pathlib import Path

_ROOT = Path("/")  # of /proc and /sys
_CLAIM = "laddernet-core"  # prefix of the names of the sockets by which processes claim cores
_XLA_THREADS = ("PJRT_NPROC", "NPROC")  # environment variables from which XLA takes the number of its threads

_BFLOAT16_FLAGS = frozenset({"avx512_bf16", "amx_bf16"})


def cores() -> int:
    """Return the number of cores that this process may use: its affinity mask, limited by quotas of control groups.

    joblib reads the quota of the outermost group only, which is that of a container. A batch system or systemd sets
    quotas on inner groups.
    """
    return max(1, min([_schedulable(), *map(math.ceil, _quotas())]))


def xla_threads() -> int:
    """Return the number of threads that XLA starts when JAX is first used. XLA ignores quotas."""
    for name in _XLA_THREADS:
        with suppress(KeyError, ValueError):
            return int(os.environ[name])
    return _schedulable()


def has_bfloat16_units() -> bool:
    """Return whether the system reports units for products in bfloat16, which are then faster than in float32."""
    return any(not _BFLOAT16_FLAGS.isdisjoint(line.split()) for line in processor_lines())


def processor_lines() -> list[str]:
    """Return the lines in which Linux describes the processors; none on another system."""
    try:
        return (_ROOT / "proc/cpuinfo").read_text().splitlines()
    except OSError:
        return []


def keep_xla_to_quota() -> None:
    """Limit XLA's threads to the quota, if there is one. Call this before JAX is first used."""
    if not os.environ.keys() & set(_XLA_THREADS) and cores() < _schedulable():
        os.environ[_XLA_THREADS[0]] = str(cores())


def _schedulable() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _quotas() -> Iterator[float]:
    """Yield the quotas, in cores, of this process's control groups of versions 1 and 2."""
    try:
        groups = [line.split(":", 2) for line in (_ROOT / "proc/self/cgroup").read_text().splitlines() if line]
        mounts = [line.split() for line in (_ROOT / "proc/self/mountinfo").read_text().splitlines()]
    except OSError:  # not Linux
        return
    for _, controllers, path in groups:
        for _, _, _, root, mount, *_, kind, _, options in mounts:
            first = kind == "cgroup" and "cpu" in controllers.split(",") and "cpu" in options.split(",")
            if not first and not (kind == "cgroup2" and not controllers):
                continue
            # In a container the path may begin with the container's own group, which is mounted as the root there.
            inside = Path(path).relative_to(root) if Path(path).is_relative_to(root) else Path()
            for folder in (inside, *inside.parents):
                quota = _quota(_ROOT / mount.lstrip("/") / folder, first)
                if quota is not None:
                    yield quota


def _quota(group: Path, first: bool) -> float | None:
    """Return the quota of one control group in cores, None if it has none."""
    files = [group / "cpu.cfs_quota_us", group / "cpu.cfs_period_us"] if first else [group / "cpu.max"]
    try:
        quota, period = map(int, " ".join(file.read_text() for file in files).split())
    except (OSError, ValueError):  # no such group in this container, or "max"
        return None
    return quota / period if quota > 0 and period > 0 else None


def pin(number: int) -> ExitStack:
    """Keep this thread, and those that it starts, to ``number`` cores that the fewest other processes have claimed.

    The claims end when the returned stack is closed, or with the process. Without affinity masks nothing is done.
    """
    claims = ExitStack()
    if hasattr(os, "sched_setaffinity"):
        chosen = claims.enter_context(_claimed(sorted(os.sched_getaffinity(0)), number))
        os.sched_setaffinity(0, chosen)
    return claims


# Threads that Python did not start belong to XLA and BLAS, and all fits of a process share them.
_sharing = threading.Lock()
_fits: list[set[int] | None] = []  # the cores of each running fit; None: all
_cores_before: dict[int, set[int]] = {}  # affinity masks of the threads that were moved


@contextmanager
def on_cores(n_jobs: int | None) -> Iterator[None]:
    """Keep this thread, the threads that it starts and those of XLA to ``n_jobs`` cores that no other fit uses, if any.

    None and -1 mean all cores, -2 all but one, and so on. XLA has no other setting once it has started. Other threads
    that Python started do not change.
    """
    if sys.platform != "linux":
        yield
        return
    before = os.sched_getaffinity(0)
    with ExitStack() as stack:
        chosen = None
        if n_jobs is not None and n_jobs != -1:
            number = n_jobs if n_jobs > 0 else max(1, cores() + 1 + n_jobs)
            chosen = set(stack.enter_context(_claimed(sorted(before), number)))
        try:
            with _sharing:
                _fits.append(chosen)
                _move_shared_threads()
            if chosen is not None:
                os.sched_setaffinity(0, chosen)
            yield
        finally:
            if chosen is not None:
                os.sched_setaffinity(0, before)
            with _sharing:
                _fits.remove(chosen)
                _move_shared_threads()


@contextmanager
def _claimed(among: Sequence[int], number: int) -> Iterator[list[int]]:
    """Choose cores that the fewest others have claimed.

    A claim is the name of an abstract socket. The kernel gives a name to one process at a time and takes it back when
    the process ends in any way. No file is needed, so none can be left behind.
    """
    # Containers do not see each other's claims, so each process begins at a random core. Python's own random numbers
    # are not used, because the user may have seeded them.
    begin = int.from_bytes(os.urandom(4), "big") % len(among)
    chosen: list[int] = []
    with ExitStack() as claims:
        for turn in count():
            for core in (*among[begin:], *among[:begin]):
                if len(chosen) >= min(number, len(among)):
                    yield chosen
                    return
                if core not in chosen and _claim(f"{_CLAIM}-{core}-{turn}", claims):
                    chosen.append(core)


def _claim(name: str, claims: ExitStack) -> bool:
    with ExitStack() as unless_held:
        try:
            claim = unless_held.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
            claim.bind(f"\0{name}")
        except OSError as error:  # without such sockets, a core is used without a claim
            return error.errno != errno.EADDRINUSE
        claims.push(unless_held.pop_all())
    return True


def _move_shared_threads() -> None:
    """Move the shared threads to the cores of all running fits, or back if one of these may use all cores."""
    limited = bool(_fits) and None not in _fits
    if not limited and not _cores_before:
        return
    meanwhile = set().union(*_cores_before.values())  # for threads that were started on fewer cores
    allowed = set().union(*(fit for fit in _fits if fit is not None))
    of_python = {thread.native_id for thread in threading.enumerate()}
    for task in Path("/proc/self/task").iterdir():
        thread = int(task.name)
        if thread in of_python:
            continue
        with suppress(ProcessLookupError):  # it has ended
            before = _cores_before.setdefault(thread, meanwhile or os.sched_getaffinity(thread))
            os.sched_setaffinity(thread, allowed if limited else before)
    if not limited:
        _cores_before.clear()


def return_free_memory() -> None:
    """Return to the system the memory that the compiler has freed, which glibc would keep: some hundred MB."""
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)

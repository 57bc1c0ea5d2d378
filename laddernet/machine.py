"""The machine that a process is on: its cores, its memory."""

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

_ROOT = Path("/")  # of the files that describe this process
_CLAIM = "laddernet-core"  # how the names of sockets begin by which fits of all processes share the cores
_XLA_THREADS = ("PJRT_NPROC", "NPROC")  # variables of the environment that XLA asks for the number of its threads

_BFLOAT16_FLAGS = frozenset({"avx512_bf16", "amx_bf16"})


def cores() -> int:
    """Return how many cores this process may use: those of its affinity mask, or fewer if control groups have a quota.

    joblib counts the quota of the outermost group alone, which is that of a container; a batch system or systemd sets
    it further in.
    """
    return max(1, min([_schedulable(), *map(math.ceil, _quotas())]))


def xla_threads() -> int:
    """Return how many threads XLA starts when JAX is first used: it counts the affinity mask, and no quota."""
    for name in _XLA_THREADS:
        with suppress(KeyError, ValueError):
            return int(os.environ[name])
    return _schedulable()


def has_bfloat16_units() -> bool:
    """Return whether the processor multiplies bfloat16 numbers faster than float32, as far as the system says."""
    try:
        return not _BFLOAT16_FLAGS.isdisjoint((_ROOT / "proc/cpuinfo").read_text().split())
    except OSError:
        return False


def keep_xla_to_quota() -> None:
    """Let XLA start a thread for each core of the quota, if there is one. To be called before JAX is first used."""
    if not os.environ.keys() & set(_XLA_THREADS) and cores() < _schedulable():
        os.environ[_XLA_THREADS[0]] = str(cores())


def _schedulable() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _quotas() -> Iterator[float]:
    """Yield the quotas, in cores, of the control groups that this process is in, of versions 1 and 2."""
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
            # In a container the path may begin with that of the container's own group, which is the root it sees.
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


# Threads that Python did not start are those of XLA and BLAS, which all fits of a process share.
_sharing = threading.Lock()
_fits: list[set[int] | None] = []  # the cores of each fit under way; None: all
_cores_before: dict[int, set[int]] = {}  # of each thread that was moved


@contextmanager
def on_cores(n_jobs: int | None) -> Iterator[None]:
    """Keep this thread, those that it starts meanwhile and XLA's to so many cores, which no other fit has if possible.

    None and -1 are all, -2 all but one, and so on. XLA has no other switch once it has started. Other threads that
    Python started are left alone.
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
    """Choose cores that the fewest other fits have claimed.

    A claim is an abstract socket's name, which the kernel gives to one process at a time and takes back when it ends,
    however that comes about. There is no file that must be put somewhere, and none that could be left behind.
    """
    # Two containers do not see each other's claims, so each begins somewhere else. Python's own random numbers are the
    # user's, who may have seeded them.
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
        except OSError as error:  # where there are no such sockets, a core is taken without a claim
            return error.errno != errno.EADDRINUSE
        claims.push(unless_held.pop_all())
    return True


def _move_shared_threads() -> None:
    """Move the threads that fits share to the cores of all fits under way, back if one of them may use all."""
    limited = bool(_fits) and None not in _fits
    if not limited and not _cores_before:
        return
    meanwhile = set().union(*_cores_before.values())  # what a thread that was started on fewer cores is given back
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
    """Give back what the compiler allocated and freed, some hundred MB that glibc would keep for itself."""
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if trim is not None:
            trim(0)

"""Counting cores, and keeping fits to some of them."""

import os
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import jax
import pytest
from support import PATIENCE

from laddernet import machine
from laddernet.machine import cores, on_cores, pin
from laddernet.study import executors

MANY = set(range(64))


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The files that describe a process on 64 cores."""
    monkeypatch.setattr(machine, "_ROOT", tmp_path)
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: MANY)
    for name in machine._XLA_THREADS:
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def describe(root: Path, group: str, mounts: str, files: dict[str, str]) -> None:
    for name, content in {"proc/self/cgroup": group, "proc/self/mountinfo": mounts, **files}.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(content + "\n")


SECOND = "30 20 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate"
FIRST = """31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755
32 31 0:29 /docker/1f /sys/fs/cgroup/cpu,cpuacct ro,relatime master:9 - cgroup cgroup rw,cpu,cpuacct
34 31 0:31 /docker/1f /sys/fs/cgroup/cpuset rw,relatime - cgroup cgroup rw,cpuset"""


@pytest.mark.parametrize(
    ("group", "mounts", "files", "expected"),
    [
        ("0::/", SECOND, {"sys/fs/cgroup/cpu.max": "200000 100000"}, 2),  # docker --cpus=2
        ("0::/", SECOND, {"sys/fs/cgroup/cpu.max": "150000 100000"}, 2),
        ("0::/", SECOND, {"sys/fs/cgroup/cpu.max": "10000 100000"}, 1),
        ("0::/", SECOND, {"sys/fs/cgroup/cpu.max": "max 100000"}, 64),
        ("0::/", SECOND, {"sys/fs/cgroup/cpu.max": "9900000 100000"}, 64),
        ("0::/", SECOND, {"sys/fs/cgroup/cpu.max": "damaged"}, 64),
        ("0::/a/b", SECOND, {"sys/fs/cgroup/a/b/cpu.max": "max 100000", "sys/fs/cgroup/a/cpu.max": "400000 100000"}, 4),
        ("0::/a/b", SECOND, {"sys/fs/cgroup/a/b/cpu.max": "300000 100000", "sys/fs/cgroup/a/cpu.max": "8 1"}, 3),
        (
            "3:cpuset:/docker/1f\n2:cpu,cpuacct:/docker/1f/inner\n0::/",
            FIRST,
            {
                "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "500000",
                "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000",
                "sys/fs/cgroup/cpu,cpuacct/inner/cpu.cfs_quota_us": "-1",
                "sys/fs/cgroup/cpu,cpuacct/inner/cpu.cfs_period_us": "100000",
            },
            5,
        ),
        ("2:cpu,cpuacct:/elsewhere", FIRST, {}, 64),
    ],
)
def test_quotas_of_control_groups_count(
    root: Path, group: str, mounts: str, files: dict[str, str], expected: int
) -> None:
    describe(root, group, mounts, files)
    assert cores() == expected


def test_without_control_groups_the_affinity_mask_counts(root: Path) -> None:
    assert cores() == 64


def test_a_quota_limits_xla_and_the_workers(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    executor = executors.LocalExecutor(2, tmp_path / "log")
    assert len(executor._cores) == 64
    assert "PJRT_NPROC" not in executor._environment
    machine.keep_xla_to_quota()
    assert "PJRT_NPROC" not in os.environ
    describe(root, "0::/", SECOND, {"sys/fs/cgroup/cpu.max": "400000 100000"})
    executor = executors.LocalExecutor(2, tmp_path / "log")
    assert (executor._cores, executor._environment["PJRT_NPROC"]) == ([], "2")
    assert machine.xla_threads() == 64
    monkeypatch.setenv("NPROC", "7")
    machine.keep_xla_to_quota()  # the user has said how many
    assert machine.xla_threads() == 7
    monkeypatch.delenv("NPROC")
    monkeypatch.setenv("PJRT_NPROC", "")  # so that it is put back
    monkeypatch.delenv("PJRT_NPROC")
    machine.keep_xla_to_quota()
    assert machine.xla_threads() == 4


# --- n_jobs -----------------------------------------------------------------------------------------------------------

needs_two_cores = pytest.mark.skipif(sys.platform != "linux" or cores() < 2, reason="Threads cannot be kept apart.")


@pytest.fixture
def pools() -> set[int]:
    """The threads that Python did not start, of which XLA has several."""
    jax.devices()
    of_python = {thread.native_id for thread in threading.enumerate()}
    return {int(task.name) for task in Path("/proc/self/task").iterdir()} - of_python


def masks(threads: set[int]) -> set[frozenset[int]]:
    """The sets of cores that some threads are kept to; a thread may end."""
    found = set()
    for thread in threads:
        with suppress(ProcessLookupError):
            found.add(frozenset(os.sched_getaffinity(thread)))
    return found


@pytest.fixture(autouse=True)
def claim(monkeypatch: pytest.MonkeyPatch) -> str:
    """A name for claims that no other fit on this machine uses, for it may take a core from those of a test."""
    monkeypatch.setattr("laddernet.machine._CLAIM", f"laddernet-test-{uuid.uuid4().hex}")
    return machine._CLAIM


class Fit:
    """A thread that is inside `on_cores` until it is told to leave."""

    def __init__(self, n_jobs: int | None) -> None:
        self.n_jobs = n_jobs
        self.mask: set[int] = set()
        self.inside, self.leave = threading.Event(), threading.Event()

    def __call__(self) -> None:
        with on_cores(self.n_jobs):
            self.mask = os.sched_getaffinity(0)
            with ThreadPoolExecutor(1) as pool:
                assert pool.submit(os.sched_getaffinity, 0).result() == self.mask
            self.inside.set()
            assert self.leave.wait(PATIENCE)


@contextmanager
def under_way(n_jobs: int | None) -> Iterator[Fit]:
    fit = Fit(n_jobs)
    thread = threading.Thread(target=fit)
    thread.start()
    try:
        assert fit.inside.wait(PATIENCE)
        yield fit
    finally:
        fit.leave.set()
        thread.join()


@needs_two_cores
def test_a_fit_keeps_its_own_threads_and_xlas_to_its_cores_and_no_other(pools: set[int]) -> None:
    everything = os.sched_getaffinity(0)
    before = masks(pools)
    with under_way(1) as fit:
        assert len(fit.mask) == 1
        assert masks(pools) == {frozenset(fit.mask)}
        assert os.sched_getaffinity(0) == everything  # this thread is not of the fit
    assert masks(pools) == before


@needs_two_cores
def test_fits_that_overlap_have_cores_of_their_own_and_share_xlas_threads(
    pools: set[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "urandom", bytes)  # all begin their search at the same core
    before = masks(pools)
    with under_way(1) as one:
        with under_way(1) as other:
            assert not one.mask & other.mask
            assert masks(pools) == {frozenset(one.mask | other.mask)}
            with under_way(None) as unlimited:
                assert unlimited.mask == os.sched_getaffinity(0)
                assert masks(pools) == before
        assert masks(pools) == {frozenset(one.mask)}
        with under_way(1) as third:  # what was given back is free
            assert not one.mask & third.mask
    assert masks(pools) == before


@pytest.mark.process
@needs_two_cores
def test_fits_in_two_processes_have_cores_of_their_own(claim: str) -> None:
    hold = "with machine.on_cores(1): print(*os.sched_getaffinity(0), flush=True); input()"
    program = f"import os\nfrom laddernet import machine\nmachine._CLAIM = {claim!r}\n{hold}"
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        theirs = int(process.stdout.readline())
        for _ in range(20):  # wherever the search begins
            with on_cores(1):
                assert os.sched_getaffinity(0) != {theirs}
        process.kill()


def test_more_fits_than_cores_are_spread_over_all() -> None:
    everything = sorted(os.sched_getaffinity(0))
    with under_way(len(everything)) as first, under_way(1) as one, under_way(1) as other:
        assert first.mask == set(everything)
        assert len(one.mask | other.mask) == min(2, len(everything))


def test_numbers_of_cores() -> None:
    available = cores()
    for n_jobs, expected in {1: 1, 10_000: available, -available: 1, -1: available}.items():
        with on_cores(n_jobs):
            assert cores() == expected


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system has no such call")
def test_pinned_processes_of_one_machine_take_different_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    mine: list[list[int]] = []
    monkeypatch.setattr(os, "urandom", bytes)  # all begin their search at the same core
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {100_000, 100_001, 100_002, 100_003})
    monkeypatch.setattr(os, "sched_setaffinity", lambda process, cores: mine.append(list(cores)))
    first, second = pin(2), pin(2)
    third = pin(1)  # all are claimed: it shares one, and has no more
    assert mine == [[100_000, 100_001], [100_002, 100_003], [100_000]]
    for claims in (first, second, third):
        claims.close()

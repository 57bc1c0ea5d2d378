"""Worker processes of this machine: how they are started, stopped and read, also on a system like Windows."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from support import PATIENCE

from laddernet.study.executors import LocalExecutor, Task, environment
from laddernet.study.store import Store

DONE = {"event": "done", "result": {}, "history": [], "environment": {}}
TASK = Task("f", {}, "no folder", ["x"])


@pytest.fixture
def executor(tmp_path: Path) -> Iterator[LocalExecutor]:
    with closing(LocalExecutor(1, tmp_path / "log")) as executor:
        yield executor


def test_a_worker_that_is_stopped_is_gone_even_if_it_was_suspended_and_says_nothing_more(
    executor: LocalExecutor,
) -> None:
    executor.start(0, TASK)
    assert executor.events(PATIENCE) == [(0, {"event": "begun"})]
    worker = executor._workers[0]
    os.kill(worker.process.pid, signal.SIGSTOP)
    executor._lines.put((worker, DONE))  # as if it had come just before
    executor.stop(0)
    assert worker.process.returncode == -signal.SIGKILL
    assert executor.events(0.01) == []
    assert executor.pids() == []


def test_a_worker_that_is_killed_is_lost_with_the_signal(executor: LocalExecutor, tmp_path: Path) -> None:
    executor.start(0, TASK)
    os.kill(executor.pids()[0], signal.SIGKILL)
    told: list[Any] = []
    while len(told) < 2:
        told += executor.events(PATIENCE)
    sentence = f"Its process was killed (SIGKILL); {tmp_path / 'log'} may say why."
    assert told == [(0, {"event": "begun"}), (0, {"event": "lost", "error": sentence})]


def test_a_worker_whose_run_cannot_be_read_says_so_and_takes_the_next(executor: LocalExecutor) -> None:
    for _ in range(2):
        executor.start(0, TASK)
        told: list[Any] = []
        while len(told) < 2:
            told += executor.events(PATIENCE)
        assert [event["event"] for _, event in told] == ["begun", "failed"]


def test_workers_share_the_memory_of_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ("XLA_CLIENT_MEM_FRACTION", "XLA_PYTHON_CLIENT_MEM_FRACTION", "XLA_PYTHON_CLIENT_PREALLOCATE")
    for name in names:
        monkeypatch.delenv(name, raising=False)
    assert environment(2) == {**os.environ, "XLA_PYTHON_CLIENT_MEM_FRACTION": "0.450"}
    assert environment(1)["XLA_PYTHON_CLIENT_MEM_FRACTION"] == "0.900"
    for name in names:  # what a user has set stays
        with monkeypatch.context() as patch:
            patch.setenv(name, "false" if name.endswith("PREALLOCATE") else "0.2")
            assert environment(2) == dict(os.environ)


@pytest.mark.process
def test_each_worker_is_started_in_that_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[dict[str, str]] = []

    def start(command: list[str], **options: Any) -> None:
        given.append(options["env"])
        raise OSError("This test starts none.")

    monkeypatch.setattr(subprocess, "Popen", start)
    executor = LocalExecutor(4, tmp_path / "log")
    with pytest.raises(ValueError, match="This test starts none"):
        executor.start(0, TASK)
    assert given == [environment(4)]


# In every process: there are no file locks of POSIX, no waiting for pipes, and no affinity.
LIKE_WINDOWS = """
import os, selectors, subprocess, sys
sys.modules["fcntl"] = None
selectors.DefaultSelector = None
for name in ("sched_getaffinity", "sched_setaffinity"):
    delattr(os, name)
"""

PROGRAM = """
import sys
assert sys.modules["fcntl"] is None
from laddernet.cli.main import main
import laddernet.study.driver
from jax._src import xla_bridge

drive = laddernet.study.driver.drive
def checked(*arguments, **options):
    assert not xla_bridge.backends_are_initialized()  # or a GPU's memory would be this process's
    drive(*arguments, **options)

laddernet.study.driver.drive = checked
main()
"""


@pytest.mark.process
def test_a_study_needs_nothing_that_windows_lacks_and_its_driver_no_device(tmp_path: Path) -> None:
    (tmp_path / "like").mkdir()
    (tmp_path / "like" / "sitecustomize.py").write_text(LIKE_WINDOWS)
    found = os.pathsep.join([str(tmp_path / "like"), *filter(None, sys.path)])
    few = ("--models", "baseline", "--labels", "40", "--hidden", "8,4", "--batch-size", "400", "--seeds", "1")
    command = [sys.executable, "-c", PROGRAM, "study", *few, "--epochs", "1", "--jobs", "1", "--out", "s"]
    done = subprocess.run(
        command,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": found, "LADDERNET_NATIVE": "0"},  # as there
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    with closing(Store.open(tmp_path / "s" / "study.db")) as store:
        assert store.counts() == {"waiting": 0, "running": 0, "done": 1, "failed": 0}

"""The driver: what becomes of runs whose workers end or hang, and of drivers that are suspended."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock
from studies import tiny

from laddernet.study.driver import _place, _release_dead, drive
from laddernet.study.executors import Task
from laddernet.study.store import Run, Store
from laddernet.study.worker import perform


def test_a_run_that_another_process_holds_is_tried_again_not_failed(tmp_path: Path) -> None:
    config = next(iter(tiny().values()))
    task = {"config": asdict(config), "folder": str(tmp_path / "r"), "command": ["x"], "checkpoint_every": 60.0}
    (tmp_path / "r").mkdir()
    with FileLock(tmp_path / "r" / ".lock"):
        assert perform(json.loads(json.dumps(task)), lambda record: None)["event"] == "busy"


class ScriptedExecutor:
    """Trains nothing: it tells what a test has written down, one list of events after the other."""

    slots = 2

    def __init__(self, script: Iterable[Any]) -> None:
        self._script = iter(script)
        self.started = 0
        self.stopped: list[int] = []

    def start(self, slot: int, task: Task) -> None:
        assert slot == 0
        self.started += 1

    def events(self, timeout: float) -> list[tuple[int, dict]]:
        told = next(self._script)
        return told() if callable(told) else told

    def stop(self, slot: int) -> None:
        self.stopped.append(slot)

    def close(self) -> None:
        pass


DONE = {"event": "done", "result": {"test_error": 1.0}, "history": [], "environment": {}}

LOST, BUSY = ({"event": event, "error": "It is gone."} for event in ("lost", "busy"))


@pytest.mark.parametrize(
    ("script", "status"),
    [
        ([[(1, LOST)], [(0, DONE)]], "done"),  # slot 1 has nothing to do
        ([[(0, LOST)]] * 9 + [[(0, DONE)]], "done"),
        ([[(0, LOST)]] * 10, "failed"),
        ([[(0, BUSY)]] * 30 + [[(0, DONE)]], "done"),
    ],
    ids=["idle worker killed", "nine deaths", "ten deaths", "held by another"],
)
def test_what_becomes_of_a_run_whose_worker_ends(tmp_path: Path, script: list, status: str) -> None:
    fingerprint, config = next(iter(tiny().items()))
    with closing(Store.open(tmp_path / "study.db")) as store:
        drive(store, {fingerprint: config}, ScriptedExecutor(script), tmp_path, command=["x"])
        assert [run.status for run in store.runs()] == [status]


BEGUN = {"event": "begun"}


def epoch(number: int) -> dict[str, Any]:
    return {"event": "epoch", "record": {"epoch": number, "cost": 1.0}}


class Clock:
    """The driver's, or the store's: it stands still unless it is moved."""

    def __init__(self) -> None:
        self.time = 1000.0

    def __call__(self) -> float:
        return self.time


def drive_one(tmp_path: Path, script: Iterable[Any], clock: Clock, lease: float = 60.0) -> tuple[ScriptedExecutor, Run]:
    """Drive one run with a clock that the driver and its store share."""
    fingerprint, config = next(iter(tiny().items()))
    executor = ScriptedExecutor(script)
    with closing(Store.open(tmp_path / "study.db", lease=lease, clock=clock)) as store:
        drive(store, {fingerprint: config}, executor, tmp_path, command=["x"], clock=clock)
        (run,) = store.runs()
    return executor, run


def test_a_driver_stops_what_another_took_over_while_it_was_suspended(tmp_path: Path) -> None:
    clock = Clock()
    others = {"test_error": 2.0}

    def is_suspended() -> list[Any]:
        clock.time += 1000
        with closing(Store.open(tmp_path / "study.db", clock=clock)) as store:
            assert store.claim("another")
        return [(0, epoch(1))]

    def comes_late() -> list[Any]:
        with closing(Store.open(tmp_path / "study.db", clock=clock)) as store:
            (run,) = store.runs()
            assert store.finish("another", run.fingerprint, others, [], {})
        return [(0, DONE)]  # of the worker that was stopped

    executor, run = drive_one(tmp_path, [[(0, BEGUN)], is_suspended, comes_late], clock)
    assert (executor.started, executor.stopped) == (1, [0])
    assert (run.status, run.owner, run.result) == ("done", "another", others)


def test_a_driver_that_was_suspended_goes_on_with_what_nobody_took_and_does_not_take_it_twice(tmp_path: Path) -> None:
    clock = Clock()

    def is_suspended() -> list[Any]:
        clock.time += 1000
        return []

    executor, run = drive_one(tmp_path, [[(0, BEGUN)], is_suspended, [(0, epoch(1))], [(0, DONE)]], clock)
    assert (executor.started, executor.stopped) == (1, [])
    assert (run.status, run.attempts) == ("done", 1)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("laddernet.study.driver._FIRST_SECONDS", 100.0)
    monkeypatch.setattr("laddernet.study.driver._NEXT_SECONDS", 30.0)


def passing(clock: Clock, script: list[tuple[int, list[Any]]]) -> Iterator[Callable[[], list[Any]]]:
    """Events with so many seconds before each, second by second."""

    def after_a_second(events: list[Any]) -> list[Any]:
        clock.time += 1
        return events

    for seconds, events in script:
        for _ in range(seconds - 1):
            yield partial(after_a_second, [])
        yield partial(after_a_second, events)


@pytest.mark.parametrize(
    ("script", "stopped"),
    [
        ([(1, [(0, BEGUN)]), (99, [(0, epoch(1))]), (5, [(0, DONE)])], 0),
        ([(1, [(0, BEGUN)]), (101, []), (1, [(0, DONE)])], 1),
        ([(500, [(0, BEGUN)]), (9, [(0, DONE)])], 0),  # it had to wait for a worker
        ([(1, [(0, BEGUN)]), (2, [(0, epoch(1))]), (29, [(0, epoch(2))]), (5, [(0, DONE)])], 0),
        ([(1, [(0, BEGUN)]), (2, [(0, epoch(1))]), (31, []), (5, [(0, DONE)])], 1),
        ([(1, [(0, BEGUN)]), (20, [(0, epoch(1))]), (199, [(0, epoch(2))]), (5, [(0, DONE)])], 0),  # slow epochs
        ([(1, [(0, BEGUN)]), (20, [(0, epoch(1))]), (201, []), (5, [(0, DONE)])], 1),
    ],
    ids=["slow start", "hangs at first", "waits", "works", "hangs", "slow", "slow and hangs"],
)
@pytest.mark.usefixtures("quick")
def test_a_worker_that_hangs_is_ended_and_its_run_done_by_another(
    tmp_path: Path, script: list[tuple[int, list[Any]]], stopped: int
) -> None:
    clock = Clock()
    executor, run = drive_one(tmp_path, passing(clock, script), clock)
    assert executor.stopped == [0] * stopped
    assert (executor.started, run.attempts) == (1 + stopped, 1 + stopped)
    assert run.status == "done"


@pytest.mark.usefixtures("quick")
def test_a_run_whose_workers_all_hang_fails(tmp_path: Path) -> None:
    clock = Clock()
    executor, run = drive_one(tmp_path, passing(clock, [(1, [(0, BEGUN)]), (101, [])] * 10), clock)
    assert (len(executor.stopped), run.status) == (10, "failed")
    assert run.error == "Its process made no progress for 2 minutes."


@pytest.mark.usefixtures("quick")
def test_a_pause_of_the_driver_itself_is_not_a_workers(tmp_path: Path) -> None:
    clock = Clock()

    def is_suspended() -> list[Any]:
        clock.time += 10_000
        return []

    executor, run = drive_one(tmp_path, [[(0, BEGUN)], is_suspended, [(0, DONE)]], clock)
    assert (executor.stopped, run.status) == ([], "done")


def test_only_a_driver_that_is_known_to_be_dead_loses_its_runs_before_the_lease_ends(tmp_path: Path) -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    host, clock = socket.gethostname(), Clock()
    owners = [
        f"{host}:{ended.pid}:{_place()}:00000001",
        f"{host}:{os.getpid()}:{_place()}:00000002",
        f"{host}:{ended.pid}:00000000-0000-0000-0000-000000000000/4026531836:00000003",  # a container of this name
        f"{host}:{ended.pid}:?:00000004",  # a system without such names
        f"{host}:{ended.pid}:00000005",  # of an earlier version
        f"{host}:{'9' * 30}:{_place()}:00000006",
        "?",
    ]
    with closing(Store.open(tmp_path / "study.db", clock=clock)) as store:
        store.add({owner: {} for owner in owners})
        for owner in owners:
            store.claim(owner, [owner])
        _release_dead(store)
        held = [run.owner for run in store.runs(status="running")]
        assert held == owners[1:] if _place() else owners
        clock.time += 61
        assert store.counts()["waiting"] == len(owners)


def test_where_processes_have_no_such_names_a_lease_decides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("laddernet.study.driver._place", lambda: None)
    monkeypatch.setattr(os, "kill", None)  # on Windows it would end the process
    with closing(Store.open(tmp_path / "study.db")) as store:
        store.add({"f": {}})
        store.claim("host:1:None:x")
        _release_dead(store)
        assert store.counts()["running"] == 1

"""Searches whose draws are made up or trained in this process, for the tests of several rooms."""

import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any
from unittest.mock import patch

from support import Finished, laddernet

from laddernet.study import worker
from laddernet.study.executors import Event, Task
from laddernet.study.store import Store
from laddernet.tune.outcome import Outcome, Tried, outcomes
from laddernet.tune.search import open_storage

# The shape that the other tests compile.
TINY = ("--labels", "40", "--hidden", "8,4", "--batch-size", "400", "--epochs", "4", "--out", "t")


class InThisProcess:
    """An executor that does all work when it is asked for events; ``work`` replaces training."""

    slots = 1

    def __init__(self, work: Callable[[dict[str, Any]], Event] | None = None) -> None:
        self._work = work or (lambda task: worker.perform(task, lambda record: None))
        self._tasks: list[tuple[int, Task]] = []
        self.done: list[Task] = []

    def start(self, slot: int, task: Task) -> None:
        self._tasks.append((slot, task))

    def events(self, timeout: float) -> list[tuple[int, Event]]:
        if not self._tasks:
            time.sleep(0.05)
            return []
        slot, task = self._tasks.pop(0)
        self.done.append(task)
        return [(slot, self._work(asdict(task)))]

    def close(self) -> None:
        pass


def tune(*arguments: str | Path, cwd: Path, work: Callable[[dict[str, Any]], Event] | None = None) -> Finished:
    """`laddernet tune` without processes of its own."""
    with patch("laddernet.cli.runs.choose_executor", lambda *args, **kwargs: InThisProcess(work)):
        return laddernet("tune", *arguments, cwd=cwd)


def made_up(task: dict[str, Any]) -> Event:
    """Little noise is good, and every draw has its own difficulty."""
    config = task["config"]
    error = 10 + 50 * abs(config["noise"][0] - 0.3) + config["seed"] % 3
    return {"event": "done", "result": {"validation_error": error}, "history": [], "environment": {}}


def trials(folder: Path) -> list[Tried]:
    (outcome,) = found(folder)
    return outcome.trials


def found(folder: Path) -> list[Outcome]:
    return outcomes(open_storage(Store.open(folder / "t" / "tune.db", create=False)))


def refuses(folder: Path, arguments: tuple[str, ...], sentence: str) -> None:
    ended = laddernet("tune", *arguments, cwd=folder)
    assert ended.code == 2, ended
    assert sentence in ended.err
    assert len(ended.err.strip().splitlines()) == 1

"""Measure the time of a search besides training: seconds per trial, with a SQLite store in a temporary folder.

A search of 20 trials of 3 draws with the digits network, in this process. The time of `train` is subtracted, so the
rest is Optuna, the store, the draw's folder and its data. Run it with `python benchmarks/tune_overhead.py`.
"""

import sys
import tempfile
import time
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

from laddernet.data import load
from laddernet.study.driver import drive
from laddernet.study.executors import Event, Task
from laddernet.study.store import Store
from laddernet.study.worker import perform
from laddernet.training import loop
from laddernet.tune.search import Search, more, open_storage
from laddernet.tune.space import Spaces

TRIALS, DRAWS = 20, 3


class InThisProcess:
    """An executor that trains when the driver asks for events."""

    slots = 1

    def __init__(self) -> None:
        self._tasks: list[tuple[int, Task]] = []

    def start(self, slot: int, task: Task) -> None:
        self._tasks.append((slot, task))

    def events(self, timeout: float) -> list[tuple[int, Event]]:
        slot, task = self._tasks.pop()
        return [(slot, perform(asdict(task), lambda record: None))]

    def close(self) -> None:
        pass


def main() -> None:
    clocks = (time.perf_counter, time.process_time)
    trained = [0.0, 0.0]

    def timed_train(*args: Any, **kwargs: Any) -> loop.Trained:
        started = [clock() for clock in clocks]
        try:
            return loop.train(*args, **kwargs)
        finally:
            for place, clock in enumerate(clocks):
                trained[place] += clock() - started[place]

    models = sys.argv[1:] or ["vanilla"]
    with tempfile.TemporaryDirectory() as folder:
        store = Store.open(Path(folder) / "tune.db")
        storage = open_storage(store)
        rows = load("digits").training_rows()
        same: dict[str, Any] = {"labels": 100, "epochs": 5, "trials": TRIALS, "draws": DRAWS, "prune": False}
        searches = [Search(rows, store, storage, Spaces().of(model), model=model, **same) for model in models]
        started = [clock() for clock in clocks]
        with patch("laddernet.training.run.train", timed_train):
            drive(store, {}, InThisProcess(), Path(folder), command=[], more=partial(more, store, searches), test=False)
        spent = [clock() - start for clock, start in zip(clocks, started, strict=True)]
        store.close()
    trials = TRIALS * len(models)
    print(f"{trials} trials of {DRAWS} draws, besides training:")
    for name, whole, part in zip(("s", "s of processor time"), spent, trained, strict=True):
        print(f"{(whole - part) / trials:.3f} {name} a trial ({whole:.1f} in all, {part:.1f} of them training)")


if __name__ == "__main__":
    main()

"""Where runs are trained. An executor has slots; each trains one run at a time and keeps its compiled programs."""

import os
import queue
import signal
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

from laddernet.machine import cores
from laddernet.study.processes import Child, received

Event = dict[str, Any]


@dataclass(frozen=True)
class Task:
    """A run to be trained, in types of JSON."""

    fingerprint: str
    config: dict[str, Any]
    folder: str
    command: list[str]
    checkpoint_every: float = 60.0
    test: bool = True  # whether test rows are loaded, for the test error; not in a search for hyperparameters
    data: str | None = None  # the file of a user's data


class Executor(Protocol):
    """What a driver needs of the machines that train."""

    slots: int

    def start(self, slot: int, task: Task) -> None:
        """Start a task in a free slot."""

    def events(self, timeout: float) -> list[tuple[int, Event]]:
        """Return the events of all slots, after a wait of up to ``timeout`` seconds for the first.

        An event is ``begun`` (a worker has the task), ``epoch`` (with the ``record``), ``done`` (``result``,
        ``history``, ``environment``), ``failed`` (``error``, caused by the run itself), ``lost`` (``error``: its
        process ended) or ``busy`` (``error``: another process uses the run's folder). After all but the first two the
        slot is free again. The worker of a free slot may be lost, too.
        """

    def stop(self, slot: int) -> None:
        """End the task of a slot at once, whatever its process does. The slot is free, and no event of it follows."""

    def close(self) -> None:
        """Stop at once. Unfinished runs resume from their checkpoints another time."""


class LocalExecutor:
    """Processes of this machine, each with its own share of the cores and of a GPU's memory.

    Two runs with a core each take less time than one after the other with two cores.
    """

    def __init__(self, jobs: int, log: Path) -> None:
        self.slots = jobs
        self._log = log
        self._cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
        self._environment = environment(jobs)
        if cores() < len(self._cores):  # a quota is not for particular cores: it limits the number of XLA's threads
            self._cores = []
            self._environment["PJRT_NPROC"] = str(max(1, cores() // jobs))
        self._workers: dict[int, Child] = {}
        self._lines: queue.SimpleQueue[tuple[Child, Any]] = queue.SimpleQueue()

    def start(self, slot: int, task: Task) -> None:
        if slot not in self._workers:
            share = ",".join(map(str, self._cores[slot :: self.slots])) if len(self._cores) >= self.slots else ""
            module = ["laddernet.study.worker", share]
            self._workers[slot] = Child(module, self._log, self._lines, self._environment)
        self._lines.put((self._workers[slot], {"event": "begun"}))
        self._workers[slot].write(asdict(task))

    def events(self, timeout: float) -> list[tuple[int, Event]]:
        events: list[tuple[int, Event]] = []
        slots = {worker: slot for slot, worker in self._workers.items()}
        for worker, event in received(self._lines, timeout):
            if worker not in slots:  # it was stopped
                continue
            if event is None:
                slot = slots.pop(worker)
                del self._workers[slot]
                events.append((slot, {"event": "lost", "error": self._ended(worker.end(patience=10))}))
            else:
                events.append((slots[worker], event))
        return events

    def stop(self, slot: int) -> None:
        self._workers.pop(slot).end()

    def close(self) -> None:
        for slot in list(self._workers):
            self.stop(slot)

    def pids(self) -> list[int]:
        """Return the ids of the worker processes."""
        return [worker.process.pid for worker in self._workers.values()]

    def _ended(self, code: int) -> str:
        names = {value.value: value.name for value in signal.Signals}
        how = f"was killed ({names.get(-code, -code)})" if code < 0 else f"ended with exit code {code}"
        return f"Its process {how}; {self._log} may say why."


def environment(jobs: int) -> dict[str, str]:
    """Return the environment of each of ``jobs`` processes that share this machine.

    JAX reserves three quarters of a GPU's memory for a process unless it is given a share.
    """
    names = ("XLA_CLIENT_MEM_FRACTION", "XLA_PYTHON_CLIENT_MEM_FRACTION", "XLA_PYTHON_CLIENT_PREALLOCATE")
    if any(os.environ.get(name) for name in names):
        return dict(os.environ)
    return {**os.environ, "XLA_PYTHON_CLIENT_MEM_FRACTION": f"{0.9 / jobs:.3f}"}

"""Where runs are trained. An executor has slots; each trains one run at a time and remembers what it compiled."""

import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

from laddernet.files import open_unlinked, writing
from laddernet.machine import cores

Event = dict[str, Any]


@dataclass(frozen=True)
class Task:
    """A run to be trained, as JSON can hold it."""

    fingerprint: str
    config: dict[str, Any]
    folder: str
    command: list[str]
    checkpoint_every: float = 60.0
    test: bool = True  # whether test rows are loaded, for the test error; not in a search for hyperparameters


class Executor(Protocol):
    """What a driver needs of the machines that train."""

    slots: int

    def start(self, slot: int, task: Task) -> None:
        """Begin a task in a free slot."""

    def events(self, timeout: float) -> list[tuple[int, Event]]:
        """The events of all slots, waiting up to ``timeout`` seconds for the first.

        An event is ``begun`` (a worker has the task), ``epoch`` (with the ``record``), ``done`` (``result``,
        ``history``, ``environment``), ``failed`` (``error``: the run's own fault), ``lost`` (``error``: the process
        ended under it) or ``busy`` (``error``: another process has the run's folder); after all but the first two the
        slot is free again. One that has nothing to do may be lost, too.
        """

    def stop(self, slot: int) -> None:
        """End the task of a slot at once, whatever its process does; the slot is free, and no event of it follows."""

    def close(self) -> None:
        """Stop at once. What is under way goes on from its checkpoint another time."""


class Child:
    """A Python process with which lines of JSON are exchanged.

    A thread puts what it writes into a queue, with the child itself, and None at its end: one can wait for a queue on
    every system, for several pipes not on Windows.
    """

    def __init__(
        self,
        module: list[str],
        log: Path,
        heard: "queue.SimpleQueue[tuple[Child, Any]]",
        environment: Mapping[str, str] | None = None,
    ) -> None:
        with writing(log), open_unlinked(log, "ab") as errors:
            self.process = subprocess.Popen(
                [sys.executable, "-m", *module],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                env=environment,
                start_new_session=True,  # Ctrl-C is for the driver, which then ends its children
                creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),  # the same on Windows
            )
        threading.Thread(target=self._read, args=(heard,), daemon=True).start()

    def write(self, line: Mapping[str, Any]) -> None:
        assert self.process.stdin is not None
        with suppress(OSError):  # it has ended, which the queue will say
            self.process.stdin.write(json.dumps(line).encode() + b"\n")
            self.process.stdin.flush()

    def _read(self, heard: "queue.SimpleQueue[tuple[Child, Any]]") -> None:
        assert self.process.stdout is not None
        try:
            with self.process.stdout:
                for line in self.process.stdout:
                    if line.endswith(b"\n"):  # else it was killed in the middle of it
                        heard.put((self, json.loads(line)))
        finally:
            heard.put((self, None))

    def end(self, patience: float = 0.0) -> int:
        """Close its input, kill it after so many seconds, and return its exit code."""
        assert self.process.stdin is not None
        with suppress(OSError):
            self.process.stdin.close()
        try:
            return self.process.wait(patience)
        except subprocess.TimeoutExpired:
            self.process.kill()
        try:
            return self.process.wait(10)
        except subprocess.TimeoutExpired:  # the system itself holds it, as while a network disk does not answer
            return -signal.SIGTERM


def received(heard: "queue.SimpleQueue[tuple[Child, Any]]", timeout: float) -> list[tuple[Child, Any]]:
    """All that is in the queue, waiting up to ``timeout`` seconds for the first."""
    found = []
    with suppress(queue.Empty):
        found.append(heard.get(timeout=timeout))
        while True:
            found.append(heard.get_nowait())
    return found


class LocalExecutor:
    """Processes of this machine, each with its own share of the cores and of the memory of a GPU.

    Two runs with a core each are done sooner than one after the other with two cores.
    """

    def __init__(self, jobs: int, log: Path) -> None:
        self.slots = jobs
        self._log = log
        self._cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
        self._environment = environment(jobs)
        if cores() < len(self._cores):  # a quota is of no particular cores: it limits the number of XLA's threads
            self._cores = []
            self._environment["PJRT_NPROC"] = str(max(1, cores() // jobs))
        self._workers: dict[int, Child] = {}
        self._heard: queue.SimpleQueue[tuple[Child, Any]] = queue.SimpleQueue()

    def start(self, slot: int, task: Task) -> None:
        if slot not in self._workers:
            share = ",".join(map(str, self._cores[slot :: self.slots])) if len(self._cores) >= self.slots else ""
            module = ["laddernet.study.worker", share]
            self._workers[slot] = Child(module, self._log, self._heard, self._environment)
        self._heard.put((self._workers[slot], {"event": "begun"}))
        self._workers[slot].write(asdict(task))

    def events(self, timeout: float) -> list[tuple[int, Event]]:
        told: list[tuple[int, Event]] = []
        slots = {worker: slot for slot, worker in self._workers.items()}
        for worker, event in received(self._heard, timeout):
            if worker not in slots:  # it was stopped
                continue
            if event is None:
                slot = slots.pop(worker)
                del self._workers[slot]
                event = {"event": "lost", "error": self._ended(worker.end(patience=10))}
                told.append((slot, event))
            else:
                told.append((slots[worker], event))
        return told

    def stop(self, slot: int) -> None:
        self._workers.pop(slot).end()

    def close(self) -> None:
        for slot in list(self._workers):
            self.stop(slot)

    def pids(self) -> list[int]:
        """The processes that there are, for who wants to end one."""
        return [worker.process.pid for worker in self._workers.values()]

    def _ended(self, code: int) -> str:
        names = {value.value: value.name for value in signal.Signals}
        how = f"was killed ({names.get(-code, -code)})" if code < 0 else f"ended with exit code {code}"
        return f"Its process {how}; {self._log} may say why."


def environment(jobs: int) -> dict[str, str]:
    """The environment of each of so many processes that share this machine.

    JAX reserves three quarters of a GPU's memory for a process unless it is given a share.
    """
    names = ("XLA_CLIENT_MEM_FRACTION", "XLA_PYTHON_CLIENT_MEM_FRACTION", "XLA_PYTHON_CLIENT_PREALLOCATE")
    if any(os.environ.get(name) for name in names):
        return dict(os.environ)
    return {**os.environ, "XLA_PYTHON_CLIENT_MEM_FRACTION": f"{0.9 / jobs:.3f}"}

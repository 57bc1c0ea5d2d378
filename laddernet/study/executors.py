"""Where runs are trained. An executor has slots; each trains one run at a time and remembers what it compiled."""

import json
import os
import selectors
import signal
import subprocess
import sys
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

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
        """What slots have told, waiting up to ``timeout`` seconds for the first.

        An event is ``epoch`` (with the ``record``), ``done`` (``result``, ``history``, ``environment``), ``failed``
        (``error``: the run's own fault), ``lost`` (``error``: the process ended under it) or ``busy`` (``error``:
        another process has the run's folder); after all but the first the slot is free again. One that has nothing to
        do may be lost, too.
        """

    def close(self) -> None:
        """Stop at once. What is under way goes on from its checkpoint another time."""


class LocalExecutor:
    """Processes of this machine, each with its own share of the cores.

    Two runs with a core each are done sooner than one after the other with two cores.
    """

    def __init__(self, jobs: int, log: Path) -> None:
        self.slots = jobs
        self._log = log
        self._cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
        self._environment = dict(os.environ)
        if cores() < len(self._cores):  # a quota is of no particular cores: it limits the number of XLA's threads
            self._cores = []
            self._environment["PJRT_NPROC"] = str(max(1, cores() // jobs))
        self._workers: dict[int, subprocess.Popen[bytes]] = {}
        self._partial: dict[int, bytes] = {}
        self._selector = selectors.DefaultSelector()

    def start(self, slot: int, task: Task) -> None:
        worker = self._workers.get(slot) or self._begin(slot)
        assert worker.stdin is not None
        with suppress(BrokenPipeError):  # it was killed while idle: `events` will hear of its end
            worker.stdin.write(json.dumps(asdict(task)).encode() + b"\n")
            worker.stdin.flush()

    def events(self, timeout: float) -> list[tuple[int, Event]]:
        told: list[tuple[int, Event]] = []
        for key, _ in self._selector.select(timeout):
            slot: int = key.data
            chunk = os.read(key.fd, 1 << 16)
            if not chunk:
                told.append((slot, {"event": "lost", "error": self._end(slot)}))
                continue
            *lines, self._partial[slot] = (self._partial[slot] + chunk).split(b"\n")
            told.extend((slot, json.loads(line)) for line in lines)
        return told

    def close(self) -> None:
        for slot in list(self._workers):
            self._workers[slot].kill()
            self._end(slot)
        self._selector.close()

    def pids(self) -> list[int]:
        """The processes that there are, for who wants to end one."""
        return [worker.pid for worker in self._workers.values()]

    def _begin(self, slot: int) -> subprocess.Popen[bytes]:
        share = ",".join(map(str, self._cores[slot :: self.slots])) if len(self._cores) >= self.slots else ""
        with self._log.open("ab") as log:
            worker = subprocess.Popen(
                [sys.executable, "-m", "laddernet.study.worker", share],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=self._environment,
                start_new_session=True,  # Ctrl-C is for the driver, which then ends its workers
            )
        assert worker.stdout is not None
        self._selector.register(worker.stdout, selectors.EVENT_READ, slot)
        self._workers[slot] = worker
        self._partial[slot] = b""
        return worker

    def _end(self, slot: int) -> str:
        """Put away a worker that has ended or is about to, and say how it ended."""
        worker = self._workers.pop(slot)
        assert worker.stdin is not None
        assert worker.stdout is not None
        self._selector.unregister(worker.stdout)
        worker.stdout.close()
        with suppress(BrokenPipeError):
            worker.stdin.close()
        code = worker.wait()
        how = f"was killed ({signal.Signals(-code).name})" if code < 0 else f"ended with exit code {code}"
        return f"Its process {how}; {self._log} may say why."

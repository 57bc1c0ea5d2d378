"""Runs on a Ray cluster, whose nodes may join and leave."""

import math
import os
import queue
import socket
import sys
import time
from dataclasses import asdict
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import Any

from laddernet.errors import InputError, packages
from laddernet.files import writing
from laddernet.study.addresses import shown
from laddernet.study.executors import Event, Task
from laddernet.study.processes import Child, received
from laddernet.study.storage import Storage

_PATIENCE = 60.0  # seconds, for Python and Ray to be loaded and the cluster to answer
_ADVICE = "check that it runs (`ray status`), and the --address"
# With more retries, one a second, Ray takes longer to find that a token is wrong.
_ENVIRONMENT = {"RAY_NUM_REDIS_GET_RETRIES": "2", "RAY_USAGE_STATS_ENABLED": "0", "RAY_COLOR_PREFIX": "0"}


class RayExecutor:
    """Workers on the nodes of a cluster, reached through a separate process (``ray_bridge.py``)."""

    def __init__(
        self,
        folder: Path,
        address: str | None = None,
        *,
        cpus: int = 1,
        gpus: float = 0,
        jobs: int | None = None,
        storage: str | None = None,
        dry_run: bool = False,
    ) -> None:
        with packages("--executor ray"):
            if find_spec("ray") is None:  # only the bridge's process imports it
                raise ModuleNotFoundError("No module named 'ray'", name="ray")
        if cpus < 1:
            raise InputError(f"--cpus-per-run must be 1 or more, got {cpus}.")
        if not 0 <= gpus < math.inf or (gpus > 1 and gpus % 1):
            raise InputError(f"--gpus-per-run must be 0, a share below 1, or a whole number, got {gpus:g}.")
        address = address or os.environ.get("RAY_ADDRESS") or "auto"
        if address != "auto":
            _check_listens(address)
        self.slots = 0
        self._folder = folder.resolve()
        self._log = Path(os.devnull) if dry_run else folder / "workers.log"
        if not dry_run:
            with writing(folder):
                folder.mkdir(parents=True, exist_ok=True)
        where = Storage(storage or self._folder)
        self._options = {
            "address": address,
            "cpus": cpus,
            "gpus": gpus,
            "jobs": jobs,
            "storage": where.url,
            "identity": "" if dry_run else where.identity(),
            "folder": str(self._folder),
        }
        self._bridge: Child | None = None
        self._lines: queue.SimpleQueue[tuple[Child, Any]] = queue.SimpleQueue()
        self._numbers = count()
        self._tasks: dict[int, int] = {}  # by slot, the number of its task: events of other numbers are late
        self._connect()

    def start(self, slot: int, task: Task) -> None:
        if self._bridge is None:
            self._connect()
        assert self._bridge is not None
        run = Path(task.folder).resolve().relative_to(self._folder).as_posix()
        self._tasks[slot] = next(self._numbers)
        self._bridge.write({"slot": slot, "number": self._tasks[slot], "task": {**asdict(task), "folder": run}})

    def events(self, timeout: float) -> list[tuple[int, Event]]:
        if self._bridge is None:
            time.sleep(timeout)
            return []
        events: list[tuple[int, Event]] = []
        for line in self._received(timeout):
            if line is None:
                self.close()
                sentence = f"The connection to Ray was lost; {self._log} may say why."
                events += [(slot, {"event": "lost", "error": sentence}) for slot in sorted(self._tasks)]
                self._tasks.clear()
            elif "event" in line and self._tasks.get(line["slot"]) == line["number"]:
                events.append((line["slot"], line["event"]))
                if line["event"]["event"] not in ("begun", "epoch"):
                    del self._tasks[line["slot"]]
        return events

    def stop(self, slot: int) -> None:
        if self._bridge is not None and self._tasks.pop(slot, None) is not None:
            self._bridge.write({"slot": slot, "stop": True})

    def close(self) -> None:
        if self._bridge is not None:
            self._bridge.end(patience=10)  # at the end of its input it ends its workers and itself
            self._bridge = None

    def _connect(self) -> None:
        environment = {**_ENVIRONMENT, **os.environ}
        self._bridge = Child(["laddernet.study.ray_bridge"], self._log, self._lines, environment)
        self._bridge.write(self._options)  # not as its arguments, which every user of the machine can see
        ends = time.monotonic() + _PATIENCE
        self.slots = 0
        try:
            while not self.slots:
                left = ends - time.monotonic()
                if left <= 0 or None in self._received(left):
                    raise InputError(f"The Ray cluster at {self._options['address']} does not answer; {_ADVICE}.")
        except BaseException:
            self.close()
            raise

    def _received(self, timeout: float) -> list[dict[str, Any] | None]:
        """Return the lines of the bridge, and None at its end; wait up to ``timeout`` seconds for the first."""
        lines = [line for bridge, line in received(self._lines, timeout) if bridge is self._bridge]
        for line in filter(None, lines):
            if "refused" in line:
                raise InputError(line["refused"])
            if "notice" in line:
                print(line["notice"], file=sys.stderr, flush=True)
            self.slots = line.get("slots", self.slots)
        return lines


def _check_listens(address: str) -> None:
    """Check that a process listens at an address: at once, while Ray would try for minutes."""
    host, _, port = address.rpartition(":")
    if "://" in address or not host or not port.isdecimal():
        advice = "write it as host:port, on a machine that is a node of the cluster"
        raise InputError(f"The address of the Ray cluster is {shown(address)!r}; {advice}.")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=5).close()
    except (OSError, OverflowError) as error:
        raise InputError(f"Cannot reach the Ray cluster at {address} ({error}); {_ADVICE}.") from error

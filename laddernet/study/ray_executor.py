"""Runs on a Ray cluster, whose nodes may come and go."""

import json
import os
import selectors
import socket
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from laddernet.errors import InputError
from laddernet.files import writing
from laddernet.study.executors import Event, Task
from laddernet.study.storage import Storage

_PATIENCE = 60.0  # seconds, for Python and Ray to be loaded and the cluster to answer
# Ray tries once a second until it believes that a token is wrong.
_ENVIRONMENT = {"RAY_NUM_REDIS_GET_RETRIES": "2", "RAY_USAGE_STATS_ENABLED": "0", "RAY_COLOR_PREFIX": "0"}


def reach(address: str) -> None:
    """Find that something listens there: at once, where Ray would try for minutes."""
    host, _, port = address.rpartition(":")
    if "://" in address or not host or not port.isdecimal():
        raise InputError(
            f"--address is {address!r}; write it as host:port, on a machine that is a node of the cluster."
        )
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=5).close()
    except (OSError, OverflowError) as error:
        advice = "check that it runs (`ray status`), and the --address"
        raise InputError(f"Cannot reach the Ray cluster at {address} ({error}); {advice}.") from error


class RayExecutor:
    """Workers on the nodes of a cluster, reached through a process of its own (``ray_bridge.py``)."""

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
        if find_spec("ray") is None:
            raise InputError("Ray is not installed; install it with pip install 'laddernet[ray]'.")
        if cpus < 1:
            raise InputError(f"--cpus-per-run is {cpus}; it must be 1 or more.")
        if gpus < 0 or (gpus > 1 and gpus % 1):
            raise InputError(f"--gpus-per-run is {gpus:g}; it must be 0, a share below 1, or a whole number.")
        if address is not None:
            reach(address)
        self.slots = 0
        self._folder = folder.resolve()
        self._log = Path(os.devnull) if dry_run else folder / "workers.log"
        if not dry_run:
            with writing(folder):
                folder.mkdir(parents=True, exist_ok=True)
        where = Storage(storage or self._folder)
        self._options = {
            "address": address or "auto",
            "cpus": cpus,
            "gpus": gpus,
            "jobs": jobs,
            "storage": where.url,
            "identity": "" if dry_run else where.identity(),
            "folder": str(self._folder),
        }
        self._bridge: subprocess.Popen[bytes] | None = None
        self._busy: set[int] = set()
        self._connect()

    def start(self, slot: int, task: Task) -> None:
        if self._bridge is None:
            self._connect()
        assert self._bridge is not None
        assert self._bridge.stdin is not None
        run = Path(task.folder).resolve().relative_to(self._folder).as_posix()
        line = {"slot": slot, "task": {**asdict(task), "folder": run}}
        self._busy.add(slot)
        with suppress(BrokenPipeError):  # `events` will hear of its end
            self._bridge.stdin.write(json.dumps(line).encode() + b"\n")
            self._bridge.stdin.flush()

    def events(self, timeout: float) -> list[tuple[int, Event]]:
        if self._bridge is None:
            time.sleep(timeout)
            return []
        lines = self._lines(timeout)
        if lines is None:
            self.close()
            sentence = f"The connection to Ray was lost; {self._log} may say why."
            lost = [(slot, {"event": "lost", "error": sentence}) for slot in sorted(self._busy)]
            self._busy.clear()
            return lost
        told: list[tuple[int, Event]] = []
        for line in lines:
            if "refused" in line:
                raise InputError(line["refused"])
            if "notice" in line:
                print(line["notice"], file=sys.stderr, flush=True)
            if "slots" in line:
                self.slots = line["slots"]
            if "slot" in line:
                told.append((line["slot"], line["event"]))
                if line["event"]["event"] != "epoch":
                    self._busy.discard(line["slot"])
        return told

    def close(self) -> None:
        if self._bridge is None:
            return
        assert self._bridge.stdin is not None
        assert self._bridge.stdout is not None
        with suppress(BrokenPipeError):
            self._bridge.stdin.close()  # upon which it lets its workers go and ends
        try:
            self._bridge.wait(10)
        except subprocess.TimeoutExpired:
            self._bridge.kill()
            self._bridge.wait()
        self._bridge.stdout.close()
        self._selector.close()
        self._bridge = None

    def _connect(self) -> None:
        with self._log.open("ab") as log:
            self._bridge = subprocess.Popen(
                [sys.executable, "-m", "laddernet.study.ray_bridge", json.dumps(self._options)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env={**_ENVIRONMENT, **os.environ},
                start_new_session=True,  # Ctrl-C is for the driver
            )
        assert self._bridge.stdout is not None
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._bridge.stdout, selectors.EVENT_READ)
        self._partial = b""
        ends = time.monotonic() + _PATIENCE
        self.slots = 0
        try:
            while not self.slots:
                left = ends - time.monotonic()
                lines = self._lines(left) if left > 0 else None
                if lines is None:
                    advice = "check that it runs (`ray status`), and the --address"
                    raise InputError(f"The Ray cluster at {self._options['address']} does not answer; {advice}.")
                for line in lines:
                    if "refused" in line:
                        raise InputError(line["refused"])
                    self.slots = line.get("slots", self.slots)
        except BaseException:
            self.close()
            raise

    def _lines(self, timeout: float) -> list[dict[str, Any]] | None:
        """What the bridge has told, waiting up to ``timeout`` seconds for the first; None at its end."""
        lines: list[bytes] = []
        for key, _ in self._selector.select(timeout):
            chunk = os.read(key.fd, 1 << 16)
            if not chunk:
                return None
            *lines, self._partial = (self._partial + chunk).split(b"\n")
        return [json.loads(line) for line in lines]

"""The process between a driver and a Ray cluster: ``python -m laddernet.study.ray_bridge``.

It reads its options and then tasks as lines of JSON, and writes events in the same way, like a worker. Ray prints to
standard output whatever its settings are, and ends its process a minute after the head of the cluster is gone. Neither
affects the driver.
"""

import json
import logging
import os
import queue
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import RayActorError, RayError, RayTaskError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from laddernet.errors import InputError
from laddernet.study.addresses import shown_all
from laddernet.study.executors import Event
from laddernet.study.processes import json_output
from laddernet.study.ray_worker import RayWorker, version
from laddernet.study.storage import Mirror, Storage

_STARTS = 5  # failed starts of workers in a row after which a node is no longer used
_TOKEN = (
    "set RAY_AUTH_MODE=token, and put the cluster's token in ~/.ray/auth_token or RAY_AUTH_TOKEN; "
    "`ray get-auth-token` prints it on the head node"
)


@dataclass(frozen=True)
class Options:
    """What a study requests of a cluster."""

    address: str
    cpus: int  # of a run
    gpus: float
    jobs: int | None  # the limit of parallel runs
    storage: str
    identity: str  # of the storage
    folder: str  # the study's, to which finished runs are copied


@dataclass(eq=False)
class Worker:
    """A worker on a node."""

    node: str
    actor: Any
    check: Any  # the pending result of its first call, which checks its node; then None
    slot: int | None = None  # of its current task, or the last
    number: int | None = None  # of that task
    run: str = ""  # the name of that run's folder
    events: Any = None  # of its current task

    @property
    def is_idle(self) -> bool:
        return self.check is None and self.events is None


def main() -> None:
    """Serve the driver at standard input until it ends."""
    send = json_output()
    lines: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(lines,), daemon=True).start()
    first = lines.get()
    if first is None:
        return
    options = Options(**first)
    try:
        connect(options.address)
        pool = Pool(options, send)
        pool.update_nodes()
        if not pool.slots:
            raise InputError(_too_small(options))
        while True:
            pool.step(0.2)
            while not lines.empty():
                line = lines.get()
                if line is None:
                    return pool.close()
                if "stop" in line:
                    pool.stop(line["slot"])
                else:
                    pool.waiting[line["slot"]] = line
    except InputError as error:
        send({"refused": str(error)})


def _read(lines: "queue.SimpleQueue[dict[str, Any] | None]") -> None:
    for line in sys.stdin:
        lines.put(json.loads(line))
    lines.put(None)
    time.sleep(5)
    os._exit(0)  # the main thread is blocked; Ray ends the workers of a driver that is gone


def connect(address: str) -> None:
    """Join the cluster as a driver; raise an `InputError` with the reason if that fails."""
    try:
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    except Exception as error:
        if "authentication" in f"{type(error)} {error} {error.__cause__}".lower():
            raise InputError(f"The Ray cluster at {address} refused the token of this machine; {_TOKEN}.") from error
        if address == "auto" and isinstance(error, ConnectionError):
            advice = "start one with `ray start`, or name its --address as host:port"
            raise InputError(f"No Ray cluster was found ({_line(error)}); {advice}.") from error
        advice = "this machine must be a node of the cluster (`ray start`), with the same Python and Ray"
        raise InputError(f"Cannot join the Ray cluster at {address} ({_line(error)}); {advice}.") from error


class Pool:
    """Workers on the nodes of a cluster, as many as there are tasks and room.

    A task waits for the first free worker, so a worker that a node has no room for delays nothing.
    """

    def __init__(self, options: Options, send: Callable[[dict[str, Any]], None]) -> None:
        self.waiting: dict[int, dict[str, Any]] = {}  # tasks with their numbers, by slot
        self.slots = 0
        self._options = options
        self._send = send
        self._storage = Storage(options.storage)
        self._workers: list[Worker] = []
        self._rooms: dict[str, int] = {}  # the number of runs that fit on each living node
        self._names: dict[str, str] = {}
        self._unfit: set[str] = set()
        self._failed: Counter[str] = Counter()  # failed starts of workers in a row, by node
        self._updated = 0.0

    def update_nodes(self) -> None:
        """Find nodes that have joined or left, at most once a second."""
        if time.monotonic() - self._updated < 1:
            return
        self._updated = time.monotonic()
        alive = [node for node in ray.nodes() if node["Alive"]]  # type: ignore[no-untyped-call]
        self._names = {node["NodeID"]: node["NodeManagerAddress"] for node in alive}
        rooms = {node["NodeID"]: room(node["Resources"], self._options.cpus, self._options.gpus) for node in alive}
        self._rooms = {node: n for node, n in rooms.items() if node not in self._unfit}
        for worker in [w for w in self._workers if w.node not in self._rooms and w.events is None]:
            self._end(worker)
        slots = min(sum(self._rooms.values()), self._options.jobs or sys.maxsize)
        if slots != self.slots:
            self._send({"slots": slots})
        self.slots = slots

    def step(self, timeout: float) -> None:
        """Assign waiting tasks, and send the events of up to ``timeout`` seconds."""
        self.update_nodes()
        self._assign()
        self._start_workers()
        pending = {w.events if w.check is None else w.check: w for w in self._workers if not w.is_idle}
        if not pending:
            time.sleep(timeout)
            return
        ready, _ = ray.wait(list(pending), num_returns=len(pending), timeout=timeout)
        for result in ready:
            worker = pending[result]
            if worker.check is not None:
                self._finish_check(worker)
            else:
                self._send_event(worker)

    def stop(self, slot: int) -> None:
        """End the task of a slot, with its worker."""
        self.waiting.pop(slot, None)
        for worker in [worker for worker in self._workers if worker.slot == slot and worker.events is not None]:
            self._end(worker)

    def close(self) -> None:
        """End all workers, and leave the cluster."""
        for worker in list(self._workers):
            self._end(worker)
        ray.shutdown()

    def _assign(self) -> None:
        for slot in list(self.waiting):
            idle = [worker for worker in self._workers if worker.is_idle]
            if not idle:
                return
            worker = min(idle, key=lambda worker: worker.slot != slot)  # the one with this slot's compiled programs
            line = self.waiting.pop(slot)
            worker.slot, worker.number, worker.run = slot, line["number"], line["task"]["folder"]
            worker.events = worker.actor.train.options(num_returns="streaming").remote(line["task"])
            self._send({"slot": slot, "number": worker.number, "event": {"event": "begun"}})

    def _start_workers(self) -> None:
        """Start workers for the waiting tasks, on the nodes with most room."""
        starting = sum(worker.check is not None for worker in self._workers)
        for _ in range(len(self.waiting) - starting):
            left = Counter(self._rooms)
            left.subtract(worker.node for worker in self._workers)
            node, most = max(left.items(), key=lambda item: item[1], default=("", 0))
            if most < 1 or len(self._workers) >= self.slots:
                return
            cpus, gpus = self._options.cpus, self._options.gpus
            there = NodeAffinitySchedulingStrategy(node, soft=False)
            kind = ray.remote(RayWorker).options(num_cpus=cpus, num_gpus=gpus, scheduling_strategy=there)
            actor: Any = kind.remote(cpus, gpus, self._storage.url)
            self._workers.append(Worker(node, actor, actor.unfit.remote(version(), self._options.identity)))

    def _finish_check(self, worker: Worker) -> None:
        node = worker.node
        try:
            reason = ray.get(worker.check)
        except (RayTaskError, RayActorError) as error:
            self._failed[node] += 1
            if isinstance(error, RayTaskError) or error.actor_init_failed:
                install = f"install laddernet[ray] {metadata.version('laddernet')} there"
                reason = f"cannot start a worker ({_line(error, last=True)}); {install}"
            elif self._failed[node] >= _STARTS:
                reason = "loses every worker as it starts; its Ray logs may say why"
            else:
                reason = None
            self._end(worker)
        except RayError:  # its node is gone
            reason = None
            self._end(worker)
        else:
            self._failed[node] = 0
            worker.check = None
        if reason:
            self._exclude(node, reason)

    def _exclude(self, node: str, reason: str) -> None:
        sentence = f"Node {self._names.get(node, node)} {reason}."
        self._unfit.add(node)  # its idle workers end; running tasks continue
        self._updated = 0.0
        self.update_nodes()
        if not self.slots:
            raise InputError(sentence)
        self._send({"notice": f"{sentence} The study goes on without it."})

    def _send_event(self, worker: Worker) -> None:
        try:
            event: Event = ray.get(next(worker.events))
        except (RayError, StopIteration) as error:
            where = self._names.get(worker.node, worker.node)
            event = {"event": "lost", "error": f"Its worker on node {where} was lost ({_line(error)})."}
            self._end(worker)
        if event["event"] != "epoch":
            worker.events = None
        if event["event"] == "done":
            event = self._fetch(worker.run, event)
        self._send({"slot": worker.slot, "number": worker.number, "event": event})

    def _fetch(self, run: str, done: Event) -> Event:
        """Copy a finished run's files to the study's folder, before it counts as done."""
        folder = Path(self._options.folder)
        if self._storage.folder == folder:
            return done
        try:
            Mirror(self._storage, run, folder / run).pull()
        except Exception as error:  # the packages of fsspec have no exception in common
            return {"event": "lost", "error": f"Its files could not be read from the storage ({_line(error)})."}
        return done

    def _end(self, worker: Worker) -> None:
        self._workers.remove(worker)
        ray.kill(worker.actor)


def room(resources: dict[str, float], cpus: int, gpus: float) -> int:
    """Return the number of runs that fit on a node.

    >>> room({"CPU": 8.0}, 2, 0), room({"CPU": 8.0, "GPU": 2.0}, 1, 0.4), room({"CPU": 8.0}, 1, 1)
    (4, 4, 0)
    """
    by_cpus = int(resources.get("CPU", 0) / cpus)
    if not gpus:
        return by_cpus
    devices = resources.get("GPU", 0)
    by_gpus = int(devices) * int(1 / gpus + 1e-9) if gpus < 1 else int(devices / gpus)  # a share is of one device
    return min(by_cpus, by_gpus)


def _too_small(options: Options) -> str:
    gpus = f" and {options.gpus:g} GPUs" if options.gpus else ""
    return f"No node of the Ray cluster has {options.cpus} CPUs{gpus} for a run; ask for less, or start such a node."


def _line(error: BaseException, *, last: bool = False) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()] or [type(error).__name__]
    return shown_all(lines[-1 if last else 0]).rstrip(".;")


if __name__ == "__main__":
    main()

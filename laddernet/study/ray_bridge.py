"""The process between a driver and a Ray cluster: ``python -m laddernet.study.ray_bridge``.

It reads its options, then tasks, and writes events as lines of JSON, like a worker. What Ray prints does not come
between, and when the cluster or this process goes down, the driver stays.
"""

import json
import logging
import os
import queue
import sys
import threading
import time
from collections import Counter
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import ray
from ray._private.services import canonicalize_bootstrap_address
from ray.exceptions import RayActorError, RayError, RayTaskError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from laddernet.errors import InputError
from laddernet.study.addresses import shown_all
from laddernet.study.ray_executor import reach
from laddernet.study.ray_worker import RayWorker, version
from laddernet.study.storage import Mirror, Storage
from laddernet.study.worker import Event

_STARTS = 5  # of workers in a row that a node may fail before it is left alone
_TOKEN = (
    "set RAY_AUTH_MODE=token and let ~/.ray/auth_token or RAY_AUTH_TOKEN hold the token of the cluster, "
    "which `ray get-auth-token` tells on its head node"
)


@dataclass(frozen=True)
class Options:
    """What a study asks of a cluster."""

    address: str
    cpus: int  # of a run
    gpus: float
    jobs: int | None  # runs at a time, if limited
    storage: str
    identity: str  # of the storage
    folder: str  # the study's, where finished runs are wanted


@dataclass(eq=False)
class Member:
    """A worker on a node."""

    node: str
    actor: Any
    greeting: Any  # what it answers first, until it has
    slot: int | None = None  # whose task it has, or had last
    number: int | None = None  # of that task
    run: str = ""  # the name of that run's folder
    events: Any = None  # while it has one

    @property
    def is_idle(self) -> bool:
        return self.greeting is None and self.events is None


def main() -> None:
    lines = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def tell(line: dict[str, Any]) -> None:
        print(json.dumps(line), file=lines, flush=True)

    heard: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
    threading.Thread(target=_hear, args=(heard,), daemon=True).start()
    first = heard.get()
    if first is None:
        return
    options = Options(**first)
    try:
        connect(options.address)
        pool = Pool(options, tell)
        pool.look_at_nodes()
        if not pool.slots:
            raise InputError(_too_small(options))
        tell({"slots": pool.slots})
        while True:
            pool.step(0.2)
            while not heard.empty():
                line = heard.get()
                if line is None:
                    return pool.close()
                if "stop" in line:
                    pool.stop(line["slot"])
                else:
                    pool.waiting[line["slot"]] = line
    except InputError as error:
        tell({"refused": str(error)})


def _hear(heard: "queue.SimpleQueue[dict[str, Any] | None]") -> None:
    for line in sys.stdin:
        heard.put(json.loads(line))
    heard.put(None)
    time.sleep(5)
    os._exit(0)  # whatever holds the other thread: Ray ends the workers of a driver that is gone


def connect(address: str) -> None:
    """Join the cluster as a driver, or say what hinders."""
    try:
        found = str(canonicalize_bootstrap_address(address))
    except Exception as error:
        advice = "start one with `ray start`, or name its --address as host:port"
        raise InputError(f"No Ray cluster was found ({_line(error)}); {advice}.") from error
    reach(found)
    try:
        ray.init(address=found if address != "auto" else "auto", log_to_driver=False, logging_level=logging.ERROR)
    except Exception as error:
        reason = f"{error} {error.__cause__}"
        if "AuthenticationError" in reason or "authentication" in reason.lower():
            raise InputError(f"The Ray cluster at {found} wants its token, not what is here; {_TOKEN}.") from error
        advice = "this machine must be a node of the cluster (`ray start`), with the same Python and Ray"
        raise InputError(f"Cannot join the Ray cluster at {found} ({_line(error)}); {advice}.") from error


class Pool:
    """Workers on the nodes of a cluster, as many as there is work and room for.

    Tasks wait for whichever worker is free first, so a worker that a node has no room for holds nothing up.
    """

    def __init__(self, options: Options, tell: Any) -> None:
        self.waiting: dict[int, dict[str, Any]] = {}  # tasks with their numbers, by slot
        self.slots = 0
        self._options = options
        self._tell = tell
        self._storage = Storage(options.storage)
        self._members: list[Member] = []
        self._rooms: dict[str, int] = {}  # how many runs each living node has room for
        self._names: dict[str, str] = {}
        self._unfit: set[str] = set()
        self._failed: Counter[str] = Counter()  # starts of workers, by node
        self._looked = 0.0

    def look_at_nodes(self) -> None:
        """See which nodes have come and gone, at most every second."""
        if time.monotonic() - self._looked < 1:
            return
        self._looked = time.monotonic()
        alive = [node for node in ray.nodes() if node["Alive"]]  # type: ignore[no-untyped-call]
        self._names = {node["NodeID"]: node["NodeManagerAddress"] for node in alive}
        rooms = {node["NodeID"]: room(node["Resources"], self._options.cpus, self._options.gpus) for node in alive}
        self._rooms = {node: n for node, n in rooms.items() if node not in self._unfit}
        for member in [m for m in self._members if m.node not in self._rooms and m.events is None]:
            self._drop(member)
        slots = min(sum(self._rooms.values()), self._options.jobs or sys.maxsize)
        if slots != self.slots:
            self._tell({"slots": slots})
        self.slots = slots

    def step(self, timeout: float) -> None:
        """Give out what waits, and tell what is heard within ``timeout`` seconds."""
        self.look_at_nodes()
        self._assign()
        self._hire()
        awaited = {m.events if m.greeting is None else m.greeting: m for m in self._members if not m.is_idle}
        if not awaited:
            time.sleep(timeout)
            return
        ready, _ = ray.wait(list(awaited), num_returns=len(awaited), timeout=timeout)
        for what in ready:
            member = awaited[what]
            if member.greeting is not None:
                self._greeted(member)
            else:
                self._heard(member)

    def stop(self, slot: int) -> None:
        """End what a slot is doing, with its worker."""
        self.waiting.pop(slot, None)
        for member in [member for member in self._members if member.slot == slot and member.events is not None]:
            self._drop(member)

    def close(self) -> None:
        for member in list(self._members):
            self._drop(member)
        ray.shutdown()

    def _assign(self) -> None:
        for slot in list(self.waiting):
            idle = [member for member in self._members if member.is_idle]
            if not idle:
                return
            member = min(idle, key=lambda member: member.slot != slot)  # rather the one that compiled for this slot
            line = self.waiting.pop(slot)
            member.slot, member.number, member.run = slot, line["number"], line["task"]["folder"]
            member.events = member.actor.train.options(num_returns="streaming").remote(line["task"])
            self._tell({"slot": slot, "number": member.number, "event": {"event": "begun"}})

    def _hire(self) -> None:
        """Start workers for what waits, on the nodes with most room."""
        starting = sum(member.greeting is not None for member in self._members)
        for _ in range(len(self.waiting) - starting):
            left = Counter(self._rooms)
            left.subtract(member.node for member in self._members)
            node, most = max(left.items(), key=lambda item: item[1], default=("", 0))
            if most < 1 or len(self._members) >= self.slots:
                return
            cpus, gpus = self._options.cpus, self._options.gpus
            there = NodeAffinitySchedulingStrategy(node, soft=False)
            kind = ray.remote(RayWorker).options(num_cpus=cpus, num_gpus=gpus, scheduling_strategy=there)
            actor: Any = kind.remote(cpus, gpus, self._storage.url)
            self._members.append(Member(node, actor, actor.unfit.remote(version(), self._options.identity)))

    def _greeted(self, member: Member) -> None:
        node = member.node
        try:
            reason = ray.get(member.greeting)
        except (RayTaskError, RayActorError) as error:
            self._failed[node] += 1
            if isinstance(error, RayTaskError) or error.actor_init_failed:
                install = f"install laddernet[ray] {metadata.version('laddernet')} there"
                reason = f"cannot start a worker ({_line(error, last=True)}); {install}"
            elif self._failed[node] >= _STARTS:
                reason = "loses every worker as it starts; its Ray logs may say why"
            else:
                reason = None
            self._drop(member)
        except RayError:  # its node is gone
            reason = None
            self._drop(member)
        else:
            self._failed[node] = 0
            member.greeting = None
        if reason:
            self._exclude(node, reason)

    def _exclude(self, node: str, reason: str) -> None:
        sentence = f"Node {self._names.get(node, node)} {reason}."
        self._unfit.add(node)  # which ends its idle workers; what is under way there goes on
        self._looked = 0.0
        self.look_at_nodes()
        if not self.slots:
            raise InputError(sentence)
        self._tell({"notice": f"{sentence} The study goes on without it."})

    def _heard(self, member: Member) -> None:
        try:
            event: Event = ray.get(next(member.events))
        except (RayError, StopIteration) as error:
            where = self._names.get(member.node, member.node)
            event = {"event": "lost", "error": f"Its worker on node {where} was lost ({_line(error)})."}
            self._drop(member)
        if event["event"] != "epoch":
            member.events = None
        if event["event"] == "done":
            event = self._fetch(member.run, event)
        self._tell({"slot": member.slot, "number": member.number, "event": event})

    def _fetch(self, run: str, done: Event) -> Event:
        """Have a finished run's files in the study's folder, before it counts as done."""
        folder = Path(self._options.folder)
        if self._storage.folder == folder:
            return done
        try:
            Mirror(self._storage, run, folder / run).pull()
        except Exception as error:  # fsspec's packages have no exception in common
            return {"event": "lost", "error": f"Its files cannot be had from the storage ({_line(error)})."}
        return done

    def _drop(self, member: Member) -> None:
        self._members.remove(member)
        ray.kill(member.actor)


def room(resources: dict[str, float], cpus: int, gpus: float) -> int:
    """How many runs fit on a node.

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

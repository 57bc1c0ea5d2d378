"""The driver: claims runs from the store, gives them to an executor, and records how they end.

The whole state is in the store and in the runs' folders. So a driver may be killed at any moment and started again, and
several drivers may share one store.
"""

import os
import re
import socket
import time
import uuid
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import asdict, dataclass
from itertools import count, islice
from pathlib import Path
from typing import Any

from laddernet.errors import InputError
from laddernet.study.executors import Event, Executor, Task
from laddernet.study.plan import shape
from laddernet.study.store import Run, Store
from laddernet.training.config import Config
from laddernet.training.run import default_folder

HEARTBEAT = 5.0  # seconds
_LOSSES = 10  # of a run's process, after which the run counts as failed

# Seconds without an epoch after which a worker hangs: for the first epoch, which includes fetching data and compiling,
# and for each further epoch. Ten times the run's longest epoch, if that is more.
_FIRST_SECONDS = 3600.0
_NEXT_SECONDS = 600.0
_EPOCHS = 10
_AWAKE = 10.0  # seconds: the part of a gap between two checks that counts; in a longer gap the driver was suspended


@dataclass
class _Running:
    """A run in a slot, and the time since its worker's last event."""

    run: Run
    config: Config
    progress: dict[str, Any] | None = None
    has_begun: bool = False  # on a cluster, a run may wait for a worker
    silence: float = 0.0  # seconds
    longest: float = 0.0  # seconds of an epoch so far

    def note(self, event: Event) -> None:
        """Record an event of progress."""
        if event["event"] == "epoch":
            self.longest = max(self.longest, self.silence)
            self.progress = _progress(event["record"], self.config.epochs, self.progress)
        self.has_begun = True
        self.silence = 0.0

    def hangs(self) -> bool:
        """Return whether the last event is too long ago."""
        patience = _FIRST_SECONDS if self.progress is None else max(_NEXT_SECONDS, _EPOCHS * self.longest)
        return self.has_begun and self.silence > patience


def drive(
    store: Store,
    configs: dict[str, Config],
    executor: Executor,
    folder: Path,
    *,
    command: list[str],
    checkpoint_every: float = 60.0,
    on_change: Callable[[], None] = lambda: None,
    more: Callable[[int], dict[str, Config]] | None = None,
    test: bool = True,
    data: Path | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """Train these runs until all are done or have failed.

    Runs that another driver holds are awaited, and taken over if it dies. Runs that another driver has taken over,
    because this one was suspended, are stopped here. A run of a study that is lost ten times has failed; a search then
    ends with an `InputError`.

    Parameters
    ----------
    store
        Records the runs. Runs that are done there are not trained.
    configs
        The configurations by fingerprint.
    executor
        Trains the runs. It is closed at the end.
    folder
        The parent of the runs' folders.
    command
        The command that is recorded with each run.
    checkpoint_every
        Seconds between checkpoints.
    on_change
        Called when the state of a run has changed.
    more
        For a search, whose runs depend on earlier results: returns the runs that are left, given the number of free
        slots.
    test
        Whether test errors are computed.
    data
        The file of a user's data.
    clock
        The clock for heartbeats and for workers that hang.
    """
    owner = f"{socket.gethostname()}:{os.getpid()}:{_place() or '?'}:{uuid.uuid4().hex[:8]}"
    _release_dead(store)
    store.add({fingerprint: asdict(config) for fingerprint, config in configs.items()})
    file = None if data is None else str(data)
    running: dict[int, _Running] = {}
    shapes: dict[int, tuple[Any, ...]] = {}  # of the program that each slot compiled last
    losses: Counter[str] = Counter()
    beaten = asked = looked = clock()
    changed = True

    def end(slot: int, event: Event) -> None:
        nonlocal changed
        fingerprint = running.pop(slot).run.fingerprint
        losses[fingerprint] += event["event"] == "lost"
        gives_up = losses[fingerprint] >= _LOSSES
        if more is not None and gives_up:  # if it were recorded, its trial would fail for good
            reason = str(event["error"]).rstrip(".")
            advice = "correct that, and repeat the command to go on"
            raise InputError(f"A draw was lost {_LOSSES} times, the last time for this reason: {reason}; {advice}.")
        if event["event"] == "done":
            store.finish(owner, fingerprint, event["result"], event["history"], event["environment"])
        elif event["event"] == "failed" or gives_up:
            store.fail(owner, fingerprint, event["error"])
        else:
            store.release(owner, [fingerprint])
        changed = True

    try:
        while True:
            # Before anything is claimed: after a suspension, another driver may hold the runs that are running here.
            if clock() - beaten >= HEARTBEAT:
                lost = store.heartbeat(owner, {held.run.fingerprint: held.progress for held in running.values()})
                for slot in [slot for slot, held in running.items() if held.run.fingerprint in lost]:
                    executor.stop(slot)
                    del running[slot]
                    changed = True
                beaten = clock()
            vacant = (slot for slot in count() if slot not in running)
            free = list(islice(vacant, max(executor.slots - len(running), 0)))  # slots may change at any time
            if more is not None and free and (changed or clock() - asked >= 1):
                configs = more(len(free))
                store.add({fingerprint: asdict(config) for fingerprint, config in configs.items()})
                asked, changed = clock(), False
            for slot in free:
                mine = {held.run.fingerprint for held in running.values()}
                others = {fingerprint: config for fingerprint, config in configs.items() if fingerprint not in mine}
                run = _claim(store, owner, others, shapes, slot)
                if run is None:
                    break
                config = configs[run.fingerprint]
                running[slot] = _Running(run, config)
                shapes[slot] = shape(config)
                where = str(folder / default_folder(config))
                task = Task(run.fingerprint, asdict(config), where, command, checkpoint_every, test, file)
                executor.start(slot, task)
                on_change()
            if not running and not (configs if more else _are_open(store, configs)):
                return
            events = executor.events(1.0)
            for held in running.values():
                held.silence += min(clock() - looked, _AWAKE) if held.has_begun else 0.0
            looked = clock()
            for slot, event in events:
                if slot not in running:  # an idle worker was killed; the next task gets a new one
                    continue
                if event["event"] in ("begun", "epoch"):
                    running[slot].note(event)
                else:
                    end(slot, event)
                on_change()
            for slot in [slot for slot, held in running.items() if held.hangs()]:
                minutes = running[slot].silence / 60
                executor.stop(slot)
                end(slot, {"event": "lost", "error": f"Its process made no progress for {minutes:.0f} minutes."})
                on_change()
    finally:
        executor.close()
        store.release(owner)


def _are_open(store: Store, configs: Collection[str]) -> bool:
    counts = store.counts(configs)
    return bool(counts["waiting"] or counts["running"])


def _claim(
    store: Store, owner: str, configs: dict[str, Config], shapes: dict[int, tuple[Any, ...]], slot: int
) -> Run | None:
    """Claim a waiting run: preferably of the program that the slot has compiled, then of one that no slot has."""
    others = {shapes[other] for other in shapes if other != slot}
    mine = [fingerprint for fingerprint, config in configs.items() if shape(config) == shapes.get(slot)]
    nobodys = [fingerprint for fingerprint, config in configs.items() if shape(config) not in others]
    for among in (mine, nobodys, list(configs)):
        if among and (claimed := store.claim(owner, among)):
            return claimed[0]
    return None


def _progress(record: dict[str, Any], epochs: int, before: dict[str, Any] | None) -> dict[str, Any]:
    """Return the progress of a run, with the errors that were measured last.

    >>> _progress({"epoch": 3, "cost": 1.5}, 9, {"epoch": 2, "epochs": 9, "cost": 2.0, "test_error": 4.0})
    {'epoch': 3, 'epochs': 9, 'cost': 1.5, 'test_error': 4.0}
    """
    errors = {key: value for key, value in {**(before or {}), **record}.items() if key.endswith("_error")}
    return {"epoch": record["epoch"], "epochs": epochs, "cost": record["cost"], **errors}


def _release_dead(store: Store) -> None:
    """Release the runs of drivers that were killed on this machine; the leases of others expire in a minute."""
    place = _place()
    for owner in {run.owner for run in store.runs(status="running") if run.owner}:
        named = re.fullmatch(r".*:([0-9]{1,9}):([^:]+):[^:]*", owner)
        if named and named[2] == place and not _is_alive(int(named[1])):
            store.release(owner)


def _place() -> str | None:
    """Return a name for the scope of process ids: this boot of the kernel and the namespace. None if there is none.

    Host names do not suffice: containers may share one, and each has a process 1.
    """
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
        return f"{boot}/{os.stat('/proc/self/ns/pid').st_ino}"
    except (OSError, ValueError):
        return None


def _is_alive(pid: int) -> bool:
    """Return whether a process exists. Only for systems with a `_place`: on Windows, this call would end it."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True

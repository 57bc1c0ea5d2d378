"""The driver: claims runs from the store, gives them to an executor, and records how they end.

All that must survive is in the store and in the runs' folders, so a driver may be killed at any moment and started
again, and several may share one store.
"""

import os
import socket
import time
import uuid
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from dataclasses import asdict
from itertools import count, islice
from pathlib import Path
from typing import Any

from laddernet.run import default_folder
from laddernet.study.executors import Event, Executor, Task
from laddernet.study.plan import shape
from laddernet.study.store import Run, Store
from laddernet.training import Config

HEARTBEAT = 5.0  # seconds
_DEATHS = 10  # of a run's process, after which the run itself is to blame


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
) -> None:
    """Train what is not done yet of these runs, until all are done or have failed. The runs' folders go in ``folder``.

    Runs that another driver holds are waited for, and taken over if it dies. A search, which finds out as it goes
    which runs it needs, says by ``more`` which are left, given the number of free slots; it has no use for ``test``
    errors.
    """
    owner = f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex[:8]}"
    _release_dead(store)
    store.add({fingerprint: asdict(config) for fingerprint, config in configs.items()})
    running: dict[int, Run] = {}
    progress: dict[str, dict[str, Any] | None] = {}
    shapes: dict[int, tuple[Any, ...]] = {}  # what each slot compiled last
    deaths: Counter[str] = Counter()
    beaten = asked = time.monotonic()
    changed = True
    try:
        while True:
            vacant = (slot for slot in count() if slot not in running)
            free = list(islice(vacant, max(executor.slots - len(running), 0)))  # their number may change at any time
            if more is not None and free and (changed or time.monotonic() - asked >= 1):
                configs = more(len(free))
                store.add({fingerprint: asdict(config) for fingerprint, config in configs.items()})
                asked, changed = time.monotonic(), False
            for slot in free:
                run = _claim(store, owner, configs, shapes, slot)
                if run is None:
                    break
                running[slot] = run
                shapes[slot] = shape(configs[run.fingerprint])
                progress[run.fingerprint] = None
                executor.start(slot, _task(run, folder, command, checkpoint_every, test))
                on_change()
            if not running and not (configs if more else _are_open(store, configs)):
                return
            for slot, event in executor.events(1.0):
                if slot not in running:  # a worker was killed that had nothing to do; the next task gets a new one
                    continue
                fingerprint = running[slot].fingerprint
                if event["event"] == "epoch":
                    epochs = running[slot].config["epochs"]
                    progress[fingerprint] = _progress(event["record"], epochs, progress[fingerprint])
                else:
                    deaths[fingerprint] += event["event"] == "lost"
                    _end(store, owner, fingerprint, event, give_up=deaths[fingerprint] >= _DEATHS)
                    del running[slot], progress[fingerprint]
                    changed = True
                on_change()
            if time.monotonic() - beaten >= HEARTBEAT:
                store.heartbeat(owner, progress)
                beaten = time.monotonic()
    finally:
        executor.close()
        store.release(owner)


def _are_open(store: Store, configs: Collection[str]) -> bool:
    counts = store.counts(configs)
    return bool(counts["waiting"] or counts["running"])


def _claim(
    store: Store, owner: str, configs: dict[str, Config], shapes: dict[int, tuple[Any, ...]], slot: int
) -> Run | None:
    """A waiting run: rather one that the slot has compiled, rather not one that another slot has."""
    others = {shapes[other] for other in shapes if other != slot}
    mine = [fingerprint for fingerprint, config in configs.items() if shape(config) == shapes.get(slot)]
    nobodys = [fingerprint for fingerprint, config in configs.items() if shape(config) not in others]
    choices: Iterable[Collection[str]] = (mine, nobodys, configs)
    for among in choices:
        if among and (claimed := store.claim(owner, list(among))):
            return claimed[0]
    return None


def _task(run: Run, folder: Path, command: list[str], checkpoint_every: float, test: bool) -> Task:
    where = folder / default_folder(Config.from_json(run.config))
    return Task(run.fingerprint, run.config, str(where), command, checkpoint_every, test)


def _progress(record: dict[str, Any], epochs: int, before: dict[str, Any] | None) -> dict[str, Any]:
    """Where a run is, with the errors that were measured last.

    >>> _progress({"epoch": 3, "cost": 1.5}, 9, {"epoch": 2, "epochs": 9, "cost": 2.0, "test_error": 4.0})
    {'epoch': 3, 'epochs': 9, 'cost': 1.5, 'test_error': 4.0}
    """
    errors = {key: value for key, value in {**(before or {}), **record}.items() if key.endswith("_error")}
    return {"epoch": record["epoch"], "epochs": epochs, "cost": record["cost"], **errors}


def _end(store: Store, owner: str, fingerprint: str, event: Event, *, give_up: bool) -> None:
    if event["event"] == "done":
        store.finish(owner, fingerprint, event["result"], event["history"], event["environment"])
    elif event["event"] == "failed" or give_up:
        store.fail(owner, fingerprint, event["error"])
    else:
        store.release(owner, [fingerprint])


def _release_dead(store: Store) -> None:
    """Give back at once what drivers of this machine held when they were killed; others' leases expire in a minute."""
    for owner in {run.owner for run in store.runs(status="running") if run.owner}:
        host, _, rest = owner.partition(":")
        if host == socket.gethostname() and not _alive(int(rest.partition(":")[0])):
            store.release(owner)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True

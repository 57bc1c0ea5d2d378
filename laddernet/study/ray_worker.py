"""A Ray actor that trains one run after another, on whatever node it is."""

import os
import queue
import shutil
import socket
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Any

from laddernet.errors import InputError
from laddernet.files import locked
from laddernet.study.addresses import shown, shown_all
from laddernet.study.storage import Mirror, Storage
from laddernet.study.worker import Event, perform
from laddernet.training.config import REVISION
from laddernet.training.programs import keep_compiled_programs

_SCRATCH = "laddernet-run-"


def version() -> list[Any]:
    """What driver and workers must agree on, for else they would not compute the same."""
    return [metadata.version("laddernet"), REVISION]


class RayWorker:
    """Remembers what it compiled; its files are in the storage as soon as they are of use to another."""

    def __init__(self, cpus: int, gpus: float, storage: str) -> None:
        self._locks = pin(cpus)  # before JAX counts the cores
        _use_devices(gpus)
        keep_compiled_programs()
        self._where = storage

    def unfit(self, wanted: list[Any], identity: str) -> str | None:
        """Why no run can be trained here, if so: for the sentence "Node X …"."""
        if version() != wanted:
            has, needs = ("{} (revision {})".format(*v) for v in (version(), wanted))
            return f"has laddernet {has}, but the study is of {needs}; install the same on all nodes"
        try:
            self._storage = Storage(self._where)
            seen = self._storage.look()
        except InputError as error:
            return f"cannot reach the storage: {str(error).rstrip('.')}"
        except Exception as error:  # fsspec's packages have no exception in common
            return f"cannot reach the storage {shown(self._where)} ({_reason(error)})"
        if seen != identity:
            advice = "give as --storage a folder that all nodes share, or an address that fsspec knows"
            return f"does not see the storage {self._storage.name}; {advice}"
        return None

    def train(self, task: dict[str, Any]) -> Iterator[Event]:
        """Train a task's run, telling the newest epoch whenever someone listens, and how it ended."""
        events: queue.SimpleQueue[Event] = queue.SimpleQueue()

        def work() -> None:
            events.put(self._train(task, events))

        threading.Thread(target=work, daemon=True).start()
        while True:
            event = events.get()
            while event["event"] == "epoch" and not events.empty():
                event = events.get()
            yield event
            if event["event"] != "epoch":
                return

    def _train(self, task: dict[str, Any], events: "queue.SimpleQueue[Event]") -> Event:
        try:
            _remove_left_behind()
            with tempfile.TemporaryDirectory(prefix=_SCRATCH) as scratch, locked(Path(scratch) / ".lock", busy=scratch):
                folder = Path(scratch) / "run"
                folder.mkdir()
                mirror = Mirror(self._storage, task["folder"], folder)
                mirror.pull()
                ended = perform(
                    {**task, "folder": str(folder)},
                    lambda record: events.put({"event": "epoch", "record": record}),
                    lambda: _try_to_push(mirror),
                )
                if ended["event"] == "done":
                    mirror.finish()
                return ended
        except Exception as error:  # the storage, or this machine's disk: another attempt may do better
            time.sleep(2)
            return {"event": "lost", "error": f"Its files could not be kept ({_reason(error)})."}


def _try_to_push(mirror: Mirror) -> None:
    """A checkpoint that cannot be sent costs time only if the run is lost before the next one."""
    try:
        mirror.push()
    except Exception as error:
        print(f"A checkpoint was not sent ({_reason(error)}).", flush=True)


def _reason(error: Exception) -> str:
    return f"{type(error).__name__}: {shown_all(str(error))}"


def pin(cpus: int) -> list[socket.socket]:
    """Keep this process to as many cores as it was given, for a result may depend on their number.

    Cores that no other worker on this machine has, as far as there are any. A socket's name in the kernel says that a
    core is taken: it goes with its process, however that ends, and needs no file.
    """
    if not hasattr(os, "sched_setaffinity"):
        return []
    cores = sorted(os.sched_getaffinity(0))
    locks: dict[int, socket.socket] = {}
    for core in cores:
        lock = socket.socket(socket.AF_UNIX)
        try:
            lock.bind(f"\0laddernet core {core}")
            locks[core] = lock
        except OSError:
            lock.close()
        if len(locks) == cpus:
            break
    os.sched_setaffinity(0, [*locks, *(core for core in cores if core not in locks)][:cpus])
    return list(locks.values())


def _use_devices(gpus: float) -> None:
    if gpus == 0:
        import jax

        jax.config.update("jax_platforms", "cpu")  # type: ignore[no-untyped-call]
    elif gpus < 1:
        os.environ["XLA_PYTHON_CLIENT_MEM_FRACTION"] = f"{0.9 * gpus:.3f}"  # else the first would take nearly all


def _remove_left_behind() -> None:
    """Remove the folders of workers that were killed: nobody holds their locks."""
    for lock in Path(tempfile.gettempdir()).glob(f"{_SCRATCH}*/.lock"):
        with suppress(OSError, InputError):
            if time.time() - lock.stat().st_mtime < 60:
                continue  # perhaps about to be locked
            with locked(lock, busy="It is in use.", timeout=0):
                shutil.rmtree(lock.parent, ignore_errors=True)

"""A Ray actor that trains one run after another on its node."""

import os
import queue
import shutil
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
from laddernet.machine import pin
from laddernet.study.addresses import shown, shown_all
from laddernet.study.executors import Event
from laddernet.study.storage import Mirror, Storage
from laddernet.study.worker import perform
from laddernet.training.config import REVISION
from laddernet.training.programs import keep_compiled_programs

_SCRATCH = "laddernet-run-"


def version() -> list[Any]:
    """Return the version and the revision, which must be the same for driver and workers to compute the same."""
    return [metadata.version("laddernet"), REVISION]


class RayWorker:
    """A worker that keeps its compiled programs, and mirrors the files of its run to the storage."""

    def __init__(self, cpus: int, gpus: float, storage: str) -> None:
        self._cores = pin(cpus)  # before JAX counts the cores
        _use_devices(gpus)
        keep_compiled_programs()
        self._where = storage

    def unfit(self, expected: list[Any], identity: str) -> str | None:
        """Return why no run can be trained here, as the end of a sentence "Node X …", or None."""
        if version() != expected:
            has, needs = ("{} (revision {})".format(*v) for v in (version(), expected))
            return f"has laddernet {has}, but the study is of {needs}; install the same on all nodes"
        try:
            self._storage = Storage(self._where)
            seen = self._storage.look()
        except InputError as error:
            return f"cannot reach the storage: {str(error).rstrip('.')}"
        except Exception as error:  # fsspec's packages have no exception in common
            return f"cannot reach the storage {shown(self._where)} ({_reason(error)})"
        if seen != identity:
            advice = "give as --storage a folder that all nodes share, or an address that fsspec supports"
            return f"does not see the storage {self._storage.name}; {advice}"
        return None

    def train(self, task: dict[str, Any]) -> Iterator[Event]:
        """Train a task's run; yield the newest epoch whenever an event is requested, and at last how the run ended."""
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
        except Exception as error:  # of the storage or this machine's disk; another attempt may succeed
            time.sleep(2)
            return {"event": "lost", "error": f"Its files could not be kept ({_reason(error)})."}


def _try_to_push(mirror: Mirror) -> None:
    """Send a checkpoint; a failure matters only if the run is lost before the next checkpoint is sent."""
    try:
        mirror.push()
    except Exception as error:
        print(f"A checkpoint was not sent ({_reason(error)}).", flush=True)


def _reason(error: Exception) -> str:
    return f"{type(error).__name__}: {shown_all(str(error))}"


def _use_devices(gpus: float) -> None:
    if gpus == 0:
        import jax

        jax.config.update("jax_platforms", "cpu")  # type: ignore[no-untyped-call]
    elif gpus < 1:
        os.environ["XLA_PYTHON_CLIENT_MEM_FRACTION"] = f"{0.9 * gpus:.3f}"  # by default JAX takes most of it


def _remove_left_behind() -> None:
    """Remove the folders of workers that were killed, whose locks are free."""
    for lock in Path(tempfile.gettempdir()).glob(f"{_SCRATCH}*/.lock"):
        with suppress(OSError, InputError):
            if time.time() - lock.stat().st_mtime < 60:
                continue  # its worker may be about to lock it
            with locked(lock, busy="It is in use.", timeout=0):
                shutil.rmtree(lock.parent, ignore_errors=True)

"""A process that trains one run after another: ``python -m laddernet.study.worker CORES``.

It reads tasks as lines of JSON and writes events in the same way. It ends when its input ends, so a driver that is
killed leaves no workers behind.
"""

import json
import os
import queue
import sys
import threading
import time
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

from laddernet.errors import BusyError, ChangedError, DivergedError, InputError, RemovedError
from laddernet.study.executors import Event
from laddernet.study.processes import json_output
from laddernet.text import one_line

_PAUSE = 2.0  # seconds before a run that cannot be trained at the moment is returned


def main() -> None:
    """Train the tasks of standard input until it ends."""
    if sys.argv[1]:
        os.sched_setaffinity(0, [int(core) for core in sys.argv[1].split(",")])  # before JAX counts the cores
    send = json_output()
    tasks: queue.Queue[str] = queue.Queue()
    threading.Thread(target=_read, args=(tasks,), daemon=True).start()

    from laddernet.training.programs import keep_compiled_programs

    keep_compiled_programs()
    while True:
        task = json.loads(tasks.get())
        send(perform(task, lambda record: send({"event": "epoch", "record": record})))


def _read(tasks: "queue.Queue[str]") -> None:
    for line in sys.stdin:
        tasks.put(line)
    os._exit(0)  # at once, also within an epoch: the run resumes from its checkpoint


def perform(
    task: dict[str, Any], on_epoch: Callable[[Event], None], on_checkpoint: Callable[[], None] = lambda: None
) -> Event:
    """Train the run of a task in its folder, and return the event of its end."""
    from laddernet.data import training_data
    from laddernet.training.config import Config
    from laddernet.training.loop import on_device
    from laddernet.training.run import environment, read_metrics, run

    folder = Path(task["folder"])
    try:
        config = Config.from_json(task["config"])
        wants_test = task.get("test", True)
        dataset = _data_of(config, task.get("data"), wants_test)
        data = on_device(training_data(dataset, config.labels, config.validation, config.seed))
        result = run(
            config,
            data,
            (dataset.x_test, dataset.y_test) if wants_test else None,
            folder,
            command=task["command"],
            track_test=wants_test,
            evaluate_every=max(1, config.epochs // 30),
            checkpoint_every=task["checkpoint_every"],
            on_epoch=on_epoch,
            on_checkpoint=on_checkpoint,
        )
        if not folder.exists():  # it was removed meanwhile: without its files a run is not done
            raise RemovedError(f"{folder} was removed.")
        return {"event": "done", "result": result, "history": read_metrics(folder), "environment": environment()}
    except BusyError as error:  # the worker of a driver that was killed, or has lost its lease, has not ended yet
        time.sleep(_PAUSE)
        return {"event": "busy", "error": str(error)}
    except (ChangedError, RemovedError) as error:
        return {"event": "lost", "error": str(error)}
    except Exception as error:  # an error of one run must not stop the others
        return _ended(error)


def _ended(error: Exception) -> Event:
    """Return the event of a run that an error has ended: failed, or lost if another attempt may succeed.

    Another attempt may succeed if memory or disk space ran out, or the system refused a file.
    """
    sentence = str(error) if isinstance(error, InputError | DivergedError) else f"{type(error).__name__}: {error}"
    is_memory = isinstance(error, MemoryError) or "RESOURCE_EXHAUSTED" in str(error)
    if is_memory or isinstance(error, OSError) or isinstance(error.__cause__, OSError):
        time.sleep(_PAUSE)
        return {"event": "lost", "error": sentence}
    return {"event": "failed", "error": sentence}


def _data_of(config: Any, file: str | None, wants_test: bool) -> Any:
    """Load the data of a run; refuse a user's file that is not as it was when the run was configured."""
    if file is None:
        return _loaded(config.data, wants_test)
    found = f"{file} is not the data that this run was configured with"
    advice = "restore it, or repeat the command, which makes new runs of changed data"
    try:
        dataset = _loaded(file, wants_test)
    except InputError as error:
        raise ChangedError(f"{found} ({one_line(error)}); {advice}.") from error
    if dataset.content != config.content:
        _loaded.cache_clear()
        raise ChangedError(f"{found}; {advice}.")
    return dataset


@lru_cache(maxsize=1)
def _loaded(name: str, wants_test: bool) -> Any:
    """Load a data set, without its test rows for a search."""
    from laddernet.data import load

    dataset = load(name)
    return dataset if wants_test else dataset.training_rows()


if __name__ == "__main__":
    main()

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

Event = dict[str, Any]
_PAUSE = 2.0  # seconds before a run that cannot be trained just now is given back


def main() -> None:
    if sys.argv[1]:
        os.sched_setaffinity(0, [int(core) for core in sys.argv[1].split(",")])  # before JAX counts the cores
    events = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what a library prints must not come between
    tasks: queue.Queue[str] = queue.Queue()
    threading.Thread(target=_hear, args=(tasks,), daemon=True).start()

    def tell(event: Event) -> None:
        print(json.dumps(event), file=events, flush=True)

    from laddernet.training.programs import keep_compiled_programs

    keep_compiled_programs()
    while True:
        task = json.loads(tasks.get())
        tell(perform(task, lambda record: tell({"event": "epoch", "record": record})))


def _hear(tasks: "queue.Queue[str]") -> None:
    for line in sys.stdin:
        tasks.put(line)
    os._exit(0)  # at once, also from the middle of an epoch: the checkpoint is what counts


def perform(
    task: dict[str, Any], on_epoch: Callable[[Event], None], on_checkpoint: Callable[[], None] = lambda: None
) -> Event:
    """Train the run of a task in its folder, and say how it ended."""
    from laddernet.data import training_data
    from laddernet.errors import BusyError, DivergedError, InputError, RemovedError
    from laddernet.training.config import Config
    from laddernet.training.loop import on_device
    from laddernet.training.run import environment, read_metrics, run

    folder = Path(task["folder"])
    try:
        config = Config.from_json(task["config"])
        wants_test = task.get("test", True)
        dataset = _dataset(config.data) if wants_test else _training_rows(config.data)
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
        if not folder.exists():  # removed since: without its files a run is not done
            raise RemovedError(f"{folder} was removed.")
        return {"event": "done", "result": result, "history": read_metrics(folder), "environment": environment()}
    except BusyError as error:  # a worker whose driver was killed, or has lost its lease, has not ended yet
        time.sleep(_PAUSE)
        return {"event": "busy", "error": str(error)}
    except RemovedError as error:
        return {"event": "lost", "error": str(error)}
    except (InputError, DivergedError) as error:
        return _ended(error, str(error))
    except Exception as error:  # whatever goes wrong with one run must not stop the others
        return _ended(error, f"{type(error).__name__}: {error}")


def _ended(error: Exception, sentence: str) -> Event:
    """The event of a run that an error has ended: failed, or lost where the machine is to blame.

    The machine has no memory or no space left, or refuses a file: another attempt may succeed.
    """
    is_memory = isinstance(error, MemoryError) or "RESOURCE_EXHAUSTED" in str(error)
    if is_memory or isinstance(error, OSError) or isinstance(error.__cause__, OSError):
        time.sleep(_PAUSE)
        return {"event": "lost", "error": sentence}
    return {"event": "failed", "error": sentence}


@lru_cache(maxsize=1)
def _dataset(name: str) -> Any:
    from laddernet.data import load

    return load(name)


@lru_cache(maxsize=1)
def _training_rows(name: str) -> Any:
    """All that a process which tunes keeps of a data set."""
    from laddernet.data import load

    return load(name).training_rows()


if __name__ == "__main__":
    main()

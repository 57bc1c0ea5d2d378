"""A run and its folder: configuration, metrics, weights, result, and the command that repeats it.

The folder holds ``config.json``, ``command.txt``, ``environment.json``, ``metrics.csv`` (one row per epoch) and
``weights.safetensors``. A finished run has ``result.json``; an unfinished one has ``checkpoints/``.
"""

import csv
import io
import json
import os
import platform
import shlex
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import safetensors.numpy

from laddernet import checks
from laddernet.data import TrainingData
from laddernet.errors import InputError, RemovedError
from laddernet.files import content_of, locked, write_atomic, writing
from laddernet.kernels import native
from laddernet.machine import cores, processor_lines
from laddernet.network.ladder import Ladder, statistics
from laddernet.network.models import Model, find
from laddernet.training import checkpoint
from laddernet.training.config import Config, Record
from laddernet.training.loop import Trained, train

_DAMAGED = "{} is damaged; remove its folder, or choose another --out."
_REMOVED = "{} was removed or replaced while its run was under way; give the same command to start it again."
_PACKAGES = ("laddernet", "jax", "jaxlib", "equinox", "optax", "numpy", "scikit-learn")
_BEGUN = {"checkpoints", "command.txt", "environment.json", "metrics.csv"}  # files of an unfinished run


def default_folder(config: Config) -> Path:
    """Return a folder whose name includes the fingerprint, so that no two configurations share it."""
    model = config.model.rpartition(":")[2]
    name = f"{config.data}-{config.labels}-{model}-seed{config.seed}-{config.fingerprint[:8]}"
    return Path("runs") / name


def run(
    config: Config,
    data: TrainingData,
    test: tuple[np.ndarray, np.ndarray] | None,
    folder: Path,
    *,
    command: list[str],
    track_test: bool = False,
    evaluate_every: int = 1,
    checkpoint_every: float = 60.0,
    on_epoch: Callable[[Record], None] = lambda record: None,
    on_checkpoint: Callable[[], None] = lambda: None,
    on_notice: Callable[[str], None] = lambda sentence: None,
) -> dict[str, Any]:
    """Train in ``folder``, resuming from its newest checkpoint; only read the result of a finished run.

    ``test`` holds the rows and classes for the test error. If it is None, as in a search for hyperparameters, only the
    validation error is measured, and only the configuration, the metrics and the result are written. Return the content
    of ``result.json``.
    """
    _claim(folder, config)
    lock = folder / ".lock"
    with locked(lock, busy=f"Another process is training in {folder}; wait for it or choose another --out.", timeout=0):
        held = _identity(lock)
        try:
            _claim(folder, config)  # again: another process may have written before this one held the lock
            _remove_unfinished(folder)
            if (folder / "result.json").exists():
                result = _read_result(folder, config, with_test=test is not None)
                checkpoint.remove(folder / "checkpoints")
                return result
            _write_json(folder / "config.json", asdict(config))
            if test is not None:
                _write_json(folder / "environment.json", environment())
                write_atomic(folder / "command.txt", (shlex.join(command) + "\n").encode())
            started = time.monotonic()
            history: list[Record] = []
            written = 0.0

            def check() -> None:
                if _identity(lock) != held or not (folder / "config.json").exists():
                    raise RemovedError(_REMOVED.format(folder))

            def after_epoch(record: Record) -> None:
                nonlocal written
                history.append(record)
                check()
                if time.monotonic() - written >= 1:  # at most once a second: a write may take longer than a short epoch
                    write_atomic(folder / "metrics.csv", metrics_csv(history))
                    written = time.monotonic()
                on_epoch(record)

            trained = train(
                config,
                data,
                monitor=test if track_test else None,
                evaluate_every=evaluate_every,
                folder=folder / "checkpoints",
                checkpoint_every=checkpoint_every,
                before_checkpoint=check,
                on_resume=history.extend,
                on_epoch=after_epoch,
                on_checkpoint=on_checkpoint,
                on_notice=on_notice,
            )
            check()
            if test is not None:
                weights = checkpoint.named_arrays({"ladder": trained.ladder, "statistics": trained.statistics})
                content = safetensors.numpy.save(weights, {"format": "laddernet 1"})
                write_atomic(folder / "weights.safetensors", content)
            write_atomic(folder / "metrics.csv", metrics_csv(trained.history))
            result = {
                **({} if test is None else {"test_error": trained.error(*test)}),
                **{key: value for key, value in trained.history[-1].items() if key != "test_error"},
                "fingerprint": config.fingerprint,
                "seconds": round(time.monotonic() - started, 1),  # of this attempt only
            }
            check()
            _write_json(folder / "result.json", result)
            checkpoint.remove(folder / "checkpoints")
            check()
            return result
        except InputError as error:
            if _identity(lock) != held and not isinstance(error, RemovedError):  # the removal caused the error
                raise RemovedError(_REMOVED.format(folder)) from error
            raise


def load_run(folder: Path) -> tuple[Config, Trained]:
    """Read the configuration and the trained network of a finished run.

    Parameters
    ----------
    folder
        The run's folder.

    Returns
    -------
    Config
        The configuration of the run.
    Trained
        The trained network. Its history is empty; the records are in ``metrics.csv``.

    Raises
    ------
    InputError
        If the folder holds no finished run of this version, or a file is damaged.
    """
    held = _read_json(folder / "config.json")
    weights = folder / "weights.safetensors"
    arrays = checkpoint.read_arrays(weights)
    try:
        config = Config.from_json(held)
        first, last = (arrays[f"ladder.encoder.{l}.W"] for l in (0, len(config.hidden)))
        sizes = (first.shape[0], *config.hidden, last.shape[1])
        template = jax.eval_shape(partial(_empty, find(config.model, config.source), sizes))
    except InputError:
        raise
    except (TypeError, ValueError, KeyError, IndexError, AttributeError, OverflowError) as error:  # invalid field
        reason = " ".join(str(error).split())
        raise InputError(f"{folder} does not hold a finished run of this version of laddernet ({reason}).") from error
    tree = checkpoint.from_named_arrays(template, arrays, weights)
    return config, Trained(tree["ladder"], tree["statistics"], [])


def _empty(model: Model, sizes: tuple[int, ...]) -> dict[str, Any]:
    ladder = Ladder(model, sizes, key=jax.random.key(0))
    return {"ladder": ladder, "statistics": statistics(ladder.encoder, jnp.zeros((1, sizes[0])))}


def environment() -> dict[str, Any]:
    """Return the software and hardware that may affect the result of a run."""
    return {
        "python": platform.python_version(),
        "platform": platform.platform(),
        "processor": _processor(),
        "cores": cores(),
        "devices": [str(device) for device in jax.devices()],
        "native": native.in_use(),
        "packages": {name: metadata.version(name) for name in _PACKAGES},
    }


def metrics_csv(history: list[Record]) -> bytes:
    """Write a CSV file with one row per epoch; a quantity that was not measured is an empty cell."""
    columns = list(dict.fromkeys(name for record in history for name in record))
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(history)
    return text.getvalue().encode()


def read_metrics(folder: Path) -> list[Record]:
    """Read the record of each epoch of a run."""
    path = folder / "metrics.csv"
    content = content_of(path)
    try:
        rows = list(csv.DictReader(io.StringIO(content.decode())))
        return [{k: int(v) if k == "epoch" else float(v) for k, v in row.items() if v} for row in rows]
    except (ValueError, TypeError, csv.Error) as error:  # not UTF-8, not numbers, more cells than columns
        raise InputError(_DAMAGED.format(path)) from error


def _claim(folder: Path, config: Config) -> None:
    """Create the folder, or refuse one that does not belong to this run."""
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        others = [path.name for path in folder.iterdir() if not path.name.startswith(".")]
    if not others:
        return
    if "config.json" not in others:
        if (folder / ".lock").exists() and _BEGUN.issuperset(others):
            return  # the configuration was removed; checkpoints hold the fingerprint of their run
        raise InputError(f"{folder} holds other files ({min(others)}); choose an empty folder for --out.")
    held = _read_json(folder / "config.json")
    wanted = json.loads(json.dumps(asdict(config)))
    held.setdefault("precision", "float32")  # the value of runs that are older than this setting
    differing = [key for key in wanted if held.get(key) != wanted[key]]
    if differing in (["source"], ["content"]):
        run = f"another source of {config.model}" if differing == ["source"] else f"another content of {config.data}"
        raise InputError(f"{folder} holds the run of {run}, which has changed since; choose another --out.")
    if differing:
        key = differing[0]
        raise InputError(
            f"{folder} holds another run ({key} is {held.get(key)}, not {wanted[key]}); choose another --out."
        )


def _identity(path: Path) -> tuple[int, int] | None:
    """Return the device and inode of a file, which differ if it was replaced; None if there is no file."""
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _remove_unfinished(folder: Path) -> None:
    """Remove the temporary files of a killed process."""
    with writing(folder):
        for path in folder.rglob(".*.tmp"):
            path.unlink(missing_ok=True)


def _read_result(folder: Path, config: Config, *, with_test: bool) -> dict[str, Any]:
    """Read the result of a finished run, and refuse one that is damaged or of another configuration."""
    path = folder / "result.json"
    result = _read_json(path)
    if result.get("fingerprint") != config.fingerprint:
        raise InputError(f"{folder} holds this run as another version computed it; choose another --out.")
    if with_test and "test_error" not in result:
        raise InputError(f"{folder} holds a run of a search, without a test error; choose another --out.")
    for name, value in result.items():
        if name != "fingerprint" and not checks.is_finite(value):
            raise InputError(_DAMAGED.format(path))
    return result


def _write_json(path: Path, value: Any) -> None:
    write_atomic(path, (json.dumps(value, indent=2, ensure_ascii=False) + "\n").encode())


def _read_json(path: Path) -> dict[str, Any]:
    text = content_of(path)
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(_DAMAGED.format(path)) from error
    if not isinstance(value, dict):
        raise InputError(f"{path} is not of laddernet; choose another --out.")
    return value


def _processor() -> str:
    """Return the processor's name, which ``platform`` does not give on Linux."""
    lines = processor_lines()
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, sys.platform if lines else platform.processor())

"""Checkpoints: two files an epoch, ``epoch-000007.safetensors`` with the arrays and ``.json`` with the rest.

The JSON file is written last and holds the SHA-256 of the other and of its own content: a checkpoint without it was
never finished, and one that does not match it is damaged. The one before is kept until the next is whole.
"""

import hashlib
import json
from itertools import islice
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import safetensors
import safetensors.numpy

from laddernet.errors import InputError
from laddernet.files import reading, sha256, write_atomic, writing

FORMAT = "laddernet checkpoint 2"
KEPT = 2


def named_arrays(tree: Any) -> dict[str, np.ndarray]:
    """The leaves of a pytree under their paths, ready for safetensors.

    >>> sorted(named_arrays({"a": [jnp.zeros(2)], "b": jnp.ones(1)}))
    ['a.0', 'b']
    """
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    # safetensors writes an array's memory as it lies, so it must lie in row order.
    return {_name(path): np.asarray(leaf, order="C") for path, leaf in leaves}


def from_named_arrays(template: Any, arrays: dict[str, np.ndarray], source: object) -> Any:
    """A pytree like ``template`` with its leaves from ``arrays``: all of them, and of the same shapes."""
    wanted = {_name(path): leaf for path, leaf in jax.tree_util.tree_leaves_with_path(template)}
    if wanted.keys() != arrays.keys():
        odd = sorted(wanted.keys() ^ arrays.keys())
        raise InputError(f"{source} is of another network ({odd[0]!r} is in only one of the two).")
    for name, leaf in wanted.items():
        held = arrays[name]
        if (leaf.shape, leaf.dtype) != (held.shape, held.dtype):
            was, is_wanted = f"{held.dtype}{list(held.shape)}", f"{leaf.dtype}{list(leaf.shape)}"
            raise InputError(f"{source} is of another network ({name!r} is {was}, not {is_wanted}).")
    # A copy on the device: the array must not alias memory that NumPy owns, for the epoch program will reuse it.
    return jax.tree_util.tree_map_with_path(lambda path, _: jnp.array(arrays[_name(path)]), template)


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    """The arrays of a safetensors file, or a sentence that says why not."""
    with reading(path):
        content = path.read_bytes()
    try:
        return safetensors.numpy.load(content)
    except (safetensors.SafetensorError, ValueError, TypeError, KeyError) as error:  # the last three: its header
        reason = " ".join(str(error).split())
        raise InputError(f"{path} is not a whole safetensors file ({reason}).") from error


def save(folder: Path, epoch: int, state: Any, *, fingerprint: str, history: list[dict[str, Any]]) -> None:
    """Write the state after ``epoch`` epochs, and forget what came before it but for one that is whole.

    Later ones stay: they were refused when the run was resumed, and it is not for us to judge what they are.
    """
    with writing(folder):
        folder.mkdir(exist_ok=True)  # without its parents: a run's folder that was removed stays so
    arrays = folder / f"epoch-{epoch:06d}.safetensors"
    write_atomic(arrays, safetensors.numpy.save(named_arrays(state)))
    record = {
        "format": FORMAT,
        "fingerprint": fingerprint,
        "epoch": epoch,
        "sha256": sha256(arrays),
        "history": history,
    }
    record["check"] = _check(record)
    write_atomic(arrays.with_suffix(".json"), json.dumps(record, indent=1).encode())
    before = (path.stem for path in _records(folder) if path.stem < arrays.stem and _is_whole(path, fingerprint))
    kept = {arrays.stem, *islice(before, KEPT - 1)}
    with writing(folder):
        for path in folder.glob("epoch-*"):
            if path.stem <= arrays.stem and path.stem not in kept:
                path.unlink(missing_ok=True)


def load(folder: Path, template: Any, *, fingerprint: str) -> tuple[int, Any, list[dict[str, Any]], list[str]]:
    """The newest whole checkpoint: its epoch, state and history, and why newer ones were refused.

    Without any checkpoint, epoch 0 and the template itself. If there are some but none is whole, an error: what
    is left of them may still be worth something to the user, so nothing starts over them.
    """
    refused: list[str] = []
    for path in _records(folder):
        try:
            record = _read_record(path, fingerprint)
            state = from_named_arrays(template, read_arrays(path.with_suffix(".safetensors")), path)
        except InputError as error:
            refused.append(str(error))
        else:
            return record["epoch"], state, record["history"], refused
    if refused:
        raise InputError(
            f"No checkpoint in {folder} can be used: {' '.join(refused)} Remove that folder to start anew."
        )
    return 0, template, [], []


def remove(folder: Path) -> None:
    """Forget all checkpoints of a finished run."""
    with writing(folder):
        for path in folder.glob("epoch-*"):
            path.unlink(missing_ok=True)
        if folder.exists() and not any(folder.iterdir()):
            folder.rmdir()


def _records(folder: Path) -> list[Path]:
    return sorted(folder.glob("epoch-*.json"), reverse=True)


def _is_whole(path: Path, fingerprint: str) -> bool:
    try:
        _read_record(path, fingerprint)
    except InputError:
        return False
    return True


def _read_record(path: Path, fingerprint: str) -> dict[str, Any]:
    """The record of a checkpoint, if it is whole and its arrays are the ones that it was written for."""
    with reading(path):
        text = path.read_bytes()
    try:
        record = json.loads(text)
        if record["format"] != FORMAT:
            raise InputError(f"{path} has the format {record['format']!r}, not {FORMAT!r}.")
        if record.pop("check") != _check(record):
            raise InputError(f"{path} is damaged.")
        if record["fingerprint"] != fingerprint:
            raise InputError(f"{path} belongs to another run.")
        arrays = path.with_suffix(".safetensors")
        if record["sha256"] != sha256(arrays):
            raise InputError(f"{arrays} is damaged.")
        if type(record["epoch"]) is not int or not all(type(of_epoch) is dict for of_epoch in record["history"]):
            raise InputError(f"{path} is not a checkpoint as laddernet writes it.")
        return {key: record[key] for key in ("epoch", "history")}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"{path} is damaged.") from error


def _check(record: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()


def _name(path: tuple[Any, ...]) -> str:
    return jax.tree_util.keystr(path, simple=True, separator=".")

"""Checkpoints: two files per epoch, ``epoch-000007.safetensors`` with the arrays and ``.json`` with the rest.

The JSON file is written last and holds the SHA-256 of both files' content. A checkpoint without it is incomplete, and
one that does not match it is damaged. The previous checkpoint is kept until the next is complete.
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
from laddernet.files import content_of, sha256, write_atomic, writing
from laddernet.text import one_line

FORMAT = "laddernet checkpoint 2"
KEPT = 2


def named_arrays(tree: Any) -> dict[str, np.ndarray]:
    """Return the leaves of a pytree by path, as arrays for safetensors.

    >>> sorted(named_arrays({"a": [jnp.zeros(2)], "b": jnp.ones(1)}))
    ['a.0', 'b']
    """
    leaves = jax.tree_util.tree_leaves_with_path(tree)
    # safetensors writes the memory of an array unchanged, so it must be in row order.
    return {_name(path): np.asarray(leaf, order="C") for path, leaf in leaves}


def from_named_arrays(template: Any, arrays: dict[str, np.ndarray], source: object) -> Any:
    """Return a pytree like ``template`` with the leaves in ``arrays``; names, shapes and types must match."""
    wanted = {_name(path): leaf for path, leaf in jax.tree_util.tree_leaves_with_path(template)}
    if wanted.keys() != arrays.keys():
        odd = sorted(wanted.keys() ^ arrays.keys())
        raise InputError(f"{source} is of another network ({odd[0]!r} is in only one of the two).")
    for name, leaf in wanted.items():
        held = arrays[name]
        if (leaf.shape, leaf.dtype) != (held.shape, held.dtype):
            was, is_wanted = f"{held.dtype}{list(held.shape)}", f"{leaf.dtype}{list(leaf.shape)}"
            raise InputError(f"{source} is of another network ({name!r} is {was}, not {is_wanted}).")
    # A copy on the device: the epoch program reuses the memory, so the array must not alias memory that NumPy owns.
    return jax.tree_util.tree_map_with_path(lambda path, _: jnp.array(arrays[_name(path)]), template)


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    """Read the arrays of a safetensors file."""
    content = content_of(path)
    try:
        return safetensors.numpy.load(content)
    except (safetensors.SafetensorError, ValueError, TypeError, KeyError) as error:  # the last three: a damaged header
        raise InputError(f"{path} is not a whole safetensors file ({one_line(error)}).") from error


def save(folder: Path, epoch: int, state: Any, *, fingerprint: str, history: list[dict[str, Any]]) -> None:
    """Write the state after ``epoch`` epochs, and remove all earlier checkpoints but the newest complete one.

    Later checkpoints stay: they were refused when the run was resumed, but the user may still need them.
    """
    with writing(folder):
        folder.mkdir(exist_ok=True)  # not its parents: a run's folder that was removed must not come back
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
    """Read the newest complete checkpoint: epoch, state, history, and the reasons why newer ones were refused.

    If there is no checkpoint, return epoch 0 and the template. If there are some but none is complete, raise an error:
    a new run would overwrite files that the user may still need.
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
    """Remove all checkpoints of a finished run."""
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
    """Read the record of a checkpoint, and refuse it if it or its arrays are damaged or of another run."""
    try:
        record = json.loads(content_of(path))
        if record["format"] != FORMAT:
            raise InputError(f"{path} has the format {record['format']!r}, not {FORMAT!r}.")
        if record.pop("check") != _check(record):
            raise InputError(f"{path} is damaged.")
        if record["fingerprint"] != fingerprint:
            raise InputError(f"{path} belongs to another run.")
        arrays = path.with_suffix(".safetensors")
        if record["sha256"] != sha256(arrays):
            raise InputError(f"{arrays} is damaged.")
        if type(record["epoch"]) is not int or not all(map(_is_of_an_epoch, record["history"])):
            raise InputError(f"{path} is not a checkpoint as laddernet writes it.")
        return {key: record[key] for key in ("epoch", "history")}
    except InputError:
        raise
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise InputError(f"{path} is damaged.") from error


def _is_of_an_epoch(held: Any) -> bool:
    """Return whether this is a record of the history: numbers by names that a file can hold."""
    if type(held) is not dict:
        return False
    "".join(held).encode()  # a UnicodeError, which is a ValueError, for half a character
    return all(isinstance(value, int | float) for value in held.values())


def _check(record: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(record, sort_keys=True).encode()).hexdigest()


def _name(path: tuple[Any, ...]) -> str:
    return jax.tree_util.keystr(path, simple=True, separator=".")

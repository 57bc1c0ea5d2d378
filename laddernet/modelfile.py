"""Model files: one safetensors file with the arrays and, as JSON in its header, all else. Loading runs no code.

The header also holds a SHA-256 over both, so that a file which was cut, mixed up or changed is refused.
"""

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import safetensors
import safetensors.numpy

from laddernet.errors import InputError
from laddernet.files import reading, write_atomic

FORMAT = 3  # raised when files are written that this reader would not understand; older ones stay readable
_KIND, _ABOUT, _CHECK = "laddernet", "about", "sha256"

Arrays = dict[str, np.ndarray]
About = dict[str, Any]


def write(path: str | os.PathLike[str], kind: str, arrays: Arrays, about: About) -> None:
    """Put a model into a file, whole or not at all."""
    text = json.dumps({"format": FORMAT, "version": metadata.version("laddernet"), **about}, ensure_ascii=False)
    # safetensors writes an array's memory as it lies, so it must lie in row order.
    arrays = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    header = {_KIND: kind, _ABOUT: text, _CHECK: _check(kind, text, arrays)}
    write_atomic(path, safetensors.numpy.save(arrays, metadata=header))


def read(path: str | os.PathLike[str], kind: str) -> tuple[Arrays, About]:
    """The arrays of a file and what is said about them, if it is a whole one of this kind."""
    path = Path(path)
    with reading(path):
        content = path.read_bytes()
    try:
        arrays = safetensors.numpy.load(content)
        length = int.from_bytes(content[:8], "little")
        header = json.loads(content[8 : 8 + length]).get("__metadata__") or {}
    except (safetensors.SafetensorError, ValueError, KeyError) as error:
        reason = " ".join(str(error).split())
        raise InputError(f"{path} is not a whole model file ({reason}); name one that laddernet has saved.") from error
    if not {_KIND, _ABOUT, _CHECK} <= header.keys():
        raise InputError(f"{path} is a safetensors file, but not a model of laddernet; name one that laddernet saved.")
    if header[_CHECK] != _check(header[_KIND], header[_ABOUT], arrays):
        raise InputError(f"{path} is damaged or was changed: its content is not what was saved; save the model anew.")
    with understood(path):
        about = json.loads(header[_ABOUT])
        newer = about["format"] > FORMAT
    if newer:
        raise InputError(f"{path} was saved by laddernet {about['version']}, which is newer; install that version.")
    if header[_KIND] != kind:
        ways = {"classifier": "LadderClassifier.load", "table": "`laddernet predict`"}
        way = ways.get(header[_KIND], "what saved it")
        raise InputError(f"{path} is a {header[_KIND]} model, not a {kind} model; open it with {way}.")
    return arrays, about


@contextmanager
def understood(path: str | os.PathLike[str]) -> Iterator[None]:
    """Say of a file that lacks something, or holds something else in its place, that it does."""
    try:
        yield
    except InputError:
        raise
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        reason = f"{type(error).__name__}: {' '.join(str(error).split())}"
        raise InputError(f"{path} is not a model as laddernet saves it ({reason}); save the model anew.") from error


def _check(kind: str, about: str, arrays: Arrays) -> str:
    digest = hashlib.sha256(json.dumps([kind, about]).encode())
    for name, array in sorted(arrays.items()):
        digest.update(json.dumps([name, array.dtype.str, list(array.shape)]).encode())
        digest.update(array.tobytes())
    return digest.hexdigest()

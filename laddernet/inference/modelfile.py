"""Model files: a safetensors file with the arrays and, in its header, everything else as JSON. Loading runs no code.

The header also holds a SHA-256 of both, so that a truncated or changed file is refused.
"""

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import safetensors
import safetensors.numpy

from laddernet.errors import InputError
from laddernet.files import from_json, reading, require_regular, write_atomic
from laddernet.text import one_line

FORMAT = 3  # raised when an older reader could not read new files; older files stay readable
_KIND, _ABOUT, _CHECK = "laddernet", "about", "sha256"
_LONGEST_HEADER = 100_000_000  # bytes, the limit of safetensors

Arrays = dict[str, np.ndarray]
About = dict[str, Any]


def write(path: str | os.PathLike[str], kind: str, arrays: Arrays, about: About) -> None:
    """Write a model to a file, completely or not at all."""
    text = json.dumps({"format": FORMAT, "version": metadata.version("laddernet"), **about}, ensure_ascii=False)
    # safetensors writes the memory of an array unchanged, so it must be in row order.
    arrays = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    header = {_KIND: kind, _ABOUT: text, _CHECK: _check(kind, text, arrays)}
    write_atomic(path, safetensors.numpy.save(arrays, metadata=header))


def read(path: str | os.PathLike[str], kind: str) -> tuple[Arrays, About]:
    """Read the arrays of a file and their description, and refuse a file that is damaged or of another kind."""
    path = Path(path)
    size = require_regular(path)
    try:
        with reading(path), path.open("rb") as file:
            header = _header(file, size)
            if not {_KIND, _ABOUT, _CHECK} <= header.keys():
                advice = "name one that laddernet saved"
                raise InputError(f"{path} is a safetensors file, but not a model of laddernet; {advice}.")
            file.seek(0)
            arrays = safetensors.numpy.load(file.read(size))
    except (safetensors.SafetensorError, ValueError, KeyError) as error:
        if isinstance(error, InputError):
            raise
        advice = "name one that laddernet has saved"
        raise InputError(f"{path} is not a whole model file ({one_line(error)}); {advice}.") from error
    if header[_CHECK] != _check(header[_KIND], header[_ABOUT], arrays):
        raise InputError(f"{path} is damaged or was changed: its content is not what was saved; save the model anew.")
    with understood(path):
        about = from_json(header[_ABOUT])
        newer = about["format"] > FORMAT
    if newer:
        raise InputError(f"{path} was saved by laddernet {about['version']}, which is newer; install that version.")
    if header[_KIND] != kind:
        ways = {"classifier": "LadderClassifier.load", "table": "`laddernet predict`"}
        way = ways.get(header[_KIND], "what saved it")
        raise InputError(f"{path} is a {header[_KIND]} model, not a {kind} model; open it with {way}.")
    return arrays, about


def _header(file: BinaryIO, size: int) -> dict[str, str]:
    """Read the metadata of a safetensors file before its arrays, so that a file of another kind is not read."""
    length = int.from_bytes(file.read(8), "little")
    if not 0 < length <= min(size - 8, _LONGEST_HEADER):
        raise ValueError(f"its header would have {length:,} bytes")
    header = from_json(file.read(length))
    metadata = header.get("__metadata__") if isinstance(header, dict) else None
    texts = metadata if isinstance(metadata, dict) else {}
    return {name: text for name, text in texts.items() if isinstance(text, str)}


@contextmanager
def understood(path: str | os.PathLike[str]) -> Iterator[None]:
    """Turn an error in the content of a model file into one sentence."""
    try:
        yield
    except InputError:
        raise
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError) as error:
        reason = f"{type(error).__name__}: {one_line(error)}"
        raise InputError(f"{path} is not a model as laddernet saves it ({reason}); save the model anew.") from error


def _check(kind: str, about: str, arrays: Arrays) -> str:
    """Compute the SHA-256 of a file's content."""
    digest = hashlib.sha256(json.dumps([kind, about]).encode())
    for name, array in sorted(arrays.items()):
        digest.update(json.dumps([name, array.dtype.str, list(array.shape)]).encode())
        digest.update(array.tobytes())
    return digest.hexdigest()

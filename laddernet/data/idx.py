"""The idx format of MNIST's files: a magic number, the dimensions, then the bytes."""

import math
import struct

import numpy as np
from numpy.typing import NDArray

from laddernet.errors import InputError

_UNSIGNED_BYTE = 0x08


def parse(data: bytes, n_dims: int, what: str) -> NDArray[np.uint8]:
    """Return the array of unsigned bytes in an idx file; `what` names the file in errors.

    >>> parse(bytes([0, 0, 8, 1, 0, 0, 0, 3, 7, 8, 9]), n_dims=1, what="labels")
    array([7, 8, 9], dtype=uint8)
    """
    magic = bytes([0, 0, _UNSIGNED_BYTE, n_dims])
    if data[:4] != magic:
        raise InputError(f"{what} must begin with the bytes {magic.hex()}, got {data[:4].hex()}.")
    header = 4 + 4 * n_dims
    if len(data) < header:
        raise InputError(f"{what} has {len(data)} bytes; its header alone must have {header}.")
    shape = struct.unpack(f">{n_dims}I", data[4:header])
    size = header + math.prod(shape)
    if len(data) != size:
        raise InputError(f"{what} has {len(data)} bytes; with its dimensions {shape} it must have {size}.")
    return np.frombuffer(data, np.uint8, offset=header).reshape(shape)

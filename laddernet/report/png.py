"""Images as PNG files: one function, so that no library is needed for it."""

import base64
import struct
import zlib

import numpy as np
from numpy.typing import NDArray

Pixels = NDArray[np.uint8]


def in_grid(rows: NDArray[np.floating], shape: tuple[int, int], columns: int) -> Pixels:
    """Arrange rows of pixels, 0 white and 1 black, as images in lines of ``columns``, with white between two.

    >>> in_grid(np.eye(4), (2, 2), 2).shape
    (5, 5)
    """
    height, width = shape
    lines = -(-len(rows) // columns)
    images = np.zeros((lines * columns, height + 1, width + 1))
    images[: len(rows), :height, :width] = rows.reshape(-1, height, width)
    grid = images.reshape(lines, columns, height + 1, width + 1).transpose(0, 2, 1, 3)
    inked = grid.reshape(lines * (height + 1), columns * (width + 1))[:-1, :-1]
    return (255 * (1 - inked.clip(0, 1))).round().astype(np.uint8)


def data_uri(file: bytes) -> str:
    """Return a PNG file as a data URI."""
    return "data:image/png;base64," + base64.b64encode(file).decode()


def png(pixels: Pixels, palette: Pixels | None = None) -> bytes:
    """Encode an image as a PNG file: grey, or indices into a palette of red, green and blue."""
    height, width = pixels.shape
    header = struct.pack(">IIBBBBB", width, height, 8, 0 if palette is None else 3, 0, 0, 0)
    scanlines = np.pad(pixels, ((0, 0), (1, 0))).tobytes()  # each begins with its filter: none
    chunks = [(b"IHDR", header), (b"IDAT", zlib.compress(scanlines, 9)), (b"IEND", b"")]
    if palette is not None:
        chunks.insert(1, (b"PLTE", palette.tobytes()))
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body)) for name, body in chunks
    )

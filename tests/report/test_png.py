import io
import zlib

import numpy as np

from laddernet.report.png import in_grid, png


def test_png_holds_the_pixels() -> None:
    pixels = np.arange(6, dtype=np.uint8).reshape(2, 3)
    stream = io.BytesIO(png(pixels))
    assert stream.read(8) == b"\x89PNG\r\n\x1a\n"
    chunks = {}
    while header := stream.read(8):
        body = stream.read(int.from_bytes(header[:4]))
        assert int.from_bytes(stream.read(4)) == zlib.crc32(header[4:] + body)
        chunks[header[4:]] = body
    assert chunks[b"IHDR"][:8] == (3).to_bytes(4) + (2).to_bytes(4)
    assert zlib.decompress(chunks[b"IDAT"]) == bytes([0, 0, 1, 2, 0, 3, 4, 5])


def test_a_grid_has_the_images_in_lines_with_white_between_them() -> None:
    images = np.arange(1, 6)[:, None] / 5 * np.ones((5, 4))
    grid = in_grid(images, (2, 2), 3)
    assert grid.shape == (5, 8)
    assert grid[::3, ::3].tolist() == [[204, 153, 102], [51, 0, 255]]
    assert (grid[2] == 255).all()
    assert (grid[:, [2, 5]] == 255).all()

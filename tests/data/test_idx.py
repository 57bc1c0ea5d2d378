import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from laddernet.data import idx
from laddernet.errors import InputError


def encoded(array: np.ndarray) -> bytes:
    return bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


@given(st.lists(st.integers(0, 5), min_size=1, max_size=4))
def test_what_was_encoded_is_parsed(shape: list[int]) -> None:
    array = np.arange(np.prod(shape), dtype=np.uint8).reshape(shape)
    np.testing.assert_array_equal(idx.parse(encoded(array), array.ndim, "file"), array)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "file must begin with the bytes 00000803, got "),
        (b"\x1f\x8b\x08\x00rest", "file must begin with the bytes 00000803, got 1f8b0800"),
        (encoded(np.zeros(3, np.uint8)), "file must begin with the bytes 00000803, got 00000801"),
        (encoded(np.zeros((2, 3, 4), np.uint8))[:10], "file has 10 bytes; its header alone must have 16"),
        (encoded(np.zeros((2, 3, 4), np.uint8))[:-1], r"has 39 bytes; with its dimensions \(2, 3, 4\) .* 40"),
        (encoded(np.zeros((2, 3, 4), np.uint8)) + b"\0", r"has 41 bytes; with its dimensions .* 40"),
        (bytes([0, 0, 8, 3]) + b"\xff" * 12, r"has 16 bytes; with its dimensions \(4294967295"),
    ],
    ids=["empty", "compressed", "labels", "header cut", "data cut", "too long", "huge dimensions"],
)
def test_a_file_that_is_not_what_it_should_be_is_refused_with_numbers(data: bytes, message: str) -> None:
    with pytest.raises(InputError, match=message):
        idx.parse(data, n_dims=3, what="file")

import hashlib
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from laddernet.inference.network import Scaling
from laddernet.training.rows import Stream, Table, counted_passes, drawn_passes


@settings(max_examples=30, deadline=None)
@given(
    # Rows, and rows of an epoch: less than a pass, a pass, a little more, several with and without a rest.
    shape=st.sampled_from([(7, 3), (5, 5), (10, 12), (4, 11), (3, 6), (1, 4)]),
    seed=st.integers(0, 2**32 - 1),
    first=st.integers(0, 1000),
)
def test_every_row_comes_once_in_each_pass_across_the_borders_of_epochs(
    shape: tuple[int, int], seed: int, first: int
) -> None:
    n, count = shape
    shuffled = counted_passes(jax.random.key(seed), n)
    epochs = range(first, first + 2 * n + 1)
    rows = np.concatenate([Stream(n, shuffled, start=epoch * count).take(count) for epoch in epochs])
    whole = Stream(n, shuffled, start=first * count)
    np.testing.assert_array_equal(rows, np.concatenate([whole.take(count) for _ in epochs]))
    rows = rows[-first * count % n :]  # from where a pass begins
    passes = rows[: len(rows) // n * n].reshape(-1, n)
    assert len(passes) >= 2
    np.testing.assert_array_equal(np.sort(passes), np.broadcast_to(np.arange(n), passes.shape))


def test_rows_are_shuffled_anew_for_each_pass_and_each_key() -> None:
    orders = [
        tuple(Stream(10, counted_passes(jax.random.key(seed), 10), start=10 * k).take(10).tolist())
        for seed in range(5)
        for k in range(5)
    ]
    assert len(set(orders)) == len(orders)


def test_the_order_of_a_pass_is_the_one_that_runs_have_always_had() -> None:
    """Made by the program that shuffled on the device (revision 10)."""
    taken = Stream(1198, counted_passes(jax.random.key(7), 1198), start=3 * 1198).take(3 * 1198)
    assert hashlib.sha256(taken.astype(np.int32).tobytes()).hexdigest().startswith("fc295b3d6360")


def test_a_stream_of_drawn_passes_gives_every_row_once_in_each() -> None:
    stream = Stream(7, drawn_passes(np.random.default_rng(0), 7))
    passes = np.concatenate([stream.take(count) for count in (3, 1, 20, 4)]).reshape(4, 7)
    np.testing.assert_array_equal(np.sort(passes), np.tile(np.arange(7), (4, 1)))
    assert len({tuple(order) for order in passes}) == 4


@pytest.mark.parametrize("cells", [1, 5 * 3, 2**20])
@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
def test_a_large_table_is_scaled_in_blocks_as_it_would_be_as_a_whole(
    cells: int, kind: Callable[[np.ndarray], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("laddernet.training.rows._SCALED_CELLS", 0)
    monkeypatch.setattr("laddernet.training.rows._BLOCK_CELLS", cells)
    rng = np.random.default_rng(0)
    x, rows = rng.normal(size=(40, 3)), rng.integers(40, size=18)
    scaling = Scaling(np.array([0.5, 0.0, -2.0]), np.array([1.0, 2.0, 3.0], np.float32), bound=3.0)
    brought = Table(kind(x), scaling, np.arange(4), np.arange(4)).bring(rows)
    assert brought.dtype == np.float32
    np.testing.assert_array_equal(brought, scaling(x)[rows])

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from laddernet.inference.network import Network, Scaling, fold, join, log_softmax, softmax

PLAIN = Scaling(np.zeros(3), np.ones(3, np.float32))


def arrays(*sizes: int, seed: int = 0) -> dict[str, list[np.ndarray]]:
    """Random W, γ, β, μ and σ of a network of these sizes."""
    rng = np.random.default_rng(seed)
    drawn: dict[str, list[np.ndarray]] = {"W": [], "gamma": [], "beta": [], "mu": [], "sigma": []}
    for below, units in pairwise(sizes):
        drawn["W"].append(rng.normal(size=(below, units)).astype(np.float32))
        for name in ("gamma", "beta", "mu"):
            drawn[name].append(rng.normal(size=units).astype(np.float32))
        drawn["sigma"].append(rng.uniform(0.5, 2, units).astype(np.float32))
    return drawn


def by_hand(v: np.ndarray, held: dict[str, list[np.ndarray]]) -> np.ndarray:
    """The logits of scaled rows, layer by layer as the paper has them."""
    h = v
    for l, (W, gamma, beta, mu, sigma) in enumerate(zip(*held.values(), strict=True), start=1):
        h = gamma * ((h @ W - mu) / sigma + beta)
        h = np.maximum(h, 0) if l < len(held["W"]) else h
    return h


def network(*sizes: int, seed: int = 0, scaling: Scaling = PLAIN) -> Network:
    return fold(scaling, **arrays(*sizes, seed=seed))


@pytest.mark.parametrize("bound", [None, 2.0])
def test_folding_leaves_the_logits_of_the_normalised_network(bound: float | None) -> None:
    x = np.random.default_rng(1).normal(5, 3, size=(2500, 3))  # more rows than are computed at a time
    scaling = Scaling(np.array([5.0, 4.0, 6.0]), np.float32([0.5, 2, 1]), bound)
    v = (x - scaling.shift) * scaling.factor
    v = v if bound is None else v / np.sqrt(1 + (v / bound) ** 2)
    found = network(3, 8, 4, 2, scaling=scaling).logits(x)
    np.testing.assert_allclose(found, by_hand(v, arrays(3, 8, 4, 2)), rtol=1e-3, atol=1e-3)


def test_sparse_rows_give_the_logits_of_dense_ones() -> None:
    x = np.random.default_rng(1).normal(size=(50, 3)) * (np.arange(3) != 1)
    np.testing.assert_array_equal(network(3, 8, 2).logits(sparse.csr_matrix(x)), network(3, 8, 2).logits(x))


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False, width=32), min_size=3, max_size=3))
def test_a_bound_keeps_every_number_within_it(row: list[float]) -> None:
    scaled = Scaling(np.zeros(3), np.ones(3, np.float32), 3.0)(np.array([row], np.float32))
    assert np.isfinite(scaled).all()
    assert (np.abs(scaled) <= 3.0).all()


def test_large_numbers_that_differ_by_little_stay_apart() -> None:
    x = np.array([[1e9 + 1, 0, 0], [1e9 + 2, 0, 0]])
    scaled = Scaling(np.array([1e9, 0, 0]), np.ones(3, np.float32))(x)
    assert scaled[:, 0].tolist() == [1.0, 2.0]


@pytest.mark.parametrize("sizes", [[(3, 8, 2), (3, 8, 2)], [(3, 8, 4, 2), (3, 2)], [(3, 8, 2), (3, 6, 5, 4, 2)]])
def test_joined_networks_add_their_logits_by_their_shares(sizes: list[Any]) -> None:
    x = np.random.default_rng(1).normal(size=(40, 3))
    parts = [network(*shape, seed=seed) for seed, shape in enumerate(sizes)]
    joined = join(parts, [0.75, 0.25]).logits(x)
    np.testing.assert_allclose(joined, 0.75 * parts[0].logits(x) + 0.25 * parts[1].logits(x), rtol=1e-4, atol=1e-4)


@given(st.lists(st.lists(st.floats(-1000, 1000), min_size=3, max_size=3), min_size=1, max_size=5))
def test_probabilities_sum_to_one_and_their_logarithms_are_finite(rows: list[list[float]]) -> None:
    logits = np.array(rows)
    p = softmax(logits)
    np.testing.assert_allclose(p.sum(axis=1), 1)
    logs = log_softmax(logits)
    assert np.isfinite(logs).all()
    np.testing.assert_allclose(np.exp(logs), p, atol=1e-12)

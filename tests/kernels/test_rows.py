"""Derivatives written by hand against those that JAX finds of the plain formula, in float64."""

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from laddernet.inference.network import EPSILON
from laddernet.kernels.mlps import small_mlps
from laddernet.kernels.rows import scaled_relu, split_groups, standardise, standardise_groups


@pytest.fixture(autouse=True)
def float64() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


def plain_standardise(a: Any) -> Any:
    mu = jnp.mean(a, axis=0)
    sigma = jnp.sqrt(jnp.mean((a - mu) ** 2, axis=0) + EPSILON)
    return (a - mu) / sigma, mu, sigma


def plain_relu(z: Any, gamma: Any, beta: Any) -> Any:
    return jnp.maximum(gamma * (z + beta), 0)


def both_gradients(f: Callable[..., Any], plain: Callable[..., Any], *inputs: Any) -> None:
    """Compare values and the gradient of a random weighting of all outputs."""
    outputs = jax.tree.leaves(plain(*inputs))
    for one, other in zip(jax.tree.leaves(f(*inputs)), outputs, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)
    rng = np.random.default_rng(1)
    weights = [rng.normal(size=output.shape) for output in outputs]

    def weighted(g: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *inputs: sum(
            jnp.sum(w * out) for w, out in zip(weights, jax.tree.leaves(g(*inputs)), strict=True)
        )

    arguments = tuple(range(len(inputs)))
    ours, expected = (jax.grad(weighted(g), arguments)(*inputs) for g in (f, plain))
    for one, other in zip(jax.tree.leaves(ours), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)


def normal(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).normal(size=shape)


@pytest.mark.parametrize("rows", [2, 7])
def test_standardise(rows: int) -> None:
    both_gradients(standardise, plain_standardise, 3 + 2 * normal(rows, 4))


def test_standardise_a_unit_that_is_constant() -> None:
    z, mu, sigma = standardise(jnp.full((5, 2), 7.0))
    np.testing.assert_array_equal(z, 0)
    np.testing.assert_array_equal(mu, 7)
    np.testing.assert_allclose(sigma, EPSILON**0.5)


@pytest.mark.parametrize("sizes", [(3, 3, 3), (2, 4, 4), (5,), (1, 2)])
def test_groups_are_standardised_on_their_own(sizes: tuple[int, ...]) -> None:
    def plain(stacked: Any) -> Any:
        parts = [plain_standardise(part) for part in split_groups(stacked, sizes)]
        z, mu, sigma = zip(*parts, strict=True)
        return jnp.concatenate(z), jnp.stack(mu), jnp.stack(sigma)

    both_gradients(lambda a: standardise_groups(a, sizes), plain, normal(sum(sizes), 4))


def test_groups_are_split_where_they_were_stacked() -> None:
    parts = [np.full((n, 1), n) for n in (2, 1, 3)]
    for part, again in zip(parts, split_groups(jnp.concatenate(parts), [2, 1, 3]), strict=True):
        np.testing.assert_array_equal(again, part)


def test_scaled_relu() -> None:
    both_gradients(scaled_relu, plain_relu, normal(6, 4), normal(4) + 1, normal(4))


def test_scaled_relu_with_a_negative_gamma() -> None:
    both_gradients(scaled_relu, plain_relu, normal(6, 4), -1 - normal(4) ** 2, normal(4))


@pytest.mark.parametrize("hidden", [(), (4,), (2, 3, 2)])
def test_small_mlps(hidden: tuple[int, ...]) -> None:
    def plain(weights: Any, biases: Any, inputs: Any) -> Any:
        a = jnp.stack(inputs)
        for depth, (weight, bias) in enumerate(zip(weights, biases, strict=True)):
            a = jax.nn.leaky_relu(a, 0.1) if depth > 0 else a
            a = jnp.einsum("iou,iru->oru", weight, a) + bias[:, None]
        return a[0]

    rng = np.random.default_rng(2)
    shapes = [(*pair, 5) for pair in pairwise((3, *hidden, 1))]
    weights = tuple(rng.normal(size=shape) for shape in shapes)
    biases = tuple(rng.normal(size=shape[1:]) for shape in shapes)
    both_gradients(small_mlps, plain, weights, biases, [rng.normal(size=(7, 5)) for _ in range(3)])

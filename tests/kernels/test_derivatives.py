"""Derivatives written by hand against those of JAX for the plain formula, in float64."""

from collections.abc import Callable, Iterator
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from laddernet.inference.network import EPSILON
from laddernet.kernels.derivatives import by_hand
from laddernet.network.combinators import AMLP, leaky_relu, linear
from laddernet.network.ladder import activate, normalise


@pytest.fixture(autouse=True)
def float64() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


def plain(formula: Callable[..., Any]) -> Callable[..., Any]:
    """The formula as it was before it was decorated."""
    return formula.__wrapped__  # type: ignore[attr-defined]


def assert_same_gradients(f: Callable[..., Any], g: Callable[..., Any], *inputs: Any) -> None:
    """Compare values and the gradient of a random weighting of all outputs."""
    outputs = jax.tree.leaves(g(*inputs))
    for one, other in zip(jax.tree.leaves(f(*inputs)), outputs, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)
    rng = np.random.default_rng(1)
    weights = [rng.normal(size=output.shape) for output in outputs]

    def weighted(h: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *inputs: sum(
            jnp.sum(w * out) for w, out in zip(weights, jax.tree.leaves(h(*inputs)), strict=True)
        )

    arguments = tuple(range(len(inputs)))
    ours, expected = (jax.grad(weighted(h), arguments)(*inputs) for h in (f, g))
    for one, other in zip(jax.tree.leaves(ours), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape)


@pytest.mark.parametrize("rows", [2, 7])
def test_normalise(rows: int) -> None:
    assert_same_gradients(normalise, plain(normalise), 3 + 2 * normal(rows, 4))


def test_normalise_a_unit_that_is_constant() -> None:
    z, mu, sigma = normalise(jnp.full((5, 2), 7.0))
    np.testing.assert_array_equal(z, 0)
    np.testing.assert_array_equal(mu, 7)
    np.testing.assert_allclose(sigma, EPSILON**0.5)


def test_activate() -> None:
    assert_same_gradients(activate, plain(activate), normal(6, 4), normal(4) + 1, normal(4))


def test_activate_with_a_negative_gamma() -> None:
    assert_same_gradients(activate, plain(activate), normal(6, 4), -1 - normal(4) ** 2, normal(4))


@pytest.mark.parametrize(("inputs", "outputs"), [(3, 1), (2, 4), (1, 1)])
def test_linear(inputs: int, outputs: int) -> None:
    v = [normal(7, 5, seed=i) for i in range(inputs)]
    assert_same_gradients(linear, plain(linear), normal(inputs, outputs, 5), normal(outputs, 5, seed=1), v)


def test_leaky_relu() -> None:
    assert_same_gradients(leaky_relu, plain(leaky_relu), normal(7, 5))


@pytest.mark.parametrize("hidden", [(), (4,), (2, 3, 2)])
def test_small_mlps(hidden: tuple[int, ...]) -> None:
    def expected(mlp: AMLP, z_tilde: Any, u: Any) -> Any:
        a = jnp.stack([u, z_tilde, u * z_tilde])
        for depth, (weight, bias) in enumerate(zip(mlp.weights, mlp.biases, strict=True)):
            a = jax.nn.leaky_relu(a, 0.1) if depth > 0 else a
            a = jnp.einsum("iou,iru->oru", weight, a) + bias[:, None]
        return a[0]

    shapes = eqx.filter_eval_shape(AMLP, 5, key=jax.random.key(0), eta=0.1, hidden=hidden)
    mlp = jax.tree.map(lambda a: normal(*a.shape, seed=a.size), shapes)
    assert_same_gradients(lambda g, *inputs: g(*inputs), expected, mlp, normal(7, 5, seed=1), normal(7, 5, seed=2))


def test_arrays_have_the_derivative_by_hand_and_scalars_that_of_jax() -> None:
    @by_hand(lambda arguments, result, d: (5 * d,))
    def double(x: Any) -> Any:
        return 2 * x

    assert jax.grad(lambda x: double(x).sum())(jnp.ones(2)).tolist() == [5, 5]
    assert jax.grad(double)(1.0) == 2

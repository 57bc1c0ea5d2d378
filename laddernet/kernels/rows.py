"""What is done to a layer's rows between two matrix products, with derivatives written by hand.

Between the products a step is bound by memory: what counts is how often an array is read and written. The derivatives
that JAX would find compute the same in more passes; see results/performance.md.
"""

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.custom_derivatives import CustomVJPPrimal, SymbolicZero
from jaxtyping import Array, Float

from laddernet.inference.network import EPSILON
from laddernet.kernels import native

Rows = Float[Array, "rows units"]
PerUnit = Float[Array, " units"]
PerGroup = Float[Array, "groups units"]

MOST_GROUPS = 8  # as in native.c


@jax.custom_vjp
@jax.named_scope("normalise")
def standardise(a: Rows) -> tuple[Rows, PerUnit, PerUnit]:
    """(a − μ) / σ, μ and σ, of each unit over the rows of a minibatch."""
    mu = jnp.mean(a, axis=0)
    deviation = a - mu
    sigma = jnp.sqrt(jnp.mean(jnp.square(deviation), axis=0) + EPSILON)
    return deviation / sigma, mu, sigma


def _standardise(a: Rows) -> tuple[tuple[Rows, PerUnit, PerUnit], tuple[Rows, PerUnit]]:
    z, mu, sigma = standardise(a)
    return (z, mu, sigma), (z, sigma)


@jax.named_scope("normalise")
def _standardise_gradient(kept: tuple[Rows, PerUnit], d: tuple[Rows, PerUnit, PerUnit]) -> tuple[Rows]:
    # Every row moves μ by 1/n and σ by z/n.
    z, sigma = kept
    dz, dmu, dsigma = d
    through_sigma = dsigma - jnp.sum(dz * z, axis=0) / sigma
    through_mu = dmu - jnp.sum(dz, axis=0) / sigma
    return (dz / sigma + (through_sigma / len(z)) * z + through_mu / len(z),)


standardise.defvjp(_standardise, _standardise_gradient)


def standardise_groups(stacked: Rows, sizes: Sequence[int]) -> tuple[Rows, PerGroup, PerGroup]:
    """Standardise each group of rows on its own. Groups of one size go together."""
    if len(set(sizes)) == 1:
        z, mu, sigma = jax.vmap(standardise)(stacked.reshape(len(sizes), sizes[0], -1))
        return z.reshape(stacked.shape), mu, sigma
    done = [standardise(group) for group in split_groups(stacked, sizes)]
    return (
        jnp.concatenate([z for z, _, _ in done]),
        jnp.stack([mu for _, mu, _ in done]),
        jnp.stack([s for *_, s in done]),
    )


def split_groups(stacked: Rows, sizes: Sequence[int]) -> list[Rows]:
    """The groups of rows that were stacked."""
    return jnp.split(stacked, [sum(sizes[:i]) for i in range(1, len(sizes))])


@jax.custom_vjp
@jax.named_scope("activation")
def scaled_relu(z: Rows, gamma: PerUnit, beta: PerUnit) -> Rows:
    """ReLU(γ(z + β))."""
    return jax.nn.relu(gamma * (z + beta))


def _scaled_relu(z: Rows, gamma: PerUnit, beta: PerUnit) -> tuple[Rows, tuple[Rows, Rows, PerUnit, PerUnit]]:
    h = scaled_relu(z, gamma, beta)
    return h, (z, h, gamma, beta)


@jax.named_scope("activation")
def _scaled_relu_gradient(kept: tuple[Rows, Rows, PerUnit, PerUnit], dh: Rows) -> tuple[Rows, PerUnit, PerUnit]:
    z, h, gamma, beta = kept
    passed = jnp.where(h > 0, dh, 0)
    total = jnp.sum(passed, axis=0)
    return gamma * passed, jnp.sum(passed * z, axis=0) + beta * total, gamma * total


scaled_relu.defvjp(_scaled_relu, _scaled_relu_gradient)


class Normalised(NamedTuple):
    """What a layer makes of its rows, by group."""

    z: list[Rows]  # with noise
    mu: list[PerUnit]
    sigma: list[PerUnit]
    h: Rows | None  # of all groups, one below the other


def normalise(
    a: Rows,
    sizes: Sequence[int],
    noise: Sequence[Rows | None],
    noise_std: Float[Array, ""],
    scale: tuple[PerUnit, PerUnit] | None,
) -> Normalised:
    """z = (a − μ) / σ + noise, each group of rows on its own; if there is a ``scale``, γ and β, h = ReLU(γ(z + β))."""
    noise, noise_std = jax.lax.stop_gradient((list(noise), noise_std))
    if len(sizes) <= MOST_GROUPS and native.uses("normalise", *jax.tree.leaves((a, scale, noise))):
        return Normalised(*_normalise(a, tuple(sizes), noise, noise_std, scale))
    z, mu, sigma = standardise_groups(a, sizes)
    if any(drawn is not None for drawn in noise):
        blank = [jnp.zeros((n, a.shape[1])) if drawn is None else drawn for n, drawn in zip(sizes, noise, strict=True)]
        z = z + noise_std * jnp.concatenate(blank)
    return Normalised(split_groups(z, sizes), list(mu), list(sigma), scaled_relu(z, *scale) if scale else None)


_Outputs = tuple[list[Rows], list[PerUnit], list[PerUnit], Rows | None]


@partial(jax.custom_vjp, nondiff_argnums=(1,))
def _normalise(a: Rows, sizes: tuple[int, ...], noise: Any, noise_std: Any, scale: Any) -> _Outputs:
    with jax.named_scope("normalise"):
        h, z, mu, sigma = _native_normalise(a, sizes, noise, noise_std, EPSILON, scale)
    return z, mu, sigma, h


def _normalise_forward(a: Any, sizes: tuple[int, ...], *others: Any) -> tuple[_Outputs, tuple[Any, ...]]:
    a, noise, noise_std, scale = jax.tree.map(
        lambda argument: argument.value, (a, *others), is_leaf=lambda node: isinstance(node, CustomVJPPrimal)
    )
    outputs = _normalise(a, sizes, noise, noise_std, scale)
    z, _, sigma, _ = outputs
    return outputs, (z, sigma, noise, noise_std, scale)


def _normalise_backward(_: tuple[int, ...], kept: tuple[Any, ...], d: _Outputs) -> tuple[Any, ...]:
    z, sigma, noise, noise_std, scale = kept
    # What nothing depends on is None, and is not read.
    d_z, d_mu, d_sigma, d_h = jax.tree.map(
        lambda x: None if isinstance(x, SymbolicZero) else x, d, is_leaf=lambda node: isinstance(node, SymbolicZero)
    )
    with jax.named_scope("normalise"):
        groups = list(zip(z, sigma, noise, d_z, d_mu, d_sigma, strict=True))
        d_a, d_scale = _native_normalise_gradient(scale, noise_std, d_h, groups)
    return d_a, None, None, d_scale


_normalise.defvjp(_normalise_forward, _normalise_backward, symbolic_zeros=True)


def _native_normalise(
    a: Rows,
    sizes: Sequence[int],
    noise: Sequence[Rows | None],
    noise_std: Float[Array, ""],
    epsilon: float,
    scale: tuple[PerUnit, PerUnit] | None,
) -> tuple[Rows | None, list[Rows], list[PerUnit], list[PerUnit]]:
    """Return h, and of each group of rows z, μ and σ."""
    n = a.shape[1]
    expected = [(size, n) for size in sizes]
    if sum(sizes) != len(a) or any(e is not None and e.shape != s for e, s in zip(noise, expected, strict=True)):
        drawn = [None if e is None else e.shape for e in noise]
        raise ValueError(f"Rows of shape {a.shape} in groups of {list(sizes)} cannot have noise of shapes {drawn}.")
    shapes: list[tuple[int, ...]] = [(len(a), n) if scale else (0, n)]
    for size in sizes:
        shapes += [(size, n), (n,), (n,)]
    gamma, beta = scale or (None, None)
    arrays = [a, *_given((gamma, beta), (0,)), noise_std, jnp.float32(epsilon), *_given(noise, (0, n))]
    h, *groups = native.kernel("normalise", shapes, *arrays)
    return (h if scale else None), groups[::3], groups[1::3], groups[2::3]


def _native_normalise_gradient(
    scale: tuple[PerUnit, PerUnit] | None,
    noise_std: Float[Array, ""],
    d_h: Rows | None,
    groups: Sequence[tuple[Rows, PerUnit, Rows | None, Rows | None, PerUnit | None, PerUnit | None]],
) -> tuple[Rows, tuple[PerUnit, PerUnit] | None]:
    """Return the derivatives of the cost with respect to a, γ and β, given those with respect to the results.

    A group has z, σ, its noise, and the derivatives with respect to z, μ and σ.
    """
    n = groups[0][0].shape[1]
    gamma, beta = (None, None) if d_h is None or scale is None else scale
    arrays = [*_given((gamma, beta), (0,)), noise_std, *_given([d_h], (0, n))]
    for z, sigma, noise, d_z, d_mu, d_sigma in groups:
        arrays += [z, sigma, *_given((noise, d_z), (0, n)), *_given((d_mu, d_sigma), (0,))]
    scale_shape = (0,) if d_h is None else (n,)
    d_a, d_gamma, d_beta = native.kernel(
        "normalise_gradient", [(sum(len(z) for z, *_ in groups), n), scale_shape, scale_shape], *arrays
    )
    return d_a, (None if d_h is None else (d_gamma, d_beta))


def _given(arrays: Iterable[Array | None], none: tuple[int, ...]) -> list[Array]:
    """The same with arrays that have no elements for those that are None."""
    return [jnp.zeros(none, jnp.float32) if array is None else array for array in arrays]

"""What is done to a layer's rows between two matrix products, with derivatives written by hand.

Between the products a step is bound by memory: what counts is how often an array is read and written. The derivatives
that JAX would find compute the same in more passes; see docs/performance.md.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.custom_derivatives import CustomVJPPrimal, SymbolicZero
from jaxtyping import Array, Float

from laddernet import native
from laddernet.native import MOST_GROUPS, Compared
from laddernet.network import EPSILON

Rows = Float[Array, "rows units"]
PerUnit = Float[Array, " units"]
PerGroup = Float[Array, "groups units"]


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
    if native.suits(a, *(scale or ()), *(drawn for drawn in noise if drawn is not None)) and len(sizes) <= MOST_GROUPS:
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
        h, z, mu, sigma = native.normalise(a, sizes, noise, noise_std, EPSILON, scale)
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
        d_a, d_scale = native.normalise_gradient(scale, noise_std, d_h, groups)
    return d_a, None, None, d_scale


_normalise.defvjp(_normalise_forward, _normalise_backward, symbolic_zeros=True)


def mean_squares(layers: list[Compared]) -> Float[Array, " layers"]:
    """Of each layer, of which there are ẑ, z, and μ with σ, the mean square of (ẑ − μ) / σ − z.

    ẑ may be that of several copies of the rows, one below the other. Without μ and σ, as at the input, they are 0 and
    1, and nothing is learned from z.
    """
    if native.suits(*jax.tree.leaves(layers)):
        return _mean_squares(layers)
    means = []
    for z_hat, z, scale in layers:
        wanted = jnp.tile(z, (len(z_hat) // len(z), 1))
        off = z_hat - jax.lax.stop_gradient(wanted) if scale is None else (z_hat - scale[0]) / scale[1] - wanted
        means.append(jnp.mean(jnp.square(off)))
    return jnp.stack(means)


@jax.custom_vjp
@jax.named_scope("reconstruction")
def _mean_squares(layers: list[Compared]) -> Float[Array, " layers"]:
    return native.mean_squares(layers)


def _mean_squares_forward(layers: list[Compared]) -> tuple[Float[Array, " layers"], list[Compared]]:
    return _mean_squares(layers), layers


@jax.named_scope("reconstruction")
def _mean_squares_gradient(layers: list[Compared], d: Float[Array, " layers"]) -> tuple[list[Any]]:
    return (native.mean_squares_gradient(layers, d),)


_mean_squares.defvjp(_mean_squares_forward, _mean_squares_gradient)


Weights = tuple[Float[Array, "inputs outputs units"], ...]  # of each layer of the MLPs
Biases = tuple[Float[Array, "outputs units"], ...]


def small_mlps(weights: Weights, biases: Biases, inputs: list[Rows]) -> Rows:
    """A small MLP for every unit, LReLU between its layers.

    It is so small that its sums, written out, become one fused loop over rows and units. The MLP of a single unit, of
    scalars in nested tuples, JAX differentiates by itself.
    """
    return (_mlps if inputs[0].ndim > 0 else _output)(weights, biases, inputs)


def _output(weights: Weights, biases: Biases, inputs: list[Rows]) -> Rows:
    return _values(weights, biases, inputs)[-1][0]


def _values(weights: Weights, biases: Biases, inputs: list[Rows]) -> list[list[Rows]]:
    """The inputs, what each hidden layer hands on, and the output."""
    values = [inputs]
    for weight, bias in zip(weights, biases, strict=True):
        if len(values) > 1:
            values[-1] = [jnp.where(a >= 0, a, 0.1 * a) for a in values[-1]]
        below = values[-1]
        into = zip(*map(list, weight), bias, strict=True)  # of each output: its weights and its bias
        values.append([sum((w * v for w, v in zip(ws, below, strict=True)), start=b) for *ws, b in into])
    return values


_mlps = jax.custom_vjp(_output)


@jax.jit
def _small_mlps(weights: Weights, biases: Biases, inputs: list[Rows]) -> tuple[Rows, tuple[Weights, list[list[Rows]]]]:
    *values, (output,) = _values(weights, biases, inputs)
    return output, (weights, values)


@jax.jit
@jax.named_scope("combinator")
def _small_mlps_gradient(kept: tuple[Weights, list[list[Rows]]], d: Rows) -> tuple[Weights, Biases, list[Rows]]:
    weights, values = kept
    d_weights: Weights = ()
    d_biases: Biases = ()
    d_above = [d]
    for depth, (weight, below) in reversed(list(enumerate(zip(weights, values, strict=True)))):
        d_weights = (jnp.stack([jnp.stack([jnp.sum(v * da, axis=0) for da in d_above]) for v in below]), *d_weights)
        d_biases = (jnp.stack([jnp.sum(da, axis=0) for da in d_above]), *d_biases)
        d_below = [sum((w * da for w, da in zip(row, d_above, strict=True))) for row in weight]
        if depth > 0:  # what LReLU hands on has the sign of what it got
            d_below = [jnp.where(v >= 0, dv, 0.1 * dv) for v, dv in zip(below, d_below, strict=True)]
        d_above = d_below
    return d_weights, d_biases, d_above


_mlps.defvjp(_small_mlps, _small_mlps_gradient)

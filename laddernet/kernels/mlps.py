"""A small MLP for every unit, with its derivative written by hand."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

Rows = Float[Array, "rows units"]
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
        if depth > 0:  # LReLU keeps the sign of its input
            d_below = [jnp.where(v >= 0, dv, 0.1 * dv) for v, dv in zip(below, d_below, strict=True)]
        d_above = d_below
    return d_weights, d_biases, d_above


_mlps.defvjp(_small_mlps, _small_mlps_gradient)

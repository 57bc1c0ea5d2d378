"""Adam, and weight matrices that learn while the cost is being differentiated.

The gradient of a large matrix is but read once, by Adam, right after it was computed. So it is never written to memory:
:class:`Learning` takes the place of such a matrix, and its derivative is the matrix after the step.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float

from laddernet import native

Matrix = Float[Array, "below above"]
Rows = Float[Array, "rows units"]

BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8
adam = optax.scale_by_adam(BETA1, BETA2, EPSILON)


class Step(eqx.Module):
    """What the steps of all matrices have in common."""

    number: Float[Array, ""]  # of this step, from 1
    rate: Float[Array, ""]
    decay: Float[Array, ""]  # share of a matrix that a step takes away, as a multiple of its rate


class Learning(eqx.Module):
    """A weight matrix, Adam's moments of its gradient, and the step that it is about to make.

    ``h @ learning`` is the product with the matrix. Differentiate a cost that uses it once: what comes in the place of
    its gradient is itself after the step. (A matrix that the cost does not depend on would come back as zeros.)

    >>> step = Step(number=jnp.float32(1), rate=jnp.float32(0.1), decay=jnp.float32(0))
    >>> before = Learning(jnp.ones((2, 3)), jnp.zeros((2, 3)), jnp.zeros((2, 3)), step)
    >>> after = jax.grad(lambda learning: jnp.sum(jnp.ones((1, 2)) @ learning))(before)
    >>> [[round(float(w), 3) for w in row] for row in after.w]
    [[0.9, 0.9, 0.9], [0.9, 0.9, 0.9]]
    """

    w: Matrix
    m: Matrix
    v: Matrix
    step: Step

    def __rmatmul__(self, h: Rows) -> Rows:
        return _product(h, self)


@jax.custom_vjp
def _product(h: Rows, learning: Learning) -> Rows:
    return native.product(h, learning.w) if native.suits(h, learning.w) else h @ learning.w


def _forward(h: Any, learning: Any) -> tuple[Rows, tuple[Rows, Learning, tuple[()] | None]]:
    values = jax.tree.map(lambda argument: argument.value, learning, is_leaf=lambda node: hasattr(node, "perturbed"))
    # Whether anybody wants the derivative of h is a matter of structure, for it must be known to the compiler.
    return _product(h.value, values), (h.value, values, () if h.perturbed else None)


def _backward(kept: tuple[Rows, Learning, tuple[()] | None], errors: Rows) -> tuple[Rows | None, Learning]:
    h, before, wanted = kept
    w, m, v, step = before.w, before.m, before.v, before.step
    if native.suits(h, w):
        d_h = None if wanted is None else native.product_transposed(errors, w)
        w, m, v = native.update(w, m, v, h, errors, _settings(step), after=d_h)
    else:
        d_h = None if wanted is None else errors @ w.T
        gradient = h.T @ errors
        with jax.named_scope("optimiser"):
            moments = optax.ScaleByAdamState(step.number.astype(jnp.int32) - 1, m, v)
            direction, moments = adam.update(gradient, moments)
            after = moved(w, direction, step.rate, step.decay), moments.mu, moments.nu
        # Of the same kind as before, even if rows of float64 came by.
        w, m, v = (new.astype(old.dtype) for new, old in zip(after, (w, m, v), strict=True))
        d_h = None if d_h is None else d_h.astype(h.dtype)
    return d_h, Learning(w, m, v, jax.tree.map(jnp.zeros_like, step))


_product.defvjp(_forward, _backward, symbolic_zeros=True)


def moved(w: Array, direction: Array, rate: Array, decay: Array) -> Array:
    """Weights after a step in the direction that Adam says."""
    return w - rate * (direction + decay * w)


def _settings(step: Step) -> Float[Array, "7"]:
    return jnp.stack(
        [
            step.rate,
            step.decay,
            jnp.float32(BETA1),
            jnp.float32(BETA2),
            1 / (1 - jnp.float32(BETA1) ** step.number),
            1 / (1 - jnp.float32(BETA2) ** step.number),
            jnp.float32(EPSILON),
        ]
    )

"""Products with weight matrices in float32 or bfloat16, and Adam's step.

In ``bfloat16`` both operands of a product are rounded to it and the sums are float32. Weights, moments and everything
between the products stay float32.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.custom_derivatives import CustomVJPPrimal
from jax.extend import core
from jaxtyping import Array, Float

from laddernet.kernels import native

Matrix = Float[Array, "below above"]
Rows = Float[Array, "rows units"]
Precision = Literal["float32", "bfloat16"]
PRECISIONS: tuple[Precision, ...] = ("float32", "bfloat16")
Tree = TypeVar("Tree")

BETA1, BETA2, EPSILON = 0.9, 0.999, 1e-8
adam = optax.scale_by_adam(BETA1, BETA2, EPSILON)


class Step(eqx.Module):
    """The settings of Adam's step that all matrices share."""

    number: Float[Array, ""]  # of this step, from 1
    rate: Float[Array, ""]
    decay: Float[Array, ""]  # weight decay: the share of a matrix that a step subtracts, as a multiple of its rate


# --- Products and Adam's step, each native kernel beside the plain function that it replaces ----------------------


def plain_product(a: Rows, b: Matrix, precision: Precision) -> Rows:
    """Return a b."""
    if precision == "float32":
        return a @ b
    return jnp.matmul(a.astype(jnp.bfloat16), b.astype(jnp.bfloat16), preferred_element_type=a.dtype)


def _native_product(a: Rows, b: Matrix, precision: Precision) -> Rows:
    if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[0]:
        raise ValueError(f"Arrays of shapes {a.shape} and {b.shape} cannot be multiplied.")
    (c,) = native.kernel("product", [(a.shape[0], b.shape[1])], a, b, pairs=_pairs(precision))
    return c


product = native.replaced_by("product", _native_product)(plain_product)


def _native_product_transposed(a: Rows, b: Matrix, precision: Precision) -> Rows:
    (c,) = native.kernel("product_transposed", [(a.shape[0], b.shape[0])], a, b, pairs=_pairs(precision))
    return c


@native.replaced_by("product", _native_product_transposed)
def product_transposed(a: Rows, b: Matrix, precision: Precision) -> Rows:
    """Return a bᵀ."""
    return plain_product(a, b.T, precision)


def _native_update(
    w: Matrix,
    moments: tuple[Matrix, Matrix],
    inputs: Rows,
    errors: Rows,
    step: Step,
    precision: Precision,
    after: Rows | None = None,
) -> tuple[Matrix, tuple[Matrix, Matrix]]:
    # The kernel writes to the memory of w and its moments. The last operation that still reads w must come before:
    # ``after`` is its result. Without it, XLA would copy w.
    settings = [step.rate, step.decay, BETA1, BETA2, *(1 / (1 - jnp.float32(b) ** step.number) for b in (BETA1, BETA2))]
    arrays = [w, *moments, inputs, errors, jnp.stack([*map(jnp.float32, settings), jnp.float32(EPSILON)])]
    arrays += [] if after is None else [after]
    w, m, v = native.kernel("update", [w.shape] * 3, *arrays, aliases={0: 0, 1: 1, 2: 2}, pairs=_pairs(precision))
    return w, (m, v)


@native.replaced_by("update", _native_update)
def update(
    w: Matrix,
    moments: tuple[Matrix, Matrix],
    inputs: Rows,
    errors: Rows,
    step: Step,
    precision: Precision,
    after: Rows | None = None,  # an array to be computed before w is overwritten
) -> tuple[Matrix, tuple[Matrix, Matrix]]:
    """Move weights whose gradient is inputsᵀ errors by one step of Adam: return them and their moments."""
    return moved(w, moments, plain_product(inputs.T, errors, precision), step)


@jax.named_scope("optimiser")
def moved(w: Array, moments: tuple[Array, Array], gradient: Array, step: Step) -> tuple[Array, tuple[Array, Array]]:
    """Move weights by one step of Adam, with weight decay: return them and their moments."""
    before = optax.ScaleByAdamState(step.number.astype(jnp.int32) - 1, *moments)
    direction, after = adam.update(gradient, before)
    new = (w - step.rate * (direction + step.decay * w), after.mu, after.nu)
    w, m, v = (array.astype(old.dtype) for array, old in zip(new, (w, *moments), strict=True))
    return w, (m, v)


def _pairs(precision: Precision) -> np.int32:
    return np.int32(precision == "bfloat16")


# --- Matrices that a cost multiplies rows by ----------------------------------------------------------------------


class Weights(eqx.Module):
    """A weight matrix whose products have a precision.

    >>> weights = Weights(jnp.full((1, 1), 1.01), "bfloat16")
    >>> print(jnp.ones((1, 1)) @ weights)
    [[1.0078125]]
    """

    w: Matrix
    precision: Precision = eqx.field(static=True)

    __array_ufunc__ = None  # NumPy arrays then leave the product to this class

    def __rmatmul__(self, h: Rows) -> Rows:
        return _multiplied(h, self.w, self.precision)


@partial(jax.custom_vjp, nondiff_argnums=(2,))
def _multiplied(h: Rows, w: Matrix, precision: Precision) -> Rows:
    return plain_product(h, w, precision)


def _multiplied_forward(h: Rows, w: Matrix, precision: Precision) -> tuple[Rows, tuple[Rows, Matrix]]:
    return plain_product(h, w, precision), (h, w)


def _multiplied_backward(precision: Precision, kept: tuple[Rows, Matrix], errors: Rows) -> tuple[Rows, Matrix]:
    h, w = kept
    return plain_product(errors, w.T, precision), plain_product(h.T, errors, precision)


_multiplied.defvjp(_multiplied_forward, _multiplied_backward)


def descend(
    cost: Callable[[Tree, Any], tuple[Array, Any]],
    matrices: Tree,
    moments: tuple[Tree, Tree],
    others: Any,
    step: Step,
    precision: Precision = "float32",
) -> tuple[Tree, tuple[Tree, Tree], Any, Any]:
    """Differentiate a cost, and move the matrices that it multiplies rows by.

    Parameters
    ----------
    cost
        Returns the cost and a second result, given the matrices and ``others``. Its only use of a matrix is
        ``h @ matrix``.
    matrices, moments
        The matrices, and both moments of their gradients.
    others
        The other parameters, with respect to which the cost is differentiated.
    step, precision
        The settings of Adam's step, and the precision of the products.

    Returns
    -------
    tuple
        The matrices and their moments after the step, the gradient with respect to ``others``, and the second result
        of ``cost``.

    Notes
    -----
    The gradient of a large matrix is read once, by Adam, right after it is computed, so it is not written to memory:
    while the cost is differentiated, the kernel that computes a gradient makes Adam's step, and the matrix after the
    step takes the place of the gradient. That is correct only for a matrix that is used once. The uses are counted; for
    a matrix with another number of uses, the gradient is computed.
    """
    leaves, structure = jax.tree.flatten(matrices)
    of_each = [jax.tree.leaves(moment) for moment in moments]
    fused = [True] * len(leaves)
    while True:
        uses = [_Uses() for _ in leaves]
        kinds = [
            _Learning(w, precision, pair, step, counted) if fuse else Weights(w, precision)
            for w, *pair, counted, fuse in zip(leaves, *of_each, uses, fused, strict=True)
        ]

        def counted_cost(given: Sequence[Any], others: Any, uses: Sequence["_Uses"] = uses) -> tuple[Array, Any]:
            for one in uses:
                one.level = _level()
            return cost(jax.tree.unflatten(structure, given), others)

        (learned, gradient), rest = jax.grad(counted_cost, argnums=(0, 1), has_aux=True)(kinds, others)
        right = [not fuse or counted.once for fuse, counted in zip(fused, uses, strict=True)]
        if all(right):
            break
        fused = [fuse and once for fuse, once in zip(fused, right, strict=True)]
    after = [
        (new.w, tuple(new.moments)) if fuse else moved(w, tuple(pair), new.w, step)
        for w, *pair, new, fuse in zip(leaves, *of_each, learned, fused, strict=True)
    ]
    new_moments = tuple(jax.tree.unflatten(structure, [pair[i] for _, pair in after]) for i in range(2))
    return jax.tree.unflatten(structure, [w for w, _ in after]), new_moments, gradient, rest


class _Uses:
    """The number of products with a matrix and of steps of Adam, counted while the cost is traced."""

    def __init__(self) -> None:
        self.products = self.steps = 0
        self.level: Any = None  # the trace of the cost itself; operations traced elsewhere, as in a loop, may run often

    def count(self) -> None:
        self.products += 1 if _level() == self.level else 2

    @property
    def once(self) -> bool:
        return self.products == self.steps == 1


def _level() -> Any:
    return core.get_opaque_trace_state()  # type: ignore[no-untyped-call]


class _Learning(Weights):
    """A matrix whose derivative is the matrix after the step, if it is used once."""

    moments: Sequence[Matrix]
    step: Step
    uses: _Uses = eqx.field(static=True)

    def __rmatmul__(self, h: Rows) -> Rows:
        self.uses.count()
        return _learned(h, self)


@jax.custom_vjp
def _learned(h: Rows, learning: _Learning) -> Rows:
    return product(h, learning.w, learning.precision)


def _learned_forward(h: Any, learning: Any) -> tuple[Rows, tuple[Rows, _Learning, tuple[()] | None]]:
    values = jax.tree.map(lambda leaf: leaf.value, learning, is_leaf=lambda node: isinstance(node, CustomVJPPrimal))
    # Whether ∂h is needed must be static, so it is part of the pytree's structure.
    return _learned(h.value, values), (h.value, values, () if h.perturbed else None)


def _learned_backward(kept: tuple[Rows, _Learning, tuple[()] | None], errors: Rows) -> tuple[Rows | None, _Learning]:
    h, before, needed = kept
    before.uses.steps += 1
    m, v = before.moments
    d_h = None if needed is None else product_transposed(errors, before.w, before.precision).astype(h.dtype)
    w, moments = update(before.w, (m, v), h, errors, before.step, before.precision, after=d_h)
    nothing = jax.tree.map(jnp.zeros_like, before.step)
    return d_h, _Learning(w, before.precision, list(moments), nothing, before.uses)


_learned.defvjp(_learned_forward, _learned_backward, symbolic_zeros=True)

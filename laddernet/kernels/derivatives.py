"""Derivatives written by hand, for formulas of laddernet.network whose derivative by JAX takes more passes over memory.

Between the matrix products a step is bound by memory: the time is in the number of times an array is read and written
(results/performance.md).
"""

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

Rows = Float[Array, "rows units"]
PerUnit = Float[Array, " units"]

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
Formula = Callable[Arguments, Result]


def by_hand(derivative: Callable[..., Any]) -> Callable[[Formula[Arguments, Result]], Formula[Arguments, Result]]:
    """Decorate a formula with its derivative.

    Parameters
    ----------
    derivative
        Returns the derivatives of the cost with respect to the arguments. It receives the arguments as a tuple, the
        result, and the derivatives of the cost with respect to the result.

    Notes
    -----
    Scalars keep the derivative by JAX: laddernet.kernels.formulas translates that of a single unit to C.

    Examples
    --------
    >>> @by_hand(lambda arguments, result, d: (2 * arguments[0] * d,))
    ... def square(x):
    ...     return x * x
    >>> print(jax.grad(lambda x: square(x).sum())(jnp.arange(3.0)))
    [0. 2. 4.]
    """

    def decorate(formula: Formula[Arguments, Result]) -> Formula[Arguments, Result]:
        def forward(*arguments: Any) -> tuple[Result, tuple[Any, Result]]:
            result = formula(*arguments)  # type: ignore[call-arg]
            return result, (arguments, result)

        differentiable = jax.custom_vjp(formula)
        differentiable.defvjp(forward, lambda kept, d: derivative(*kept, d))

        @wraps(formula)
        def choose(*arguments: Arguments.args, **named: Arguments.kwargs) -> Result:
            is_scalar = all(jnp.ndim(leaf) == 0 for leaf in jax.tree.leaves(arguments))
            return (formula if is_scalar else differentiable)(*arguments, **named)

        return choose

    return decorate


@jax.named_scope("normalise")
def of_normalise(_: Any, result: tuple[Rows, PerUnit, PerUnit], d: tuple[Rows, PerUnit, PerUnit]) -> tuple[Rows]:
    """Differentiate z = (a − μ) / σ, μ and σ with respect to a: every row moves μ by 1/n and σ by z/n."""
    z, _, sigma = result
    d_z, d_mu, d_sigma = d
    through_sigma = d_sigma - jnp.sum(d_z * z, axis=0) / sigma
    through_mu = d_mu - jnp.sum(d_z, axis=0) / sigma
    return (d_z / sigma + (through_sigma / len(z)) * z + through_mu / len(z),)


@jax.named_scope("activation")
def of_activate(arguments: tuple[Rows, PerUnit, PerUnit], h: Rows, d_h: Rows) -> tuple[Rows, PerUnit, PerUnit]:
    """Differentiate h = ReLU(γ(z + β)) with respect to z, γ and β."""
    z, gamma, beta = arguments
    passed = jnp.where(h > 0, d_h, 0)
    total = jnp.sum(passed, axis=0)
    return gamma * passed, jnp.sum(passed * z, axis=0) + beta * total, gamma * total


@jax.named_scope("combinator")
def of_linear(
    arguments: tuple[Float[Array, "inputs outputs units"], Any, Sequence[Rows]], _: Any, d: Sequence[Rows]
) -> tuple[Float[Array, "inputs outputs units"], Float[Array, "outputs units"], list[Rows]]:
    """Differentiate b(j) + Σ W(i, j) v(i), for each output j, with respect to W, b and v."""
    W, _, v = arguments
    d_W = jnp.stack([jnp.stack([jnp.sum(v_i * d_j, axis=0) for d_j in d]) for v_i in v])
    d_b = jnp.stack([jnp.sum(d_j, axis=0) for d_j in d])
    d_v: list[Any] = [sum(w * d_j for w, d_j in zip(W_i, d, strict=True)) for W_i in W]
    return d_W, d_b, d_v


@jax.named_scope("combinator")
def of_leaky_relu(_: Any, result: Rows, d: Rows) -> tuple[Rows]:
    """Differentiate LReLU, which keeps the sign of its input."""
    return (jnp.where(result >= 0, d, 0.1 * d),)

"""The native kernel for the rows of a layer between two matrix products: normalisation, noise and ReLU in one pass."""

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.custom_derivatives import CustomVJPPrimal, SymbolicZero
from jaxtyping import Array, ArrayLike, Float

from laddernet.inference.network import EPSILON
from laddernet.kernels import native

Rows = Float[Array, "rows units"]
PerUnit = Float[Array, " units"]
PerGroup = Float[Array, "groups units"]

MOST_GROUPS = 8  # GROUPS in native.c


class Normalised(NamedTuple):
    """The rows of a layer after normalisation, noise and activation, by group."""

    z: list[Rows]  # with noise
    mu: list[PerUnit]
    sigma: list[PerUnit]
    h: Rows | None  # of all groups, stacked; None at the top of the encoder and in the decoder


# --- Groups of rows, stacked in one array -----------------------------------------------------------------------------


def split_groups(stacked: Rows, sizes: Sequence[int]) -> list[Rows]:
    """Return the groups of rows that were stacked."""
    return jnp.split(stacked, [sum(sizes[:i]) for i in range(1, len(sizes))])


def in_groups(
    formula: Callable[[Rows], tuple[Rows, PerUnit, PerUnit]], stacked: Rows, sizes: Sequence[int]
) -> tuple[Rows, PerGroup, PerGroup]:
    """Apply a formula that returns rows and two values for each unit to every group; stack the results.

    Groups of one size take one operation together.
    """
    if len(set(sizes)) == 1:
        z, mu, sigma = jax.vmap(formula)(stacked.reshape(len(sizes), sizes[0], -1))
        return z.reshape(stacked.shape), mu, sigma
    z_of, mu_of, sigma_of = zip(*map(formula, split_groups(stacked, sizes)), strict=True)
    return jnp.concatenate(z_of), jnp.stack(mu_of), jnp.stack(sigma_of)


def stack_noise(noise: Sequence[Rows | None], sizes: Sequence[int], units: int) -> Rows | None:
    """Stack the noise of all groups, with zeros for a group without noise; return None if no group has any."""
    if all(drawn is None for drawn in noise):
        return None
    return jnp.concatenate(
        [jnp.zeros((n, units)) if drawn is None else drawn for n, drawn in zip(sizes, noise, strict=True)]
    )


# --- The kernel -------------------------------------------------------------------------------------------------------


def normalise_and_activate(
    a: Rows,
    sizes: Sequence[int],
    noise: Sequence[Rows | None],
    noise_std: Float[ArrayLike, ""],
    scale: tuple[PerUnit, PerUnit] | None,
) -> Normalised | None:
    """Do as laddernet.network.ladder.normalise_and_activate; return None if there are too many groups."""
    expected = [(size, a.shape[1]) for size in sizes]
    shapes = [None if drawn is None else drawn.shape for drawn in noise]
    if sum(sizes) != len(a) or any(found not in (None, right) for found, right in zip(shapes, expected, strict=True)):
        raise ValueError(f"Rows of shape {a.shape} in groups of {list(sizes)} cannot have noise of shapes {shapes}.")
    if len(sizes) > MOST_GROUPS:
        return None
    return _normalise(a, tuple(sizes), list(noise), noise_std, scale)


@partial(jax.custom_vjp, nondiff_argnums=(1,))
@jax.named_scope("normalise")
def _normalise(a: Rows, sizes: tuple[int, ...], noise: Any, noise_std: Any, scale: Any) -> Normalised:
    n = a.shape[1]
    shapes: list[tuple[int, ...]] = [(len(a) if scale else 0, n)]
    for size in sizes:
        shapes += [(size, n), (n,), (n,)]
    arrays = [a, *_or_empty(scale or (None, None), (0,)), noise_std, EPSILON, *_or_empty(noise, (0, n))]
    h, *groups = native.kernel("normalise", shapes, *arrays)
    return Normalised(groups[::3], groups[1::3], groups[2::3], h if scale else None)


def _normalise_forward(a: Any, sizes: tuple[int, ...], *others: Any) -> tuple[Normalised, tuple[Any, ...]]:
    a, noise, noise_std, scale = jax.tree.map(
        lambda argument: argument.value, (a, *others), is_leaf=lambda node: isinstance(node, CustomVJPPrimal)
    )
    done = _normalise(a, sizes, noise, noise_std, scale)
    return done, (done.z, done.sigma, noise, noise_std, scale)


@jax.named_scope("normalise")
def _normalise_backward(sizes: tuple[int, ...], kept: tuple[Any, ...], d: Normalised) -> tuple[Any, ...]:
    z, sigma, noise, noise_std, scale = kept
    # A derivative that is zero by structure becomes None: the kernel then reads no array for it.
    d_z, d_mu, d_sigma, d_h = jax.tree.map(
        lambda x: None if isinstance(x, SymbolicZero) else x, d, is_leaf=lambda node: isinstance(node, SymbolicZero)
    )
    activated = d_h is not None
    n = z[0].shape[1]
    arrays = [*_or_empty(scale if activated else (None, None), (0,)), noise_std, *_or_empty([d_h], (0, n))]
    for z_g, sigma_g, noise_g, d_z_g, d_mu_g, d_sigma_g in zip(z, sigma, noise, d_z, d_mu, d_sigma, strict=True):
        arrays += [z_g, sigma_g, *_or_empty((noise_g, d_z_g), (0, n)), *_or_empty((d_mu_g, d_sigma_g), (0,))]
    scale_shape = (n if activated else 0,)
    d_a, *d_scale = native.kernel("normalise_gradient", [(sum(sizes), n), scale_shape, scale_shape], *arrays)
    return d_a, None, None, tuple(d_scale) if activated else None


_normalise.defvjp(_normalise_forward, _normalise_backward, symbolic_zeros=True)


def _or_empty(arrays: Iterable[Array | None], empty: tuple[int, ...]) -> list[Array]:
    """Replace None by an array without elements, which the kernel takes for none."""
    return [jnp.zeros(empty, jnp.float32) if array is None else array for array in arrays]

"""Pictures of a trained network: its combinators as surfaces, the denoising of each layer, and samples.

The functions return plain values, which a page holds as JSON.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray
from numpy.typing import NDArray

from laddernet.errors import InputError
from laddernet.network.combinators import Combinator
from laddernet.network.ladder import Ladder, decode, draw_noise, encode
from laddernet.network.samples import Sampler
from laddernet.report.png import data_uri, in_grid, png

Rows = NDArray[np.floating]

# Each program runs once on small arrays: compiling takes longer than computing, so it is not optimised.
_quick = partial(jax.jit, compiler_options={"xla_backend_optimization_level": 0})


# --- Combinators ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Surface:
    """ẑ = g(z̃, u) of one unit, or of the mean over all units of a layer."""

    layer: int
    name: str
    axis: list[float]  # the values of z̃ and of u
    z_hat: list[list[float]]  # a row for each u, a column for each z̃


def combinator_surfaces(ladder: Ladder, *, points: int = 21) -> list[Surface]:
    """Compute the surfaces of each layer's mean, typical and most unusual unit, for z̃ and u from −4 to 4.

    The typical unit's surface is nearest to the median over the units at every point; the most unusual unit's is
    farthest from it. A network without a decoder has no surfaces.

    >>> from laddernet.network.models import find
    >>> ladder = Ladder(find("linear"), (4, 3, 2), key=jax.random.key(0))
    >>> surface = combinator_surfaces(ladder, points=3)[0]
    >>> surface.name, surface.axis, surface.z_hat[0]
    ('mean of 4 units', [-4.0, 0.0, 4.0], [-4.0, 0.0, 4.0])
    """
    if not ladder.decoder:
        return []
    combinators = tuple(layer.combinator for layer in ladder.decoder)
    axis = np.linspace(-4, 4, points)
    u, z_tilde = (grid.reshape(-1, 1).astype(np.float32) for grid in np.meshgrid(axis, axis, indexing="ij"))
    grids = tuple(tuple(np.repeat(values, units, axis=1) for values in (z_tilde, u)) for units in ladder.sizes)
    found: list[Surface] = []
    for l, z_hat in enumerate(_combine(combinators, grids)):
        values = np.nan_to_num(np.asarray(z_hat, np.float64))
        far = np.linalg.norm(values - np.median(values, axis=1, keepdims=True), axis=0)
        units = values.shape[1]
        typical, unusual = int(np.argmin(far)), int(np.argmax(far))
        shown = {
            f"mean of {units} units": values.mean(axis=1),
            f"unit {typical}, the most typical": values[:, typical],
            f"unit {unusual}, the most unusual": values[:, unusual],
        }
        for name, surface in shown.items():
            found.append(Surface(l, name, _rounded(axis), _rounded(surface.reshape(points, points))))
    return found


@_quick
def _combine(combinators: Sequence[Combinator], grids: Sequence[tuple[Array, Array]]) -> list[Array]:
    return [g(z_tilde, u) for g, (z_tilde, u) in zip(combinators, grids, strict=True)]


def _rounded(values: Rows) -> list[Any]:
    """Convert to nested lists, rounded to about a thousandth of the largest value, which is finer than a screen.

    >>> _rounded(np.array([[12.3456, -0.123456], [0, 0.001]]))
    [[12.35, -0.12], [0.0, 0.0]]
    """
    largest = float(np.abs(values).max())
    decimals = 3 - math.floor(math.log10(largest) + 1e-9) if largest > 0 else 0
    rounded: list[Any] = (values.round(decimals) + 0.0).tolist()  # + 0.0: no −0
    return rounded


# --- Denoising --------------------------------------------------------------------------------------------------

_SHOWN, _UNITS = 10, 40  # rows of a picture, and the most units of a row
# Blue, white and orange, which colour-blind readers can distinguish, and the colours between them.
_ENDS = np.array([[0x0B, 0x55, 0x9F], [0xF7, 0xF7, 0xF7], [0xB3, 0x58, 0x06]])
_PALETTE = np.stack([np.interp(np.linspace(0, 2, 63), (0, 1, 2), end) for end in _ENDS.T], axis=1).astype(np.uint8)


@dataclass(frozen=True)
class Denoised:
    """One layer's rows, clean, noisy and reconstructed, as PNG data URIs.

    Rows that are images are side by side; otherwise a line is a row and a pixel is a unit. The errors are mean squared
    differences from the clean rows.
    """

    layer: int
    images: bool  # whether the rows are images, in grey, or values of units from −3 to 3, in colour
    clean: str
    noisy: str
    reconstructed: str
    noisy_error: float
    reconstructed_error: float
    counted: bool  # whether the model's cost has a reconstruction term for this layer


def denoising(
    ladder: Ladder,
    x: Float[np.ndarray, "rows features"],
    noise_std: Sequence[float],
    *,
    key: PRNGKeyArray,
    image_shape: tuple[int, int] | None = None,
) -> list[Denoised]:
    """Compute how well each layer of the decoder removes noise, with pictures of the first ten rows.

    All rows are one batch, which is normalised as a whole: give a hundred or more. ẑ is normalised with the mean and
    deviation of the clean rows, as in the cost.

    >>> from laddernet.network.models import find
    >>> ladder = Ladder(find("vanilla"), (4, 3, 2), key=jax.random.key(0))
    >>> layers = denoising(ladder, np.ones((5, 4), np.float32), [0.3] * 3, key=jax.random.key(1), image_shape=(2, 2))
    >>> [(layer.layer, layer.images, layer.clean[:22]) for layer in layers][:2]
    [(0, True, 'data:image/png;base64,'), (1, False, 'data:image/png;base64,')]
    """
    if not ladder.decoder:
        return []
    layers = _denoise(ladder, jnp.asarray(x), jnp.asarray(noise_std, jnp.float32), key)
    found = []
    for l, values in enumerate(layers):
        clean, noisy, reconstructed = (np.nan_to_num(np.asarray(value, np.float64)) for value in values)
        shape = image_shape if l == 0 else None
        found.append(
            Denoised(
                layer=l,
                images=shape is not None,
                clean=_picture(clean, shape),
                noisy=_picture(noisy, shape),
                reconstructed=_picture(reconstructed, shape),
                noisy_error=_mean_square(noisy - clean),
                reconstructed_error=_mean_square(reconstructed - clean),
                counted=l == 0 or ladder.model.reconstruction == "everywhere",
            )
        )
    return found


@_quick
def _denoise(ladder: Ladder, x: Array, noise_std: Array, key: PRNGKeyArray) -> list[tuple[Array, Array, Array]]:
    """Compute z, z̃ and ẑ of every layer."""
    noise = draw_noise(ladder.model, ladder.sizes, len(x), key=key)
    clean, noisy = encode(ladder.encoder, [(x, None), (x, noise)], noise_std)
    _, z_hat = decode(ladder.decoder, noisy.z, noisy.y)
    return [
        (z, z_tilde, (z_hat_l - mu) / sigma)
        for z, z_tilde, z_hat_l, mu, sigma in zip(clean.z, noisy.z, z_hat, clean.mu, clean.sigma, strict=True)
    ]


def _picture(rows: Rows, image_shape: tuple[int, int] | None) -> str:
    """Draw the first rows: as images, or a line for each with a pixel for at most 40 units, evenly spaced.

    A pixel is from blue (−3 or less) through white to orange (3 or more).
    """
    if image_shape is not None:
        return data_uri(png(in_grid(rows[:_SHOWN], image_shape, _SHOWN)))
    units = rows.shape[1]
    kept = np.unique(np.linspace(0, units - 1, min(_UNITS, units)).round().astype(int))
    return data_uri(png(((rows[:_SHOWN, kept].clip(-3, 3) + 3) / 6 * 62).round().astype(np.uint8), _PALETTE))


def _mean_square(values: Rows) -> float:
    return float(f"{np.mean(values**2):.4g}")


# --- Samples ----------------------------------------------------------------------------------------------------

_OF_A_CLASS, _STEPS, _TRAINING_ROWS = 8, 12, 2000


@dataclass(frozen=True)
class Samples:
    """Images that a network generates, as PNG data URIs."""

    classes: str  # a line for each class, by ancestral sampling
    chains: str  # a line for the chain of each class, which starts with the line's first sample


def samples(
    ladder: Ladder,
    x: Float[np.ndarray, "rows features"],
    noise_std: Sequence[float],
    recon_weights: Sequence[float],
    image_shape: tuple[int, int],
) -> Samples | None:
    """Draw images of each class, and chains that keep to their class; None if the network cannot generate samples.

    At most 2000 of the training rows ``x`` make the statistics.
    """
    try:
        sampler = Sampler.of(ladder, x[:_TRAINING_ROWS], noise_std, recon_weights)
    except InputError:
        return None
    classes = range(ladder.sizes[-1])
    drawn = sampler.ancestral(np.repeat(classes, _OF_A_CLASS))
    chains = sampler.walkback(drawn[::_OF_A_CLASS], _STEPS - 1, classes=list(classes)).swapaxes(0, 1)
    lines = ((drawn, _OF_A_CLASS), (chains.reshape(len(classes) * _STEPS, -1), _STEPS))
    return Samples(*(data_uri(png(in_grid(np.nan_to_num(rows), image_shape, columns))) for rows, columns in lines))

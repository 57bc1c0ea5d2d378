"""Samples from a trained network: the distribution of a unit follows from the noise that its combinator removes.

If ẑ = g(z̃, u) is the posterior mean of z given z̃ = z + n with n ~ N(0, σ²), then the score of p(z̃ | u), the derivative
of its logarithm, is (ẑ − z̃) / σ² (Miyasawa 1961; Tweedie's formula). Here ẑ is in the units of z, that is after the
normalisation by the clean path's μ(l) and σ(l). Given u, a unit depends on its own z̃ alone: log p(z̃ | u) is an integral
in one dimension, computed on a grid in float64.

- *Ancestral*: ỹ is the wanted class; from the top layer down, draw z̃ from p(z̃ | u) and pass ẑ = g(z̃, u) to the layer
  below.
- *Walkback* (Bengio et al. 2013): a chain x → corrupt every layer → decode → x̂ → again.

A sample is no part of a minibatch. All normalisations use statistics of the training set's pass.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray

from laddernet import checks
from laddernet.errors import InputError
from laddernet.kernels.normalisation import Rows
from laddernet.network.combinators import Combinator
from laddernet.network.ladder import Ladder, PerLayer, activate, decode, draw_noise, encode, normalise

POINTS = 129  # of a grid: p(z̃ | u) is a density blurred by σ, which is several times the distance of two points
_BATCH = 2000  # rows of the training set that are normalised together
_MOST = 10**8  # numbers in all rows of a result, 400 MB

Grid = Float[np.ndarray, "points units"]
Values = Float[np.ndarray, " units"]
OfUnits = Float[Array | np.ndarray, " units"]
Classes = Sequence[int] | Int[np.ndarray, " rows"]


# --- One unit -----------------------------------------------------------------------------------------------


def score(z_hat: Grid, z_tilde: Grid, noise_std: float) -> Grid:
    """Return d log p(z̃ | u) / dz̃ = (ẑ − z̃) / σ², where ẑ is the posterior mean of z."""
    d_log_p: Grid = (z_hat - z_tilde) / noise_std**2
    return d_log_p


def log_density(score: Grid, grid: Grid) -> Grid:
    """Integrate a score over a grid to the logarithm of a density whose integral over the grid is one."""
    log_p = _integral(score, grid)
    log_p -= log_p.max(axis=0)
    log_p -= np.log(_integral(np.exp(log_p), grid)[-1])
    return log_p


def quantiles(log_p: Grid, grid: Grid, q: Values) -> Values:
    """Return the quantiles q of densities that are linear between two points of the grid; for a uniform q, a draw.

    In a cell that begins at z₀ and is h wide, the area up to z₀ + t h is h (p₀ t + (p₁ − p₀) t² / 2).
    """
    p = np.exp(log_p)
    area = _integral(p, grid)
    wanted = q * area[-1]
    unit = np.arange(len(q))
    cell = np.clip(np.sum(area <= wanted, axis=0) - 1, 0, len(grid) - 2)
    z_0, p_0, p_1 = grid[cell, unit], p[cell, unit], p[cell + 1, unit]
    h = grid[cell + 1, unit] - z_0
    rest = (wanted - area[cell, unit]) / h
    root = np.sqrt(np.maximum(p_0**2 + 2 * (p_1 - p_0) * rest, 0))
    t = np.divide(2 * rest, p_0 + root, out=np.zeros_like(rest), where=rest > 0)
    drawn: Values = z_0 + h * np.minimum(t, 1)
    return drawn


def _integral(values: Grid, grid: Grid) -> Grid:
    """Integrate from the first point to each, by the trapezoidal rule."""
    whole = np.zeros_like(grid)
    np.cumsum((values[1:] + values[:-1]) / 2 * np.diff(grid, axis=0), axis=0, out=whole[1:])
    return whole


# --- The training set's pass ----------------------------------------------------------------------------------


class Statistics(eqx.Module):
    """Statistics of the units of a layer over the training set."""

    mu: OfUnits  # of the clean path, by which z was normalised; 0 and 1 at the input
    sigma: OfUnits
    noisy_mu: OfUnits  # of the noisy path
    noisy_sigma: OfUnits
    u_mu: OfUnits  # of the top-down input
    u_sigma: OfUnits
    low: OfUnits  # the smallest and the largest z̃
    high: OfUnits


@jax.jit
def _of_batch(ladder: Ladder, x: Rows, noise_std: PerLayer, key: PRNGKeyArray) -> list[Statistics]:
    """Compute the statistics of a batch by layer."""
    noise = draw_noise(ladder.model, ladder.sizes, len(x), key=key)
    clean, noisy = encode(ladder.encoder, [(x, None), (x, noise)], noise_std)
    _, z_hat = decode(ladder.decoder, noisy.z, noisy.y)
    found = []
    for l, layer in enumerate(ladder.decoder):
        _, u_mu, u_sigma = normalise(noisy.y if layer.V is None else z_hat[l + 1] @ layer.V)
        normal = (clean.mu[l], clean.sigma[l], noisy.mu[l], noisy.sigma[l], u_mu, u_sigma)
        values = (*normal, noisy.z[l].min(axis=0), noisy.z[l].max(axis=0))
        found.append(Statistics(*(jnp.broadcast_to(value, u_mu.shape) for value in values)))
    return found


def _pooled(batches: Sequence[Statistics]) -> Statistics:
    """Combine the statistics of batches of equal size."""
    of: Any = jax.tree.map(lambda *values: np.stack(values).astype(np.float64), *batches)

    def both(mu: np.ndarray, sigma: np.ndarray) -> tuple[Values, Values]:
        """The variance of all rows is that within the batches and that between them."""
        mean = mu.mean(axis=0)
        return mean, np.sqrt(np.mean(sigma**2 + (mu - mean) ** 2, axis=0))

    return Statistics(
        *both(of.mu, of.sigma),
        *both(of.noisy_mu, of.noisy_sigma),
        *both(of.u_mu, of.u_sigma),
        low=of.low.min(axis=0),
        high=of.high.max(axis=0),
    )


# --- Samples --------------------------------------------------------------------------------------------------


def check_generative(ladder: Ladder, noise_std: Sequence[float], recon_weights: Sequence[float]) -> None:
    """Refuse a network that has not learned to remove noise from the input."""
    advice = "choose a run of a model that reconstructs, such as vanilla"
    if not ladder.decoder:
        raise InputError(f"The model {ladder.model} has no decoder, so it cannot generate samples; {advice}.")
    if not (noise_std[0] > 0 and recon_weights[0] > 0):
        lacks = "noise" if not noise_std[0] > 0 else "reconstruction cost"
        trained = f"The network was trained without {lacks} at the input"
        raise InputError(f"{trained}, so it cannot generate samples; {advice}.")


@dataclass(frozen=True)
class Sampler:
    """Draws samples from a trained network; made by `load_sampler`, or by `Sampler.of` for a network in memory.

    Parameters
    ----------
    ladder
        The network.
    noise_std, recon_weights
        Noise and λ of layers 0 to L in its training.
    layers
        Statistics of layers 0 to L over the training set.
    low, high
        The smallest and the largest value of each column of the training set, to which samples are limited. Without
        limits chains may grow: a combinator with a product z̃⊙u is not bounded.
    """

    ladder: Ladder
    noise_std: tuple[float, ...]
    recon_weights: tuple[float, ...]
    layers: tuple[Statistics, ...]
    low: Values
    high: Values

    @classmethod
    def of(
        cls,
        ladder: Ladder,
        x: Float[np.ndarray, "rows features"],
        noise_std: Sequence[float],
        recon_weights: Sequence[float],
        *,
        seed: int = 0,
    ) -> "Sampler":
        """Make a sampler, with the statistics of one noisy pass over the training rows.

        Parameters
        ----------
        ladder
            The network.
        x
            The rows that it was trained on.
        noise_std, recon_weights
            Noise and λ of layers 0 to L in its training.
        seed
            The seed of the pass's noise.

        Returns
        -------
        Sampler
            The sampler.

        Raises
        ------
        InputError
            If the network has no decoder, or was trained without noise or reconstruction at the input.
        """
        check_generative(ladder, noise_std, recon_weights)
        batches = -(-len(x) // _BATCH)
        rows = len(x) // batches  # a remainder is left out, so that all batches share one program
        keys = jax.random.split(jax.random.key(seed), batches)
        std = jnp.asarray(noise_std, ladder.encoder[0].W.dtype)
        found = [_of_batch(ladder, x[b * rows : (b + 1) * rows], std, key) for b, key in enumerate(keys)]
        layers = tuple(map(_pooled, zip(*found, strict=True)))
        return cls(ladder, tuple(noise_std), tuple(recon_weights), layers, np.min(x, axis=0), np.max(x, axis=0))

    def denoises(self, l: int) -> bool:
        """Return whether the combinator of a layer was trained to remove noise.

        Parameters
        ----------
        l
            The layer, from 0 to L.

        Returns
        -------
        bool
            Whether the layer had noise and a reconstruction cost.
        """
        noisy = {"nowhere": False, "input": l == 0, "everywhere": True}[self.ladder.model.noise]
        reconstructs = l == 0 or self.ladder.model.reconstruction == "everywhere"
        return noisy and reconstructs and self.noise_std[l] > 0 and self.recon_weights[l] > 0

    def ancestral(self, classes: Classes, *, seed: int = 0) -> Float[np.ndarray, "rows features"]:
        """Draw a row of each of these classes, from the top layer down.

        A combinator that was not trained to remove noise does not give the distribution of z̃. Then z̃ is drawn from
        N(0, 1 + σ²), which has the mean and the variance of z̃ over all rows, since z is normalised.

        Parameters
        ----------
        classes
            Numbers of the classes, from 0. The first rows of a longer list are the same.
        seed
            The seed of the draws.

        Returns
        -------
        ndarray of shape (rows, features)
            x̂, in the range of the training rows.
        """
        numbers = self._checked(classes)
        self.check_size(len(numbers))
        z_hat: np.ndarray = np.eye(self.ladder.sizes[-1])[numbers]
        with jax.enable_x64(True):
            decoder = jax.tree.map(lambda a: np.asarray(a, np.float64), self.ladder.decoder)
            for l in reversed(range(len(decoder))):
                V, g, at = decoder[l].V, decoder[l].combinator, self.layers[l]
                u = ((z_hat if V is None else z_hat @ V) - at.u_mu) / at.u_sigma
                z_hat = np.asarray(_combine(g, self._lateral(l, g, u, np.random.default_rng((seed, l))), u))
        return z_hat.clip(self.low, self.high)

    def walkback(
        self,
        x: Float[np.ndarray, "rows features"],
        steps: int,
        *,
        seed: int = 0,
        classes: Classes | None = None,
    ) -> Float[np.ndarray, "steps+1 rows features"]:
        """Walk from rows to others: corrupt every layer, decode, and again.

        Parameters
        ----------
        x
            The first rows.
        steps
            The number of steps.
        seed
            The seed of the noise.
        classes
            A class for each row, to which ỹ is set in every step. None: ỹ is the prediction of the noisy path.

        Returns
        -------
        ndarray of shape (steps + 1, rows, features)
            The rows before the first and after each step.
        """
        checks.integer("steps", steps)
        if x.ndim != 2 or x.shape[1] != self.ladder.sizes[0]:
            raise InputError(f"The first rows have the shape {x.shape}; give rows of {self.ladder.sizes[0]} columns.")
        self.check_size(len(x) * (steps + 1))
        dtype = self.ladder.encoder[0].W.dtype
        held = None if classes is None else jnp.eye(self.ladder.sizes[-1], dtype=dtype)[self._checked(classes)]
        layers = jax.tree.map(lambda a: jnp.asarray(a, dtype), self.layers)
        noise_std = jnp.asarray(self.noise_std, dtype)
        chain = [jnp.asarray(x, dtype)]
        for key in jax.random.split(jax.random.key(seed), steps):
            x_hat = _corrupt_and_decode(self.ladder, layers, noise_std, chain[-1], key, held)
            chain.append(jnp.clip(x_hat, self.low, self.high))
        return np.stack(chain)

    def check_size(self, rows: int) -> None:
        """Refuse more rows than the limit of a result, 400 MB, holds.

        Parameters
        ----------
        rows
            The number of rows of samples.

        Raises
        ------
        InputError
            If the rows are too many.
        """
        most = _MOST // self.ladder.sizes[0]
        if rows > most:
            raise InputError(f"{rows:,} rows of {self.ladder.sizes[0]:,} columns are too many; give at most {most:,}.")

    def log_p(self, l: int, combinator: Combinator, grid: Grid, u: Values) -> Grid:
        """Compute log p(z̃ | u) of each unit of a layer, on a grid of z̃.

        Parameters
        ----------
        l
            The layer, from 0 to L, one that :meth:`denoises`.
        combinator
            The layer's combinator, in float64.
        grid
            Increasing values of z̃ for each unit.
        u
            The normalised top-down input of each unit.

        Returns
        -------
        ndarray of shape (points, units)
            The logarithm of the density, whose integral over the grid is one.
        """
        at = self.layers[l]
        z_hat = np.asarray(_combine(combinator, grid, np.broadcast_to(u, grid.shape)))
        return log_density(score((z_hat - at.mu) / at.sigma, grid, self.noise_std[l]), grid)

    def _lateral(self, l: int, combinator: Combinator, u: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Draw z̃ of layer l given u."""
        if not self.denoises(l):
            return rng.normal(scale=np.hypot(1, self.noise_std[l]), size=u.shape)
        low, high = np.asarray(self.layers[l].low), np.asarray(self.layers[l].high)
        grid = low + (high - low) * np.linspace(0, 1, POINTS)[:, None]
        rows = zip(u, rng.random(u.shape), strict=True)
        return np.stack([quantiles(self.log_p(l, combinator, grid, u_row), grid, q) for u_row, q in rows])

    def _checked(self, classes: Classes) -> Int[np.ndarray, " rows"]:
        numbers, n = np.asarray(classes), self.ladder.sizes[-1]
        if numbers.ndim != 1 or not np.issubdtype(numbers.dtype, np.integer) or not np.isin(numbers, range(n)).all():
            raise InputError(f"classes must be integers from 0 to {n - 1}, got {checks.shown(classes)}.")
        return numbers


@jax.jit
def _combine(combinator: Combinator, z_tilde: Rows, u: Rows) -> Rows:
    return combinator(z_tilde, u)


@jax.jit
def _corrupt_and_decode(
    ladder: Ladder,
    layers: Sequence[Statistics],
    noise_std: PerLayer,
    x: Rows,
    key: PRNGKeyArray,
    held: Rows | None,
) -> Rows:
    """Take a step of a walk: (1) and (3), where statistics of the training set replace those of the minibatch."""
    noise = draw_noise(ladder.model, ladder.sizes, len(x), key=key)

    def noisy(z: Rows, l: int) -> Rows:
        drawn = noise[l]
        return z if drawn is None else z + noise_std[l] * drawn

    h = noisy(x, 0)
    z_tilde = [h]
    for l, (layer, at) in enumerate(zip(ladder.encoder, layers[1:], strict=True), start=1):
        z_tilde.append(noisy((h @ layer.W - at.noisy_mu) / at.noisy_sigma, l))
        h = activate(z_tilde[l], layer.gamma, layer.beta)
    top = ladder.encoder[-1]
    z_hat = jax.nn.softmax(top.gamma * (z_tilde[-1] + top.beta)) if held is None else held
    for l, at in reversed(list(enumerate(layers))):
        V, g = ladder.decoder[l].V, ladder.decoder[l].combinator
        u = ((z_hat if V is None else z_hat @ V) - at.u_mu) / at.u_sigma
        z_hat = g(z_tilde[l], u)
    return z_hat

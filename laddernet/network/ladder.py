"""The Ladder Network: encoder, decoder and cost, in the order of section 2 of the paper and in its symbols.

Rows are examples, so the paper's W·h is ``h @ W`` here. Layers are numbered as in the paper: 0 is the input,
L the top; lists indexed by layer have L + 1 entries.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate, pairwise

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Bool, Float, Int, PRNGKeyArray

from laddernet.kernels.formulas import combine
from laddernet.kernels.noise import normal, normal_pairs
from laddernet.kernels.rows import Rows, normalise
from laddernet.network.combinators import Combinator, PerUnit
from laddernet.network.models import Model

PAPER_HIDDEN = (1000, 500, 250, 250, 250)

Noise = Sequence[Rows | None]  # standard normal draws by layer; None where the model has no noise
PerLayer = Float[Array, " layers"]


class EncoderLayer(eqx.Module):
    """h(l) = φ(γ(normalise(W h(l−1)) + noise + β))."""

    W: Float[Array, "below units"]
    gamma: PerUnit
    beta: PerUnit


class DecoderLayer(eqx.Module):
    """ẑ(l) = g(z̃(l), normalise(V ẑ(l+1)))."""

    V: Float[Array, "above units"] | None  # None at the top, where ỹ itself comes from above
    combinator: Combinator


class Ladder(eqx.Module):
    """All that is learned, with the model that says how it is used."""

    encoder: tuple[EncoderLayer, ...]  # layers 1 to L
    decoder: tuple[DecoderLayer, ...]  # layers 0 to L, or none at all
    model: Model = eqx.field(static=True)

    def __init__(
        self, model: Model, sizes: Sequence[int], *, key: PRNGKeyArray, eta: Float[ArrayLike, ""] = 0.1
    ) -> None:
        """Draw W and V from N(0, 1/fan_in); γ starts at one, β at zero.

        >>> from laddernet.network.models import find
        >>> ladder = Ladder(find("vanilla"), (64, 32, 10), key=jax.random.key(0))
        >>> [layer.W.shape for layer in ladder.encoder]
        [(64, 32), (32, 10)]
        """
        W_key, V_key, g_key = jax.random.split(key, 3)
        L = len(sizes) - 1
        W = _weights(W_key, list(pairwise(sizes)))
        V = _weights(V_key, [(above, below) for below, above in pairwise(sizes)])
        self.model = model
        self.encoder = tuple(EncoderLayer(w, jnp.ones(w.shape[1]), jnp.zeros(w.shape[1])) for w in W)
        self.decoder = ()
        if model.combinator is not None:
            g = [
                model.combinator(n, key=k, eta=eta) for n, k in zip(sizes, jax.random.split(g_key, L + 1), strict=True)
            ]
            self.decoder = tuple(DecoderLayer(v, g_l) for v, g_l in zip([*V, None], g, strict=True))

    @property
    def sizes(self) -> tuple[int, ...]:
        return (self.encoder[0].W.shape[0], *(layer.W.shape[1] for layer in self.encoder))


def _weights(key: PRNGKeyArray, shapes: Sequence[tuple[int, int]]) -> list[Float[Array, "fan_in fan_out"]]:
    ends = list(accumulate(math.prod(shape) for shape in shapes))
    drawn = jnp.split(normal(key, (ends[-1],)), ends[:-1])  # one draw for all: it is compiled but once
    return [flat.reshape(shape) / shape[0] ** 0.5 for flat, shape in zip(drawn, shapes, strict=True)]


def draw_noise(
    model: Model, sizes: Sequence[int], rows: int, *, key: PRNGKeyArray, wanted: Bool[ArrayLike, ""] = True
) -> Noise:
    """Standard normal noise for the layers at which the model has any; zeros if none is ``wanted``."""
    noisy = {"nowhere": (), "input": sizes[:1], "everywhere": sizes}[model.noise]
    half = (-(-rows // 2), sum(noisy))
    # What a conditional returns is computed once; XLA would draw the same numbers again in each loop that uses them.
    # And a run without noise draws none.
    pairs = jax.lax.cond(wanted, lambda: normal_pairs(key, half), lambda: jnp.zeros(half, jnp.complex64))
    columns = jnp.concatenate([pairs.real, pairs.imag])[:rows]
    drawn = [columns[:, end - n : end] for n, end in zip(noisy, accumulate(noisy), strict=True)]
    return [*drawn, *[None] * (len(sizes) - len(noisy))]


def paper_parameters(model: Model) -> int:
    """How many numbers the model learns in the paper's network.

    >>> from laddernet.network.models import find
    >>> paper_parameters(find("baseline"))
    1541020
    """
    shapes = jax.eval_shape(lambda key: Ladder(model, (784, *PAPER_HIDDEN, 10), key=key), jax.random.key(0))
    return sum(leaf.size for leaf in jax.tree.leaves(shapes))


# --- Encoder ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Path:
    """What one group of rows became on its way up; lists by layer, 0 to L."""

    z: list[Rows]  # normalised, with noise on the noisy path; z(0) is the input
    mu: list[PerUnit]  # what z was normalised with: 0 and 1 at the input, which is not
    sigma: list[PerUnit]
    logits: Rows  # of the softmax at the top

    @property
    def y(self) -> Rows:
        return jax.nn.softmax(self.logits)

    def rows(self, which: slice) -> "Path":
        """The same for some of its rows."""
        return replace(self, z=[z[which] for z in self.z], logits=self.logits[which])


def encode(
    encoder: Sequence[EncoderLayer], groups: Sequence[tuple[Rows, Noise | None]], noise_std: PerLayer
) -> list[Path]:
    """Pass groups of rows up, each normalised on its own; a group is its input and its noise (None: clean).

    The groups are stacked for the matrix products: one large product is faster than several small ones.
    """
    sizes = [len(x) for x, _ in groups]

    def noise_at(l: int) -> list[Rows | None]:
        return [None if noise is None else noise[l] for _, noise in groups]

    z = [x if e is None else x + noise_std[0] * e for (x, _), e in zip(groups, noise_at(0), strict=True)]
    paths = [Path([z_0], [jnp.zeros(())], [jnp.ones(())], z_0) for z_0 in z]
    h = jnp.concatenate(z)
    for l, layer in enumerate(encoder, start=1):
        scale = (layer.gamma, layer.beta) if l < len(encoder) else None
        z, mu, sigma, active = normalise(h @ layer.W, sizes, noise_at(l), noise_std[l], scale)
        for path, z_l, mu_l, sigma_l in zip(paths, z, mu, sigma, strict=True):
            path.z.append(z_l)
            path.mu.append(mu_l)
            path.sigma.append(sigma_l)
        if active is not None:
            h = active
    logits = [layer.gamma * (z_l + layer.beta) for z_l in z]
    return [replace(path, logits=top) for path, top in zip(paths, logits, strict=True)]


# --- Decoder ------------------------------------------------------------------------------------------------


def decode(decoder: Sequence[DecoderLayer], z_tilde: Sequence[Rows], y_tilde: Rows) -> tuple[list[Rows], list[Rows]]:
    """Come down from the noisy output: u and ẑ by layer, 0 to L; u[l] is what layer l hears from above."""
    u: list[Rows] = []
    z_hat: list[Rows] = []
    above, no_noise = y_tilde, jnp.zeros(())
    for layer, z_tilde_l in zip(reversed(decoder), reversed(z_tilde), strict=True):
        heard = above if layer.V is None else above @ layer.V
        u += normalise(heard, [len(heard)], [None], no_noise, None).z
        above = combine(layer.combinator, z_tilde_l, u[-1])
        z_hat.append(above)
    return u[::-1], z_hat[::-1]


# --- Cost ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Pass:
    """Everything one training step computes, by the paper's names."""

    cross_entropy: Float[Array, ""]
    reconstruction: Float[Array, " costs"]  # of layer 0, or of layers 0 to L, before λ; empty without a decoder
    total: Float[Array, ""]
    labelled: Path
    noisy: Path | None  # the unlabelled rows, corrupted
    clean: Path | None  # the unlabelled rows as they are
    u: list[Rows]
    z_hat: list[Rows]

    @property
    def costs(self) -> dict[str, Float[Array, ""]]:
        """The terms of the total by name, before λ."""
        by_layer = {f"reconstruction_{l}": cost for l, cost in enumerate(self.reconstruction)}
        return {"cross_entropy": self.cross_entropy, **by_layer}


def forward(
    ladder: Ladder,
    x_labelled: Rows,
    y_labelled: Int[Array, " rows"],
    x_unlabelled: Rows,
    noise: tuple[Noise, Noise],
    noise_std: PerLayer,
    recon_weights: PerLayer,
    copies: int = 1,
) -> Pass:
    """The mean cross entropy of the noisy labelled rows + Σ λ(l) · the mean squared error of ẑ(l).

    ``noise`` is that of the labelled and that of the unlabelled rows; of these there may be several ``copies``, one
    below the other, each with noise of its own, that all have the one clean path to reconstruct. What the model has no
    use for (the clean path where only the input is reconstructed, the unlabelled rows without a decoder) is not
    computed.
    """
    noise_labelled, noise_unlabelled = noise
    groups: list[tuple[Rows, Noise | None]] = [(x_labelled, noise_labelled)]
    if ladder.decoder:
        groups.append((jnp.tile(x_unlabelled, (copies, 1)), noise_unlabelled))
        if ladder.model.joint:
            groups = [_stacked(groups)]
        if ladder.model.reconstruction == "everywhere":
            groups.append((x_unlabelled, None))
    paths = encode(ladder.encoder, groups, noise_std)
    if ladder.decoder and ladder.model.joint:
        paths[:1] = [paths[0].rows(slice(len(x_labelled))), paths[0].rows(slice(len(x_labelled), None))]
    clean: Path | None
    labelled = paths[0]

    log_p = jax.nn.log_softmax(labelled.logits)
    cross_entropy = -jnp.mean(jnp.take_along_axis(log_p, y_labelled[:, None], axis=1))
    if not ladder.decoder:
        return Pass(cross_entropy, jnp.zeros(0), cross_entropy, labelled, None, None, [], [])

    noisy = paths[1]
    u, z_hat = decode(ladder.decoder, noisy.z, noisy.y)
    if ladder.model.reconstruction == "everywhere":
        clean = paths[2]
        layers = zip(z_hat[1:], clean.z[1:], clean.mu[1:], clean.sigma[1:], strict=True)
        above = [_mean_square((z_hat_l - mu) / sigma, z) for z_hat_l, z, mu, sigma in layers]
    else:
        clean, above = None, []
    reconstruction = jnp.stack([_mean_square(z_hat[0], x_unlabelled), *above])
    total = cross_entropy + jnp.dot(recon_weights[: len(reconstruction)], reconstruction)
    return Pass(cross_entropy, reconstruction, total, labelled, noisy, clean, u, z_hat)


@jax.named_scope("reconstruction")
def _mean_square(reconstructed: Rows, z: Rows) -> Float[Array, ""]:
    """The mean squared error of one or more copies of z, one below the other."""
    return jnp.mean(jnp.square(reconstructed - jnp.tile(z, (len(reconstructed) // len(z), 1))))


def _stacked(groups: Sequence[tuple[Rows, Noise | None]]) -> tuple[Rows, Noise]:
    """Noisy groups as one."""
    noise = zip(*(noise for _, noise in groups if noise is not None), strict=True)
    return jnp.concatenate([x for x, _ in groups]), [
        None if any(n is None for n in drawn) else jnp.concatenate(drawn) for drawn in noise
    ]


# --- Prediction ---------------------------------------------------------------------------------------------


class Statistics(eqx.Module):
    """μ and σ of layers 1 to L over the clean pass of the training set."""

    mu: tuple[PerUnit, ...]
    sigma: tuple[PerUnit, ...]


def statistics(encoder: Sequence[EncoderLayer], x: Rows, *, block: int = 10_000) -> Statistics:
    """Pass ``x`` up the clean path and keep what normalised it.

    More rows than ``block`` go up in blocks of equal size (fewer rows than there are blocks may be left out), each
    normalised on its own, and the blocks' means and variances are pooled: memory does not grow with the rows.
    """
    blocks = -(-len(x) // block)
    rows = len(x) // blocks
    mu, sigma = jax.lax.map(partial(_block_statistics, encoder), x[: blocks * rows].reshape(blocks, rows, -1))
    means = tuple(jnp.mean(m, axis=0) for m in mu)
    variances = [jnp.mean(s**2 + (m - mean) ** 2, axis=0) for s, m, mean in zip(sigma, mu, means, strict=True)]
    return Statistics(means, tuple(jnp.sqrt(variance) for variance in variances))


def _block_statistics(encoder: Sequence[EncoderLayer], x: Rows) -> tuple[tuple[PerUnit, ...], tuple[PerUnit, ...]]:
    (clean,) = encode(encoder, [(x, None)], jnp.zeros(len(encoder) + 1))
    return tuple(clean.mu[1:]), tuple(clean.sigma[1:])

"""The Ladder Network: encoder, decoder and cost, in the order of section 2 of the paper and in its symbols.

Rows are samples, so the paper's W·h is ``h @ W`` here. Layers are numbered as in the paper: 0 is the input, L the top;
lists indexed by layer have L + 1 entries. A number in parentheses is that of an equation of the paper: (1) to (3) are
the three passes, (4) and (5) the cost, (6) to (10) the encoder, (11) to (15) the decoder.

Two decorators speed formulas up and leave their results as they are: ``derivatives.by_hand`` adds a derivative written
by hand, ``native.replaced_by`` a kernel in C.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Bool, Float, Int, PRNGKeyArray

from laddernet.inference.network import EPSILON
from laddernet.kernels import derivatives, formulas, native, normalisation
from laddernet.kernels.noise import normal_columns, normals
from laddernet.kernels.normalisation import Normalised, Rows, in_groups, split_groups, stack_noise
from laddernet.network.combinators import Combinator, PerUnit
from laddernet.network.models import Model

PAPER_HIDDEN = (1000, 500, 250, 250, 250)

Noise = Sequence[Rows | None]  # standard normal draws by layer; None where the model has no noise
PerLayer = Float[Array, " layers"]


# --- Parameters ---------------------------------------------------------------------------------------------


class EncoderLayer(eqx.Module):
    """h(l) = φ(γ(normalise(W h(l−1)) + noise + β))."""

    W: Float[Array, "below units"]
    gamma: PerUnit
    beta: PerUnit


class DecoderLayer(eqx.Module):
    """ẑ(l) = g(z̃(l), normalise(V ẑ(l+1)))."""

    V: Float[Array, "above units"] | None  # None at the top, whose top-down input is ỹ
    combinator: Combinator


class Ladder(eqx.Module):
    """The parameters of a network, and the model that they belong to."""

    encoder: tuple[EncoderLayer, ...]  # layers 1 to L
    decoder: tuple[DecoderLayer, ...]  # layers 0 to L; empty for a model without a decoder
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
        W = [w / w.shape[0] ** 0.5 for w in normals(W_key, list(pairwise(sizes)))]
        V = [v / v.shape[0] ** 0.5 for v in normals(V_key, [(above, below) for below, above in pairwise(sizes)])]
        self.model = model
        self.encoder = tuple(EncoderLayer(w, jnp.ones(w.shape[1]), jnp.zeros(w.shape[1])) for w in W)
        self.decoder = ()
        if model.combinator is not None:
            keys = jax.random.split(g_key, len(sizes))
            g = [model.combinator(n, key=k, eta=eta) for n, k in zip(sizes, keys, strict=True)]
            self.decoder = tuple(DecoderLayer(v, g_l) for v, g_l in zip([*V, None], g, strict=True))

    @property
    def sizes(self) -> tuple[int, ...]:
        return (self.encoder[0].W.shape[0], *(layer.W.shape[1] for layer in self.encoder))


def paper_parameters(model: Model) -> int:
    """Return the number of parameters that the model has in the paper's network.

    >>> from laddernet.network.models import find
    >>> paper_parameters(find("baseline"))
    1541020
    """
    shapes = jax.eval_shape(lambda key: Ladder(model, (784, *PAPER_HIDDEN, 10), key=key), jax.random.key(0))
    return sum(leaf.size for leaf in jax.tree.leaves(shapes))


# --- Encoder ------------------------------------------------------------------------------------------------


def draw_noise(
    model: Model, sizes: Sequence[int], rows: int, *, key: PRNGKeyArray, wanted: Bool[ArrayLike, ""] = True
) -> Noise:
    """Draw standard normal noise for the layers that have noise in this model; zeros if none is ``wanted``."""
    noisy = {"nowhere": (), "input": sizes[:1], "everywhere": sizes}[model.noise]
    drawn = normal_columns(key, rows, noisy, wanted)
    return [*drawn, *[None] * (len(sizes) - len(noisy))]


@derivatives.by_hand(derivatives.of_normalise)
@jax.named_scope("normalise")
def normalise(a: Rows) -> tuple[Rows, PerUnit, PerUnit]:
    """z = (a − μ) / σ, μ and σ, with the mean and standard deviation of each unit over the rows: (7) to (9)."""
    mu = jnp.mean(a, axis=0)
    deviation = a - mu
    sigma = jnp.sqrt(jnp.mean(jnp.square(deviation), axis=0) + EPSILON)
    return deviation / sigma, mu, sigma


@derivatives.by_hand(derivatives.of_activate)
@jax.named_scope("activation")
def activate(z: Rows, gamma: PerUnit, beta: PerUnit) -> Rows:
    """h = ReLU(γ(z + β)): (10) below the top."""
    return jax.nn.relu(gamma * (z + beta))


@native.replaced_by("normalise", normalisation.normalise_and_activate)
def normalise_and_activate(
    a: Rows,
    sizes: Sequence[int],
    noise: Sequence[Rows | None],
    noise_std: Float[ArrayLike, ""],
    scale: tuple[PerUnit, PerUnit] | None,
) -> Normalised:
    """Normalise groups of rows, each on its own, and add noise; with a ``scale``, γ and β, activate: (7) to (10)."""
    z, mu, sigma = in_groups(normalise, a, sizes)
    drawn = stack_noise(noise, sizes, a.shape[1])
    if drawn is not None:
        z = z + jax.lax.stop_gradient(noise_std * drawn)
    h = activate(z, *scale) if scale else None
    return Normalised(split_groups(z, sizes), list(mu), list(sigma), h)


@dataclass(frozen=True)
class Path:
    """The values of one group of rows on the noisy or the clean path; lists by layer, 0 to L."""

    z: list[Rows]  # normalised, with noise on the noisy path; z(0) is the input
    mu: list[PerUnit]  # the mean and standard deviation by which z was normalised; 0 and 1 at the input
    sigma: list[PerUnit]
    logits: Rows  # of the softmax at the top

    @property
    def y(self) -> Rows:
        return jax.nn.softmax(self.logits)

    def rows(self, which: slice) -> "Path":
        """Return the path of some of its rows."""
        return replace(self, z=[z[which] for z in self.z], logits=self.logits[which])


def encode(
    encoder: Sequence[EncoderLayer], groups: Sequence[tuple[Rows, Noise | None]], noise_std: PerLayer
) -> list[Path]:
    """Compute the paths of groups of rows: (6) to (10). Each group is normalised on its own.

    A group is its input and its noise, None for the clean path. The groups are stacked for the matrix products: one
    large product is faster than several small ones.
    """
    sizes = [len(x) for x, _ in groups]
    noise = [[None if drawn is None else drawn[l] for _, drawn in groups] for l in range(len(encoder) + 1)]
    z_0 = [x if e is None else x + noise_std[0] * e for (x, _), e in zip(groups, noise[0], strict=True)]
    h = jnp.concatenate(z_0)
    done: list[Normalised] = []
    for l, layer in enumerate(encoder, start=1):
        a = h @ layer.W  # (6)
        scale = (layer.gamma, layer.beta) if l < len(encoder) else None
        done.append(normalise_and_activate(a, sizes, noise[l], noise_std[l], scale))
        if done[-1].h is not None:
            h = done[-1].h
    return [
        Path(
            z=[z_0[g], *(at_l.z[g] for at_l in done)],
            mu=[jnp.zeros(()), *(at_l.mu[g] for at_l in done)],
            sigma=[jnp.ones(()), *(at_l.sigma[g] for at_l in done)],
            logits=layer.gamma * (done[-1].z[g] + layer.beta),
        )
        for g in range(len(groups))
    ]


# --- Decoder ------------------------------------------------------------------------------------------------


@jax.named_scope("combinator")
@native.replaced_by("combinator", formulas.combine)
def combine(combinator: Combinator, z_tilde: Rows, u: Rows) -> Rows:
    """ẑ = g(z̃, u): (15)."""
    return combinator(z_tilde, u)


def decode(decoder: Sequence[DecoderLayer], z_tilde: Sequence[Rows], y_tilde: Rows) -> tuple[list[Rows], list[Rows]]:
    """Compute u and ẑ by layer, 0 to L, from the noisy output down: (11) to (15).

    u[l] is the top-down input of layer l, which the paper writes u(l+1).
    """
    u: list[Rows] = []
    z_hat: list[Rows] = []
    for layer, z_tilde_l in zip(reversed(decoder), reversed(z_tilde), strict=True):
        u_pre = y_tilde if layer.V is None else z_hat[-1] @ layer.V  # (11)
        u += normalise_and_activate(u_pre, [len(u_pre)], [None], 0.0, None).z  # (12) to (14)
        z_hat.append(combine(layer.combinator, z_tilde_l, u[-1]))
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


@partial(jax.jit, static_argnames="block")
def statistics(encoder: Sequence[EncoderLayer], x: Rows, *, block: int = 10_000) -> Statistics:
    """Compute the statistics of the clean path of ``x``; to be started by ``native.call``.

    More rows than ``block`` are split into blocks of equal size, each normalised on its own, and the blocks' means and
    variances are pooled: memory does not grow with the rows. Fewer rows than there are blocks may be left out.
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

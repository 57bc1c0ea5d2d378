"""A trained network for prediction: matrix products in NumPy, with the normalisation folded into the weights."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.linalg import block_diag

Rows = Any  # an array of rows, or a SciPy sparse matrix of rows

# Added to a variance before its square root, for units that are constant over the rows.
EPSILON = 1e-10
FAR = np.float32(1e9)  # larger values are clipped before the bound: their square may overflow a float32
_BLOCK = 1024  # rows computed at a time, so that their activations stay in the processor's cache


@dataclass(frozen=True)
class Scaling:
    """The scaling of the columns: v = (x − shift) · factor, in the precision of the factor.

    With a ``bound``, v / √(1 + (v / bound)²) follows, which keeps outliers within ±bound.
    """

    shift: np.ndarray  # float64, for columns of large numbers that differ little
    factor: np.ndarray  # float32, as the weights; float64 in tests of the equations
    bound: float | None = None

    def __call__(self, x: np.ndarray) -> np.ndarray:
        v: np.ndarray = self.shifted(x) * self.factor
        if self.bound is None:
            return v
        np.clip(v, -FAR, FAR, out=v)
        root = np.square(v)
        root *= np.float32(self.bound**-2)
        root += 1
        np.sqrt(root, out=root)
        v /= root
        return v

    def shifted(self, x: np.ndarray) -> np.ndarray:
        """Subtract the shift in the precision of the input, since a large mean in float32 would lose digits."""
        if not self._shifts:
            return x.astype(self.factor.dtype, copy=False)
        shifted: np.ndarray = x - (self._single if x.dtype == np.float32 else self.shift)
        return shifted.astype(self.factor.dtype, copy=False)

    @cached_property
    def _shifts(self) -> bool:
        return bool(self.shift.any())

    @cached_property
    def _single(self) -> np.ndarray:
        return self.shift.astype(np.float32)


@dataclass(frozen=True)
class Network:
    """h(l) = relu(h(l−1) W(l) + b(l)) and logits at the top; W(1) holds the factors of a scaling without a bound."""

    scaling: Scaling
    weights: tuple[np.ndarray, ...]
    biases: tuple[np.ndarray, ...]

    def logits(self, x: Rows) -> np.ndarray:
        """Compute the logits of rows."""
        return self.layer(x, len(self.weights))

    def layer(self, x: Rows, layer: int) -> np.ndarray:
        """Compute the activations of a layer; 0 is the scaled input, the last layer the logits."""
        out = np.empty(
            (x.shape[0], self.weights[layer - 1].shape[1] if layer else x.shape[1]), self.scaling.factor.dtype
        )
        for rows in blocks(x.shape[0], _BLOCK):
            folded = layer and self.scaling.bound is None
            h = (self.scaling.shifted if folded else self.scaling)(dense(x[rows]))
            for l, (W, b) in enumerate(zip(self.weights[:layer], self.biases[:layer], strict=True), start=1):
                h = h @ W
                h += b
                if l < len(self.weights):
                    np.maximum(h, 0, out=h)
            out[rows] = h
        return out


def fold(
    scaling: Scaling,
    W: Sequence[np.ndarray],
    gamma: Sequence[np.ndarray],
    beta: Sequence[np.ndarray],
    mu: Sequence[np.ndarray],
    sigma: Sequence[np.ndarray],
) -> Network:
    """Write γ((h W − μ) / σ + β) as one product and one sum."""
    scale = [g / s for g, s in zip(gamma, sigma, strict=True)]
    biases = [g * b - m * s for g, b, m, s in zip(gamma, beta, mu, scale, strict=True)]
    weights = [w * s for w, s in zip(W, scale, strict=True)]
    if scaling.bound is None:
        weights[0] *= scaling.factor[:, None]
    return Network(scaling, tuple(weights), tuple(biases))


def folded(arrays: Mapping[str, np.ndarray], scaling: Scaling) -> Network:
    """Make a network of its named arrays (`laddernet.training.checkpoint.named_arrays`), with the statistics."""
    W, gamma, beta = encoder_arrays(arrays)
    mu, sigma = ([arrays[f"statistics.{name}.{l}"] for l in range(len(W))] for name in ("mu", "sigma"))
    return fold(scaling, W, gamma, beta, mu, sigma)


def encoder_arrays(arrays: Mapping[str, np.ndarray]) -> list[list[np.ndarray]]:
    """Return W, γ and β of layers 1 to L."""
    layers = sum(name.startswith("encoder.") and name.endswith(".W") for name in arrays)
    return [[arrays[f"encoder.{l}.{name}"] for l in range(layers)] for name in ("W", "gamma", "beta")]


def join(networks: Sequence[Network], shares: Sequence[float]) -> Network:
    """Make one network whose logits are the sum of the logits of several, each multiplied by its share.

    Hidden layers are concatenated in the order of the networks; all must have the same scaling.
    """
    depth = max(len(network.weights) for network in networks)
    deep = [_deepened(network, depth) for network in networks]
    W = list(zip(*(network.weights for network in deep), strict=True))
    b = list(zip(*(network.biases for network in deep), strict=True))
    top = np.vstack([np.float32(share) * w for share, w in zip(shares, W[-1], strict=True)])
    total = sum(np.float32(share) * bias for share, bias in zip(shares, b[-1], strict=True))
    weights = [np.hstack(W[0]), *(block_diag(*w) for w in W[1:-1]), top]
    biases = [*(np.concatenate(bias) for bias in b[:-1]), total]
    return Network(networks[0].scaling, tuple(weights), tuple(biases))


def _deepened(network: Network, depth: int) -> Network:
    """Add layers that leave the logits as they are: ReLU does not change their positive and negative parts."""
    more = depth - len(network.weights)
    if not more:
        return network
    *W, W_top = network.weights
    *b, b_top = network.biases
    one = np.eye(W_top.shape[1], dtype=np.float32)
    parts = np.hstack([one, -one])
    passed = [np.eye(parts.shape[1], dtype=np.float32)] * (more - 1)
    weights = (*W, W_top @ parts, *passed, parts.T)
    biases = (*b, b_top @ parts, *(np.zeros(w.shape[1], np.float32) for w in (*passed, parts.T)))
    return Network(network.scaling, weights, biases)


def softmax(logits: np.ndarray) -> np.ndarray:
    """Compute the probabilities of the classes.

    >>> softmax(np.array([[0.0, 0.0], [0.0, 1000.0]])).tolist()
    [[0.5, 0.5], [0.0, 1.0]]
    """
    p: np.ndarray = np.exp(logits - logits.max(axis=1, keepdims=True))
    p /= p.sum(axis=1, keepdims=True)
    return p


def log_softmax(logits: np.ndarray) -> np.ndarray:
    """Compute the logarithms of the probabilities, also of those that are too small for a float."""
    shifted = logits - logits.max(axis=1, keepdims=True)
    logs: np.ndarray = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    return logs


def dense(x: Rows) -> np.ndarray:
    """Convert a few rows to an array if they are sparse."""
    return x if isinstance(x, np.ndarray) else x.toarray()


def blocks(rows: int, size: int) -> Iterator[slice]:
    """Cut a number of rows into slices.

    >>> list(blocks(5, 2))
    [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
    """
    return (slice(start, min(start + size, rows)) for start in range(0, rows, size))

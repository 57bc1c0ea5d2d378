"""Data-dependent defaults of LadderClassifier."""

import math
from dataclasses import dataclass, replace

import numpy as np

from laddernet.inference.network import Rows, Scaling, dense

_FEWEST_STEPS = 300
_NEIGHBOUR = 5  # the nearest row may be near by chance
_NEIGHBOUR_ROWS, _NEIGHBOUR_CELLS = 1000, 2**22  # the most rows and cells that distances are measured on


@dataclass(frozen=True)
class Defaults:
    """Values of parameters that are None. results/classifier.md says how they were chosen."""

    hidden: tuple[int, ...]
    noise: tuple[float, float]  # of the input, of the layers above; less for rows that are close to each other
    recon_weights: tuple[float, float, float]
    max_steps: int  # fewer for a table of fewer rows
    weight_decay: float
    label_smoothing: float
    n_networks: int
    linear_share: float


# By scaling: of pixels from 0 to 1 the variance is about a tenth of that of a column with deviation 1.
_ALIKE = Defaults(
    hidden=(256, 128),
    noise=(0.2, 0.2),
    recon_weights=(2000.0, 0.5, 0.05),
    max_steps=5000,
    weight_decay=0.2,
    label_smoothing=0.0,
    n_networks=1,
    linear_share=0.0,
)
_UNLIKE = Defaults(
    hidden=(64, 32),
    noise=(0.3, 0.3),
    recon_weights=(200.0, 0.5, 0.05),
    max_steps=1000,
    weight_decay=0.5,
    label_smoothing=1.0,  # divided by the number of classes
    n_networks=4,
    linear_share=0.25,
)
DEFAULTS = {"range": _ALIKE, "columns": _UNLIKE, "none": _UNLIKE}
# Noise is reduced below this `distance_apart`, and above this number of labels per class.
_CLOSE = {"range": 0.18, "columns": 0.12, "none": 0.12}
_FEW_LABELS = {"range": 6, "columns": 12, "none": 12}


def defaults(scaling: str, rows: int, labels: float, classes: int, apart: float) -> Defaults:
    """Return the defaults of a table, by its scaling, rows, labels per class, classes and `distance_apart`.

    >>> [defaults("range", 1000, labels=5, classes=26, apart=apart).noise for apart in (0.09, 0.18, 0.3)]
    [(0.1, 0.2), (0.2, 0.2), (0.2, 0.2)]
    >>> [round(defaults("columns", 1000, labels, classes=2, apart=0.3).noise[0], 2) for labels in (1, 12, 50)]
    [0.3, 0.3, 0.15]
    >>> [defaults("columns", rows, labels=5, classes=2, apart=0.3).max_steps for rows in (150, 500, 10_000)]
    [300, 500, 1000]
    """
    found = DEFAULTS[scaling]
    near = min(apart / _CLOSE[scaling], 1.0)
    many = max(math.sqrt(labels / _FEW_LABELS[scaling]), 1.0)
    # Columns of one scale may be few and independent, or many and redundant.
    less = (near**many, 1.0) if scaling == "range" else (min(max(near, 0.5), 1 / many),) * 2
    noise = (found.noise[0] * less[0], found.noise[1] * less[1])
    steps = min(max(rows, _FEWEST_STEPS), found.max_steps)
    return replace(found, noise=noise, max_steps=steps, label_smoothing=found.label_smoothing / classes)


def distance_apart(x: Rows, scaling: Scaling) -> float:
    """Return the median distance of a row to the fifth nearest row that differs, per column.

    >>> distance_apart(np.arange(100.0)[:, None], Scaling(np.zeros(1), np.ones(1)))
    3.0
    """
    n = min(_NEIGHBOUR_ROWS, _NEIGHBOUR_CELLS // x.shape[1])
    rows = np.random.default_rng(0).permutation(x.shape[0])[:n]
    if len(rows) <= _NEIGHBOUR:
        return math.inf
    some = scaling(dense(x[rows])).astype(np.float64)
    squares = np.square(some).sum(axis=1)
    distances = squares[:, None] + squares - 2 * some @ some.T
    distances[distances <= 1e-12 * squares.max()] = np.inf  # the row itself, equal rows, and rounding
    fifth = np.partition(distances, _NEIGHBOUR - 1, axis=1)[:, _NEIGHBOUR - 1]
    return math.sqrt(np.median(fifth) / max(np.count_nonzero(scaling.factor), 1))

"""Choose and fit the scaling of a table's columns."""

from typing import Any

import numpy as np

from laddernet.errors import InputError
from laddernet.inference.network import Rows, Scaling, blocks, dense

SCALINGS = ("auto", "columns", "range", "none")
_BOUND = 3.0  # standard deviations
_FEWEST_GREYS = 12  # distinct values of pixels; ratings from 0 to 10 have eleven
_LOOKED_AT = 2**20  # cells that are searched for distinct values
_BLOCK, _CELLS = 4096, 2**24  # rows and cells per block


def find_scaling(x: Rows, how: str = "auto") -> tuple[str, Scaling]:
    """Fit the scaling: by "columns" (mean 0, standard deviation 1), by the "range" of all columns, or "none".

    Return the name of the scaling and the scaling. Constant columns become 0.

    "columns" limits outliers (the bound of :class:`Scaling`), so that a few rows with very large values or a rare code
    do not dominate. "auto" chooses "range" if all columns have the same unit, as pixels do: at least half of them span
    nearly the range of all, none is negative, and together they hold twelve distinct values or more. A pixel of low
    variance carries little information and should not be magnified. Fewer distinct values are codes of categories or
    ratings, where a rare value may be informative.

    >>> x = np.array([[0.0, 8.0, 5.0], [6.0, 2.0, 5.0], [16.0, 16.0, 5.0]])
    >>> how, scaling = find_scaling(x, "range")
    >>> how, scaling(x).tolist()
    ('range', [[0.0, 0.5, 0.0], [0.375, 0.125, 0.0], [1.0, 1.0, 0.0]])
    >>> find_scaling(x)[0], find_scaling(np.arange(34.0).reshape(17, 2))[0]
    ('columns', 'range')
    """
    low, high, mean, deviation = _summary(x)
    if (far := max(high.max(), -low.min())) > np.finfo(np.float32).max:
        raise InputError(f"X holds a value of size {far:.3g}; give numbers below 3e38.")
    varies = high > low
    spread = high.max() - low.min()
    if how == "auto":
        # The variance has its maximum if a column holds only its lowest and its highest value.
        graded = np.square(deviation) < (1 - 1e-6) * (high - mean) * (mean - low)
        alike = graded & (high - low >= 0.9 * spread)
        pixels = varies.any() and low.min() >= 0 and np.mean(alike[varies]) >= 0.5 and _many_values(x, alike)
        how = "range" if pixels else "columns"
    if how == "none":
        shift, factor = np.zeros(len(low)), np.ones(len(low))
    elif how == "range":
        shift, factor = np.where(varies, low.min(), low), varies / (spread or 1)
    else:
        # The deviation may be lost in rounding if the values differ little and are far from zero, or be too small for a
        # float32.
        seen = varies & (deviation >= np.finfo(np.float32).tiny)
        shift, factor = mean, np.divide(1, deviation, out=np.zeros_like(mean), where=seen)
    return how, Scaling(shift, factor.astype(np.float32), _BOUND if how == "columns" else None)


def _many_values(x: Rows, columns: np.ndarray) -> bool:
    """Return whether these columns hold more distinct values than codes or ratings; of a large table, sample rows."""
    rows = np.linspace(0, x.shape[0] - 1, min(x.shape[0], max(_LOOKED_AT // x.shape[1], 1))).astype(int)
    return len(np.unique(dense(x[rows])[:, columns])) >= _FEWEST_GREYS


def _summary(x: Rows) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Compute minimum, maximum, mean and standard deviation of each column, block by block."""
    first = dense(x[:1])[0].astype(np.float64)
    low, high = first.copy(), first.copy()
    total, squares = np.zeros_like(first), np.zeros_like(first)
    for rows in blocks(x.shape[0], min(_BLOCK, max(_CELLS // x.shape[1], 1))):
        part: Any = dense(x[rows]).astype(np.float64)
        np.minimum(low, part.min(axis=0), out=low)
        np.maximum(high, part.max(axis=0), out=high)
        part -= first  # a large mean would take digits from the squares
        total += part.sum(axis=0)
        squares += np.square(part).sum(axis=0)
    mean = total / x.shape[0]
    return low, high, mean + first, np.sqrt(np.maximum(squares / x.shape[0] - mean**2, 0))

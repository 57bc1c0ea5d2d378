"""The split of training rows into labelled, unlabelled and validation rows."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from laddernet.data.dataset import UNLABELLED, Classes, Dataset, Inputs, TrainingRows
from laddernet.errors import InputError

Rows = NDArray[np.intp]

_SEED = 0  # of test rows that are drawn once for all


@dataclass(frozen=True, eq=False)
class Split:
    """Sorted row numbers: `validation` rows are held out, `unlabelled` are all others, `labelled` some of these.

    The unlabelled rows include the labelled ones: an epoch of the paper is one pass over all 60,000 rows, of which 100
    also have a label.
    """

    labelled: Rows
    unlabelled: Rows
    validation: Rows


def split(y: ArrayLike, n_labels: int, n_validation: int, *, n_classes: int, rng: np.random.Generator) -> Split:
    """Draw labelled rows, the same number from each class, then validation rows from the others that have a label.

    The labelled rows are drawn first, so they do not depend on `n_validation`. A remainder is distributed over random
    classes, one each. If a class has too few rows, all of them are labelled, and the other classes share the rest. Rows
    whose class is −1 have no label: they are always unlabelled rows.

    >>> y = np.repeat([0, 1], 10)
    >>> rows = split(y, 4, 6, n_classes=2, rng=np.random.default_rng(0))
    >>> len(rows.labelled), len(rows.unlabelled), len(rows.validation)
    (4, 14, 6)
    >>> np.bincount(y[rows.labelled])
    array([2, 2])
    """
    y = np.asarray(y)
    _check(y, n_labels, n_validation, n_classes)
    known = np.flatnonzero(y != UNLABELLED)
    shares = _shares(np.bincount(y[known], minlength=n_classes), n_labels, rng)
    of_class = (np.flatnonzero(y == c) for c in range(n_classes))
    drawn = [rng.choice(rows, share, replace=False) for rows, share in zip(of_class, shares, strict=True)]
    labelled = np.sort(np.concatenate(drawn))
    every_row = np.arange(len(y))
    rest = np.setdiff1d(known, labelled, assume_unique=True)
    validation = np.sort(rng.choice(rest, n_validation, replace=False))
    return Split(labelled, np.setdiff1d(every_row, validation, assume_unique=True), validation)


def every_nth(y: ArrayLike, n: int) -> Rows:
    """Return `n` sorted rows, the same share of each class, which never change.

    The rows are shuffled, sorted by class, and every (rows / n)th is taken. NumPy guarantees that the stream of
    `RandomState` never changes, but not that of `default_rng`, nor scikit-learn that of `train_test_split`.

    >>> every_nth([0, 0, 0, 0, 1, 1], 3)
    array([2, 3, 5])
    """
    y = np.asarray(y)
    order = np.random.RandomState(_SEED).permutation(len(y))
    order = order[np.argsort(y[order], kind="stable")]
    return np.sort(order[np.arange(n) * len(y) // n])


@dataclass(frozen=True, eq=False)
class TrainingData:
    """The rows that a training run uses: copies, which give no access to test rows.

    Parameters
    ----------
    x_labelled, y_labelled
        Inputs and classes of the labelled rows.
    x_unlabelled
        Inputs of all rows that are not held out, labelled or not.
    x_validation, y_validation
        Inputs and classes of the rows that are held out.
    n_classes
        The number of classes.

    See Also
    --------
    training_data : Splits a data set.
    """

    x_labelled: Inputs
    y_labelled: Classes
    x_unlabelled: Inputs
    x_validation: Inputs
    y_validation: Classes
    n_classes: int


def training_data(dataset: Dataset | TrainingRows, n_labels: int, n_validation: int, seed: int) -> TrainingData:
    """Split the training rows of a data set.

    Parameters
    ----------
    dataset
        The data set.
    n_labels
        The number of labelled rows, drawn equally from all classes.
    n_validation
        The number of rows that are held out for validation.
    seed
        The seed of the draw. The same seed draws the same labelled rows for every ``n_validation``.

    Returns
    -------
    TrainingData
        Copies of the rows.

    Raises
    ------
    InputError
        If there are too few rows, or fewer labels than classes.

    Examples
    --------
    >>> from laddernet.data import load
    >>> data = training_data(load("digits"), n_labels=100, n_validation=200, seed=0)
    >>> data.x_labelled.shape, data.x_unlabelled.shape, data.x_validation.shape
    ((100, 64), (1237, 64), (200, 64))
    """
    if seed < 0:
        raise InputError(f"seed must be 0 or more, got {seed}.")
    x, y = dataset.x_train, dataset.y_train
    rows = split(y, n_labels, n_validation, n_classes=dataset.n_classes, rng=np.random.default_rng(seed))
    return TrainingData(
        x_labelled=x[rows.labelled],
        y_labelled=y[rows.labelled],
        x_unlabelled=x[rows.unlabelled],
        x_validation=x[rows.validation],
        y_validation=y[rows.validation],
        n_classes=dataset.n_classes,
    )


def _shares(available: Rows, n_labels: int, rng: np.random.Generator) -> Rows:
    """Return the number of labels of each class: rounds of equal shares, then the remainder at random, one each."""
    shares = np.zeros_like(available)
    while True:
        open_classes = np.flatnonzero(shares < available)
        left = n_labels - shares.sum()
        if left < len(open_classes) or left == 0:
            shares[rng.choice(open_classes, left, replace=False)] += 1
            return shares
        shares = np.minimum(shares + (shares < available) * (left // len(open_classes)), available)


def _check(y: NDArray[np.generic], n_labels: int, n_validation: int, n_classes: int) -> None:
    n_rows = np.count_nonzero(y != UNLABELLED)
    rows = "training rows" if n_rows == len(y) else "training rows with a label"
    if n_labels < n_classes:
        raise InputError(f"{n_labels} labels are too few for {n_classes} classes; give each at least one.")
    if n_labels > n_rows:
        raise InputError(f"{n_labels} labels are more than the {n_rows} {rows}; ask for at most {n_rows}.")
    if n_validation < 0:
        raise InputError(f"The number of validation rows must be 0 or more, got {n_validation}.")
    if n_labels + n_validation > n_rows:
        raise InputError(
            f"{n_labels} labels and {n_validation} validation rows are more than the {n_rows} {rows}; "
            f"ask for at most {n_rows - n_labels} validation rows."
        )
    if not np.issubdtype(y.dtype, np.integer) or y.ndim != 1 or y.min() < UNLABELLED or y.max() >= n_classes:
        raise InputError(
            f"The classes must be whole numbers from 0 to {n_classes - 1}, or -1 for no label, one for each row."
        )

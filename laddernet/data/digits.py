"""The digits of 8 by 8 pixels that ship with scikit-learn: 1,797 rows, no download."""

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits

from laddernet.data.dataset import Dataset

N_TRAIN, N_TEST = 1437, 360
IMAGE_SHAPE = (8, 8)
CLASSES = tuple("0123456789")
_SPLIT_SEED = 0


def load() -> Dataset:
    """The digits, in [0, 1], split into training and test rows.

    >>> load().x_train.shape
    (1437, 64)
    """
    raw, labels = load_digits(return_X_y=True)
    x, y = (raw / 16).astype(np.float32), labels.astype(np.int32)
    test = _test_rows(y)
    train = np.setdiff1d(np.arange(len(y)), test)
    return Dataset("digits", x[train], y[train], x[test], y[test], CLASSES, IMAGE_SHAPE)


def _test_rows(y: NDArray[np.int32]) -> NDArray[np.intp]:
    """The same 360 rows for ever, of each class its share.

    Shuffled, sorted by class, then every (1797/360)th. `RandomState`, because NumPy promises that its stream
    never changes; of `default_rng`, and of scikit-learn's `train_test_split`, nobody promises that.
    """
    order = np.random.RandomState(_SPLIT_SEED).permutation(len(y))
    order = order[np.argsort(y[order], kind="stable")]
    return np.sort(order[np.arange(N_TEST) * len(y) // N_TEST])

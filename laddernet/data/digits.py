"""Handwritten digits of 8 by 8 pixels, which ship with scikit-learn: 1,797 rows."""

from importlib.util import find_spec
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from laddernet.data.dataset import Dataset
from laddernet.data.download import RemoteFile
from laddernet.data.splits import every_nth


class Digits:
    """The digits, as the catalogue lists and loads them; they have no files to fetch."""

    description = "handwritten digits, 8 by 8 pixels"
    classes = tuple("0123456789")
    n_train, n_test, n_features = 1437, 360, 64
    files: tuple[RemoteFile, ...] = ()

    def fetch(self, folder: Path, progress: bool = True) -> None:
        """Do nothing."""

    def load(self, folder: Path, progress: bool = True) -> Dataset:
        """Load the digits, scaled to [0, 1] and split into training and test rows."""
        pixels, labels = _read()
        x, y = (pixels / 16).astype(np.float32), labels.astype(np.int32)
        test = every_nth(y, self.n_test)
        train = np.setdiff1d(np.arange(len(y)), test)
        return Dataset("digits", x[train], y[train], x[test], y[test], self.classes, image_shape=(8, 8))


def _read() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the same as `sklearn.datasets.load_digits`, without its import, which takes two seconds."""
    spec = find_spec("sklearn")
    for folder in (spec and spec.submodule_search_locations) or ():
        file = Path(folder, "datasets", "data", "digits.csv.gz")
        if file.exists():
            table = np.loadtxt(file, delimiter=",")
            return table[:, :-1], table[:, -1]
    from sklearn.datasets import load_digits  # for releases that keep the file elsewhere

    pixels, labels = load_digits(return_X_y=True)
    return pixels, labels

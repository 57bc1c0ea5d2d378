"""The whole way of the real MNIST and Fashion-MNIST: fetched from real packages, verified, cached, loaded."""

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tools import need

from laddernet.data import known, load, training_data
from laddernet.data.images import IMAGE_SETS

pytestmark = pytest.mark.process

# The mean of all training pixels, as others publish it; the classes of the first training and test rows.
FACTS = {
    "mnist": ("npm", 0.1307, [5, 0, 4, 1, 9, 2, 1, 3, 1, 4], [7, 2, 1, 0, 4, 1, 4, 9, 5, 9]),
    "fashion-mnist": ("apt", 0.2860, [9, 0, 0, 3, 0, 2, 7, 2, 5, 5], [9, 2, 1, 1, 6, 1, 4, 6, 5, 7]),
}


@pytest.fixture(scope="module", params=FACTS)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def cache(name: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    need(FACTS[name][0])
    cache = tmp_path_factory.mktemp("cache")
    replace(IMAGE_SETS[name], mirrors=()).fetch(cache / name)
    return cache


def is_cached(name: str, cache: Path) -> bool:
    return {info.name: info.cached for info in known(cache=cache)}[name]


def test_images_from_a_package_are_verified_cached_and_loaded(name: str, cache: Path) -> None:
    _, mean, first_training, first_test = FACTS[name]
    assert is_cached(name, cache)
    data = load(name, cache=cache)
    assert (data.name, data.content) == (name, None)
    assert (data.x_train.shape, data.x_test.shape, data.image_shape) == ((60_000, 784), (10_000, 784), (28, 28))
    assert (data.x_train.min(), data.x_train.max()) == (0, 1)
    assert data.x_train.mean() == pytest.approx(mean, abs=1e-4)
    assert data.y_train[:10].tolist() == first_training
    assert data.y_test[:10].tolist() == first_test

    parts = training_data(data, n_labels=100, n_validation=10_000, seed=0)
    assert np.bincount(parts.y_labelled).tolist() == [10] * 10
    assert parts.x_unlabelled.shape == (50_000, 784)


def test_one_changed_bit_makes_a_cached_data_set_unknown(name: str, cache: Path, tmp_path: Path) -> None:
    shutil.copytree(cache, tmp_path / "copy")
    with (tmp_path / "copy" / name / IMAGE_SETS[name].files[2].name).open("r+b") as file:
        file.seek(5_000_000)
        byte = file.read(1)[0]
        file.seek(5_000_000)
        file.write(bytes([byte ^ 1]))
    assert not is_cached(name, tmp_path / "copy")

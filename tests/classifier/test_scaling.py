"""Columns are brought to a common scale."""

import warnings
from typing import Any

import numpy as np
import pytest
from iris import X
from scipy import sparse
from sklearn.datasets import load_digits

from laddernet.classifier.scaling import find_scaling
from laddernet.inference.network import Scaling


def test_a_column_too_small_for_float32_counts_as_constant() -> None:
    small = find_scaling(np.column_stack([X, X[:, 0] * 1e-40]))[1]
    np.testing.assert_array_equal(small.factor[:4], find_scaling(X)[1].factor)
    assert small.factor[4] == 0


def test_columns_measured_alike_keep_their_proportions() -> None:
    pixels = np.array([[0, 255, 3], [255, 0, 0], *([16 * i, 255 - i, 1] for i in range(12))], np.uint8)
    np.testing.assert_allclose(find_scaling(pixels)[1](pixels), pixels / 255.0, atol=1e-6)


def test_other_columns_get_mean_zero_and_deviation_one_and_nothing_far_out() -> None:
    rng = np.random.default_rng(0)
    rows = rng.normal([1e5, 0, -5], [1.0, 1e-6, 100], (10_000, 3))
    found = find_scaling(rows)[1]
    standard = (rows - rows.mean(axis=0)) / rows.std(axis=0)
    np.testing.assert_allclose(found(rows), standard / np.sqrt(1 + standard**2 / 9), atol=5e-3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_allclose(found(np.array([[1e30, 1.0, -1e30]])), [[3, 3, -3]], rtol=1e-6)
    np.testing.assert_allclose(find_scaling(rows, "none")[1](rows), rows, rtol=1e-6)


def test_marks_of_yes_and_no_are_scaled_one_by_one() -> None:
    marks = (np.random.default_rng(0).random((200, 6)) < [0.02, 0.1, 0.3, 0.5, 0.7, 0.9]).astype(float)
    assert find_scaling(marks)[0] == "columns"
    assert find_scaling(np.column_stack([marks[:, :2], *np.random.default_rng(0).random((4, 200))]))[0] == "range"


@pytest.mark.parametrize("values", [[0, 0.5, 1], [1, 2, 3, 4, 5], range(11)], ids=str)
@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_matrix])
def test_codes_and_ratings_are_not_taken_for_pixels(values: Any, kind: Any) -> None:
    codes = np.random.default_rng(0).choice(list(values), (300, 9))
    assert find_scaling(kind(codes))[0] == "columns"


@pytest.mark.parametrize("greys", [16, 17, 256])
@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_matrix])
def test_images_are_taken_for_pixels_whatever_their_greys_are_divided_by(greys: int, kind: Any) -> None:
    images = load_digits().data
    greyed = np.round(images / 16 * (greys - 1)) + (greys > 17) * np.random.default_rng(0).integers(0, 3, images.shape)
    assert find_scaling(kind(greyed))[0] == "range"
    assert find_scaling(kind(greyed / greyed.max()))[0] == "range"


def test_scaling_is_in_the_precision_of_the_input() -> None:
    rows = np.array([[1e9 + 1], [1e9 + 2]])
    assert Scaling(np.float32([1e9]), np.float32([1.0]))(rows).ravel().tolist() == [1, 2]


@pytest.mark.parametrize("mean", [30.0, 1e9 + 30, 1e12 + 1])
def test_columns_far_from_zero_keep_what_they_say(mean: float) -> None:
    rows = np.random.default_rng(0).choice([-1.0, 1.0], (100, 1)) * [1, 5]
    scaled = [find_scaling(x, "columns")[1](x) for x in (rows, rows + mean)]
    np.testing.assert_allclose(*scaled, atol=1e-3)

from dataclasses import FrozenInstanceError
from typing import Any

import numpy as np
import pytest

from laddernet.data import Dataset, check_finite
from laddernet.errors import InputError


def dataset(**changes: Any) -> Dataset:
    fields: dict[str, Any] = {
        "name": "toy",
        "x_train": np.full((4, 6), 0.5, np.float32),
        "y_train": np.array([0, 1, 0, 1], np.int32),
        "x_test": np.zeros((2, 6), np.float32),
        "y_test": np.array([1, 0], np.int32),
        "classes": ("cat", "dog"),
        "image_shape": (2, 3),
    }
    return Dataset(**fields | changes)


def test_a_sound_data_set_tells_its_sizes_and_cannot_be_changed() -> None:
    toy = dataset()
    assert (toy.n_features, toy.n_classes) == (6, 2)
    with pytest.raises(FrozenInstanceError):
        toy.name = "other"  # type: ignore[misc]


def test_a_table_need_not_be_of_images() -> None:
    assert dataset(image_shape=None).image_shape is None


def test_a_training_row_may_have_no_label() -> None:
    toy = dataset(y_train=np.array([0, -1, -1, 1], np.int32))
    assert (toy.n_labelled, toy.training_rows().n_labelled) == (2, 2)


def test_the_digest_of_the_content_is_no_part_of_the_content() -> None:
    toy = dataset()
    assert toy.content is None
    assert (
        toy.with_content().content
        == toy.with_content().with_content().content
        == toy.with_content().training_rows().content
    )
    assert dataset(name="other").with_content().content == toy.with_content().content


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"x_train": np.zeros(6, np.float32)}, r"training input of toy has the shape \(6,\)"),
        ({"x_test": np.zeros((0, 6), np.float32)}, r"test input of toy has the shape \(0, 6\)"),
        ({"x_train": np.zeros((4, 6))}, "training input of toy is float64"),
        ({"x_train": np.zeros((6, 4), np.float32).T}, "C-contiguous"),
        ({"x_test": np.full((2, 6), np.inf, np.float32)}, "test input of toy holds inf in row 0, column 0"),
        (
            {"x_train": np.full((4, 6), 255, np.float32)},
            "ranges from 255 to 255; it must lie between 0 and 1",
        ),
        ({"x_test": np.full((2, 6), -0.5, np.float32)}, "ranges from -0.5 to -0.5"),
        ({"y_train": np.zeros(3, np.int32)}, r"have the shape \(3,\); .* each of the 4 rows"),
        ({"y_train": np.zeros(4, np.int64)}, "are int64; they must be int32"),
        ({"y_test": np.array([0, 2], np.int32)}, "range from 0 to 2; they must lie in 0 to 1"),
        ({"y_test": np.array([0, -1], np.int32)}, "range from -1 to 0"),
        ({"y_train": np.array([0, -2, 1, 0], np.int32)}, "range from -2 to 1; they must lie in -1 to 1"),
        ({"y_train": np.array([0, -1, 0, 0], np.int32)}, "toy has test rows of 'dog' and no such training row"),
        ({"x_test": np.zeros((2, 5), np.float32)}, "test input of toy has 5 columns; it must have 6"),
        ({"image_shape": (3, 3)}, r"are \(3, 3\); they must have 6 pixels"),
    ],
)
def test_a_broken_data_set_is_refused_with_what_is_wrong(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        dataset(**changes)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_the_first_value_that_is_not_finite_is_named_by_row_and_column(value: float) -> None:
    x = np.zeros((5, 4), np.float32)
    x[2, 3] = x[4, 0] = value
    with pytest.raises(InputError, match=f"The table holds {value} in row 2, column 3"):
        check_finite(x, "The table")


def test_finite_numbers_of_any_kind_pass() -> None:
    check_finite(np.arange(6).reshape(2, 3), "whole numbers")
    check_finite(np.full((2, 2), np.finfo(np.float64).max), "great numbers")

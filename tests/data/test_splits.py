from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from laddernet.data import Dataset, Split, every_nth, load, split, training_data
from laddernet.errors import InputError


@st.composite
def problems(draw: st.DrawFn) -> tuple[NDArray[np.int32], int, int, int, int]:
    """Classes of rows in any order and balance, with counts that can be met, and a seed."""
    n_classes = draw(st.integers(1, 6))
    y = draw(st.lists(st.integers(0, n_classes - 1), min_size=n_classes, max_size=80))
    n_labels = draw(st.integers(n_classes, len(y)))
    n_validation = draw(st.integers(0, len(y) - n_labels))
    return np.array(y, np.int32), n_classes, n_labels, n_validation, draw(st.integers(0, 2**32))


def drawn(y: NDArray[np.int32], n_classes: int, n_labels: int, n_validation: int, seed: int) -> Split:
    return split(y, n_labels, n_validation, n_classes=n_classes, rng=np.random.default_rng(seed))


@given(problems())
def test_counts_are_as_asked_and_rows_are_sorted_and_distinct(problem) -> None:
    y, _, n_labels, n_validation, _ = problem
    rows = drawn(*problem)
    assert len(rows.labelled) == n_labels
    assert len(rows.validation) == n_validation
    for part in (rows.labelled, rows.unlabelled, rows.validation):
        assert np.issubdtype(part.dtype, np.integer)
        assert (np.diff(part) > 0).all()
        assert set(part) <= set(range(len(y)))


@given(problems())
def test_validation_is_apart_and_unlabelled_is_all_else_with_the_labelled_rows(problem) -> None:
    rows = drawn(*problem)
    assert set(rows.validation) | set(rows.unlabelled) == set(range(len(problem[0])))
    assert not set(rows.validation) & set(rows.unlabelled)
    assert set(rows.labelled) <= set(rows.unlabelled)


@given(problems())
def test_classes_that_have_rows_left_get_shares_that_differ_by_at_most_one(problem) -> None:
    y, n_classes, *_ = problem
    shares = np.bincount(y[drawn(*problem).labelled], minlength=n_classes)
    has_rows_left = shares < np.bincount(y, minlength=n_classes)
    if has_rows_left.any():
        assert np.ptp(shares[has_rows_left]) <= 1
        assert shares.max() <= shares[has_rows_left].min() + 1


@given(problems())
def test_a_seed_decides_everything(problem) -> None:
    first, second = drawn(*problem), drawn(*problem)
    for field in fields(Split):
        np.testing.assert_array_equal(getattr(first, field.name), getattr(second, field.name))


@given(problems())
def test_labelled_rows_do_not_depend_on_the_number_of_validation_rows(problem) -> None:
    y, n_classes, n_labels, _, seed = problem
    without = drawn(y, n_classes, n_labels, 0, seed)
    np.testing.assert_array_equal(drawn(*problem).labelled, without.labelled)


def test_seeds_differ_in_rows_and_in_who_gets_the_remainder() -> None:
    y = np.repeat(np.arange(4, dtype=np.int32), 50)
    splits = [drawn(y, 4, 10, 20, seed) for seed in range(20)]
    assert len({tuple(rows.labelled) for rows in splits}) == 20
    assert len({tuple(rows.validation) for rows in splits}) == 20
    shares = np.array([np.bincount(y[rows.labelled]) for rows in splits])
    assert set(shares.flat) == {2, 3}
    assert (np.ptp(shares, axis=0) == 1).all()


def test_a_class_with_too_few_rows_gives_all_and_the_others_share_the_rest() -> None:
    y = np.repeat([0, 1, 2], [1, 20, 20]).astype(np.int32)
    assert np.bincount(y[drawn(y, 3, 21, 0, 0).labelled]).tolist() == [1, 10, 10]


def test_all_rows_can_be_labelled_however_unbalanced() -> None:
    y = np.repeat([0, 1, 2], [1, 30, 7]).astype(np.int32)
    rows = drawn(y, 3, 38, 0, 0)
    assert rows.labelled.tolist() == rows.unlabelled.tolist() == list(range(38))
    assert rows.validation.tolist() == []


@pytest.mark.parametrize(
    ("n_labels", "n_validation", "message"),
    [
        (9, 0, "9 labels are too few for 10 classes"),
        (0, 0, "0 labels are too few for 10 classes"),
        (-5, 0, "-5 labels are too few for 10 classes"),
        (101, 0, "101 labels are more than the 100 training rows"),
        (50, -1, "The number of validation rows must be 0 or more, got -1"),
        (60, 41, "60 labels and 41 validation rows are more than the 100 .* at most 40"),
    ],
)
def test_counts_that_cannot_be_met_are_refused_with_the_numbers(n_labels: int, n_validation: int, message: str) -> None:
    y = np.arange(100, dtype=np.int32) % 10
    with pytest.raises(InputError, match=message):
        drawn(y, 10, n_labels, n_validation, 0)


@pytest.mark.parametrize("y", [[0, 1, 2], [0, -2, 1], [0.0, 1.0, 1.0], [[0], [1], [1]]])
def test_classes_outside_the_known_ones_are_refused(y) -> None:
    with pytest.raises(InputError, match="whole numbers from 0 to 1"):
        split(y, 2, 0, n_classes=2, rng=np.random.default_rng(0))


@given(seed=st.integers(0, 100), n_labels=st.integers(2, 20), n_validation=st.integers(0, 10))
def test_rows_without_a_label_are_always_unlabelled_rows(seed: int, n_labels: int, n_validation: int) -> None:
    y = np.where(np.arange(60) % 2, np.arange(60) % 4 // 2, -1)  # thirty rows of two classes
    rows = split(y, n_labels, n_validation, n_classes=2, rng=np.random.default_rng(seed))
    assert set(np.flatnonzero(y == -1)) <= set(rows.unlabelled)
    assert (y[rows.labelled] >= 0).all()
    assert (y[rows.validation] >= 0).all()
    assert len(rows.unlabelled) == 60 - n_validation


def test_labels_are_counted_among_the_rows_that_have_one() -> None:
    y = np.array([0, 1, 0, 1, -1, -1])
    with pytest.raises(
        InputError, match=r"5 labels are more than the 4 training rows with a label; ask for at most 4\."
    ):
        split(y, 5, 0, n_classes=2, rng=np.random.default_rng(0))
    with pytest.raises(InputError, match=r"than the 4 training rows with a label; ask for at most 1 validation rows\."):
        split(y, 3, 2, n_classes=2, rng=np.random.default_rng(0))


def test_every_nth_row_has_each_class_in_its_share() -> None:
    y = np.random.default_rng(0).integers(0, 3, 200)
    rows = every_nth(y, 50)
    assert len(set(rows)) == 50
    assert (np.sort(rows) == rows).all()
    assert (abs(np.bincount(y[rows]) - np.bincount(y) / 4) <= 1).all()


def toy() -> Dataset:
    """The input of training row i is i/1000, of test row i it is 1: so every row can be told apart."""
    x = (np.arange(100, dtype=np.float32) / 1000).reshape(-1, 1)
    y = np.arange(100, dtype=np.int32) % 5
    return Dataset("toy", x, y, np.ones((20, 1), np.float32), y[:20], tuple("abcde"))


def test_training_data_pairs_inputs_with_their_classes() -> None:
    data = training_data(toy(), n_labels=10, n_validation=30, seed=3)
    for x, y in ((data.x_labelled, data.y_labelled), (data.x_validation, data.y_validation)):
        np.testing.assert_array_equal(np.rint(x[:, 0] * 1000).astype(int) % 5, y)
    assert (data.x_labelled.shape, data.x_unlabelled.shape, data.x_validation.shape) == (
        (10, 1),
        (70, 1),
        (30, 1),
    )
    assert data.n_classes == 5


def test_training_data_reaches_no_test_row_even_if_the_data_set_is_a_view_of_one_table() -> None:
    table = np.linspace(0, 1, 120, dtype=np.float32).reshape(-1, 1)
    y = np.arange(120, dtype=np.int32) % 5
    whole = Dataset("views", table[:100], y[:100], table[100:], y[100:], tuple("abcde"))
    data = training_data(whole, n_labels=100, n_validation=0, seed=0)
    for field in fields(data):
        value = getattr(data, field.name)
        assert isinstance(value, int) or not np.shares_memory(value, table)
    assert data.x_unlabelled.max() < table[100:].min()
    assert "test" not in " ".join(field.name for field in fields(data))


def test_training_data_is_decided_by_the_seed() -> None:
    digits = load("digits")
    first, again, other = (training_data(digits, 100, 200, seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first.x_labelled, again.x_labelled)
    np.testing.assert_array_equal(first.x_validation, again.x_validation)
    assert not np.array_equal(first.x_labelled, other.x_labelled)


def test_a_negative_seed_is_refused() -> None:
    with pytest.raises(InputError, match="seed must be 0 or more, got -1"):
        training_data(toy(), 10, 0, seed=-1)

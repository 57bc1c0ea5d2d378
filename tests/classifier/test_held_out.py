import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from iris import X, few

from laddernet.classifier.held_out import HeldOut, cross_validate, folds_of, splits
from laddernet.classifier.methods import fit_members


def held(**right: list[int]) -> HeldOut:
    """Rows of class 0; for each method, in how many of two repeats each row is right."""
    rows = len(next(iter(right.values())))
    probabilities = {}
    for name, counts in right.items():
        p = np.zeros((2, rows, 2), np.float32)
        for repeat in (0, 1):
            p[repeat, np.arange(rows), (np.array(counts) <= repeat).astype(int)] = 1
        probabilities[name] = p
    return HeldOut(np.zeros(rows, int), 5, 2, rows - 1, probabilities)


def test_errors_are_means_of_the_repeats() -> None:
    found = held(blend=[2, 2, 1, 0], forest=[2, 2, 2, 2])
    assert found.errors() == {"blend": 1.5, "forest": 0}
    assert found.wrong("blend").tolist() == [0, 0, 0.5, 1]


def test_another_method_is_taken_only_if_it_is_better_by_two_standard_errors() -> None:
    some = held(blend=[0] * 3 + [2] * 37, forest=[2] * 40)
    assert some.gain("forest", "blend")[0] == 7.5
    assert some.choice() == "blend"
    assert some.advice("blend").startswith("Use the blend: a random forest is ahead, but not clearly: its error is 7.5")
    many = held(blend=[0] * 8 + [2] * 32, forest=[2] * 40, boosting=[0] + [2] * 39)
    assert many.choice() == "forest"
    assert many.advice("forest") == "Use a random forest: no other method has fewer of these rows wrong."
    assert many.advice("blend").startswith("Use a random forest instead (--method forest): its error is 20.0 ± 6.4")
    same = held(blend=[2] * 40, forest=[2] * 40)
    assert (same.choice(), same.best("forest")) == ("blend", "forest")


@given(
    blend=st.lists(st.integers(0, 2), min_size=10, max_size=10), other=st.permutations([0, 1, 2, 2, 2, 2, 2, 2, 2, 2])
)
def test_the_method_with_the_lowest_error_is_always_named(blend: list[int], other: list[int]) -> None:
    found = held(blend=blend, logistic=list(other))
    errors = found.errors()
    if errors["logistic"] < errors["blend"]:
        assert "logistic regression" in found.advice("blend")
    if errors["blend"] < errors["logistic"]:
        assert "the blend" in found.advice("logistic")


def test_rows_are_judged_by_methods_that_were_not_fitted_to_them() -> None:
    y = few(4)
    found = cross_validate(["logistic", "extra-trees"], X, y, folds=3, repeats=2, seed=5)
    assert (found.codes.tolist(), found.folds, found.repeats, found.labels) == (y[y >= 0].tolist(), 3, 2, 8)
    labelled = np.flatnonzero(y >= 0)
    expected = np.zeros((2, 12, 3), np.float32)
    for number, (rest, rows) in enumerate(splits(y, 3, 2, 5)):
        assert not set(rest) & set(rows)
        members = fit_members(["extra-trees"], X[rest], y[rest], ladder=None, seed=5)
        expected[number // 3, np.searchsorted(labelled, rows)] = members.probabilities(X[rows])["extra-trees"]
    np.testing.assert_array_equal(found.probabilities["extra-trees"], expected)
    assert list(found.probabilities) == ["logistic", "extra-trees"]


@pytest.mark.parametrize(
    ("labels", "folds"), [([0, 1], 0), ([0, 0, 1], 2), ([0, 0, 0, 1, 1], 5), ([0] * 30 + [1] * 30, 5)]
)
def test_folds_are_as_many_as_labels_allow(labels: list[int], folds: int) -> None:
    assert folds_of(np.array([*labels, -1])) == (folds, 2)

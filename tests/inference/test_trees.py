from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_iris
from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier, RandomForestClassifier

from laddernet.inference.trees import Trees

_X, Y = load_iris(return_X_y=True)
X = _X.astype(np.float32)


def forest(known: Any) -> Trees:
    return Trees.of_forest(tree.tree_ for tree in known.estimators_)


def boosting(known: Any) -> Trees:
    return Trees.of_boosting((tree.nodes for trees in known._predictors for tree in trees), known._baseline_prediction)


KINDS: dict[str, tuple[Any, Callable[[Any], Trees]]] = {
    "forest": (RandomForestClassifier(5, random_state=0), forest),
    "extra-trees": (ExtraTreesClassifier(5, random_state=0), forest),
    "boosting": (HistGradientBoostingClassifier(max_iter=5, min_samples_leaf=2), boosting),
}


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_probabilities_are_those_of_scikit_learn(kind: str, classes: int) -> None:
    known, convert = KINDS[kind]
    known.fit(X[::2], np.minimum(Y, classes - 1)[::2])
    ours = convert(known)
    # Also beyond the rows that were learned from, and on the thresholds themselves.
    inner = ours.left >= 0
    on = np.tile(X[:1], (np.count_nonzero(inner), 1))
    on[np.arange(len(on)), ours.feature[inner]] = ours.threshold[inner]
    rows = np.concatenate([X, on, np.nextafter(on, np.float32(np.inf)), 10 * X - 20])
    np.testing.assert_allclose(ours.probabilities(rows), known.predict_proba(rows), atol=1e-6)
    again = Trees.restored(ours.arrays(), columns=4, classes=classes)
    np.testing.assert_array_equal(again.probabilities(rows), ours.probabilities(rows))


@pytest.mark.parametrize("block", [7, 400])  # a part of the rows in one tree, and all rows in two of three trees
def test_rows_are_computed_in_blocks(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    ours = forest(RandomForestClassifier(3, random_state=0).fit(X, Y))
    whole = ours.probabilities(X)
    monkeypatch.setattr("laddernet.inference.trees._BLOCK", block)
    np.testing.assert_array_equal(ours.probabilities(X), whole)


def arrays(kind: str = "forest") -> dict[str, np.ndarray]:
    known, convert = KINDS[kind]
    return convert(known.fit(X, Y)).arrays()


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("roots", lambda a: a[:0]),
        ("roots", lambda a: a + 10_000),
        ("roots", lambda a: a.astype(float)),
        ("feature", lambda a: a + 4),
        ("feature", lambda a: a - 4),
        ("threshold", lambda a: a[:-1]),
        ("left", lambda a: np.zeros_like(a)),  # back to the first node, without end
        ("right", lambda a: a + 10_000),
        ("value", lambda a: a[:, :1]),
        ("value", lambda a: a.astype(int)),
    ],
)
def test_arrays_that_do_not_fit_are_refused(name: str, change: Callable[[np.ndarray], np.ndarray]) -> None:
    held = arrays()
    with pytest.raises(ValueError, match="trees"):
        Trees.restored({**held, name: change(held[name])}, columns=4, classes=3)


def test_boosted_trees_of_other_classes_are_refused() -> None:
    with pytest.raises(ValueError, match="number of classes"):
        Trees.restored(arrays("boosting"), columns=4, classes=4)


@given(child=st.integers(-5, 60), node=st.integers(0, 10))
def test_every_row_reaches_a_leaf_of_whatever_is_accepted(child: int, node: int) -> None:
    held = {name: array.copy() for name, array in ARRAYS.items()}
    held["left"][node] = child
    try:
        ours = Trees.restored(held, columns=4, classes=3)
    except ValueError:
        return
    np.testing.assert_allclose(ours.probabilities(X[:5]).sum(axis=1), 1, atol=1e-6)


ARRAYS = arrays()

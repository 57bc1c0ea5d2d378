from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from iris import SETTINGS, TRUTH, X, few
from scipy.sparse import csr_matrix
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_score, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.semi_supervised import SelfTrainingClassifier
from sklearn.svm import LinearSVC
from sklearn.utils.estimator_checks import parametrize_with_checks

from laddernet import InputError, LabelledKFold, LabelledOnly, LadderClassifier
from laddernet.classifier.splits import held_out_rows

LABELS = st.lists(st.integers(-1, 4), min_size=4, max_size=60)


@given(y=LABELS, folds=st.integers(2, 6), repeats=st.integers(1, 3), seed=st.integers(0, 9))
def test_each_labelled_row_is_held_out_once_a_repeat_and_each_unlabelled_row_always_learned_from(
    y: list[int], folds: int, repeats: int, seed: int
) -> None:
    counts = {k: y.count(k) for k in set(y) - {-1}}
    judged = [row for row, k in enumerate(y) if counts.get(k, 0) > 1]
    split = LabelledKFold(folds, n_repeats=repeats, random_state=seed)
    if len(judged) < folds:
        with pytest.raises(InputError, match=f"n_splits is {folds}, and y has {len(judged)} labelled rows"):
            list(split.split(np.zeros((len(y), 1)), y))
        return
    found = list(split.split(np.zeros((len(y), 1)), y))
    assert len(found) == split.get_n_splits() == folds * repeats
    for train, test in found:
        assert sorted([*train, *test]) == list(range(len(y)))
        assert {row for row, k in enumerate(y) if k == -1} <= set(train)
        assert {y[row] for row in train} - {-1} == set(counts)  # every class can be learned
    for repeat in range(repeats):
        tests = [test for _, test in found[repeat * folds : (repeat + 1) * folds]]
        assert sorted(np.concatenate(tests)) == judged
        sizes = [len(test) for test in tests]
        assert max(sizes) - min(sizes) <= 1
        for k in counts:
            of_class = [sum(y[row] == k for row in test) for test in tests]
            assert max(of_class) - min(of_class) <= 1
    again = LabelledKFold(folds, n_repeats=repeats, random_state=seed).split(np.zeros((len(y), 1)), y)
    assert all(np.array_equal(a[1], b[1]) for a, b in zip(found, again, strict=True))


def test_repeats_and_seeds_give_other_folds() -> None:
    y = few(10)
    (_, first), _, (_, second), _ = LabelledKFold(2, n_repeats=2).split(X, y)
    (_, other), _ = LabelledKFold(2, random_state=1).split(X, y)
    assert not np.array_equal(first, second)
    assert not np.array_equal(first, other)


def test_every_way_of_writing_no_label_gives_the_same_folds() -> None:
    y = few(6)
    names = np.array(["a", "b", "c"], object)
    as_none = [None if k == -1 else names[k] for k in y]
    as_mark = ["?" if k == -1 else names[k] for k in y]
    expected = [test.tolist() for _, test in LabelledKFold(3).split(X, y)]
    for labels, mark in ((as_none, -1), (as_mark, "?"), (pd.Series(as_none), None), (np.where(y < 0, np.nan, y), -1)):
        found = LabelledKFold(3, unlabeled=mark).split(X, labels)
        assert [test.tolist() for _, test in found] == expected


def test_what_cannot_be_folded_is_one_sentence() -> None:
    with pytest.raises(InputError, match="n_splits must be an integer of 2 or more, got 1"):
        LabelledKFold(1)
    with pytest.raises(InputError, match="n_repeats must be an integer of 1 or more, got 0"):
        LabelledKFold(n_repeats=0)
    with pytest.raises(InputError, match="LabelledKFold needs y"):
        list(LabelledKFold().split(X))


def test_rows_that_can_be_held_out_are_those_of_classes_with_two_labels() -> None:
    assert held_out_rows(np.array([3, -1, 0, 3, 1])).tolist() == [0, 3]
    assert held_out_rows(np.array([0, 1, -1])).tolist() == []


ESTIMATORS: dict[str, Any] = {
    "the ladder": LadderClassifier(**{**SETTINGS, "max_steps": 32}),
    "self-training": SelfTrainingClassifier(LogisticRegression()),
    "labelled rows only": LabelledOnly(make_pipeline(StandardScaler(), LogisticRegression())),
}


@pytest.mark.parametrize("name", ESTIMATORS)
def test_named_metrics_judge_labelled_rows_only(name: str) -> None:
    metrics = ["accuracy", "f1_macro", "balanced_accuracy", "roc_auc_ovr", "neg_log_loss"]
    split = LabelledKFold(3, n_repeats=2)
    found = cross_validate(ESTIMATORS[name], X, few(10), cv=split, scoring=metrics, error_score="raise")
    for metric in metrics:
        scores = found[f"test_{metric}"]
        assert len(scores) == 6
        assert np.isfinite(scores).all()
    assert found["test_accuracy"].mean() > 0.7


def test_scores_are_those_of_folds_by_hand() -> None:
    y = few(8)
    forest = RandomForestClassifier(10, random_state=0)
    expected = []
    for train, test in LabelledKFold(4).split(X, y):
        known = train[y[train] >= 0]
        expected.append(np.mean(forest.fit(X[known], y[known]).predict(X[test]) == TRUTH[test]))
    np.testing.assert_array_equal(cross_val_score(LabelledOnly(forest), X, y, cv=LabelledKFold(4)), expected)


def test_a_grid_search_refits_to_all_rows() -> None:
    grid = {"estimator__C": [1e-6, 1.0]}
    search = GridSearchCV(LabelledOnly(LogisticRegression()), grid, cv=LabelledKFold(3), scoring="f1_macro")
    search.fit(X, few())
    assert search.best_params_ == {"estimator__C": 1.0}
    assert search.n_splits_ == 3
    np.testing.assert_array_equal(
        search.predict(X), LogisticRegression().fit(X[few() >= 0], few()[few() >= 0]).predict(X)
    )


def test_a_grid_search_takes_the_ladder() -> None:
    ladder = LadderClassifier(**{**SETTINGS, "max_steps": 32})
    search = GridSearchCV(ladder, {"label_smoothing": [0.0, 0.3]}, cv=LabelledKFold(2), scoring="neg_log_loss")
    assert search.fit(X, few()).score(X, TRUTH) < 0


@parametrize_with_checks([LabelledOnly(LogisticRegression(), unlabeled=None)])
def test_scikit_learns_checks_pass(estimator: LabelledOnly, check: Any) -> None:
    check(estimator)


@pytest.mark.parametrize("kind", [np.asarray, pd.DataFrame, csr_matrix, np.ndarray.tolist])
def test_only_labelled_rows_reach_the_estimator(kind: Any) -> None:
    y = few()
    found = LabelledOnly(LogisticRegression()).fit(kind(X), y)
    alone = LogisticRegression().fit(X[y >= 0], y[y >= 0])
    rows = kind(X)
    np.testing.assert_allclose(found.predict_proba(rows), alone.predict_proba(X))
    np.testing.assert_allclose(found.predict_log_proba(rows), alone.predict_log_proba(X))
    np.testing.assert_allclose(found.decision_function(rows), alone.decision_function(X))
    assert found.score(rows, y) == alone.score(X[y >= 0], y[y >= 0])
    assert found.classes_.tolist() == [0, 1, 2]
    assert found.n_features_in_ == 4


def test_names_of_columns_are_those_of_the_estimator() -> None:
    frame = pd.DataFrame(X, columns=list("abcd"))
    assert LabelledOnly(LogisticRegression()).fit(frame, few()).feature_names_in_.tolist() == list("abcd")


def test_an_estimator_without_probabilities_has_none() -> None:
    assert not hasattr(LabelledOnly(LinearSVC()), "predict_proba")

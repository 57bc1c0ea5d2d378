"""LadderClassifier: by scikit-learn's own checks, against the equations in NumPy, and with the tools around it."""

import io
import json
import pickle
import re
import subprocess
import sys
import warnings
from collections.abc import Callable
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import reference
import safetensors.numpy
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_digits, load_iris
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.neighbors import NearestNeighbors
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.semi_supervised import SelfTrainingClassifier
from sklearn.utils.estimator_checks import check_classifiers_classes, parametrize_with_checks

from laddernet import DivergedError, InputError, LadderClassifier
from laddernet.classifier.curve import label_curve
from laddernet.classifier.defaults import distance_apart
from laddernet.classifier.fit import _Watch
from laddernet.classifier.labels import encode_labels
from laddernet.classifier.scaling import find_scaling
from laddernet.inference import modelfile
from laddernet.inference.network import Scaling
from laddernet.network.combinators import Linear
from laddernet.training import step
from laddernet.training.rows import gathered_steps

X, TRUTH = load_iris(return_X_y=True)
NAMES = np.array(["setosa", "versicolor", "virginica"])
SETTINGS: dict[str, Any] = {
    "hidden": (8,),
    "recon_weights": (10.0, 1.0, 0.1),
    "max_steps": 256,
    "label_smoothing": 0.0,
    "n_networks": 1,
    "linear_share": 0.0,
    "random_state": 0,
}


def few(per_class: int = 5) -> np.ndarray:
    """Iris with that many labels a class."""
    y = np.full(len(TRUTH), -1)
    for c in range(3):
        rows = np.flatnonzero(np.equal(TRUTH, c))[:per_class]
        y[rows] = c
    return y


def fit(X: Any = X, y: Any = None, **settings: Any) -> LadderClassifier:
    return LadderClassifier(**{**SETTINGS, **settings}).fit(X, few() if y is None else y)


@cache
def fitted() -> LadderClassifier:
    """Not to be changed."""
    return fit()


@cache
def three() -> LadderClassifier:
    """Three networks, the last of them without hidden layers. Not to be changed."""
    return fit(n_networks=2, linear_share=0.4, hidden=(8, 4), recon_weights=1.0)


@cache
def by_range() -> LadderClassifier:
    """Scaled by the range of all columns, and so without a bound. Not to be changed."""
    return fit(scale="range")


def scaled() -> np.ndarray:
    """Iris as the network sees it: mean 0, deviation 1, and what is far out brought nearer, to less than 3."""
    v = (X - X.mean(axis=0)) / X.std(axis=0)
    brought: np.ndarray = v / np.sqrt(1 + v**2 / 9)
    return brought


def seen() -> np.ndarray:
    """The rows whose statistics normalise, as in a step: as many labelled ones as there are rows, and all rows."""
    labelled = np.flatnonzero(few() >= 0)
    return scaled()[np.concatenate([np.resize(labelled, len(X)), np.arange(len(X))])]


# --- scikit-learn's own checks ------------------------------------------------------------------------------------


# It has -1 and +1 as its classes. scikit-learn spares its own semi-supervised estimators that, by their names.
MINUS_ONE = {"check_classifiers_classes": "-1 marks unlabelled rows, unless unlabeled=None"}


@parametrize_with_checks([LadderClassifier(**SETTINGS)], expected_failed_checks=lambda estimator: MINUS_ONE)
def test_scikit_learns_checks_pass(estimator: LadderClassifier, check: Any) -> None:
    check(estimator)


def test_the_check_with_a_class_of_minus_one_passes_if_that_is_no_mark() -> None:
    check_classifiers_classes("LadderClassifier", LadderClassifier(**SETTINGS, unlabeled=None))


# --- What it learns -----------------------------------------------------------------------------------------------


def test_it_learns_from_the_unlabelled_rows() -> None:
    assert fitted().score(X, TRUTH) > 0.9


def test_the_same_seed_gives_the_same_bits_and_another_does_not() -> None:
    same, other = fit(), fit(random_state=1)
    assert np.array_equal(fitted().predict_proba(X), same.predict_proba(X))
    assert not np.array_equal(fitted().predict_proba(X), other.predict_proba(X))


def test_predictions_are_the_equations_with_the_statistics_of_labelled_and_all_rows() -> None:
    layers = range(2)
    (held,) = fitted()._networks
    encoder = [{name: held[f"encoder.{l}.{name}"].astype(float) for name in ("W", "gamma", "beta")} for l in layers]
    expected = reference.predict({"encoder": encoder}, scaled(), seen())
    np.testing.assert_allclose(fitted().predict_proba(X), expected, atol=2e-5)
    np.testing.assert_array_equal(fitted().predict(X), expected.argmax(axis=1))
    np.testing.assert_allclose(fitted().predict_log_proba(X), np.log(expected), atol=2e-3)


def test_decisions_are_logits() -> None:
    logits = fitted().decision_function(X)
    p = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(p, fitted().predict_proba(X), atol=1e-5)
    np.testing.assert_allclose(logits, fitted().transform(X, layer=2))


def test_transform_gives_the_layer_asked_for() -> None:
    assert fitted().transform(X).shape == (150, 8)
    assert (fitted().transform(X) >= 0).all()
    np.testing.assert_allclose(fitted().transform(X, layer=0), scaled(), atol=1e-5)
    assert list(fitted().get_feature_names_out())[-1] == "ladderclassifier7"
    with pytest.raises(InputError, match="There is no layer 3; give 0"):
        fitted().transform(X, layer=3)


def test_tables_with_other_numbers_of_rows_share_what_was_compiled() -> None:
    fitted()
    before = step.run_steps._cache_size()
    fit(X[::2], few()[::2], noise=0.1, learning_rate=0.01, recon_weights=1.0, weight_decay=0.0, max_steps=3)
    fit(X[:141], few(11)[:141], max_steps=40, class_weight="balanced")
    assert step.run_steps._cache_size() == before


def test_several_networks_decide_by_their_logits_each_with_its_share() -> None:
    logits = []
    for held, depth in zip(three()._networks, (3, 3, 1), strict=True):
        encoder = [
            {name: held[f"encoder.{l}.{name}"].astype(float) for name in ("W", "gamma", "beta")} for l in range(depth)
        ]
        logits.append(np.log(reference.predict({"encoder": encoder}, scaled(), seen())))
    assert np.abs(logits[0] - logits[1]).max() > 0.1
    # Logarithms of probabilities are logits but for a number that all classes share.
    mean = np.average(logits, axis=0, weights=[0.3, 0.3, 0.4])
    expected = np.exp(mean) / np.exp(mean).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(three().predict_proba(X), expected, atol=2e-5)
    assert three().transform(X).shape == (150, 2 * 4 + 2 * 3)  # of the last one both signs of its logits
    assert three().n_steps_ == 3 * 256
    assert [record["network"] for record in three().history_] == [0] * 8 + [1] * 8 + [2] * 8


def test_smoothed_labels_are_learned_less_by_heart() -> None:
    """Labels that are read as any of three classes once in two times are right two times in three."""
    sure = fit(y=TRUTH).predict_proba(X)[np.arange(150), TRUTH]
    smooth = fit(y=TRUTH, label_smoothing=0.5).predict_proba(X)[np.arange(150), TRUTH]
    assert np.median(sure) > 0.95
    assert np.median(smooth) == pytest.approx(2 / 3, abs=0.07)


def test_the_first_of_several_networks_is_the_one_that_would_be_alone() -> None:
    alone, with_others = fitted()._networks[0], fit(n_networks=2)._networks[0]
    for name, array in alone.items():
        assert np.array_equal(array, with_others[name]), name


def fifth_neighbour(rows: np.ndarray) -> float:
    """The median distance to the fifth nearest row among those that are not the same, by scikit-learn."""
    distinct = np.unique(rows, axis=0)
    distances = NearestNeighbors(n_neighbors=6).fit(distinct).kneighbors(rows)[0][:, 5]  # the first is the row itself
    return float(np.median(distances))


NEAR = fifth_neighbour(X) / (X.max() - X.min()) / 2 / 0.18  # iris has four columns


def test_how_far_rows_liedistance_apart() -> None:
    assert distance_apart(X, find_scaling(X, "none")[1]) == pytest.approx(fifth_neighbour(X) / 2, rel=1e-3)
    beside = np.column_stack([X, np.full(len(X), 7.0)])  # a column that says nothing
    assert distance_apart(beside, find_scaling(beside, "range")[1]) == pytest.approx(0.18 * NEAR, rel=1e-3)
    assert distance_apart(sparse.csr_matrix(X), find_scaling(X, "none")[1]) == pytest.approx(
        fifth_neighbour(X) / 2, rel=1e-3
    )
    rng = np.random.default_rng(0)
    many = rng.random((3000, 2))
    assert distance_apart(many, Scaling(np.zeros(2), np.ones(2))) == pytest.approx(
        fifth_neighbour(many[:1000]) / 2**0.5, rel=0.1
    )
    for none in (np.zeros((9, 2)), X[:5], np.zeros((100, 2**20))):
        assert distance_apart(none, Scaling(np.zeros(none.shape[1]), np.ones(none.shape[1]))) == np.inf


def test_noise_leaves_apart_what_lies_close_together() -> None:
    rng = np.random.default_rng(0)
    angles = rng.uniform(0, 2 * np.pi, 600)
    truth = np.arange(600) % 2
    rings = (1 + 0.3 * truth)[:, None] * np.column_stack([np.cos(angles), np.sin(angles)])
    y = np.where(np.arange(600) < 40, truth, -1)
    made = LadderClassifier(random_state=0, n_networks=1).fit(rings, y)
    assert 0.15 <= made.noise_[0] < 0.25
    assert made.score(rings, truth) > LadderClassifier(random_state=0, n_networks=1, noise=0.3).fit(rings, y).score(
        rings, truth
    )


@pytest.mark.parametrize(
    ("labels", "scale", "noise", "shares", "hidden"),
    [
        (4, "columns", (0.3,) * 4, [0.1875] * 4 + [0.25], (64, 32)),
        (48, "columns", (0.15,) * 4, [0.1875] * 4 + [0.25], (64, 32)),
        (4, "range", (0.2 * NEAR, 0.2, 0.2, 0.2), [1], (256, 128)),
        (24, "range", (0.2 * NEAR**2, 0.2, 0.2, 0.2), [1], (256, 128)),
    ],
)
def test_defaults_suit_the_scale_and_the_labels(
    labels: int, scale: str, noise: tuple[float, ...], shares: list[float], hidden: tuple[int, ...]
) -> None:
    made = LadderClassifier(scale=scale, max_steps=1, random_state=0).fit(X, few(labels))
    assert made.noise_ == pytest.approx(noise, rel=1e-3)
    assert made._shares == pytest.approx(shares)
    assert made._networks[0]["encoder.1.W"].shape == hidden


def test_the_history_tells_steps_rates_and_costs() -> None:
    steps = [record["step"] for record in fitted().history_]
    assert steps == list(range(32, 257, 32))
    assert fitted().n_steps_ == 256
    rates = [record["learning_rate"] for record in fitted().history_]
    assert rates[0] == pytest.approx(0.02)
    assert rates == sorted(rates, reverse=True)
    assert rates[-1] < 0.001
    assert {"cost", "cross_entropy", "reconstruction_0", "reconstruction_2"} <= fitted().history_[0].keys()
    assert fit(max_steps=70).n_steps_ == fit(max_steps=70).history_[-1]["step"] == 70
    assert fit(max_steps=None, epochs=3).n_steps_ == 6  # two batches of 100 make a pass over 150 rows


def test_class_weights_move_the_border() -> None:
    y = np.where(TRUTH == 0, -1, TRUTH)  # the two that overlap
    one, other = (
        np.mean(fit(y=y, class_weight={1: a, 2: 1.0}).predict(X[50:]) == 1) for a in (0.02, 50.0)
    )  # fmt: skip
    assert one < other
    with pytest.raises(InputError, match=r"class_weight is .*not below 0"):
        fit(class_weight={0: -1.0, 1: 1.0, 2: 1.0})


def test_classes_may_have_other_shares_among_the_labels_than_among_the_rows() -> None:
    rng = np.random.default_rng(0)
    truth = np.repeat([0, 1], [950, 50])
    rows = rng.normal(size=(1000, 4)) + 3 * truth[:, None]
    y = np.where(np.isin(np.arange(1000), [*range(20), *range(950, 970)]), truth, -1)
    assert fit(rows, y, scale="columns").score(rows, truth) > 0.98


def test_labels_of_all_classes_count_where_only_some_can_normalise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("laddernet.classifier.fit._STATISTICS_ROWS", 100)
    assert fit(y=TRUTH).score(X, TRUTH) > 0.9  # the first fifty rows, which are sorted, are of one class


def test_early_stopping_keeps_the_best_on_rows_held_out() -> None:
    stopped = fit(y=few(20), early_stopping=True, n_iter_no_change=2, max_steps=2000)
    errors = [record["validation_error"] for record in stopped.history_]
    assert stopped.n_steps_ < 2000
    assert min(errors[-2:]) >= min(errors)
    with pytest.warns(UserWarning, match="too few labels"):
        assert "validation_error" not in fit(y=few(4), early_stopping=True).history_[0]
    with pytest.raises(InputError, match=r"validation_fraction must be a finite number above 0 and below 1, got 1\.5"):
        fit(early_stopping=True, validation_fraction=1.5)


def test_a_warm_start_goes_on_where_the_last_fit_ended() -> None:
    warm = LadderClassifier(**SETTINGS, warm_start=True).fit(X, few())
    first = warm.history_[0]["cost"]
    warm.fit(X, few())
    assert warm.history_[0]["cost"] < first / 2
    with pytest.raises(InputError, match=r"The last fit was for the classes \[0, 1, 2\], this one is for \[0, 1\]"):
        warm.fit(X[:100], TRUTH[:100])
    alike = (X - X.min(axis=0)) / np.ptp(X, axis=0)
    with pytest.raises(InputError, match=r"The last fit had 4 columns, X has 3; with warm_start=True give the same\."):
        warm.fit(X[:, :3], few())
    scaled = fit(alike, n_networks=None, warm_start=True)
    assert len(scaled.fit(X * [1, 100, 10, 1], few())._networks) == 1  # though alone these columns would get four
    for changed in ({"n_networks": 3}, {"linear_share": 0.5}):
        two = fit(warm_start=True, n_networks=2).set_params(**changed)
        with pytest.raises(
            InputError, match="The last fit trained 2 networks, this one is to train 3; with warm_start=True"
        ):
            two.fit(X, few())


@pytest.mark.parametrize(
    "case",
    [
        "a class with one label",
        "no unlabelled row",
        "fewer rows than a batch",
        "constant, tiny, huge and equal columns",
    ],
)
def test_odd_tables_will_do(case: str) -> None:
    rows, y = X, few()
    if case == "a class with one label":
        y = few(1)
    elif case == "no unlabelled row":
        y = TRUTH
    elif case == "fewer rows than a batch":
        rows, y = X[::10], TRUTH[::10]
    else:
        rows = np.column_stack([X[:, 2] * 1e9 + 1e12, X[:, 3] * 1e-12, np.full(150, 7.0), X[:, 2] * 1e9 + 1e12])
    done = fit(rows, y, max_steps=1000)
    assert np.isfinite(done.predict_proba(rows)).all()
    assert done.score(rows, TRUTH if len(rows) == 150 else y) > 0.75


@pytest.mark.parametrize("model", ["baseline", "gaussian", Linear])
def test_any_model_will_do(model: Any) -> None:
    assert fit(model=model).score(X, TRUTH) > 0.6


def test_it_says_how_far_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    fit(verbose=True)
    lines = capsys.readouterr().out.splitlines()
    assert re.fullmatch(r"step 256 of 256: cost \d+\.\d{3}", lines[-1])
    assert 5 <= len(lines) <= 10


# --- What it is given ---------------------------------------------------------------------------------------------


def marked(values: Any) -> list[int]:
    return encode_labels(values)[1].tolist()


@pytest.mark.parametrize(
    "y",
    [
        [1, -1, 0, 1],
        [1.0, np.nan, 0.0, 1.0],
        np.array([1.0, -1.0, 0.0, 1.0], np.float32),
        ["b", None, "a", "b"],
        ["b", np.nan, "a", "b"],
        np.array(["b", None, "a", "b"], object),
        [True, None, False, True],
        pd.Series(["b", None, "a", "b"]),
        pd.Series([1, pd.NA, 0, 1], dtype="Int64"),
        pd.Series([True, pd.NA, False, True], dtype="boolean"),
        pd.Series(["b", None, "a", "b"], dtype="category"),
        pl.Series([1, None, 0, 1]),
        pl.Series(["b", None, "a", "b"]),
        pl.Series([True, None, False, True]),
    ],
    ids=str,
)
def test_every_mark_of_an_unlabelled_row_is_understood(y: Any) -> None:
    assert marked(y) == [1, -1, 0, 1]


@pytest.mark.parametrize(
    "y",
    [
        pd.Series([2**60 + 1, pd.NA, 2**60], dtype="Int64"),
        pd.Series([2**60 + 1, None, 2**60], dtype="int64[pyarrow]"),
        pd.Series(pd.array([2**60 + 1, pd.NA, 2**60], dtype="Int64")).astype("category"),
        pl.Series([2**60 + 1, None, 2**60]),
        np.ma.array([2**60 + 1, 7, 2**60], mask=[False, True, False]),
        np.array([2**60 + 1, None, 2**60], object),
        pd.array([2**60 + 1, None, 2**60], dtype="Int64"),
        pd.array([2**60 + 1, None, 2**60], dtype="int64[pyarrow]"),
        pd.Categorical([2**60 + 1, None, 2**60], categories=[2**60, 2**60 + 1]),
        pa.array([2**60 + 1, None, 2**60]),
        [2**60 + 1, None, 2**60],
        [2**60 + 1, np.nan, 2**60],
        [2**60 + 1, np.float32("nan"), 2.0**60],
    ],
    ids=lambda y: str(getattr(y, "dtype", y)),
)
def test_whole_numbers_stay_whole_beside_a_missing_label(y: Any) -> None:
    classes, codes = encode_labels(y)
    assert (classes.dtype, classes.tolist(), codes.tolist()) == (np.int64, [2**60, 2**60 + 1], [1, -1, 0])


CONTAINERS: dict[str, Callable[[list[int | None], str], Any]] = {
    "list": lambda values, kind: values,
    "object array": lambda values, kind: np.array(values, object),
    "masked array": lambda values, kind: np.ma.array(
        np.array([value or 0 for value in values], kind), mask=[value is None for value in values]
    ),
    "pandas array": lambda values, kind: pd.array(values, dtype=kind.replace("i", "I").replace("u", "U")),
    "pandas frame": lambda values, kind: pd.DataFrame({"y": CONTAINERS["pandas array"](values, kind)}),
    "object series": lambda values, kind: pd.Series(values, dtype=object),
    "Arrow series": lambda values, kind: pd.Series(values, dtype=f"{kind}[pyarrow]"),
    "polars series": lambda values, kind: pl.Series(values, dtype=pl.UInt64 if kind == "uint64" else pl.Int64),
    "polars frame": lambda values, kind: CONTAINERS["polars series"](values, kind).to_frame("y"),
}


@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.filterwarnings("ignore:A column-vector y was passed")
@given(
    values=st.one_of(
        st.lists(st.one_of(st.none(), st.integers(low, low + 2**64 - 1)), min_size=3) for low in (-(2**63), 0)
    ).filter(lambda values: len(set(values) - {None}) > 1)
)
def test_classes_are_exactly_the_whole_numbers_that_were_given(container: str, values: list[int | None]) -> None:
    known = {value for value in values if value is not None}
    y = CONTAINERS[container](values, "uint64" if max(known) >= 2**63 else "int64")
    classes, codes = encode_labels(y, unlabeled=None)
    assert classes.tolist() == sorted(known)
    assert [None if code < 0 else int(classes[code]) for code in codes] == values


def test_a_long_mark_does_not_hide_its_neighbours() -> None:
    y = np.array([2**53, 2**53 + 1, 2**53 + 2])
    for mark in (2**53, float(2**53), np.float64(2**53), np.uint64(2**53)):
        assert encode_labels(y, unlabeled=mark)[0].tolist() == [2**53 + 1, 2**53 + 2]


def test_predictions_of_long_whole_numbers_are_members_of_them() -> None:
    keys = [2**53, 2**53 + 1, 2**63 + 1]
    y = pd.array([keys[code] if row % 3 else None for row, code in enumerate(TRUTH)], dtype="UInt64")
    fitted = fit(y=y)
    assert fitted.classes_.tolist() == keys
    assert set(fitted.predict(X).tolist()) == set(keys)
    assert fitted.score(X, y) > 0.9
    points = label_curve(LadderClassifier(**SETTINGS | {"max_steps": 1}), X, y, counts=[5], repeats=2)
    assert len(points[0].errors) == 2


@pytest.mark.parametrize("mark", ["nan", "None", "-1"])
def test_a_class_that_is_called_like_a_mark_is_warned_of(mark: str) -> None:
    with pytest.warns(UserWarning, match=f"y has a class called '{mark}'; if it marks rows .* say unlabeled='{mark}'"):
        encode_labels(np.array(["a", "b", mark]))
    assert encode_labels(np.array(["a", "b", mark]), unlabeled=mark)[1].tolist() == [0, 1, -1]


def test_another_mark_can_be_named() -> None:
    assert encode_labels([-1, 1, 0, 1], unlabeled=0)[1].tolist() == [0, 1, -1, 1]
    assert encode_labels(["a", "?", "b"], unlabeled="?")[1].tolist() == [0, -1, 1]
    assert encode_labels([-1, 1, 1], unlabeled=None)[0].tolist() == [-1, 1]
    assert encode_labels(["1", "b", "c"], unlabeled=1)[0].tolist() == ["1", "b", "c"]
    assert encode_labels([-1, 1, 1], unlabeled=pd.NA)[0].tolist() == [-1, 1]
    assert encode_labels(np.array(["a", np.str_("b"), None], object))[0].tolist() == ["a", "b"]
    assert fit(y=np.where(TRUTH == 0, -1, 1), unlabeled=None).classes_.tolist() == [-1, 1]


@pytest.mark.parametrize(
    ("y", "sentence"),
    [
        (
            [-1, -1, 1],
            "y holds one class, 1, and nothing else but -1, which marks unlabelled rows; if -1 is a class of",
        ),
        ([1, 1, 1], "y holds one class, 1, and nothing else; give labels of two classes or more."),
        ([-1, -1, -1], "No row of y has a label (all are None, NaN or -1); give at least one label of two classes."),
        ([None, None], "No row of y has a label"),
        (["a", 1, None], "y holds labels of several types (int, str); give all as one type."),
        ([date(2026, 1, 1), date(2026, 1, 2)], "y holds labels of the type date; give numbers, booleans or text."),
        (
            np.array(["2026", "2027"], "M8[Y]"),
            "y holds labels of the type datetime64[Y]; give numbers, booleans or text.",
        ),
        (
            [2**63, -5],
            "y holds whole numbers from -5 to 9223372036854775808, which no 64-bit type holds; give the labels",
        ),
        (
            [2**64, 1],
            "y holds whole numbers from 1 to 18446744073709551616, which no 64-bit type holds; give the labels",
        ),
        ([b"a", b"b"], "y holds labels of the type bytes; give numbers, booleans or text."),
    ],
    ids=str,
)
def test_labels_that_will_not_do_are_one_sentence(y: Any, sentence: str) -> None:
    with pytest.raises(InputError, match=re.escape(sentence)):
        encode_labels(np.array(y, object) if isinstance(y, list) and (None in y or "a" in y) else y)


def test_frames_keep_their_names_and_are_checked_by_them() -> None:
    frame = pd.DataFrame(X, columns=["a", "b", "c", "d"])
    labels = pd.Series(np.where(few() == -1, None, NAMES[few()]))
    done = fit(frame, labels)
    assert done.feature_names_in_.tolist() == ["a", "b", "c", "d"]
    assert done.predict(frame)[:2].tolist() == ["setosa", "setosa"]
    np.testing.assert_array_equal(done.predict_proba(frame), fitted().predict_proba(X))
    np.testing.assert_array_equal(done.predict(pl.DataFrame(dict(frame))), done.predict(frame))
    with pytest.raises(ValueError, match="feature names should match"):
        done.predict(frame[["b", "a", "c", "d"]])
    with pytest.raises(ValueError, match="X has 3 features, but LadderClassifier is expecting 4"):
        fitted().predict(X[:, :3])


@pytest.mark.parametrize("kind", [sparse.csr_matrix, sparse.csc_array, sparse.coo_array])
def test_sparse_rows_give_what_dense_ones_give(kind: Any) -> None:
    done = fit(kind(X))
    np.testing.assert_allclose(done.predict_proba(kind(X)), fitted().predict_proba(X), atol=1e-6)


def test_sparse_rows_are_made_dense_a_few_thousand_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []
    monkeypatch.setattr("laddernet.training.rows.dense", lambda rows: made.append(rows.shape[0]) or rows.toarray())
    many = sparse.csr_array(np.tile(X, (60, 1)))
    done = fit(many, np.tile(few(), 60), max_steps=2)
    assert max(made) == 3200  # 32 steps of 100 rows
    assert sum(made) == 2 * 3200 + 10_000
    np.testing.assert_array_equal(done.classes_, [0, 1, 2])


def test_very_wide_rows_are_gathered_for_fewer_steps_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    chunks = {columns: gathered_steps((100, 100), columns) for columns in (4, 784, 20_000, 10**6)}
    assert chunks == {4: 32, 784: 32, 20_000: 8, 10**6: 1}
    monkeypatch.setattr("laddernet.training.rows._STEPS_CELLS", 2 * 200 * X.shape[1])
    assert [record["step"] for record in fit(max_steps=5).history_] == [2, 4, 5]


def test_integers_and_float32_will_do() -> None:
    rows = np.round(X * 10).astype(np.int16)
    np.testing.assert_allclose(
        fit(rows).predict_proba(rows), fit(rows.astype(np.float64)).predict_proba(rows), atol=1e-5
    )
    assert fit(X.astype(np.float32)).predict_proba(X).dtype == np.float32


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ({"hidden": ()}, "hidden must be one or more positive integers, got ()."),
        ({"hidden": (8, 0)}, "hidden must be one or more positive integers, got (8, 0)."),
        ({"hidden": 8.5}, "hidden must be one or more positive integers, got 8.5."),
        ({"hidden": [True]}, "hidden must be one or more positive integers, got [True]."),
        ({"hidden": "8"}, "hidden must be one or more positive integers, got '8'."),
        ({"learning_rate": True}, "learning_rate must be a finite number above 0, got True."),
        ({"eta": 10**400}, "eta must be a finite number above 0, got 1000"),
        ({"noise": "0.3"}, "noise must be finite numbers of 0 or more, got '0.3'."),
        ({"n_networks": 10**9}, "n_networks must be an integer from 1 to 10000, got 1000000000."),
        ({"epochs": 1}, "Both epochs and max_steps are given; give one of them."),
        ({"max_steps": 0}, "max_steps must be an integer from 1 to 1000000000, got 0."),
        ({"batch_size": 2.5}, "batch_size must be an integer from 1 to 1000000, got 2.5."),
        ({"learning_rate": 0.0}, "learning_rate must be a finite number above 0, got 0.0."),
        ({"learning_rate": None}, "learning_rate must be a finite number above 0, got None."),
        ({"label_smoothing": "much"}, "label_smoothing must be a finite number of 0 or more, got 'much'."),
        ({"recon_weights": (1, 2)}, "recon_weights has 2 values; give 1 or 3 (layers 0 to 2)."),
        ({"model": None}, "The model is None; give a model's id, file.py:Class, or a class."),
        ({"device": 3}, "There is no device 3 here; give one of cpu, or None."),
        ({"weight_decay": float("nan")}, "weight_decay must be a finite number of 0 or more, got nan."),
        ({"n_networks": 0}, "n_networks must be an integer from 1 to 10000, got 0."),
        ({"linear_share": 1}, "linear_share must be a finite number of 0 or more and below 1, got 1."),
        ({"label_smoothing": -0.1}, "label_smoothing must be a finite number of 0 or more, got -0.1."),
        ({"noise": (0.1, 0.2, 0.3, 0.4)}, "noise has 4 values; give 1, 2 or 3 (layers 0 to 2)."),
        ({"noise": "much"}, "noise must be finite numbers of 0 or more, got 'much'."),
        (
            {"early_stopping": True, "validation_fraction": "a"},
            "validation_fraction must be a finite number above 0, got 'a'.",
        ),
        (
            {"early_stopping": True, "validation_fraction": 0.97},
            "validation_fraction is 0.97, which leaves so few labels",
        ),
        ({"recon_weights": -1}, "recon_weights must be finite numbers of 0 or more, got -1."),
        ({"scale": "log"}, "scale is 'log'; give one of 'auto', 'columns', 'range', 'none'."),
        ({"model": "vanila"}, "There is no model 'vanila'; did you mean 'vanilla'?"),
        ({"device": "abacus"}, "There is no device 'abacus' here; give one of cpu, or None."),
        ({"n_jobs": -9}, "n_jobs is -9; give a number of cores, None or -1 for all."),
        ({"n_jobs": 0}, "n_jobs is 0; give a number of cores, None or -1 for all."),
        ({"batch_size": None}, "batch_size must be an integer from 1 to 1000000, got None."),
        ({"n_iter_no_change": None}, "n_iter_no_change must be an integer of 1 or more, got None."),
        ({"early_stopping": "no"}, "early_stopping must be True or False, got 'no'."),
        ({"warm_start": np.array([1, 2])}, "warm_start must be True or False, got [1, 2]."),
        ({"validation_fraction": "a"}, "validation_fraction must be a finite number above 0, got 'a'."),
        ({"verbose": "no"}, "verbose must be True, False or an integer, got 'no'."),
        ({"scale": np.array([1, 2])}, "scale is [1, 2]; give one of 'auto', 'columns', 'range', 'none'."),
        ({"n_jobs": "2"}, "n_jobs is '2'; give a number of cores, None or -1 for all."),
    ],
    ids=str,
)
def test_parameters_that_will_not_do_are_one_sentence(parameters: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=re.escape(sentence)):
        fit(**parameters)


def test_a_large_integer_is_used_as_the_float_of_the_same_value() -> None:
    by_integer, by_float = (fit(eta=value, max_steps=1) for value in (10**10, 1e10))
    np.testing.assert_array_equal(by_integer.predict_proba(X), by_float.predict_proba(X))


def test_rows_that_will_not_do_are_one_sentence() -> None:
    with pytest.raises(ValueError, match="contains NaN"):
        fit(np.where(X > 7, np.nan, X))
    with pytest.raises(InputError, match="X has 150 rows and y has 149; give a label, or a mark, for each row"):
        fit(y=few()[1:])
    with pytest.raises(NotFittedError):
        LadderClassifier().predict(X)
    with pytest.raises(DivergedError, match=r"In step \d+, .* a smaller learning rate"):
        fit(learning_rate=1e30)
    with pytest.raises(InputError, match=r"X holds a value of size 7\.9e\+40; give numbers below 3e38"):
        fit(X * 1e40)


@pytest.mark.parametrize("scale", ["columns", "range"])
def test_rows_too_large_to_compute_with_are_refused_not_classified(scale: str) -> None:
    beside = np.column_stack([X, np.ones(len(X))])  # a column that is constant
    done = fit(beside, scale=scale, max_steps=1)
    beside[7, -1] = 1e39
    for wanted in (done.predict, done.predict_proba, done.transform):
        with pytest.raises(InputError, match=r"X holds a value of size 1e\+39, too large to compute with"):
            wanted(beside)


def test_a_column_too_small_for_float32_counts_as_constant() -> None:
    small = find_scaling(np.column_stack([X, X[:, 0] * 1e-40]))[1]
    np.testing.assert_array_equal(small.factor[:4], find_scaling(X)[1].factor)
    assert small.factor[4] == 0


def test_only_the_last_hidden_layer_has_names_of_columns() -> None:
    named = clone(three()).set_params(max_steps=1).set_output(transform="pandas").fit(X, few())
    assert named.transform(X).columns.tolist() == named.get_feature_names_out().tolist()
    with pytest.raises(InputError, match=r"for layer 1 say set_output\(transform='default'\)"):
        named.transform(X, layer=1)
    for layer in ("1", 1.5, 9):
        with pytest.raises(InputError, match=f"There is no layer {layer!r}"):
            fitted().transform(X, layer=layer)


def test_a_fit_that_fails_leaves_what_was_learned_before() -> None:
    done = fit()
    with pytest.raises(InputError, match="max_steps must be an integer from 1 to 1000000000, got 0"):
        done.set_params(max_steps=0).fit(X[:, :3], np.where(few() == -1, None, NAMES[few()]))
    np.testing.assert_array_equal(done.predict_proba(X), fitted().predict_proba(X))
    np.testing.assert_array_equal(done.classes_, [0, 1, 2])


def test_rows_without_a_label_do_not_count_in_scores() -> None:
    rows, y = X[few(20) >= 0], few(20)
    assert fitted().score(X, y) == fitted().score(rows, y[y >= 0])
    weights = np.arange(len(y))
    assert fitted().score(X, y, weights) == fitted().score(rows, y[y >= 0], weights[y >= 0])
    words = pd.Series(pd.array(np.where(y == -1, None, NAMES[y]), dtype="string"))
    assert fit(y=words).score(X, words) > 0.9
    assert cross_val_score(LadderClassifier(**SETTINGS), X, y, cv=2).min() > 0.7
    with pytest.raises(InputError, match="No row of y has a label; give some to judge by"):
        fitted().score(X, np.full(len(X), -1))
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        fitted().score(X, y[1:])


# --- The tools around it ------------------------------------------------------------------------------------------


def test_scikit_learns_tools_take_it() -> None:
    base = LadderClassifier(**SETTINGS)
    assert clone(base).get_params() == base.get_params()
    assert make_pipeline(StandardScaler(), base).fit(X, few()).score(X, TRUTH) > 0.7
    assert cross_val_score(base, X, TRUTH, cv=2).shape == (2,)
    search = GridSearchCV(base, {"noise": [0.1, 0.3]}, cv=2).fit(X, TRUTH)
    assert search.best_score_ > 0.7
    calibrated = CalibratedClassifierCV(base, cv=2).fit(X, TRUTH)
    np.testing.assert_allclose(calibrated.predict_proba(X).sum(axis=1), 1)
    assert SelfTrainingClassifier(base, threshold=0.95).fit(X, few()).score(X, TRUTH) > 0.7


def test_a_copy_by_pickle_or_joblib_predicts_the_same() -> None:
    held = io.BytesIO()
    joblib.dump(fitted(), held)
    held.seek(0)
    for copy in (pickle.loads(pickle.dumps(fitted())), joblib.load(held)):
        np.testing.assert_array_equal(copy.predict_proba(X), fitted().predict_proba(X))


def test_keeping_to_one_core_changes_nothing() -> None:
    np.testing.assert_array_equal(fit(n_jobs=1).predict_proba(X), fitted().predict_proba(X))


def test_networks_that_are_trained_side_by_side_are_those_that_are_trained_one_after_the_other() -> None:
    several: dict[str, Any] = {"n_networks": 3, "linear_share": 0.25, "max_steps": 64}
    together, in_turn = fit(**several), fit(**several, n_jobs=1)
    np.testing.assert_array_equal(together.predict_proba(X), in_turn.predict_proba(X))
    assert together.history_ == in_turn.history_
    assert [record["network"] for record in together.history_] == [0, 0, 1, 1, 2, 2, 3, 3]


def test_when_one_network_fails_the_others_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[int] = []

    def after_chunk(watch: _Watch, record: dict[str, Any], network: Any) -> bool:
        heard.append(record["step"])
        if record["step"] == 96:
            raise DivergedError("A network diverged.")
        return False

    monkeypatch.setattr(_Watch, "after_chunk", after_chunk)
    with pytest.raises(DivergedError, match="A network diverged"):
        fit(n_networks=4, max_steps=32_000)
    assert max(heard) <= 96 + 32 * 8  # each ends after the chunk that it was at, or one that it had begun
    monkeypatch.undo()
    assert fit(n_networks=2).score(X, TRUTH) > 0.8


# --- Files --------------------------------------------------------------------------------------------------------


def test_a_file_holds_all_of_it(tmp_path: Path) -> None:
    frame = pd.DataFrame(X, columns=["a", "b", "c", "d"])
    done = fit(frame, pd.Series(np.where(few() == -1, None, NAMES[few()])), model=Linear, random_state=np.random)
    done.save(tmp_path / "model.safetensors")
    held = LadderClassifier.load(tmp_path / "model.safetensors")
    np.testing.assert_array_equal(held.predict_proba(frame), done.predict_proba(frame))
    np.testing.assert_array_equal(held.predict(frame), done.predict(frame))
    np.testing.assert_array_equal(held.transform(frame), done.transform(frame))
    assert (held.history_, held.n_steps_) == (done.history_, done.n_steps_)
    assert held.feature_names_in_.tolist() == ["a", "b", "c", "d"]
    assert (list(held.hidden), held.max_steps, held.noise_) == ([8], 256, (0.3, 0.3, 0.3))
    for classes in (TRUTH, TRUTH == 1, TRUTH.astype(float)):
        again = fit(y=classes)
        again.save(tmp_path / "again.safetensors")
        loaded = LadderClassifier.load(tmp_path / "again.safetensors")
        assert loaded.classes_.dtype == again.classes_.dtype
        np.testing.assert_array_equal(loaded.predict(X), again.predict(X))


def test_a_file_can_go_on_learning(tmp_path: Path) -> None:
    warm = fit(warm_start=True, n_networks=2, linear_share=0.5)
    warm.save(tmp_path / "model")
    held = LadderClassifier.load(tmp_path / "model")
    np.testing.assert_array_equal(held.fit(X, few()).predict_proba(X), warm.fit(X, few()).predict_proba(X))


def test_weights_of_classes_are_theirs_after_loading(tmp_path: Path) -> None:
    weighted = fit(class_weight={0: 1.0, np.int64(1): 5, 2: np.float64(1)})
    weighted.save(tmp_path / "model")
    held = LadderClassifier.load(tmp_path / "model")
    assert held.class_weight == {0: 1, 1: 5, 2: 1}
    np.testing.assert_array_equal(held.fit(X, few()).predict_proba(X), weighted.predict_proba(X))


def test_files_that_will_not_do_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    fitted().save(path)
    whole = path.read_bytes()

    def refused(content: bytes, sentence: str) -> None:
        path.write_bytes(content)
        with pytest.raises(InputError, match=re.escape(sentence)):
            LadderClassifier.load(path)

    refused(whole[:-1], "is not a whole model file (")
    refused(whole[:100], "is not a whole model file (")
    refused(b"", "is not a whole model file (")
    refused(pickle.dumps(fitted()), "is not a whole model file (")
    refused(safetensors.numpy.save({"a": np.zeros(2)}), "is a safetensors file, but not a model of laddernet")
    refused(whole[:-1] + bytes([whole[-1] ^ 1]), "is damaged or was changed")
    refused(whole.replace(b"max_steps", b"max_stepz"), "is damaged or was changed")
    arrays, about = fitted().state()
    modelfile.write(path, "classifier", arrays, {**about, "format": 99})
    refused(path.read_bytes(), "which is newer; install that version")
    modelfile.write(path, "table", arrays, about)
    refused(path.read_bytes(), "is a table model, not a classifier model; open it with `laddernet predict`")
    with pytest.raises(InputError, match=r"Cannot read .*absent"):
        LadderClassifier.load(tmp_path / "absent")


def test_a_file_of_the_first_format_which_knew_no_bound_and_no_shares_still_loads(tmp_path: Path) -> None:
    arrays, about = by_range().state()
    modelfile.write(
        tmp_path / "model",
        "classifier",
        arrays,
        {**{name: v for name, v in about.items() if name not in ("bound", "shares")}, "format": 1},
    )
    assert np.array_equal(LadderClassifier.load(tmp_path / "model").predict_proba(X), by_range().predict_proba(X))


@pytest.mark.process
def test_an_onnx_runtime_without_jax_or_laddernet_gives_the_same(tmp_path: Path) -> None:
    np.save(tmp_path / "X.npy", X.astype(np.float32))
    program = """
import sys, json, numpy as np, onnxruntime
session = onnxruntime.InferenceSession(sys.argv[1])
label, p = session.run(["label", "probabilities"], {"X": np.load(sys.argv[2])})
assert not {"jax", "laddernet", "sklearn"} & set(sys.modules)
print(json.dumps([label.tolist(), p.tolist()]))
"""
    for done in (fitted(), three(), by_range(), fit(y=np.where(few() == -1, None, NAMES[few()]))):
        done.to_onnx(tmp_path / "model.onnx")
        command = [sys.executable, "-c", program, str(tmp_path / "model.onnx"), str(tmp_path / "X.npy")]
        label, p = json.loads(subprocess.run(command, capture_output=True, check=True, text=True).stdout)
        assert label == done.predict(X).tolist()
        np.testing.assert_allclose(p, done.predict_proba(X), atol=1e-5)


def test_parameters_out_of_numpy_and_pandas_are_kept_in_a_file(tmp_path: Path) -> None:
    given = {"hidden": (np.int64(8),), "noise": (np.float32(0.5), 0.25), "verbose": np.bool_(False), "unlabeled": pd.NA}
    done = clone(fitted()).set_params(max_steps=1, **given).fit(X, TRUTH)
    done.save(tmp_path / "model")
    kept = LadderClassifier.load(tmp_path / "model").get_params()
    wanted = {"hidden": [8], "noise": [0.5, 0.25], "verbose": False, "unlabeled": None}
    assert {name: kept[name] for name in given} == wanted


@pytest.mark.parametrize(
    "change",
    [
        lambda arrays, about: about.pop("classes"),
        lambda arrays, about: about.update(networks="two"),
        lambda arrays, about: about.update(format="new"),
        lambda arrays, about: arrays.pop("networks.0.encoder.0.W"),
        lambda arrays, about: arrays["networks.0.encoder.0.W"].fill(np.nan),
    ],
)
def test_a_file_with_something_missing_or_wrong_is_refused_however_right_its_checksum(
    tmp_path: Path, change: Callable[[dict[str, Any], dict[str, Any]], Any]
) -> None:
    arrays, about = fitted().state()
    arrays, about = {name: array.copy() for name, array in arrays.items()}, dict(about)
    change(arrays, about)
    modelfile.write(tmp_path / "model", "classifier", arrays, about)
    with pytest.raises(InputError, match="save the model anew"):
        LadderClassifier.load(tmp_path / "model")


@pytest.mark.process
def test_a_saved_model_predicts_without_jax(tmp_path: Path) -> None:
    fitted().save(tmp_path / "model")
    np.save(tmp_path / "X.npy", X)
    program = """
import sys, json, numpy as np
from laddernet import LadderClassifier
p = LadderClassifier.load(sys.argv[1]).predict_proba(np.load(sys.argv[2]))
assert "jax" not in sys.modules
print(json.dumps(p.tolist()))
"""
    command = [sys.executable, "-c", program, str(tmp_path / "model"), str(tmp_path / "X.npy")]
    p = json.loads(subprocess.run(command, capture_output=True, check=True, text=True).stdout)
    np.testing.assert_array_equal(p, fitted().predict_proba(X))


# --- Scaling ------------------------------------------------------------------------------------------------------


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


def test_prediction_warns_of_nothing() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fitted().predict_proba(X * 1e6)

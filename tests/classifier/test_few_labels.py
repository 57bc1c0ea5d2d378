from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from iris import NAMES, SETTINGS, TRUTH, X, few
from scipy.sparse import csr_matrix
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

from laddernet import FewLabelClassifier, InputError, LadderClassifier
from laddernet.classifier.members import BLEND, METHODS
from laddernet.inference import modelfile

LADDER = LadderClassifier(**{**SETTINGS, "max_steps": 32})
MINUS_ONE = {"check_classifiers_classes": "-1 marks unlabelled rows, unless unlabeled=None"}


@cache
def fitted(method: str = BLEND) -> FewLabelClassifier:
    """Not to be changed."""
    return FewLabelClassifier(method, ladder=LADDER, random_state=0).fit(X, few())


@parametrize_with_checks(
    [FewLabelClassifier("self-training"), FewLabelClassifier("extra-trees")],
    expected_failed_checks=lambda estimator: MINUS_ONE,
)
def test_scikit_learns_checks_pass(estimator: FewLabelClassifier, check: Any) -> None:
    check(estimator)


def test_the_blend_is_the_mean_of_the_probabilities_of_three_methods_the_network_counted_twice() -> None:
    names = ("ladder", "ladder", "logistic", "extra-trees")
    expected = np.mean([fitted(name).predict_proba(X) for name in names], axis=0)
    np.testing.assert_allclose(fitted().predict_proba(X), expected, atol=1e-7)
    np.testing.assert_array_equal(fitted().predict(X), expected.argmax(axis=1))
    np.testing.assert_allclose(np.exp(fitted().predict_log_proba(X)), expected, atol=1e-6)
    assert fitted().score(X, few()) == np.mean(expected.argmax(axis=1)[few() >= 0] == few()[few() >= 0])


def test_auto_takes_what_is_clearly_better_and_says_so() -> None:
    rng = np.random.default_rng(0)
    rows = rng.uniform(-1, 1, (160, 2))
    squares = (np.floor(2 * rows).sum(axis=1) % 2).astype(int)  # of a chessboard, on which no line and no cluster helps
    found = FewLabelClassifier(ladder=clone(LADDER).set_params(max_steps=1), n_repeats=1, n_splits=3, random_state=0)
    found.fit(rows, squares)
    assert found.method_ not in ("blend", "ladder", "logistic", "self-training")
    assert found.errors_[found.method_] < found.errors_["blend"] - 5
    assert set(found.errors_) == set(METHODS)
    assert found.advice_.startswith("Use ")
    assert found.network is None


def test_without_two_labels_of_a_class_auto_is_the_blend() -> None:
    found = FewLabelClassifier(ladder=LADDER, random_state=0).fit(X, few(1))
    assert (found.method_, found.errors_, found.advice_) == (BLEND, {}, "")


@pytest.mark.parametrize("method", METHODS)
def test_a_file_holds_every_method(tmp_path: Path, method: str) -> None:
    names = np.array([None, *NAMES], object)[few() + 1]
    made = FewLabelClassifier(method, ladder=LADDER, random_state=0).fit(X, names)
    made.save(tmp_path / "m.safetensors")
    again = FewLabelClassifier.load(tmp_path / "m.safetensors")
    np.testing.assert_array_equal(again.predict_proba(X), made.predict_proba(X))
    np.testing.assert_array_equal(again.predict(X), made.predict(X))
    np.testing.assert_array_equal(again.embed(X), made.embed(X))
    assert again.get_params(deep=False) == made.get_params(deep=False) | {"ladder": None}


def test_a_file_without_weights_is_the_blend_of_older_versions(tmp_path: Path) -> None:
    arrays, about = fitted().state()
    trained, _ = fitted("self-training").state()
    held = {name: array for name, array in {**arrays, **trained}.items() if not name.startswith("members.logistic.")}
    modelfile.write(tmp_path / "m", "few-labels", held, {name: about[name] for name in about if name != "weights"})
    expected = np.mean([fitted(name).predict_proba(X) for name in ("ladder", "self-training", "extra-trees")], axis=0)
    np.testing.assert_allclose(FewLabelClassifier.load(tmp_path / "m").predict_proba(X), expected, atol=1e-7)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("method", "svm"),
        ("method", "forest"),
        ("method", None),
        ("n_features_in", 5),
        ("classes", {"dtype": "<i8", "values": [0, 1]}),
        ("classes", {"dtype": "<U99999999", "values": ["a"] * 10}),
        ("ladder", None),
        ("errors", None),
        ("bound", -1),
        ("parameters", {"method": 1}),
        ("weights", {"forest": 1}),
        ("weights", {"ladder": -1}),
        ("weights", {"svm": 1}),
        ("weights", {}),
        ("weights", 2),
    ],
)
def test_a_file_with_something_wrong_is_refused_however_right_its_checksum(
    tmp_path: Path, name: str, value: Any
) -> None:
    arrays, about = fitted().state()
    modelfile.write(tmp_path / "m", "few-labels", arrays, {**about, name: value})
    with pytest.raises(InputError, match=r"save (it|the model) anew|method must be"):
        FewLabelClassifier.load(tmp_path / "m")


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("members.extra-trees.left", lambda array: np.zeros_like(array)),
        ("members.extra-trees.value", lambda array: array * np.nan),
        ("members.logistic.W", lambda array: array[:-1]),
        ("members.ladder.scaling.shift", lambda array: array[:-1]),
        ("scaling.factor", lambda array: array[:-1]),
    ],
)
def test_arrays_that_do_not_fit_are_refused(
    tmp_path: Path, name: str, change: Callable[[np.ndarray], np.ndarray]
) -> None:
    arrays, about = fitted().state()
    modelfile.write(tmp_path / "m", "few-labels", {**arrays, name: change(arrays[name])}, about)
    with pytest.raises(InputError, match="anew"):
        FewLabelClassifier.load(tmp_path / "m")


def test_sparse_rows_are_taken() -> None:
    sparse = FewLabelClassifier(ladder=LADDER, method="forest", random_state=0).fit(csr_matrix(X), few())
    np.testing.assert_allclose(sparse.predict_proba(csr_matrix(X)), fitted("forest").predict_proba(X), atol=1e-6)


def test_what_will_not_do_is_one_sentence_and_keeps_the_last_fit() -> None:
    made = FewLabelClassifier("logistic").fit(X, few())
    for name, value, sentence in (
        ("method", "svm", "method must be 'auto' or 'blend'"),
        ("ladder", 3, "ladder must be a LadderClassifier or None, got 3"),
        ("n_splits", 1, "n_splits must be an integer of 2 or more"),
    ):
        with pytest.raises(InputError, match=sentence):
            made.set_params(**{name: value}).fit(X, few())
        made.set_params(**{name: clone(FewLabelClassifier()).get_params()[name]})
        assert made.score(X, TRUTH) > 0.8
    pixels = np.arange(34.0).reshape(17, 2)  # of one range, so that the scaling has no bound
    with pytest.raises(InputError, match="X holds a value of size 1e\\+300, too large to compute with"):
        FewLabelClassifier("logistic").fit(pixels, np.arange(17) % 2).predict(np.full((1, 2), 1e300))

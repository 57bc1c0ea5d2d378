"""LadderClassifier: by scikit-learn's own checks, against the equations in NumPy, and with the tools around it."""

import io
import json
import pickle
import re
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pytest
import reference
import safetensors.numpy
from iris import NAMES, SETTINGS, TRUTH, X, by_range, few, fit, fitted, scaled, seen, three
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.semi_supervised import SelfTrainingClassifier
from sklearn.utils.estimator_checks import check_classifiers_classes, parametrize_with_checks

from laddernet import DivergedError, InputError, LadderClassifier
from laddernet.inference import modelfile
from laddernet.network.combinators import Linear

# It has -1 and +1 as its classes. scikit-learn spares its own semi-supervised estimators that, by their names.
MINUS_ONE = {"check_classifiers_classes": "-1 marks unlabelled rows, unless unlabeled=None"}


@parametrize_with_checks([LadderClassifier(**SETTINGS)], expected_failed_checks=lambda estimator: MINUS_ONE)
def test_scikit_learns_checks_pass(estimator: LadderClassifier, check: Any) -> None:
    check(estimator)


def test_the_check_with_a_class_of_minus_one_passes_if_that_is_no_mark() -> None:
    check_classifiers_classes("LadderClassifier", LadderClassifier(**SETTINGS, unlabeled=None))


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


def test_only_the_last_hidden_layer_has_names_of_columns() -> None:
    named = clone(three()).set_params(max_steps=1).set_output(transform="pandas").fit(X, few())
    assert named.transform(X).columns.tolist() == named.get_feature_names_out().tolist()
    with pytest.raises(InputError, match=r"for layer 1 call set_output\(transform='default'\)"):
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


def test_prediction_warns_of_nothing() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fitted().predict_proba(X * 1e6)

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from clinic import NETWORK, by_hand, clinic
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest
from support import Finished

from laddernet import InputError, LabelledKFold
from laddernet.classifier.estimator import LadderClassifier
from laddernet.classifier.held_out import cross_validate
from laddernet.classifier.members import METHODS
from laddernet.inference import modelfile
from laddernet.table.estimate import Bin, Estimate, estimate, interval
from laddernet.table.model import TableModel


def test_the_estimate_is_what_cross_validation_by_hand_gives() -> None:
    x = by_hand(clinic())
    codes = clinic()["result"].map({"ill": 0, "well": 1}).fillna(-1).to_numpy(int)
    ladder = LadderClassifier(**NETWORK)
    held = cross_validate(["ladder"], x, codes, folds=3, repeats=2, ladder=ladder, seed=1)
    found = estimate(held, "ladder", x, codes, ladder=ladder, seed=1)
    matrix, confidence = np.zeros((2, 2)), np.zeros(60)
    for rest, judge in LabelledKFold(3, n_repeats=2, random_state=1).split(x, codes):
        assert set(range(60, 240)) <= set(rest)  # all unlabelled rows are learned from
        fitted = LadderClassifier(**NETWORK).fit(x[rest], codes[rest])
        np.add.at(matrix, (codes[judge], fitted.predict(x[judge])), 0.5)
        confidence[judge] += fitted.predict_proba(x[judge]).max(axis=1) / 2
    assert (found.folds, found.repeats, found.labels, found.judged) == (3, 2, 40, 60)
    np.testing.assert_allclose(found.matrix(2), matrix)
    assert math.isclose(found.wrong, 60 - np.trace(matrix))
    assert math.isclose(found.majority_error, 100 * (1 - np.bincount(codes[:60]).max() / 60))
    assert sum(held.rows for held in found.bins) == 60
    mean = sum(held.confidence * held.rows for held in found.bins) / 60
    assert math.isclose(mean, 100 * confidence.mean(), rel_tol=1e-5)
    assert math.isclose(sum(held.right for held in found.bins), np.trace(matrix))
    half = [
        LadderClassifier(**NETWORK).fit(x[rest], codes[rest]).predict(x[judge]) != codes[judge]
        for rest, judge in LabelledKFold(2, random_state=1).split(x, codes)
    ]
    assert found.half_error is not None
    assert math.isclose(found.half_error, 100 * np.concatenate(half).mean())
    assert found.half_labels == 30


def test_a_fit_keeps_the_errors_of_all_methods_on_the_same_rows(fitted: tuple[Path, Finished]) -> None:
    known = TableModel.load(fitted[0] / "clinic.safetensors").estimate
    assert known is not None
    assert known.methods is not None
    assert set(known.methods) == set(METHODS)
    assert known.methods[known.method] == known.wrong
    assert (known.folds, known.repeats, known.judged) == (5, 2, 60)
    best = min(known.methods.values())
    assert any(METHODS[name] in known.advice for name, wrong in known.methods.items() if wrong == best)


def test_a_class_of_one_label_is_learned_and_not_judged() -> None:
    rng = np.random.default_rng(0)
    codes = np.array([0, 0, 0, 1, 1, 1, 2, *[-1] * 20])
    x = rng.normal(size=(27, 2)) + 4 * np.maximum(codes, 0)[:, None]
    held = cross_validate(["logistic"], x, codes, folds=3, repeats=2)
    found = estimate(held, "logistic", x, codes)
    assert (found.judged, found.labels) == (6, 5)
    about = found.by_class(["a", "b", "c"])
    assert [of["judged"] for of in about] == [3, 3, 0]
    assert (about[2]["error"], about[2]["interval"]) == (None, None)


def test_what_more_labels_would_gain_is_only_told_where_it_shows() -> None:
    clear = Estimate(3, 100, 150, 12, spread=1.0, majority_error=50.0, half_labels=50, half_error=12.0)
    assert clear.sentences()[1] == "With half of the labels it is 12.0 %; with twice as many it may be 5.3 %."
    unclear = Estimate(3, 100, 150, 12, spread=1.0, majority_error=50.0, half_labels=50, half_error=8.5)
    assert unclear.sentences()[1].endswith("no clear difference: the gain by more labels is unknown.")
    by_few_rows = Estimate(3, 8, 12, 1, spread=0.0, majority_error=50.0, half_labels=4, half_error=16.7)
    assert by_few_rows.sentences()[1].endswith("no clear difference: the gain by more labels is unknown.")
    assert len(Estimate(2, 2, 4, 0, spread=0.0, majority_error=50.0).sentences()) == 1


@given(judged=st.integers(2, 500), data=st.data())
def test_no_estimate_is_certain_however_equal_the_folds_are(judged: int, data: st.DataObject) -> None:
    wrong = data.draw(st.integers(0, judged))
    found = Estimate(3, judged, judged, wrong, spread=0.0, majority_error=50.0, half_labels=1, half_error=40.0)
    about = found.about()
    low, high = about["interval"]
    assert low <= about["error"] <= high
    assert high - low >= 0.5
    assert high >= 100 * (1 - 0.05 ** (1 / judged)) - 1e-9
    assert (low > 0) == (wrong > 0)
    sentence, further = found.sentences()
    assert "±" not in sentence
    assert f"{about['error']:.1f} %, between {low:.1f} and {high:.1f} % with 90 % confidence" in sentence
    assert f"({wrong:,} of {judged:,} labelled rows wrong in 3-fold cross-validation" in sentence
    assert "may be 0.0 %" not in further


@given(rows=st.integers(1, 300), data=st.data())
def test_intervals_are_exact_ones_and_those_of_means_lie_between(rows: int, data: st.DataObject) -> None:
    wrong = data.draw(st.integers(0, rows))
    exact = binomtest(wrong, rows).proportion_ci(0.9, "exact")
    np.testing.assert_allclose(interval(wrong, rows), [100 * exact.low, 100 * exact.high], atol=1e-6)
    if wrong < rows:
        between = np.array(interval(wrong + 0.5, rows))
        assert (np.array(interval(wrong, rows)) <= between).all()
        assert (between <= np.array(interval(wrong + 1, rows))).all()


def test_errors_by_class_and_confidence_are_said() -> None:
    found = Estimate(
        5,
        8,
        10,
        3.5,
        spread=0.0,
        majority_error=40.0,
        repeats=2,
        confusion=((0, 0, 4.0), (1, 0, 3.5), (1, 1, 2.5)),
        bins=(Bin(60.0, 2.5, 5), Bin(90.0, 4.0, 5)),
    )
    assert "3.5 of 10 labelled rows wrong in 5-fold cross-validation, mean of 2 repeats, with" in found.sentences()[0]
    assert found.sentences()[-1] == "Its mean confidence was 75 %, and 65 % of the rows were right."
    first, second = found.by_class(["a", "b"])
    assert (first["judged"], first["wrong"], second["judged"], second["wrong"]) == (4, 0, 6, 3.5)
    assert second["interval"] == list(interval(3.5, 6))
    assert json.loads(json.dumps(found.about(["a", "b"])))["confusion"][1] == [1, 0, 3.5]


def test_an_estimate_of_an_older_file_has_the_counts_that_its_error_means(
    tmp_path: Path, fitted: tuple[Path, Finished]
) -> None:
    arrays, about = modelfile.read(fitted[0] / "clinic.safetensors", "table")
    about["estimate"] = {"folds": 3, "labels": 40, "error": 0.0, "spread": 0.0, "majority_error": 50.0}
    modelfile.write(tmp_path / "old.safetensors", "table", arrays, about)
    old = TableModel.load(tmp_path / "old.safetensors").estimate
    assert old is not None
    assert (old.judged, old.wrong, old.methods, old.confusion) == (60, 0, None, ())
    assert "between 0.0 and 4.9 % with 90 % confidence (0 of 60 labelled rows wrong" in old.sentences()[0]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("wrong", 61),
        ("wrong", float("nan")),
        ("methods", {"blend": -1}),
        ("methods", 3),
        ("confusion", [[0, 2, 1.0]]),
        ("confusion", [[0, 1]]),
        ("bins", [{"confidence": 1}]),
        ("bins", 7),
        ("judged", "many"),
        ("surplus", 1),
    ],
)
def test_an_estimate_of_a_file_that_will_not_do_is_refused(
    tmp_path: Path, fitted: tuple[Path, Finished], name: str, value: Any
) -> None:
    arrays, about = modelfile.read(fitted[0] / "clinic.safetensors", "table")
    about["estimate"][name] = value
    modelfile.write(tmp_path / "bad.safetensors", "table", arrays, about)
    with pytest.raises(InputError, match="is not a model as laddernet saves it"):
        TableModel.load(tmp_path / "bad.safetensors")

"""The examples of classifiers and tables run and do what the text promises."""

from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pandas as pd
import pytest
from documents import run
from sklearn.datasets import load_digits

from laddernet import LadderClassifier


@pytest.fixture(scope="module", autouse=True)
def _each_fit_once() -> Iterator[None]:
    """Fit a ladder with the same parameters to the same rows and labels once: several documents begin with that fit."""
    known: dict[str, dict[str, Any]] = {}
    fit = LadderClassifier.fit

    def fit_once(self: LadderClassifier, X: Any, y: Any) -> LadderClassifier:
        asked = joblib.hash((self.get_params(), X, np.asarray(y)))
        if asked not in known:
            known[asked] = vars(fit(self, X, y)).copy()
        vars(self).update(deepcopy(known[asked]))
        return self

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LadderClassifier, "fit", fit_once)
        yield


@pytest.mark.parametrize("document", ["README.md", "docs/reference/classifier.md"])
def test_the_first_example_learns_digits_from_a_hundred_labels(document: str) -> None:
    names = run(document)
    truth = load_digits().target
    assert names["classifier"].score(names["X"][100:], truth[100:]) > 0.94


def test_the_examples_of_cross_validation_judge_labelled_rows_only(capsys: pytest.CaptureFixture[str]) -> None:
    names = run("docs/how-to/cross-validation.md")
    assert len(names["scores"]["test_f1_macro"]) == 10
    assert names["scores"]["test_accuracy"].mean() > 0.9
    assert names["search"].best_score_ > 0.9
    assert "neg_log_loss" in capsys.readouterr().out


def test_the_examples_of_deployment_predict_from_the_files_they_wrote(elsewhere: Path) -> None:
    names = run("docs/how-to/deploy.md")
    assert set(names["predictions"]) == {"a", "b"}
    assert names["probabilities"].shape == (5, 10)
    assert (elsewhere / "digits.onnx").exists()
    assert names["label"].tolist() == names["model"].predict(pd.DataFrame(names["cells"])).tolist()


def test_the_example_of_imbalanced_classes_finds_the_rare_class() -> None:
    names = run("docs/how-to/imbalanced-classes.md")
    rare = names["truth"] == 1
    assert (names["classifier"].predict(names["X"])[rare] == 1).mean() > 0.5


def test_the_example_of_labelling_in_rounds_gains_by_suggested_labels() -> None:
    names = run("docs/how-to/label-in-rounds.md")
    first, second = names["first"], names["second"]
    assert (sum(first.labels.values()), sum(second.labels.values())) == (6, 26)
    wrong = [(model.predict(names["frame"]) != names["truth"]).mean() for model in (first, second)]
    assert wrong[1] < wrong[0]

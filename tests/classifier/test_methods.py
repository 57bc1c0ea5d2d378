import numpy as np
import pytest
from iris import SETTINGS, X, few
from sklearn.datasets import load_digits
from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.semi_supervised import SelfTrainingClassifier

from laddernet import LadderClassifier
from laddernet.classifier.methods import fit_members
from laddernet.classifier.scaling import find_scaling

Y = few(8)
KNOWN = Y >= 0
SCALED = find_scaling(X)[1](X)

SCIKIT_LEARN = {
    "logistic": LogisticRegression(max_iter=1000),
    "forest": RandomForestClassifier(random_state=3),
    "extra-trees": ExtraTreesClassifier(random_state=3),
    "boosting": HistGradientBoostingClassifier(min_samples_leaf=2, random_state=3),
}


@pytest.mark.parametrize("name", SCIKIT_LEARN)
def test_methods_of_labelled_rows_are_those_of_scikit_learn(name: str) -> None:
    expected = SCIKIT_LEARN[name].fit(SCALED[KNOWN], Y[KNOWN]).predict_proba(SCALED)
    found = fit_members([name], X, Y, ladder=None, seed=3).probabilities(X)[name]
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_self_training_sees_the_unlabelled_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = SelfTrainingClassifier(LogisticRegression(max_iter=1000)).fit(SCALED, Y).predict_proba(SCALED)
    found = fit_members(["self-training"], X, Y, ladder=None, seed=3).probabilities(X)["self-training"]
    np.testing.assert_allclose(found, expected, atol=1e-3)
    monkeypatch.setattr("laddernet.classifier.methods._POOL", 0)  # of very many rows, a sample
    found = fit_members(["self-training"], X, Y, ladder=None, seed=3).probabilities(X)["self-training"]
    alone = LogisticRegression(max_iter=1000).fit(SCALED[KNOWN], Y[KNOWN]).predict_proba(SCALED)
    np.testing.assert_allclose(found, alone, atol=1e-3)


def test_pixels_have_the_mean_variance_one_and_learn_from_few_labels() -> None:
    pixels, truth = load_digits(return_X_y=True)
    y = np.where(np.arange(len(truth)) < 60, truth, -1)
    members = fit_members(["logistic", "self-training"], pixels, y, ladder=None, seed=0)
    varies = pixels.std(axis=0) > 0
    assert abs(members.scaled(pixels)[:, varies].var(axis=0).mean() - 1) < 0.01
    for p in members.probabilities(pixels[60:]).values():
        assert np.mean(p.argmax(axis=1) == truth[60:]) > 0.75


def test_the_ladder_is_the_one_that_was_given() -> None:
    given = LadderClassifier(**{**SETTINGS, "random_state": None, "max_steps": 32})
    found = fit_members(["ladder"], X, Y, ladder=given, seed=3).models["ladder"]
    expected = LadderClassifier(**{**SETTINGS, "random_state": 3, "max_steps": 32}).fit(X, Y)
    assert isinstance(found, LadderClassifier)
    np.testing.assert_array_equal(found.predict_proba(X), expected.predict_proba(X))
    assert not hasattr(given, "classes_")

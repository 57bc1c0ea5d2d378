"""The factor that makes up for label smoothing."""

import numpy as np
import pytest
from scipy.special import logit

from laddernet import LadderClassifier
from laddernet.classifier.confidence import linear_accuracy, sharpness


def equally_sure(z: float) -> np.ndarray:
    """Return logits of two classes whose difference is z, once for each class."""
    return np.array([[z, 0.0], [0.0, z]], np.float32)


@pytest.mark.parametrize(("accuracy", "labels"), [(0.9, 10), (0.9, 100), (0.7, 30)])
def test_confidence_becomes_the_mean_of_the_accuracy_and_ten_labels_of_its_own(accuracy: float, labels: int) -> None:
    z = 0.5
    own = 1 / (1 + np.exp(-z))
    target = (accuracy * labels + 10 * own) / (labels + 10)
    # Of two classes the confidence is the logistic function of the difference.
    assert sharpness(equally_sure(z), accuracy, labels) == pytest.approx(logit(target) / z, abs=6e-4)


def test_the_confidence_is_never_lowered_and_the_factor_is_bounded() -> None:
    assert sharpness(equally_sure(3.0), accuracy=0.6, labels=1000) == 1
    assert sharpness(equally_sure(0.0), accuracy=0.9, labels=1000) == 6  # no factor makes equal logits sure
    assert sharpness(equally_sure(0.01), accuracy=1.0, labels=1000) == 6


def test_the_accuracy_is_that_of_held_out_labels() -> None:
    rng = np.random.default_rng(0)
    codes = np.repeat([0, 1], 100)
    apart = rng.normal(size=(200, 3)) + 8 * codes[:, None]
    assert linear_accuracy(apart, codes, seed=0) == 1
    # A hundred columns of noise: every labelled row can be fitted, and none that is held out.
    noise = rng.normal(size=(200, 300))
    assert linear_accuracy(noise, codes, seed=0) == pytest.approx(0.5, abs=0.1)
    assert linear_accuracy(apart, codes, seed=3) == linear_accuracy(apart, codes, seed=3)


def test_one_label_of_a_class_leaves_the_confidence_as_it_is() -> None:
    assert linear_accuracy(np.array([[0.0], [1.0], [2.0]]), np.array([0, 0, 1]), seed=0) == 0


def test_the_default_smoothing_is_made_up_for_and_one_that_is_given_is_not() -> None:
    rng = np.random.default_rng(0)
    truth = np.arange(300) % 2
    X = rng.normal(size=(300, 4)) + 3 * truth[:, None]
    y = np.where(np.arange(300) < 20, truth, -1)
    given, default = (
        LadderClassifier(label_smoothing=smoothing, n_networks=1, random_state=0).fit(X, y) for smoothing in (0.5, None)
    )
    assert sum(given._shares) == pytest.approx(1)
    factor = sum(default._shares)
    assert factor > 1.2
    np.testing.assert_allclose(default.network_.logits(X), factor * given.network_.logits(X), rtol=1e-4, atol=1e-5)
    right = np.arange(300), truth
    assert default.score(X, truth) == given.score(X, truth) > 0.97
    assert np.log(default.predict_proba(X)[right]).mean() > np.log(given.predict_proba(X)[right]).mean()

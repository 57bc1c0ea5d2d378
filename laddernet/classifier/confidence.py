"""Confidence after label smoothing: the factor by which a fit sharpens its logits.

Label smoothing lowers the confidence of a network below its accuracy, above all with two classes, where half of
the labels are replaced by default. A factor of the logits changes no prediction.
"""

import math

import numpy as np
from scipy.optimize import brentq
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import RepeatedStratifiedKFold, cross_val_score

from laddernet.inference.network import softmax

_FOLDS, _REPEATS = 5, 3
_OWN_LABELS = 10  # number of labels that the confidence of the networks counts as, beside the accuracy
_HIGHEST = 0.99  # target of the mean confidence
_MOST = 6.0


def linear_accuracy(x: np.ndarray, codes: np.ndarray, seed: int) -> float:
    """Return the cross-validated accuracy of logistic regression on labelled rows; 0 if a class has one label only."""
    counts = np.unique(codes, return_counts=True)[1]
    if (fewest := int(counts.min())) < 2 or len(counts) < 2:
        return 0.0
    folds = RepeatedStratifiedKFold(n_splits=min(fewest, _FOLDS), n_repeats=_REPEATS, random_state=seed)
    return float(cross_val_score(LogisticRegression(C=0.1, max_iter=1000), x, codes, cv=folds).mean())


def sharpness(logits: np.ndarray, accuracy: float, labels: int) -> float:
    """Return the factor of at least 1 that brings the mean confidence up to the accuracy of a simpler classifier.

    Parameters
    ----------
    logits
        Those of some rows of the table, labelled or not.
    accuracy
        The accuracy that a classifier no better than the networks is expected to have on such rows.
    labels
        The number of labels that ``accuracy`` was measured on: few labels move the confidence less.

    Examples
    --------
    >>> logits = np.array([[0.5, 0.0], [0.0, 0.5]])  # confidence 0.62
    >>> sharpness(logits, accuracy=0.9, labels=10), sharpness(logits, accuracy=0.9, labels=1000)
    (2.319, 4.334)
    >>> sharpness(logits, accuracy=0.5, labels=1000)
    1.0
    """
    logits = logits.astype(np.float64)

    def confidence(log_factor: float) -> float:
        return float(softmax(logits * math.exp(log_factor)).max(axis=1).mean())

    own, most = confidence(0.0), math.log(_MOST)
    target = min((accuracy * labels + own * _OWN_LABELS) / (labels + _OWN_LABELS), _HIGHEST)
    if own >= target:
        return 1.0
    if confidence(most) <= target:
        return _MOST
    # Rounded: the last bits of the logits depend on the number of cores.
    return round(math.exp(brentq(lambda log_factor: confidence(log_factor) - target, 0.0, most)), 3)

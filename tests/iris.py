"""Iris with a few labels, and small classifiers of it, which the tests of the classifier share."""

from functools import cache
from typing import Any

import numpy as np
from sklearn.datasets import load_iris

from laddernet import LadderClassifier

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
    """Iris with that many labels per class."""
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

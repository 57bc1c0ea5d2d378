"""Fit the methods that `FewLabelClassifier` chooses from. Prediction does not need this module."""

import warnings
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.semi_supervised import SelfTrainingClassifier
from threadpoolctl import threadpool_limits

from laddernet.classifier.estimator import LadderClassifier
from laddernet.classifier.labels import UNLABELLED
from laddernet.classifier.members import LADDER, Members
from laddernet.classifier.scaling import find_scaling
from laddernet.inference.linear import Linear
from laddernet.inference.network import Rows, Scaling, dense
from laddernet.inference.trees import Trees

_POOL = 20_000  # unlabelled rows, at most, that self-training labels
_TREES = 100
_SEEN = 2000  # rows, at most, that the variance of pixels is measured on


def fit_members(
    names: Iterable[str],
    x: Rows,
    codes: np.ndarray,
    *,
    ladder: LadderClassifier | None,
    seed: int,
    on_fit: Callable[[str], None] = lambda name: None,
) -> Members:
    """Fit methods to rows and the codes of their classes; every class must have a label.

    ``ladder`` has the parameters of the Ladder Network; ``on_fit`` is called with the name of each before its fit.
    """
    labelled = np.flatnonzero(codes != UNLABELLED)
    fitted = Members(_scaling(x), {})
    for name in names:
        on_fit(name)
        if name == LADDER:
            made = LadderClassifier() if ladder is None else clone(ladder)
            given = {"unlabeled": UNLABELLED} | ({"random_state": seed} if made.random_state is None else {})
            fitted.models[name] = made.set_params(**given).fit(x, codes)
            continue
        rows = labelled
        if name == "self-training":
            others = np.flatnonzero(codes == UNLABELLED)
            rows = np.concatenate([labelled, np.sort(np.random.default_rng(seed).permutation(others)[:_POOL])])
        # Of one thread, results do not depend on the number of cores; so few rows need no more.
        with warnings.catch_warnings(), threadpool_limits(1):
            warnings.simplefilter("ignore")  # that an optimiser stopped early, or that no row is unlabelled
            fitted.models[name] = _FITS[name](fitted.scaled(x[rows]), codes[rows], seed)
    return fitted


def _scaling(x: Rows) -> Scaling:
    """Fit the ladder's scaling; columns of one range get the mean variance 1, which linear models are made for."""
    how, scaling = find_scaling(x)
    if how != "range":
        return scaling
    variance = scaling(dense(x[np.linspace(0, x.shape[0] - 1, min(x.shape[0], _SEEN)).astype(int)])).var(axis=0)
    deviation = np.sqrt(variance[scaling.factor > 0].mean()) or 1
    return replace(scaling, factor=(scaling.factor / deviation).astype(np.float32))


# --- One method each ----------------------------------------------------------------------------------------------


def _logistic(x: np.ndarray, codes: np.ndarray, seed: int) -> Linear:
    found = LogisticRegression(max_iter=1000).fit(x, codes)
    return Linear.of(found.coef_, found.intercept_)


def _self_training(x: np.ndarray, codes: np.ndarray, seed: int) -> Linear:
    found = SelfTrainingClassifier(LogisticRegression(max_iter=1000)).fit(x, codes).estimator_
    return Linear.of(found.coef_, found.intercept_)


def _forest(kind: Any) -> Callable[[np.ndarray, np.ndarray, int], Trees]:
    def fit(x: np.ndarray, codes: np.ndarray, seed: int) -> Trees:
        found = kind(n_estimators=_TREES, random_state=seed).fit(x, codes)
        return Trees.of_forest(tree.tree_ for tree in found.estimators_)

    return fit


def _boosting(x: np.ndarray, codes: np.ndarray, seed: int) -> Trees:
    # With the default, 20 rows a leaf, fewer than 40 labels would give no tree at all.
    leaf = min(20, max(1, len(codes) // 10))
    found = HistGradientBoostingClassifier(min_samples_leaf=leaf, random_state=seed).fit(x, codes)
    # scikit-learn has no public access to these trees.
    return Trees.of_boosting((tree.nodes for trees in found._predictors for tree in trees), found._baseline_prediction)


_FITS: dict[str, Callable[[np.ndarray, np.ndarray, int], Linear | Trees]] = {
    "logistic": _logistic,
    "self-training": _self_training,
    "forest": _forest(RandomForestClassifier),
    "extra-trees": _forest(ExtraTreesClassifier),
    "boosting": _boosting,
}

"""The methods that `FewLabelClassifier` chooses from: their names, and their probabilities when they are fitted.

All but the Ladder Network see the columns as `find_scaling` scales them, and predict in NumPy.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from laddernet.classifier.estimator import LadderClassifier
from laddernet.errors import InputError
from laddernet.inference.linear import Linear
from laddernet.inference.network import Rows, Scaling, blocks, dense
from laddernet.inference.trees import Trees

LADDER, BLEND = "ladder", "blend"
BLENDED = {LADDER: 2, "logistic": 1, "extra-trees": 1}  # weights, chosen in results/few-labels
MEMBERS = {
    LADDER: "the Ladder Network",
    "logistic": "logistic regression",
    "self-training": "self-training logistic regression",
    "forest": "a random forest",
    "extra-trees": "extra-trees",
    "boosting": "gradient boosting",
}
METHODS = {BLEND: "the blend", **MEMBERS}  # the names for a user

FOLDS, REPEATS = 5, 2  # of cross-validation

_BLOCK = 4096  # rows that are predicted at a time


@dataclass(frozen=True)
class Members:
    """Fitted methods by name."""

    scaling: Scaling
    models: dict[str, LadderClassifier | Linear | Trees]
    weights: dict[str, float] = field(default_factory=dict)  # of their probabilities; 1 if there is none

    def mean(self, x: Rows) -> np.ndarray:
        """Compute the weighted mean of their probabilities."""
        found = self.probabilities(x)
        return weighted({name: self.weights.get(name, 1) for name in found}, found)

    def probabilities(self, x: Rows) -> dict[str, np.ndarray]:
        """Compute the probabilities of the classes by each method."""
        parts = [self._block(x[rows]) for rows in blocks(x.shape[0], _BLOCK)]
        return {name: np.concatenate([part[name] for part in parts]) for name in self.models}

    def _block(self, x: Rows) -> dict[str, np.ndarray]:
        found, scaled = {}, None
        for name, model in self.models.items():
            if isinstance(model, LadderClassifier):
                found[name] = model.predict_proba(x)
            else:
                scaled = self.scaled(x) if scaled is None else scaled
                found[name] = model.probabilities(scaled)
        return found

    def scaled(self, x: Rows) -> np.ndarray:
        """Return the scaled columns of rows."""
        with np.errstate(over="ignore", invalid="ignore"):
            scaled = self.scaling(dense(x))
        if not np.isfinite(scaled).all():  # X is finite, so a value is too large
            raise InputError(
                f"X holds a value of size {abs(x).max():.3g}, too large to compute with; give a smaller one."
            )
        return scaled


def members_of(method: str) -> Mapping[str, float]:
    """Return the members of a method and their weights: its probabilities are the weighted mean of theirs."""
    return BLENDED if method == BLEND else {method: 1}


def weighted(weights: Mapping[str, float], probabilities: Mapping[str, np.ndarray]) -> np.ndarray:
    """Compute the mean of probabilities by name, with these weights."""
    return np.average([probabilities[name] for name in weights], axis=0, weights=list(weights.values()))

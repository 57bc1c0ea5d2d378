"""Prediction by scikit-learn's MLPClassifier of the same shape."""

import warnings
from collections.abc import Callable, Sequence

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.neural_network import MLPClassifier


def predictions(sizes: Sequence[int], batch: int, repeats: int) -> Callable[[], None]:
    """Return a block that predicts the same float32 rows, after one iteration of training."""
    rng = np.random.default_rng(0)
    x, few = (rng.random((n, sizes[0]), np.float32) for n in (batch, 2 * sizes[-1]))
    mlp = MLPClassifier(sizes[1:-1], max_iter=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        mlp.fit(few, np.tile(np.arange(sizes[-1]), 2))

    def block() -> None:
        for _ in range(repeats):
            mlp.predict(x)

    return block

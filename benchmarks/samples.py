"""How good the samples of trained networks are: python benchmarks/samples.py RUN... --out results/samples

For each run's folder, samples of every class by ancestral sampling and by walkback are compared with the test images:

- *as asked*: the share that an independent classifier, a small scikit-learn MLP, takes for the class asked for;
- *Fréchet distance* between the Gaussians fitted to that classifier's last hidden layer, for samples and test images;
- *nearest*: the median Euclidean distance to the nearest training image, so that memory is not taken for generation.

Training images are the floor. The rivals, fitted to the pixels of each class, are a Gaussian and a mixture of 50
Gaussians. Writes samples.json, table.md and the pictures.
"""

import argparse
import json
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.linalg import sqrtm
from sklearn.mixture import GaussianMixture
from sklearn.neighbors import NearestNeighbors
from sklearn.neural_network import MLPClassifier

from laddernet import Dataset, load_sampler
from laddernet.files import write_atomic
from laddernet.report.png import in_grid, png
from laddernet.text import say

Rows = np.ndarray
SHOWN = 10  # images of each class in a picture
CHAINS = 10  # in the picture of a walkback


class Judge:
    """A classifier that shares nothing with the networks but the training images."""

    def __init__(self, data: Dataset) -> None:
        self.mlp = MLPClassifier((512, 128), batch_size=200, max_iter=20, early_stopping=True, random_state=0)
        self.mlp.fit(data.x_train, data.y_train)
        self.error = 100 * float(np.mean(self.mlp.predict(data.x_test) != data.y_test))

    def features(self, x: Rows) -> Rows:
        """The activations of the last hidden layer."""
        for W, b in zip(self.mlp.coefs_[:-1], self.mlp.intercepts_[:-1], strict=True):
            x = np.maximum(x @ W + b, 0)
        return np.asarray(x, np.float64)


def frechet(a: Rows, b: Rows) -> float:
    """|μ_a − μ_b|² + tr(Σ_a + Σ_b − 2 (Σ_a Σ_b)^½) of the rows of two arrays.

    >>> a = np.random.default_rng(0).normal(size=(20_000, 2))
    >>> round(frechet(a, 2 * a + 1), 1)  # |(1, 1)|² + 2 (1 + 4 − 2 · 2)
    4.0
    """
    covariances = [np.cov(x, rowvar=False) for x in (a, b)]
    root = np.real(sqrtm(covariances[0] @ covariances[1]))
    means = a.mean(axis=0) - b.mean(axis=0)
    return float(means @ means + np.trace(covariances[0] + covariances[1] - 2 * root))


def rivals(data: Dataset, count: int) -> Iterator[tuple[str, Rows]]:
    """Yield samples, class by class, of Gaussians and mixtures of Gaussians."""
    kinds: dict[str, dict[str, Any]] = {
        "Gaussian, full covariance": {"n_components": 1, "covariance_type": "full"},
        "50 Gaussians, diagonal covariances": {"n_components": 50, "covariance_type": "diag"},
    }
    for name, kind in kinds.items():
        drawn = []
        for c in range(data.n_classes):
            mixture = GaussianMixture(**kind, reg_covar=1e-3, max_iter=50, random_state=c)
            drawn.append(mixture.fit(data.x_train[data.y_train == c].astype(np.float64)).sample(count)[0])
        yield name, np.concatenate(drawn).clip(0, 1)

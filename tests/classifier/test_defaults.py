"""The data-dependent defaults."""

import numpy as np
import pytest
from iris import X, few
from scipy import sparse
from sklearn.neighbors import NearestNeighbors

from laddernet import LadderClassifier
from laddernet.classifier.defaults import distance_apart
from laddernet.classifier.scaling import find_scaling
from laddernet.inference.network import Scaling


def fifth_neighbour(rows: np.ndarray) -> float:
    """The median distance to the fifth nearest row among those that are not the same, by scikit-learn."""
    distinct = np.unique(rows, axis=0)
    distances = NearestNeighbors(n_neighbors=6).fit(distinct).kneighbors(rows)[0][:, 5]  # the first is the row itself
    return float(np.median(distances))


NEAR = fifth_neighbour(X) / (X.max() - X.min()) / 2 / 0.18  # iris has four columns


def test_the_distance_of_rows_is_that_to_the_fifth_neighbour_that_differs() -> None:
    assert distance_apart(X, find_scaling(X, "none")[1]) == pytest.approx(fifth_neighbour(X) / 2, rel=1e-3)
    beside = np.column_stack([X, np.full(len(X), 7.0)])  # a column that says nothing
    assert distance_apart(beside, find_scaling(beside, "range")[1]) == pytest.approx(0.18 * NEAR, rel=1e-3)
    assert distance_apart(sparse.csr_matrix(X), find_scaling(X, "none")[1]) == pytest.approx(
        fifth_neighbour(X) / 2, rel=1e-3
    )
    rng = np.random.default_rng(0)
    many = rng.random((3000, 2))
    assert distance_apart(many, Scaling(np.zeros(2), np.ones(2))) == pytest.approx(
        fifth_neighbour(many[:1000]) / 2**0.5, rel=0.1
    )
    for none in (np.zeros((9, 2)), X[:5], np.zeros((100, 2**20))):
        assert distance_apart(none, Scaling(np.zeros(none.shape[1]), np.ones(none.shape[1]))) == np.inf


def test_noise_leaves_apart_what_lies_close_together() -> None:
    rng = np.random.default_rng(0)
    angles = rng.uniform(0, 2 * np.pi, 600)
    truth = np.arange(600) % 2
    rings = (1 + 0.3 * truth)[:, None] * np.column_stack([np.cos(angles), np.sin(angles)])
    y = np.where(np.arange(600) < 40, truth, -1)
    made = LadderClassifier(random_state=0, n_networks=1).fit(rings, y)
    assert 0.15 <= made.noise_[0] < 0.25
    assert made.score(rings, truth) > LadderClassifier(random_state=0, n_networks=1, noise=0.3).fit(rings, y).score(
        rings, truth
    )


@pytest.mark.parametrize(
    ("labels", "scale", "noise", "shares", "hidden"),
    [
        (4, "columns", (0.3,) * 4, [0.1875] * 4 + [0.25], (64, 32)),
        (48, "columns", (0.15,) * 4, [0.1875] * 4 + [0.25], (64, 32)),
        (4, "range", (0.2 * NEAR, 0.2, 0.2, 0.2), [1], (256, 128)),
        (24, "range", (0.2 * NEAR**2, 0.2, 0.2, 0.2), [1], (256, 128)),
    ],
)
def test_defaults_suit_the_scale_and_the_labels(
    labels: int, scale: str, noise: tuple[float, ...], shares: list[float], hidden: tuple[int, ...]
) -> None:
    made = LadderClassifier(scale=scale, max_steps=1, random_state=0).fit(X, few(labels))
    assert made.noise_ == pytest.approx(noise, rel=1e-3)
    assert np.divide(made._shares, sum(made._shares)) == pytest.approx(shares)  # a fit may sharpen all of them
    assert made._networks[0]["encoder.1.W"].shape == hidden

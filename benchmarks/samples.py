"""How good the samples of trained networks are: python benchmarks/samples.py RUN... --out results/samples

Samples of every class, by ancestral sampling and by walkback that starts there, are compared with the test images:

- *as asked*: the share that an independent classifier, an MLP of scikit-learn, takes for the class asked for;
- *Fréchet distance* between the Gaussians fitted to that classifier's last hidden layer, for samples and test images;
- *nearest*: the median Euclidean distance to the nearest training image, so that memory is not taken for generation.

Training images are the floor. The rivals, fitted to the pixels of each class, are a Gaussian and a mixture of 50
Gaussians. All have the same number of rows. Writes table.md and a picture for each run and rival.
"""

import argparse
import re
import sys
import warnings
from collections.abc import Iterator
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

Rows = np.ndarray
_FIT = {"reg_covar": 1e-3, "max_iter": 20, "init_params": "random_from_data"}
SHOWN = 12  # images of each class in a picture, and steps of each chain


class Judge:
    """A classifier that shares nothing with the networks but the training images."""

    def __init__(self, data: Dataset) -> None:
        self.mlp = MLPClassifier((256, 64), max_iter=-(-480_000 // len(data.x_train)), random_state=0)
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
    """Yield samples, class by class, of training images, Gaussians and mixtures of Gaussians."""
    of_class = [data.x_train[data.y_train == c] for c in range(data.n_classes)]
    rng = np.random.default_rng(0)
    yield "training images", np.concatenate([rng.permutation(x)[:count] for x in of_class])
    kinds: dict[str, dict[str, Any]] = {
        "Gaussian": {"n_components": 1, "covariance_type": "full"},
        "mixture of 50 Gaussians": {"n_components": 50, "covariance_type": "diag"},
    }
    for name, kind in kinds.items():
        drawn = []
        for c, x in enumerate(of_class):
            components = min(kind["n_components"], len(x) // 2)
            mixture = GaussianMixture(**{**kind, "n_components": components}, **_FIT, random_state=c)
            drawn.append(mixture.fit(x).sample(count)[0])
        yield name, np.concatenate(drawn).clip(0, 1)


def networks(folder: Path, y: Rows, steps: int) -> Iterator[tuple[str, Rows]]:
    """Yield samples of a run, of both methods, and the steps of some chains as rows of a last item."""
    sampler, _ = load_sampler(folder)
    first = sampler.ancestral(y)
    yield "ancestral", first
    for name, classes in (("class kept", y), ("free", None)):
        chain = sampler.walkback(first, steps, classes=classes)
        yield f"walkback, {steps} steps, {name}", chain[-1]
        one_of_each = np.unique(y, return_index=True)[1]
        shown = np.linspace(0, steps, SHOWN).round().astype(int)
        yield f"chains, {name}", chain[shown][:, one_of_each].swapaxes(0, 1).reshape(-1, first.shape[1])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--count", type=int, default=100, help="samples of each class")
    parser.add_argument("--steps", type=int, default=20)
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    given.out.mkdir(parents=True, exist_ok=True)
    _, data = load_sampler(given.runs[0])
    assert data.image_shape is not None
    y = np.repeat(np.arange(data.n_classes), given.count)
    judge = Judge(data)
    test = judge.features(data.x_test)
    nearest = NearestNeighbors(n_neighbors=1, algorithm="brute").fit(data.x_train)
    test_distance = np.median(nearest.kneighbors(data.x_test[: len(y)])[0])
    lines = [
        f"{len(y):,} samples of each line; the classifier has {judge.error:.2f} % of the test images wrong; the median "
        f"test image is {test_distance:.2f} from the nearest training image.",
        "",
        "| samples of | method | as asked | Fréchet distance | nearest training image |",
        "|---|---|---|---|---|",
    ]

    def measured(source: str, method: str, x: Rows) -> None:
        asked = 100 * np.mean(judge.mlp.predict(x.astype(np.float32)) == y)
        distance = "–" if source == "training images" else f"{np.median(nearest.kneighbors(x)[0]):.2f}"
        lines.append(f"| {source} | {method} | {asked:.1f} % | {frechet(judge.features(x), test):.1f} | {distance} |")
        print(lines[-1], flush=True)
        write_atomic(given.out / "table.md", ("\n".join(lines) + "\n").encode())
        drawn(f"{source}-{method}", np.concatenate([x[y == c][:SHOWN] for c in range(data.n_classes)]))

    def drawn(name: str, x: Rows) -> None:
        words = re.sub(r"[^\w]+", "-", name).strip("-")
        write_atomic(given.out / f"{words}.png", png(in_grid(x, data.image_shape, SHOWN)))

    print("\n".join(lines), flush=True)
    for folder in given.runs:
        for method, x in networks(folder, y, given.steps):
            if method.startswith("chains"):
                drawn(f"{folder.name}-{method}", x)
            else:
                measured(f"`{folder.name}`", method, x)
    for source, x in rivals(data, given.count):
        measured(source, "", x)
    return 0


if __name__ == "__main__":
    sys.exit(main())

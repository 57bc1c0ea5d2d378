"""Whether reconstruction finds foreign rows and fills in missing pixels: python benchmarks/reconstruction.py

*Foreign rows.* A tenth of the rows of digits is foreign: uniform noise, or clothes of Fashion-MNIST (the Debian package
dataset-fashion-mnist) of 8 by 8 pixels. All rows are the unlabelled rows of a Ladder Network with 100 labels. A row's
score is the mean squared error of its reconstruction over ten draws of the noise. IsolationForest and
LocalOutlierFactor are fitted to the same rows. Prints areas under the ROC curve, in per cent, mean of three seeds.

*Missing pixels.* The lower half of the test images is hidden, and begins as the mean of the training images. A walk
keeps the upper half in every step. Prints mean squared errors of the lower half, beside that of the mean and of
KNNImputer.
"""

import gzip
import sys
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
from sklearn.ensemble import IsolationForest
from sklearn.impute import KNNImputer
from sklearn.metrics import roc_auc_score
from sklearn.neighbors import LocalOutlierFactor

from laddernet import Sampler, configure, load, train, training_data

FASHION = Path("/usr/share/datasets/fashion-mnist/t10k-images-idx3-ubyte.gz")
SEEDS, DRAWS = range(3), 10


def foreign(kind: str, rows: int, rng: np.random.Generator) -> np.ndarray:
    """Return foreign rows, from 0 to 1."""
    if kind == "noise":
        return rng.random((rows, 64), np.float32)
    images = np.frombuffer(gzip.decompress(FASHION.read_bytes()), np.uint8, offset=16).reshape(-1, 28, 28)
    chosen = np.pad(images[rng.choice(len(images), rows, replace=False)], ((0, 0), (2, 2), (2, 2)))
    return (chosen.reshape(rows, 8, 4, 8, 4).mean(axis=(2, 4)).reshape(rows, 64) / 255).astype(np.float32)


def areas(kind: str, seed: int) -> dict[str, float]:
    """Return the area under the ROC curve of each method."""
    digits = load("digits")
    config = configure(digits, labels=100, recipe="small", validation=0, seed=seed)
    data = training_data(digits, config.labels, config.validation, seed)
    others = foreign(kind, len(data.x_unlabelled) // 9, np.random.default_rng(seed))
    x = np.concatenate([data.x_unlabelled, others])
    is_foreign = np.arange(len(x)) >= len(data.x_unlabelled)
    trained = train(config, replace(data, x_unlabelled=x))
    sampler = Sampler.of(trained.ladder, x, config.noise, config.recon_weights)
    errors = [np.mean((sampler.walkback(x, 1, seed=draw)[1] - x) ** 2, axis=1) for draw in range(DRAWS)]
    scores = {
        "reconstruction": np.mean(errors, axis=0),
        "IsolationForest": -IsolationForest(random_state=seed).fit(x).score_samples(x),
        "LocalOutlierFactor": -LocalOutlierFactor().fit(x).negative_outlier_factor_,
    }
    return {name: 100 * roc_auc_score(is_foreign, score) for name, score in scores.items()}


def fillings() -> Iterator[tuple[str, float]]:
    """Yield ways to fill in missing pixels, and the mean squared error of each."""
    digits = load("digits")
    config = configure(digits, labels=100, recipe="small", seed=0)
    data = training_data(digits, config.labels, config.validation, config.seed)
    trained = train(config, data)
    sampler = Sampler.of(trained.ladder, data.x_unlabelled, config.noise, config.recon_weights)
    known = np.arange(64) < 32

    def error(x: np.ndarray) -> float:
        return float(np.mean((x - digits.x_test)[:, ~known] ** 2))

    x = np.where(known, digits.x_test, digits.x_train.mean(axis=0))
    yield "mean of the training images", error(x)
    imputer = KNNImputer().fit(digits.x_train)
    yield "KNNImputer", error(imputer.transform(np.where(known, digits.x_test, np.nan)))
    for step in range(1, 31):
        x = np.where(known, digits.x_test, sampler.walkback(x, 1, seed=step)[1])
        if step in (1, 3, 10, 30):
            yield f"walkback, {step} steps", error(x)


def main() -> int:
    warnings.simplefilter("ignore")
    print("| foreign rows | reconstruction | IsolationForest | LocalOutlierFactor |\n|---|---|---|---|", flush=True)
    for kind in ("noise", "clothes"):
        found = [areas(kind, seed) for seed in SEEDS]
        means = [np.mean([of_seed[name] for of_seed in found]) for name in found[0]]
        print(f"| {kind} | {' | '.join(f'{mean:.1f}' for mean in means)} |", flush=True)
    print("\n| lower half of the image | mean squared error |\n|---|---|")
    for method, error in fillings():
        print(f"| {method} | {error:.4f} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())

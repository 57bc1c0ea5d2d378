"""Whether the reconstruction cost of a row finds foreign rows: python benchmarks/outliers.py

A tenth of the rows of digits is foreign: uniform noise, or clothes of Fashion-MNIST (the Debian package
dataset-fashion-mnist) of 8 by 8 pixels. All rows are the unlabelled rows of a Ladder Network with 100 labels. A row's
score is the mean squared error of its reconstruction over ten draws of the noise. IsolationForest and
LocalOutlierFactor are fitted to the same rows. Prints areas under the ROC curve, in per cent, mean of three seeds.
"""

import gzip
import sys
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
from sklearn.ensemble import IsolationForest
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
    return (chosen.reshape(rows, 8, 4, 8, 4).mean(axis=(2, 4)) / 255).astype(np.float32)


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


def main() -> int:
    warnings.simplefilter("ignore")
    print("| foreign rows | reconstruction | IsolationForest | LocalOutlierFactor |\n|---|---|---|---|", flush=True)
    for kind in ("noise", "clothes"):
        found = [areas(kind, seed) for seed in SEEDS]
        means = [np.mean([of_seed[name] for of_seed in found]) for name in found[0]]
        print(f"| {kind} | {' | '.join(f'{mean:.1f}' for mean in means)} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())

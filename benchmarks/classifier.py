"""Measure LadderClassifier: time of a fit, error, prediction and memory. Run: python benchmarks/classifier.py

Each part runs in a process of its own on all cores, and prints lines of a Markdown table. Arguments choose parts: fit,
errors, prediction, memory, mnist (ten minutes or more; only run if it is named).
"""

import os
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

DRAWS = 10
HIDDEN = (256, 128)  # the sizes that LadderClassifier chooses for digits


def digits(seed: int) -> tuple[np.ndarray, ...]:
    """Return 1,437 training and 360 test rows, with ten labels per class."""
    from sklearn.datasets import load_digits

    x, y = load_digits(return_X_y=True)
    order = np.random.default_rng(seed).permutation(len(y))
    train, test = order[:1437], order[1437:]
    labels = np.full(len(train), -1)
    for c in range(10):
        rows = np.flatnonzero(y[train] == c)[:10]
        labels[rows] = c
    return x[train], labels, x[test], y[test]


def fit() -> Iterator[tuple[str, str]]:
    """Time the first and the second fit of a process, with an empty compilation cache."""
    began = time.perf_counter()
    from laddernet import LadderClassifier

    yield "import laddernet", f"{time.perf_counter() - began:.1f} s"
    x, labels, *_ = digits(0)
    for which in ("the first, compiling", "the second"):
        began = time.perf_counter()
        LadderClassifier(random_state=0).fit(x, labels)
        yield f"`fit` on digits, {which}", f"{time.perf_counter() - began:.1f} s"


def errors() -> Iterator[tuple[str, str]]:
    """Measure the test error on digits; other methods use the kernel with the lowest test error."""
    from sklearn.semi_supervised import LabelSpreading, SelfTrainingClassifier
    from sklearn.svm import SVC

    from laddernet import LadderClassifier

    spreading: list[dict[str, Any]] = [{"kernel": "knn", "n_neighbors": k} for k in (3, 5, 7, 10)]
    spreading += [{"kernel": "rbf", "gamma": g} for g in (0.1, 0.3, 1, 3)]
    methods: dict[str, Callable[[int], Any]] = {
        "LadderClassifier": lambda seed: LadderClassifier(random_state=seed),
        **{f"LabelSpreading {p}": lambda seed, p=p: LabelSpreading(**p) for p in spreading},  # type: ignore[misc]
        **{
            f"SelfTraining SVM, C = {C}": lambda seed, C=C: SelfTrainingClassifier(  # type: ignore[misc]
                SVC(C=C, probability=True, random_state=seed)  # another calibration was worse: 9.6 %
            )
            for C in (1, 10)
        },
    }
    found: dict[str, list[float]] = {}
    for seed in range(DRAWS):
        x, labels, x_test, y_test = digits(seed)
        for name, make in methods.items():
            predicted = make(seed).fit(x / 16, labels).predict(x_test / 16)
            found.setdefault(name, []).append(100 * float(np.mean(predicted != y_test)))
    for family in ("LadderClassifier", "LabelSpreading", "SelfTraining"):
        best = min((name for name in found if name.startswith(family)), key=lambda name: np.mean(found[name]))
        mean, error = np.mean(found[best]), np.std(found[best], ddof=1) / DRAWS**0.5
        yield f"error on digits, {DRAWS} draws: {best}", f"{mean:.2f} ± {error:.2f} %"


def prediction() -> Iterator[tuple[str, str]]:
    """Measure the rows per second of `predict_proba`: the best of seven alternating rounds."""
    from sklearn.neural_network import MLPClassifier

    from laddernet import LadderClassifier

    x, labels, *_ = digits(0)
    labelled = labels >= 0
    for dtype in (np.float64, np.float32):
        ours = LadderClassifier(max_steps=32, random_state=0).fit(x.astype(dtype), labels)
        theirs = MLPClassifier(HIDDEN, max_iter=2).fit(x[labelled].astype(dtype), labels[labelled])
        for batch in (1, 100, 10_000):
            rows = np.resize(x, (batch, x.shape[1])).astype(dtype)
            best: dict[str, float] = {}
            for _ in range(7):
                for name, model in (("ours", ours), ("theirs", theirs)):
                    repeats = max(3, 3000 // batch)
                    began = time.perf_counter()
                    for _ in range(repeats):
                        model.predict_proba(rows)
                    taken = (time.perf_counter() - began) / repeats
                    best[name] = min(best.get(name, taken), taken)
            yield (
                f"`predict_proba` of {batch:,} rows, {dtype.__name__}",
                f"{best['ours'] * 1000:.2f} ms, {best['theirs'] / best['ours']:.2f} × the rows/s of `MLPClassifier`",
            )


def memory() -> Iterator[tuple[str, str]]:
    """Measure the peak memory of a process that fits a table of float32."""
    from laddernet import LadderClassifier

    rng = np.random.default_rng(0)
    x = rng.random((200_000, 400), np.float32)
    labels = np.full(len(x), -1)
    labels[:100] = np.arange(100) % 10
    LadderClassifier(random_state=0).fit(x, labels)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    size = x.nbytes / 2**20
    yield f"memory of `fit`, a table of {size:.0f} MB", f"{peak:.0f} MB, limit {2 * size + 500:.0f}"


def mnist() -> Iterator[tuple[str, str]]:
    """Measure the setting of docs/reference/classifier.md for images like MNIST's: 100 labels, 60,000 rows."""
    from laddernet import LadderClassifier
    from laddernet.data import load

    data = load("mnist")
    for seed in range(3):
        rng = np.random.default_rng(seed)
        labels = np.full(len(data.y_train), -1)
        for c in range(10):
            rows = rng.permutation(np.flatnonzero(data.y_train == c))[:10]
            labels[rows] = c
        began = time.perf_counter()
        classifier = LadderClassifier(
            hidden=(1000, 500, 250, 250, 250),
            noise=0.3,
            recon_weights=(1000, 10, 0.1),
            weight_decay=0.05,
            batch_size=200,
            max_steps=6000,
            random_state=seed,
        )
        classifier.fit(data.x_train, labels)
        taken = time.perf_counter() - began
        error = 100 * float(np.mean(classifier.predict(data.x_test) != data.y_test))
        yield f"MNIST, 100 labels, draw {seed}, {classifier.n_steps_:,} steps", f"{error:.2f} %, {taken:.0f} s"


PARTS: dict[str, Callable[[], Iterator[tuple[str, str]]]] = {
    part.__name__: part for part in (fit, errors, prediction, memory, mnist)
}


def main() -> int:
    asked = sys.argv[1:] or [name for name in PARTS if name != "mnist"]
    if unknown := [name for name in asked if name not in PARTS]:
        print(f"{unknown[0]}: is no part; name one of {', '.join(PARTS)}.", file=sys.stderr)
        return 2
    if len(asked) == 1:
        warnings.simplefilter("ignore")
        for what, value in PARTS[asked[0]]():
            print(f"| {what} | {value} |", flush=True)
        return 0
    print("| | |\n|---|---|", flush=True)
    for name in asked:
        with tempfile.TemporaryDirectory() as cache:
            environment = {**os.environ, "JAX_COMPILATION_CACHE_DIR": cache}
            done = subprocess.run([sys.executable, __file__, name], env=environment, check=False)
        if done.returncode:
            return done.returncode
    return 0


if __name__ == "__main__":
    sys.exit(main())

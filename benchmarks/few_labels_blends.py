"""Blends of the methods of the few-labels benchmark, compared on the half of the sets to choose by.

    python benchmarks/few_labels_blends.py [--sets dna,pima] [--labels 3,10] [--draws 2] [--kept] --out FOLDER

The probabilities of each method are kept in FOLDER, and the same command resumes. Every blend is made of them, so that
another blend needs no fit of its own. The draws are those that the comparison does not use.
"""

import argparse
import os

os.environ.update({f"{library}_NUM_THREADS": "1" for library in ("OMP", "OPENBLAS", "MKL")})

import io
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import few_labels_data as data
import few_labels_halves as halves
import numpy as np
from few_labels_methods import Predicted, measured, predicted
from few_labels_page import rows_of
from few_labels_results import Fit
from few_labels_variants import FIRST_DRAW
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import track
from scipy.stats import rankdata, wilcoxon

from laddernet.files import write_atomic

METHODS = ("ladder", "self-training-logistic", "extra-trees", "logistic", "logistic-0.1", "forest", "spreading-knn")
MEASURES = ("error", "balanced_error", "log_loss", "ece")
FLOOR = 1e-3  # of a probability whose logarithm is taken

Weights = Mapping[str, float]


class Blend(NamedTuple):
    """A weighted mean of the probabilities of methods, or of their logarithms."""

    weights: Weights
    geometric: bool = False

    def __call__(self, by_method: Mapping[str, NDArray[np.float64]]) -> NDArray[np.float64]:
        """Return the probabilities of the blend."""
        parts, weights = [by_method[name] for name in self.weights], list(self.weights.values())
        if not self.geometric:
            return np.asarray(np.average(parts, axis=0, weights=weights))
        means = np.exp(np.average(np.log(np.maximum(parts, FLOOR)), axis=0, weights=weights))
        return np.asarray(means / means.sum(axis=1, keepdims=True))

    def __str__(self) -> str:
        parts = [name if weight == 1 else f"{weight:g} × {name}" for name, weight in self.weights.items()]
        return ", ".join(parts) + (" (geometric mean)" if self.geometric else "")


LADDER, ST, TREES, FOREST, LOGISTIC = "ladder", "self-training-logistic", "extra-trees", "forest", "logistic"
FIRST = Blend({LADDER: 1, ST: 1, TREES: 1})  # the blend until 2026-11-19, with which tests compare
_BLENDS = (
    *(Blend({name: 1}) for name in METHODS),
    FIRST,
    *(Blend({LADDER: n, ST: 1, TREES: 1}) for n in (2, 3)),
    *(Blend({LADDER: n, LOGISTIC: 1, TREES: 1}) for n in (1, 2, 3)),
    *(Blend({LADDER: n, "logistic-0.1": 1, TREES: 1}) for n in (1, 2)),
    *(Blend({LADDER: n, LOGISTIC: 1, FOREST: 1}) for n in (1, 2)),
    *(Blend({LADDER: n, ST: 1, TREES: 1, FOREST: 1}) for n in (1, 2, 3)),
    *(Blend({LADDER: n, LOGISTIC: 1, TREES: 1, FOREST: 1}) for n in (1, 2, 3)),
    *(Blend({LADDER: n, "logistic-0.1": 1, TREES: 1, FOREST: 1}) for n in (2, 3)),
    *(Blend({LADDER: n, other: 1}) for n in (1, 2) for other in (ST, LOGISTIC, TREES, FOREST)),
    *(Blend({LADDER: n, TREES: 1, FOREST: 1}) for n in (1, 2)),
    Blend({LADDER: 2, ST: 1, TREES: 1, FOREST: 1, "spreading-knn": 1}),
    Blend({ST: 1, TREES: 1}),
    Blend(FIRST.weights, geometric=True),
    *(Blend({LADDER: n, LOGISTIC: 1, TREES: 1}, geometric=True) for n in (1, 2)),
)
BLENDS: dict[str, Blend] = {str(blend): blend for blend in _BLENDS}


def probabilities(folder: Path, fit: Fit, kept_only: bool) -> NDArray[np.float64] | None:
    """Return the probabilities of the test rows by one method, from the folder or from a fit."""
    path = folder / f"{fit.set}-{fit.labels}-{fit.draw}-{fit.method}.npz"
    if not path.exists():
        if kept_only:
            return None
        buffer = io.BytesIO()
        np.savez(buffer, p=predicted(fit).probabilities.astype(np.float32))
        write_atomic(path, buffer.getvalue())
    with np.load(path) as file:
        p = np.asarray(file["p"], np.float64)
    return np.asarray(p / p.sum(axis=1, keepdims=True))  # they were rounded to float32


def cases(sets: Sequence[str], labels: Sequence[int], draws: int) -> Iterator[Fit]:
    """Yield the fits to do, by draw first: a run that is stopped has all sets of the first draw."""
    for draw in range(FIRST_DRAW, FIRST_DRAW + draws):
        for name in sets:
            for count in labels:
                if np.bincount(data.load(name).y_train).min() >= count:
                    yield Fit(name, count, draw, "")


def summary(title: str, by_set: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return a table of the blends: the means over sets, mean rank, and tests against the first blend."""
    names = list(by_set)
    values = np.array([[np.mean(by_set[name][blend], axis=0) for blend in BLENDS] for name in names])
    ranks = rankdata(values, axis=1).mean(axis=0)
    reference = list(BLENDS).index(str(FIRST))
    rows = [
        [
            "",
            *(measure.replace("_", " ") for measure in MEASURES),
            "rank by error",
            "by log loss",
            "p, error",
            "p, log loss",
        ]
    ]
    for place in np.argsort(ranks[:, 0], kind="stable"):
        tests = ["" if place == reference else _test(values[:, place, k] - values[:, reference, k]) for k in (0, 2)]
        means = values[:, place].mean(axis=0)
        cells = [f"{means[0]:.2f}", f"{means[1]:.2f}", f"{means[2]:.4f}", f"{means[3]:.2f}"]
        rows.append([list(BLENDS)[place], *cells, f"{ranks[place, 0]:.2f}", f"{ranks[place, 2]:.2f}", *tests])
    return ["", f"## {title}: {len(names)} sets", "", *rows_of(rows)]


def _test(differences: NDArray[np.float64]) -> str:
    if not differences.any() or len(differences) < 2:
        return "–"
    sign = "better" if fmean(differences) < 0 else "worse"
    return f"{wilcoxon(differences).pvalue:.3f} {sign}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    chosen = [name for name in data.SETS if halves.half(name) == "choose"]
    parser.add_argument("--sets", default=",".join(chosen), help="of the half to choose by [default: all of it]")
    parser.add_argument("--labels", default="3,10", help="per class [default: %(default)s]")
    parser.add_argument("--draws", type=int, default=1, help="[default: %(default)s]")
    parser.add_argument("--out", type=Path, required=True, help="folder of the probabilities")
    parser.add_argument("--kept", action="store_true", help="fit nothing; compare the fits in the folder")
    asked = parser.parse_args()
    sets = asked.sets.split(",")
    if unknown := [name for name in sets if name not in chosen]:
        parser.error(f"{', '.join(unknown)}: not of the half to choose by; give some of {', '.join(chosen)}")
    asked.out.mkdir(parents=True, exist_ok=True)
    found: dict[str, dict[str, list[Any]]] = {}
    console = Console(stderr=True)
    todo = list(cases(sets, [int(count) for count in asked.labels.split(",")], asked.draws))
    for case in track(todo, console=console, disable=not console.is_terminal):
        parts = {name: probabilities(asked.out, case._replace(method=name), asked.kept) for name in METHODS}
        if any(p is None for p in parts.values()):
            continue
        y = data.load(case.set).y_test
        for name, blend in BLENDS.items():
            p = blend(parts)  # type: ignore[arg-type]
            result = measured(y, Predicted(p.argmax(axis=1), p, 0.0))
            values = [getattr(result, measure) for measure in MEASURES]
            found.setdefault(case.set, {}).setdefault(name, []).append(values)
    for title, kind in (("All", None), ("Categories", True), ("Numbers", False)):
        if of := {name: values for name, values in found.items() if kind in (None, halves.categorical(name))}:
            print("\n".join(summary(title, of)))


if __name__ == "__main__":
    main()

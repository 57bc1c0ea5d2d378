"""Repeated cross-validation of several methods on the same folds, and the choice of one of them."""

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from laddernet.classifier.labels import UNLABELLED
from laddernet.classifier.members import BLEND, BLENDED, FOLDS, METHODS, REPEATS, weighted
from laddernet.classifier.methods import fit_members
from laddernet.classifier.splits import LabelledKFold, held_out_rows
from laddernet.inference.network import Rows

_MANY = 1000  # labelled rows, above which one cross-validation is precise enough without repeats
_CLEAR = 2.0  # standard errors of a paired difference


@dataclass(frozen=True)
class HeldOut:
    """Probabilities of the classes of held-out rows, by each method, in each repeat."""

    codes: np.ndarray  # the classes of the rows that were held out
    folds: int
    repeats: int
    labels: int  # of each training, in the mean
    probabilities: dict[str, np.ndarray]  # of the shape (repeats, rows, classes)

    def wrong(self, method: str) -> np.ndarray:
        """Return for each row the share of the repeats in which it was classified wrongly."""
        return np.asarray((self.probabilities[method].argmax(axis=2) != self.codes).mean(axis=0))

    def errors(self) -> dict[str, float]:
        """Return the number of rows that each method had wrong, the mean of the repeats."""
        return {name: float(self.wrong(name).sum()) for name in self.probabilities}

    def gain(self, method: str, over: str) -> tuple[float, float]:
        """Return the error of ``over`` minus that of ``method``, in percentage points, and its standard error.

        The difference is computed row by row, so that rows which both methods have wrong do not add to its variance.
        """
        gains = 100 * (self.wrong(over) - self.wrong(method))
        return float(gains.mean()), float(gains.std(ddof=1) / math.sqrt(len(gains)))

    def best(self, used: str) -> str:
        """Return the method with the lowest error; of equal ones the one in use, then the first."""
        errors = self.errors()
        return min(errors, key=lambda name: (round(errors[name], 9), name != used))

    def choice(self, default: str = BLEND) -> str:
        """Return the method to use: the default, unless another is better by two standard errors of the difference.

        The lowest of several errors on few rows is often the lowest by chance.
        """
        better = [name for name in self.probabilities if name != default and self._clear(name, default)]
        return min(better, key=self.errors().__getitem__, default=default)

    def advice(self, used: str) -> str:
        """Return one sentence that names the method to use."""
        best = self.best(used)
        title = METHODS[best]
        if best == used:
            return f"Use {title}: no other method has fewer of these rows wrong."
        points, error = self.gain(best, used)
        measured = f"its error is {points:.1f} ± {error:.1f} points lower than that of {METHODS[used]}"
        if self._clear(best, used):
            return f"Use {title} instead (--method {best}): {measured}."
        return f"Use {METHODS[used]}: {title} is ahead, but not clearly: {measured}."

    def _clear(self, method: str, over: str) -> bool:
        points, error = self.gain(method, over)
        return points > _CLEAR * error and points > 0


def folds_of(codes: np.ndarray) -> tuple[int, int]:
    """Return the numbers of folds and of repeats that labels allow; 0 folds if no class has two labels.

    >>> folds_of(np.array([0, 0, 1, 1, 2, -1])), folds_of(np.array([0, 1, -1])), folds_of(np.repeat([0, 1], 600))
    ((4, 2), (0, 2), (5, 1))
    """
    judged = len(held_out_rows(codes))
    return min(FOLDS, judged), REPEATS if judged <= _MANY else 1


def cross_validate(
    names: Iterable[str],
    x: Rows,
    codes: np.ndarray,
    *,
    folds: int,
    repeats: int,
    ladder: Any = None,
    seed: int = 0,
    on_fit: Callable[[str], None] = lambda name: None,
) -> HeldOut:
    """Predict each labelled row by methods that were not fitted to it; all unlabelled rows are in every training.

    If the members of the blend are among the methods, so is the blend. ``on_fit`` is called with the name of a method
    before each fit.
    """
    names = list(names)
    judged = held_out_rows(codes)
    place = np.full(len(codes), -1)
    place[judged] = np.arange(len(judged))
    found = {name: np.zeros((repeats, len(judged), int(codes.max()) + 1), np.float32) for name in names}
    counts = []
    for number, (rest, held) in enumerate(splits(codes, folds, repeats, seed)):
        counts.append(np.count_nonzero(codes[rest] != UNLABELLED))
        members = fit_members(names, x[rest], codes[rest], ladder=ladder, seed=seed, on_fit=on_fit)
        for name, p in members.probabilities(x[held]).items():
            found[name][number // folds, place[held]] = p
    if BLENDED.keys() <= found.keys():
        found = {BLEND: weighted(BLENDED, found), **found}
    return HeldOut(codes[judged], folds, repeats, round(np.mean(counts)), found)


def splits(codes: np.ndarray, folds: int, repeats: int, seed: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield the rows to train on and the labelled rows to judge by."""
    split = LabelledKFold(folds, n_repeats=repeats, unlabeled=UNLABELLED, random_state=seed)
    yield from split.split(codes, codes)

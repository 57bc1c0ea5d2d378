"""Which unlabelled rows are most worth labelling next.

A row's use is the product of three numbers from 0 to 1. *Doubt*: 1 less the margin between its two most probable
classes. *Density*: its mean similarity to the table's unlabelled rows, so that what is learned of it holds for many.
*Novelty*: 1 less its similarity to the nearest row that was suggested before, so that no two suggestions are alike.
Similarity is exp(−d² / 2h²), where d is the distance between two rows in the network's last hidden layer and h² the
median of d² over pairs of rows. Rows are taken one after another, each time the one of most use. Of a large table only
the rows of most doubt, and a sample of the others that is always the same, are looked at.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from laddernet.table.model import TableModel, labels_of
from laddernet.table.read import Table

_SAMPLE = 1000  # rows that stand for all
_LEAST_DOUBT = 1e-6  # so that of rows without any doubt the other two numbers still choose


@dataclass(frozen=True)
class Pool:
    """Unlabelled rows that may be suggested."""

    frame: pd.DataFrame  # what is to be told of each; its index is the number of the row
    probabilities: np.ndarray
    places: np.ndarray  # in the last hidden layer

    def __getitem__(self, rows: np.ndarray) -> "Pool":
        return Pool(self.frame.iloc[rows], self.probabilities[rows], self.places[rows])

    def __add__(self, other: "Pool") -> "Pool":
        return Pool(
            pd.concat([self.frame, other.frame]),
            np.concatenate([self.probabilities, other.probabilities]),
            np.concatenate([self.places, other.places]),
        )

    @property
    def doubt(self) -> np.ndarray:
        second, first = np.sort(self.probabilities, axis=1)[:, -2:].T
        return np.asarray(1 - (first - second) + _LEAST_DOUBT)


@dataclass(frozen=True)
class Suggestions:
    """Rows to label next, the most useful first."""

    frame: pd.DataFrame  # the columns to keep; its index is the number of the row in the table, from 1 on
    classes: list[str]  # the most probable class of each row
    confidence: np.ndarray  # its probability
    use: np.ndarray
    total: int  # unlabelled rows that were looked at


def suggest(
    model: TableModel, table: Table, *, target: str | None = None, count: int = 20, keep: Sequence[str] = ()
) -> Suggestions:
    """The unlabelled rows to label next, the most useful first; without a ``target`` all rows are unlabelled.

    The table is read in parts, and no more than some thousand rows are held.
    """
    doubtful, sample, total = _gather(model, table, target, count, keep)
    pool = doubtful + sample  # if those of most doubt are all alike, the sample has others
    pool = pool[np.flatnonzero(~pool.frame.index.duplicated())]
    chosen, use = rank(pool.doubt, pool.places, sample.places, count)
    best = pool[chosen]
    classes = [model.classes[place] for place in best.probabilities.argmax(axis=1)]
    return Suggestions(best.frame, classes, best.probabilities.max(axis=1), use, total)


def _gather(
    model: TableModel, table: Table, target: str | None, count: int, keep: Sequence[str]
) -> tuple[Pool, Pool, int]:
    """Of the unlabelled rows those of most doubt, a sample that stands for all, and how many there are."""
    rng = np.random.default_rng(0)
    most = max(_SAMPLE, 10 * count)
    doubtful = sample = Pool(pd.DataFrame(columns=list(keep)), np.zeros((0, len(model.classes))), np.zeros((0, 0)))
    keys = np.zeros(0)
    total = 0
    for part in model.parts(table, [*keep, *([] if target is None else [target])]):
        if target is not None:
            part = part[labels_of(part[target], table) == ""]
        if not len(part):
            continue
        x = model.features(part)
        found = Pool(part[list(keep)], model.classifier.predict_proba(x), model.classifier.transform(x))
        doubtful = found if not total else doubtful + found
        doubtful = doubtful[np.argsort(-doubtful.doubt, kind="stable")[:most]]
        # The rows with the lowest of so many random numbers are a fair sample, however the parts were cut.
        keys = np.concatenate([keys, rng.random(len(part))])
        sample = found if not total else sample + found
        lowest = np.sort(np.argsort(keys, kind="stable")[:_SAMPLE])
        keys, sample = keys[lowest], sample[lowest]
        total += len(part)
    return doubtful, sample, total


def rank(doubt: np.ndarray, places: np.ndarray, sample: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Which rows to take, one after another, and of what use each is when it is taken.

    Of two rows that are alike the second is of no use once the first is taken:

    >>> chosen, use = rank(np.array([0.9, 0.9, 0.5]), np.array([[0.0], [0.0], [3.0]]), np.array([[0.0], [3.0]]), 3)
    >>> chosen.tolist(), use.round(2).tolist()
    ([0, 2, 1], [0.72, 0.16, 0.0])
    """
    between = _squares(sample, sample)
    between = between[between > 0]
    width = float(np.median(between)) if len(between) else 1.0
    value = doubt * np.exp(-_squares(places, sample) / (2 * width)).mean(axis=1) if len(doubt) else doubt
    novelty = np.ones(len(doubt))
    chosen: list[int] = []
    use: list[float] = []
    for _ in range(min(count, len(doubt))):
        score = value * novelty
        score[chosen] = -1
        best = int(score.argmax())
        chosen.append(best)
        use.append(float(score[best]))
        novelty = np.minimum(novelty, 1 - np.exp(-_squares(places, places[best : best + 1])[:, 0] / (2 * width)))
    return np.array(chosen, int), np.array(use)


def _squares(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Squared distances of the rows of ``a`` from those of ``b``.

    >>> _squares(np.array([[0.0, 0.0]]), np.array([[3.0, 4.0]])).tolist()
    [[25.0]]
    """
    a, b = a.astype(np.float64), b.astype(np.float64)
    squares = (a**2).sum(axis=1)[:, None] + (b**2).sum(axis=1) - 2 * a @ b.T
    return np.asarray(np.maximum(squares, 0))

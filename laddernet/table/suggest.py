"""Which unlabelled rows are most worth labelling next.

A label tells something about the rows that are like the one it is given to. How alike two rows are is exp(−d² / 2h²),
where d is their distance in the network's last hidden layer and h² the median of d² over pairs of rows; a row is
covered as well as it is like the most similar row that has a label. Rows are taken one after another, each time the one
by which the unlabelled rows are covered best, on average: far from what has a label, and in the midst of many. How sure
the network is of a row does not count. With few labels it is sure of much that is wrong, and the rows in doubt are odd
ones: labels chosen by doubt taught less than labels drawn by lot (docs/how-to/label-in-rounds.md).

Of a large table a sample is looked at that is always the same.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from laddernet.table.model import TableModel, labels_of, mark_of
from laddernet.table.read import Table

_SAMPLE = 1000  # rows that stand for all


@dataclass(frozen=True)
class Sample:
    """Some of the rows that were met, drawn by lot; the same ones however the table is cut into parts."""

    frame: pd.DataFrame  # what is to be told of each; its index is the number of the row
    probabilities: np.ndarray
    places: np.ndarray  # in the last hidden layer
    lots: np.ndarray  # by which it was drawn: the lowest stay

    def __getitem__(self, rows: np.ndarray) -> "Sample":
        return Sample(self.frame.iloc[rows], self.probabilities[rows], self.places[rows], self.lots[rows])

    def with_more(self, other: "Sample", most: int) -> "Sample":
        if not len(self.frame):
            both = other
        else:
            both = Sample(
                pd.concat([self.frame, other.frame]),
                np.concatenate([self.probabilities, other.probabilities]),
                np.concatenate([self.places, other.places]),
                np.concatenate([self.lots, other.lots]),
            )
        return both[np.sort(np.argsort(both.lots, kind="stable")[:most])]


@dataclass(frozen=True)
class Suggestions:
    """Rows to label next, the most useful first."""

    frame: pd.DataFrame  # the columns to keep; its index is the number of the row in the table, from 1 on
    classes: list[str]  # the most probable class of each row
    confidence: np.ndarray  # its probability
    use: np.ndarray
    total: int  # unlabelled rows that were looked at


def suggest(
    model: TableModel,
    table: Table,
    *,
    target: str | None = None,
    unlabeled: Any = None,
    count: int = 20,
    keep: Sequence[str] = (),
) -> Suggestions:
    """The unlabelled rows to label next, the most useful first; without a ``target`` all rows are unlabelled.

    ``unlabeled`` marks a row without a label, besides an empty cell; None is what the model was fitted with. The table
    is read in parts, and no more than some thousand rows are held.
    """
    asked = model.unlabeled if unlabeled is None else unlabeled
    mark = mark_of(asked, positional=bool(table.positional or model.positional))
    unlabelled, labelled, total = _gather(model, table, target, mark, count, keep)
    chosen, use = rank(unlabelled.places, labelled.places, count)
    best = unlabelled[chosen]
    classes = [model.classes[place] for place in best.probabilities.argmax(axis=1)]
    return Suggestions(best.frame, classes, best.probabilities.max(axis=1), use, total)


def _gather(
    model: TableModel, table: Table, target: str | None, mark: str, count: int, keep: Sequence[str]
) -> tuple[Sample, Sample, int]:
    """A sample of the unlabelled rows, one of the labelled rows, and how many unlabelled ones there are."""
    rng = np.random.default_rng(0)
    unlabelled = Sample(
        pd.DataFrame(columns=list(keep)), np.zeros((0, len(model.classes))), np.zeros((0, 0)), np.zeros(0)
    )
    labelled = unlabelled
    total = 0
    for part in model.parts(table, [*keep, *([] if target is None else [target])]):
        x = model.features(part)
        lots = rng.random(len(part))
        found = Sample(part[list(keep)], model.classifier.predict_proba(x), model.classifier.transform(x), lots)
        free = np.ones(len(part), bool) if target is None else labels_of(part[target], mark) == ""
        unlabelled = unlabelled.with_more(found[np.flatnonzero(free)], max(_SAMPLE, 10 * count))
        labelled = labelled.with_more(found[np.flatnonzero(~free)], _SAMPLE)
        total += int(free.sum())
    return unlabelled, labelled, total


def rank(places: np.ndarray, labelled: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Which of the unlabelled places to take, one after another, and by how much each covers all of them better.

    Three rows of five are alike, and one of the others has a label right beside it:

    >>> places = np.array([[0.0], [0.1], [0.2], [3.0], [6.0]])
    >>> chosen, use = rank(places, np.array([[6.0]]), 2)
    >>> chosen.tolist(), use.round(2).tolist()
    ([2, 3], [0.53, 0.07])
    """
    if not len(places):
        return np.zeros(0, int), np.zeros(0)
    sample = places[:: -(-len(places) // _SAMPLE)]
    between = _squares(sample, sample)
    width = float(np.median(between[between > 0])) if between.any() else 1.0

    def alike(others: np.ndarray) -> np.ndarray:
        return np.asarray(np.exp(-_squares(sample, others) / (2 * width)))

    covers = alike(places)
    covered = alike(labelled).max(axis=1) if len(labelled) else np.zeros(len(sample))
    chosen: list[int] = []
    use: list[float] = []
    for _ in range(min(count, len(places))):
        gain = np.maximum(covers - covered[:, None], 0).mean(axis=0)
        gain[chosen] = -1
        best = int(gain.argmax())
        chosen.append(best)
        use.append(float(gain[best]))
        covered = np.maximum(covered, covers[:, best])
    return np.array(chosen, int), np.array(use)


def _squares(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Squared distances of the rows of ``a`` from those of ``b``.

    >>> _squares(np.array([[0.0, 0.0]]), np.array([[3.0, 4.0]])).tolist()
    [[25.0]]
    """
    a, b = a.astype(np.float64), b.astype(np.float64)
    squares = (a**2).sum(axis=1)[:, None] + (b**2).sum(axis=1) - 2 * a @ b.T
    return np.asarray(np.maximum(squares, 0))

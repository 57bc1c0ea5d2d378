"""Choose the unlabelled rows that are most useful to label next.

The similarity of two rows is exp(−d² / 2h²), where d is their distance in the network's last hidden layer (in the
scaled columns if the model has no Ladder Network) and h² the median of d² over pairs of rows. The coverage of a row is
its similarity to the most similar row that has a label. Rows are chosen one after another, each time the row that
raises the mean coverage of the unlabelled rows most: it is far from labelled rows and has many rows near it. The
confidence of the network is not used. With few labels the network is confident of many wrong classes, and the rows it
is uncertain of are outliers: labels chosen by uncertainty lowered the error less than labels chosen at random
(docs/how-to/label-in-rounds.md).

Of a large table a random sample is ranked, always the same one.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from sklearn.metrics.pairwise import euclidean_distances, rbf_kernel

from laddernet.table.labels import labels_of, mark_of
from laddernet.table.rounds import ROW, Finder, LabelFile, own_name, row_number
from laddernet.table.table import Table

if TYPE_CHECKING:
    from laddernet.table.model import TableModel

ADDED = ("rank", ROW, "predicted class", "confidence", "use")  # columns of a file to fill in, beside the table's

_SAMPLE = 1000  # rows of the sample


@dataclass(frozen=True)
class Sample:
    """A random sample of rows, which does not depend on how the table is cut into parts."""

    frame: pd.DataFrame  # the columns to copy; its index is the row number
    probabilities: np.ndarray
    places: np.ndarray  # activations of the last hidden layer
    keys: np.ndarray  # random numbers; the rows with the lowest are kept

    def __getitem__(self, rows: np.ndarray) -> "Sample":
        return Sample(self.frame.iloc[rows], self.probabilities[rows], self.places[rows], self.keys[rows])

    def with_more(self, other: "Sample", most: int) -> "Sample":
        """Add rows, and keep ``most`` of them."""
        if not len(self.frame):
            both = other
        else:
            both = Sample(
                pd.concat([self.frame, other.frame]),
                np.concatenate([self.probabilities, other.probabilities]),
                np.concatenate([self.places, other.places]),
                np.concatenate([self.keys, other.keys]),
            )
        return both[np.sort(np.argsort(both.keys, kind="stable")[:most])]


@dataclass(frozen=True)
class Suggestions:
    """Rows to label next, the most useful first."""

    frame: pd.DataFrame  # the columns to copy; its index is the row number in the table, from 1
    classes: list[str]  # the most probable class of each row
    confidence: np.ndarray  # its probability
    use: np.ndarray  # the gain in mean coverage
    total: int  # unlabelled rows of the table

    def to_label(self, target: str, columns: Sequence[str], identifiers: Sequence[str]) -> pd.DataFrame:
        """Lay out the rows for a person, who fills in the empty column ``target``.

        ``columns`` are those of the whole table. The identifiers come first, then the target, then the other cells.
        """
        rank, row, best, confidence, use = (own_name(name, {*columns, target}) for name in ADDED)
        first = [name for name in identifiers if name in self.frame]
        others = [name for name in self.frame if name not in {*first, target}]
        cells: dict[str, Any] = {
            rank: range(1, len(self.use) + 1),
            row: [row_number(number) for number in self.frame.index],
            **{name: self.frame[name] for name in first},
            target: None,
            **{name: self.frame[name] for name in others},
            best: self.classes,
            confidence: self.confidence.astype(np.float64).round(6),
            use: self.use.round(6),
        }
        return pd.DataFrame(cells, index=self.frame.index)


def suggest(
    model: "TableModel",
    table: Table,
    *,
    target: str | None = None,
    unlabeled: Any = None,
    count: int = 20,
    keep: Sequence[str] = (),
    labels: Sequence[Table] = (),
) -> Suggestions:
    """Rank the unlabelled rows by the gain of a label; without a ``target`` all rows are unlabelled.

    ``unlabeled`` marks a row without a label, besides an empty cell; None means the mark of the model. Rows that have a
    label in the files ``labels`` are labelled too. The table is read in parts, and only some thousand rows are kept in
    memory.
    """
    asked = model.unlabeled if unlabeled is None else unlabeled
    mark = mark_of(asked, table.positional or model.positional)
    identifiers = [name for name in model.identifiers if name in table.columns]
    files = [LabelFile.read(file, model.target if target is None else target, mark) for file in labels]
    finders = [Finder(file, table.columns, identifiers) for file in files]
    unlabelled, labelled, total = _gather(model, table, target, mark, count, keep, finders)
    chosen, use = rank(unlabelled.places, labelled.places, count)
    best = unlabelled[chosen]
    classes = [model.classes[place] for place in best.probabilities.argmax(axis=1)]
    return Suggestions(best.frame, classes, best.probabilities.max(axis=1), use, total)


def suggest_rows(
    model: "TableModel", frame: pd.DataFrame, *, unlabeled: Any, count: int, labels: Sequence[Table]
) -> pd.DataFrame:
    """Return the suggestions for a frame as rows to fill in, with the index of the frame."""
    table = Table.of(frame)
    model.check(table)
    target = model.target if model.target in table.columns else None
    keep = table.columns
    found = suggest(model, table, target=target, unlabeled=unlabeled, count=count, keep=keep, labels=labels)
    out = found.to_label(model.target, table.columns, model.identifiers)
    return out.set_axis(frame.index[found.frame.index - 1])


def _gather(
    model: "TableModel",
    table: Table,
    target: str | None,
    mark: str,
    count: int,
    keep: Sequence[str],
    finders: Sequence[Finder],
) -> tuple[Sample, Sample, int]:
    """Return a sample of the unlabelled rows, one of the labelled rows, and the number of unlabelled rows."""
    rng = np.random.default_rng(0)
    unlabelled = Sample(
        pd.DataFrame(columns=list(keep)), np.zeros((0, len(model.classes))), np.zeros((0, 0)), np.zeros(0)
    )
    labelled = unlabelled
    total = 0
    more = [name for name in (target, *(finder.key for finder in finders)) if name is not None]
    for part in model.parts(table, [*keep, *more]):
        x = model.features(part)
        keys = rng.random(len(part))
        found = Sample(part[list(keep)], model.classifier.predict_proba(x), model.embed(x), keys)
        free = np.ones(len(part), bool) if target is None else labels_of(part[target], mark) == ""
        for finder in finders:
            free[[here for _, here in finder.pairs(part)]] = False
        unlabelled = unlabelled.with_more(found[np.flatnonzero(free)], max(_SAMPLE, 10 * count))
        labelled = labelled.with_more(found[np.flatnonzero(~free)], _SAMPLE)
        total += int(free.sum())
    return unlabelled, labelled, total


def rank(places: np.ndarray, labelled: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Choose unlabelled places one after another, and return with each its gain in mean coverage.

    Three of five rows are similar, and one of the others is equal to a labelled row:

    >>> places = np.array([[0.0], [0.1], [0.2], [3.0], [6.0]])
    >>> chosen, use = rank(places, np.array([[6.0]]), 2)
    >>> chosen.tolist(), use.round(2).tolist()
    ([2, 3], [0.53, 0.07])
    """
    if not len(places):
        return np.zeros(0, int), np.zeros(0)
    places, labelled = places.astype(np.float64), labelled.astype(np.float64)
    sample = places[:: -(-len(places) // _SAMPLE)]
    between = euclidean_distances(sample, squared=True)
    width = float(np.median(between[between > 0])) if between.any() else 1.0
    alike = partial(rbf_kernel, sample, gamma=1 / (2 * width))
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

"""A table as a data set for the paper's models: training and test rows, inputs between 0 and 1."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from laddernet import checks
from laddernet.classifier.labels import UNLABELLED
from laddernet.classifier.scaling import find_scaling
from laddernet.data import Dataset, every_nth
from laddernet.errors import InputError
from laddernet.inference.network import Scaling
from laddernet.table.cells import texts
from laddernet.table.columns import read_columns
from laddernet.table.labels import find_classes, mark_of
from laddernet.table.rows import read_rows, target_of
from laddernet.table.table import Table
from laddernet.table.transformer import transformed

_PARTS = {"train": False, "training": False, "test": True}


def research_data(
    table: Table,
    target: str | None,
    *,
    test_share: float | None = None,
    split: str | None = None,
    unlabeled: str | None = None,
) -> tuple[Dataset, list[str]]:
    """Prepare a table; return the data set, and sentences on how its columns are read.

    The test rows are those with "test" in the column ``split``; or ``test_share`` of the labelled rows, the same share
    of each class, which never change. The types, medians and categories of the columns, and the scaling to [0, 1],
    are determined from the training rows only. Test values beyond the range of the training rows are cut off.
    """
    if (test_share is None) == (split is None):
        advice = "give either --test-share, as in 0.2, or --split, a column with 'train' or 'test' in each row"
        raise InputError(f"{table.name} must be divided into training and test rows; {advice}.")
    target = target_of(table, target)
    beside = [] if split is None else [split]
    table.require([target, *beside])
    parts = [[texts(part[name]) for name in (target, *beside)] for part in table.parts([target, *beside])]
    labels, *places = (
        (np.concatenate(columns) for columns in zip(*parts, strict=True)) if parts else (np.empty(0, object),)
    )
    mark = mark_of(unlabeled, table.positional)
    classes, codes = find_classes(labels, mark, target, table.name)
    is_test = _share(codes, test_share, table.name) if test_share is not None else _named(places[0], split, table.name)
    if (without := np.flatnonzero(is_test & (codes == UNLABELLED))).size:
        advice = "give it one, or make it a training row"
        raise InputError(f"{table.name}: row {without[0] + 1} is a test row without a {target!r}; {advice}.")

    rows = read_rows(_some(table, ~is_test), target, drop=beside, unlabeled=unlabeled)
    kept = [column.name for column in rows.columns]
    tested = [read_columns(rows.columns, part) for part in _some(table, is_test).parts(kept)]
    scaling = _scaling(rows.X)
    dataset = Dataset(
        Path(table.name).stem,
        np.clip(scaling(rows.X), 0, 1),
        codes[~is_test].astype(np.int32),
        np.clip(scaling(transformed(rows.transformer, pd.concat(tested, ignore_index=True))), 0, 1),
        codes[is_test].astype(np.int32),
        classes,
    ).with_content()
    unused = [f"{name}: not used ({reason})" for name, reason in rows.dropped.items() if name != split]
    return dataset, [*unused, *rows.notices]


def _share(codes: np.ndarray, share: float, table: str) -> np.ndarray:
    """Choose a share of the labelled rows as test rows."""
    labelled = np.flatnonzero(codes != UNLABELLED)
    count = round(checks.number("--test-share", share) * len(labelled))
    if not 0 < count < len(labelled):
        found = f"--test-share {share:g} makes {count:,} of the {len(labelled):,} labelled rows of {table} test rows"
        raise InputError(f"{found}; give a share between 0 and 1 that leaves rows of both kinds.")
    is_test = np.zeros(len(codes), bool)
    is_test[labelled[every_nth(codes[labelled], count)]] = True
    return is_test


def _named(places: np.ndarray, split: str | None, table: str) -> np.ndarray:
    """Read the column that marks test rows, as a mask."""
    for row, place in enumerate(places, 1):
        if place.lower() not in _PARTS:
            raise InputError(f"{table}: {split!r} is {place!r} in row {row}; write train or test in each row.")
    is_test = np.array([_PARTS[place.lower()] for place in places], bool)
    if is_test.all() or not is_test.any():
        kind = "training" if is_test.all() else "test"
        raise InputError(
            f"{table}: {split!r} names no {kind} row; write train or test in each row, both at least once."
        )
    return is_test


def _some(table: Table, wanted: np.ndarray) -> Table:
    """Return a table with these rows only, which keep their numbers."""

    def parts(names: Sequence[str]) -> Iterator[pd.DataFrame]:
        return (part[wanted[part.index - 1]] for part in table.parts(names))

    return replace(table, parts=parts)


def _scaling(x: np.ndarray) -> Scaling:
    """Scale columns like pixels together to [0, 1], as images are, and others each by its own range."""
    how, together = find_scaling(x)
    if how == "range":
        return together
    low, spread = x.min(axis=0), np.ptp(x, axis=0)
    factor = np.divide(1, spread, out=np.zeros_like(spread), where=spread > np.finfo(np.float32).tiny)
    return Scaling(low, factor.astype(np.float32))

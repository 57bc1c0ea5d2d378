"""The rows that a model is trained on: columns, classes and inputs, with notices for the user."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from sklearn.compose import ColumnTransformer

from laddernet.classifier.labels import UNLABELLED
from laddernet.errors import InputError
from laddernet.table.cells import texts
from laddernet.table.columns import IDENTIFIER, Column, Survey, read_columns
from laddernet.table.labels import MARK, find_classes, lookalikes, mark_of, plain
from laddernet.table.rounds import LabelFile, Merged, Round, merge
from laddernet.table.table import Table, listed
from laddernet.table.transformer import learn, rare_below, transformed

_LIKE_A_TARGET = re.compile(r"(^|[^a-z])(target|label|labels|class|klasse|category|outcome|diagnosis|y)$")
_FEW = 20  # values, at most, of a column that may hold classes


@dataclass(frozen=True)
class Rows:
    """A table prepared for training."""

    target: str
    columns: tuple[Column, ...]
    dropped: dict[str, str]  # columns that are not used, each with the reason
    notices: list[str]
    positional: int
    transformer: ColumnTransformer
    classes: tuple[str, ...]
    X: np.ndarray
    codes: np.ndarray  # for each row the index of its class, or -1
    unlabeled: str | None  # the mark of a row without a label, if one was given
    rounds: Sequence[Round] = ()  # the labels that each file added

    @property
    def labels(self) -> dict[str, int]:
        """Count the labelled rows of each class."""
        counts = np.bincount(self.codes[self.codes != UNLABELLED], minlength=len(self.classes))
        return dict(zip(self.classes, counts.tolist(), strict=True))


def read_rows(
    table: Table,
    target: str | None,
    *,
    also: Sequence[Table] = (),
    drop: Sequence[str] = (),
    use: Sequence[str] = (),
    category: Sequence[str] = (),
    unlabeled: Any = None,
    labels: Sequence[Table] = (),
) -> Rows:
    """Read a table for training; ``also`` are tables of more rows, and ``labels`` files of labels.

    Columns of ``drop`` are left out. Columns of ``use`` are used even if they look like identifiers, and columns of
    ``category`` hold categories even if they look like numbers. ``unlabeled`` marks a row without a label, besides an
    empty cell; None means -1 for arrays and no mark for other tables, "" means no mark.
    """
    target = target_of(table, target)
    table.require([target, *drop, *use, *category])
    names = [name for name in table.columns if name not in {target, *drop}]
    if table.positional:  # other arrays of the file are not features
        names = [name for name in table.columns[: table.positional] if name in names]
    for other in also:
        other.require(names, "give the same columns, or leave some out with --drop.")

    surveys = {name: Survey(name) for name in names}
    given: list[np.ndarray] = [np.empty(0, object)]
    for source in (table, *also):
        for part in source.parts([*names, target] if source is table else names):
            given.append(texts(part[target]) if source is table else np.full(len(part), "", object))
            for name, survey in surveys.items():
                survey.add(part[name])
    found = {name: survey.column(category=name in category, use=name in use) for name, survey in surveys.items()}
    dropped = {name: reason for name, reason in found.items() if isinstance(reason, str)}
    columns = tuple(column for column in found.values() if isinstance(column, Column))
    mark = mark_of(unlabeled, table.positional)
    merged = Merged(np.concatenate(given))
    if labels:
        merged = merge(
            merged.labels,
            [LabelFile.read(file, target, mark) for file in labels],
            [table, *also],
            columns=names,
            identifiers=[name for name, reason in dropped.items() if reason == IDENTIFIER],
            dates={column.name for column in columns if column.kind in ("date", "time")},
            mark=mark,
        )
    classes, codes = find_classes(merged.labels, mark, target, table.name)

    kept = [column.name for column in columns]
    parts = [read_columns(columns, part) for source in (table, *also) for part in source.parts(kept)]
    frame = pd.concat(parts, ignore_index=True)
    for column in columns:
        if column.kind == "category" and column.name not in use:
            counts = frame[column.name].value_counts()
            if counts.iloc[0] < rare_below(len(frame)) or len(counts) > 0.9 * len(frame):
                dropped[column.name] = "nearly every value is different"
    columns = tuple(column for column in columns if column.name not in dropped)
    if not columns:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in list(dropped.items())[:5])
        raise InputError(f"{table.name} has no column to learn from ({reasons or 'it has none but the target'}).")
    notices = merged.notices + [notice for column in columns if (notice := surveys[column.name].notice(column))]
    doubtful = next((name for name in classes if plain(name) == MARK), None)
    if doubtful and len(classes) > 2 and unlabeled is None:
        advice = f"if it marks rows without a label, give --unlabeled {MARK}"
        notices.append(f"{target}: {doubtful} is taken for a class; {advice}")

    notices += _ambiguous(target, classes, "classes")
    for column in columns:
        if column.kind == "category":
            notices += _ambiguous(column.name, frame[column.name].unique(), "categories")

    frame = frame[[column.name for column in columns]]
    transformer = learn(columns, frame)
    X = transformed(transformer, frame)
    dropped |= dict.fromkeys(drop, "left out on request")
    asked = None if unlabeled is None else mark
    return Rows(
        target, columns, dropped, notices, table.positional, transformer, classes, X, codes, asked, merged.rounds
    )


def _ambiguous(column: str, names: Iterable[str], what: str) -> list[str]:
    """Warn of names that are probably the same, written in two ways."""
    pair = lookalikes(names)
    return [f"{column}: {pair[0]!r} and {pair[1]!r} are two {what}, and differ only in case or spaces"] if pair else []


def target_of(table: Table, target: str | None) -> str:
    """Return the name of the target: as given, or y of an array."""
    if target is not None:
        return target
    if not table.positional:
        likely = likely_target(table)
        named = f"perhaps --target {likely!r}" if likely else f"one of {listed(table.columns)}"
        raise InputError(f"--target is missing; name the column that holds the classes, {named}.")
    return "y"


def likely_target(table: Table) -> str | None:
    """Guess the column of the classes: by its name, or as the one of few values that is empty most often.

    >>> likely_target(Table.of(pd.DataFrame({"a": [1, 2, 3], "found": ["x", "y", None]})))
    'found'
    """
    named = [name for name in table.columns if _LIKE_A_TARGET.search(name.lower())]
    if len(named) == 1:
        return named[0]
    part = next(table.parts(table.columns), None)
    empty: dict[str, float] = {}
    if part is None:
        return None
    for name in table.columns:
        cells = texts(part[name])
        if 2 <= len(set(cells[cells != ""])) <= _FEW:
            empty[name] = float(np.mean(cells == ""))
    best = max(empty, key=empty.__getitem__, default=None)
    return best if best is not None and empty[best] else None

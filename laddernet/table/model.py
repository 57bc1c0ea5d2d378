"""A model of a table: what its columns are, the transformer that makes numbers of them, and the classifier."""

import re
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from decimal import Decimal, InvalidOperation
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from sklearn.compose import ColumnTransformer
from sklearn.model_selection import StratifiedKFold

from laddernet.classifier.curve import doubled, error_interval, folds_possible, standard_error
from laddernet.classifier.estimator import LadderClassifier
from laddernet.classifier.labels import UNLABELLED, require_mark
from laddernet.errors import InputError
from laddernet.inference import modelfile
from laddernet.table import columns as cells
from laddernet.table.columns import Column, Survey, numbers, rare_below, read_columns, text_of, texts, written_day
from laddernet.table.read import Table, listed, unique_names

_KIND = "table"
_PREFIX = "classifier/"
_BLOCK = 10_000  # rows that are transformed at a time
_MARK = "-1"  # what marks a row without a label in an array, as in scikit-learn
_WHOLE = re.compile(r"([+-]?\d+)\.0*")
_MOST_CLASSES = 100  # with hardly a label each; more are names, texts, or a count of rows
_MOST_RARE = 10  # rows of a rare category, at most
_ENOUGH = 10  # cells, none of which is understood, that are no accident


@dataclass(frozen=True)
class Rows:
    """A table as it is learned from."""

    target: str
    columns: tuple[Column, ...]
    dropped: dict[str, str]  # the columns that are not used, each with the reason
    notices: list[str]
    positional: int
    transformer: ColumnTransformer
    classes: tuple[str, ...]
    X: np.ndarray
    codes: np.ndarray  # for each row the number of its class, or -1
    unlabeled: str | None  # what was said to mark a row without a label

    @property
    def labels(self) -> dict[str, int]:
        """How many rows of each class are labelled."""
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
) -> Rows:
    """Read a table to learn from; ``also`` are more rows, without labels.

    Columns of ``drop`` are left out, those of ``use`` are not, however much they look like identifiers, and those of
    ``category`` hold categories, even if they look like numbers. ``unlabeled`` marks a row without a label, besides an
    empty cell; None is -1 for arrays and nothing else for other tables, "" is nothing else.
    """
    if target is None:
        if not table.positional:
            advice = f"name the column that holds the classes, one of {listed(table.columns)}"
            raise InputError(f"--target is missing; {advice}.")
        target = "y"
    table.require([target, *drop, *use, *category])
    names = [name for name in table.columns if name not in {target, *drop}]
    if table.positional:  # what else is in the file may be anything
        names = [name for name in table.columns[: table.positional] if name in names]
    for other in also:
        other.require(names, "give the same columns, or leave some out with --drop.")

    surveys = {name: Survey(name) for name in names}
    labels: list[np.ndarray] = []
    for part in table.parts([*names, target]):
        labels.append(texts(part[target]))
        for name, survey in surveys.items():
            survey.add(part[name])
    for other in also:
        for part in other.parts(names):
            for name, survey in surveys.items():
                survey.add(part[name])
    mark = mark_of(unlabeled, positional=bool(table.positional))
    classes, codes = _classes(np.concatenate([*labels, np.empty(0, object)]), mark, target, table.name)

    found = {name: survey.column(category=name in category, use=name in use) for name, survey in surveys.items()}
    dropped = {name: reason for name, reason in found.items() if isinstance(reason, str)}
    columns = tuple(column for column in found.values() if isinstance(column, Column))
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
    notices = [notice for column in columns if (notice := surveys[column.name].notice(column))]
    doubtful = next((name for name in classes if _plain(name) == _MARK), None)
    if doubtful and len(classes) > 2 and unlabeled is None:
        advice = f"if it marks rows without a label, say --unlabeled {_MARK}"
        notices.append(f"{target}: {doubtful} is taken for a class; {advice}")

    frame = frame[[column.name for column in columns]]
    transformer = cells.learn(columns, frame)
    codes = np.concatenate([codes, np.full(len(frame) - len(codes), UNLABELLED)])
    X = _transformed(transformer, frame)
    dropped |= dict.fromkeys(drop, "left out on request")
    asked = None if unlabeled is None else mark
    return Rows(target, columns, dropped, notices, table.positional, transformer, classes, X, codes, asked)


def mark_of(unlabeled: Any, *, positional: bool) -> str:
    """What marks a row without a label, besides an empty cell, as text; "" if nothing does."""
    if unlabeled is None:
        return _MARK if positional else ""
    require_mark(unlabeled)
    return text_of(unlabeled)


def labels_of(cells: pd.Series, mark: str) -> np.ndarray:
    """The labels in a column of classes, "" where there is none."""
    return _unmarked(texts(cells), mark)


def _unmarked(labels: np.ndarray, mark: str) -> np.ndarray:
    """
    >>> _unmarked(np.array(["a", "-1.0", "-1"], object), "-1").tolist()
    ['a', '', '']
    """
    marks = {label for label in set(labels) if _plain(label) == _plain(mark)}
    return np.where([label in marks for label in labels], "", labels) if marks else labels


def _plain(label: str) -> str:
    """A whole number without decimals, with all its digits; anything else as it is.

    >>> _plain("9007199254740993.0"), _plain("1.5"), _plain("v1.0")
    ('9007199254740993', '1.5', 'v1.0')
    """
    whole = _WHOLE.fullmatch(label)
    return whole[1] if whole else label


def _classes(given: np.ndarray, mark: str, target: str, table: str) -> tuple[tuple[str, ...], np.ndarray]:
    """The classes in order, and for each row the number of its class or -1."""
    labels = _unmarked(given, mark)
    but = f" but {mark}, which marks rows without a label" if np.any(labels != given) else ""
    known = Counter(labels[labels != ""])
    if not known:
        raise InputError(f"{table}: no row has a {target!r}{but}; give at least one label of two classes.")
    # 1 and 1.0 are one class where all are numbers; among words they may be versions.
    all_numbers = not np.isnan(_values(known)).any()
    named = {label: _plain(label) if all_numbers else label for label in known}
    classes = tuple(sorted({*named.values()}, key=_natural))
    if len(classes) < 2:
        advice = f"if {mark} is a class of yours, say --unlabeled ''" if but else "give labels of two classes or more"
        raise InputError(f"{table}: all labels are {classes[0]!r}{but}; {advice}.")
    if len(classes) > 20 and len(classes) > known.total() / 2 and not _like_classes(classes):
        advice = "name a column that holds classes with --target"
        raise InputError(f"{target!r} has {len(classes):,} values in {known.total():,} labelled rows; {advice}.")
    places = {name: number for number, name in enumerate(classes)}
    codes = {label: places[name] for label, name in named.items()} | {"": UNLABELLED}
    return classes, np.array([codes[label] for label in labels], int)


def _values(labels: Iterable[str]) -> np.ndarray:
    """Labels as numbers, NaN for words."""
    return numbers(pd.Series(list(labels), dtype=object))


def _like_classes(names: Sequence[str]) -> bool:
    """Whether values with hardly a label each may be classes: not too many words, or whole numbers with few gaps.

    >>> [_like_classes(names) for names in (["a", "b"], ["4", "5", "7"], ["4", "9"], ["4", "4.5"])]
    [True, True, False, False]
    """
    values = _values(names)
    words = np.isnan(values).any()
    compact = np.all(values == np.floor(values)) and values.max() - values.min() + 1 < 2 * len(values)
    return bool(len(names) <= _MOST_CLASSES and (words or compact))


def _natural(name: str) -> tuple[bool, Decimal, str]:
    """Numbers by their size, with all their digits, then words by the alphabet.

    >>> sorted(["b", "10000000000000000000", "9999999999999999999", "a"], key=_natural)
    ['9999999999999999999', '10000000000000000000', 'a', 'b']
    """
    try:
        number = Decimal(name)
    except InvalidOperation:
        number = Decimal("nan")
    return (number.is_nan(), Decimal(0) if number.is_nan() else number, name)


def _transformed(transformer: ColumnTransformer, frame: pd.DataFrame) -> np.ndarray:
    """The inputs in float64: the classifier scales in that precision, so large numbers close together stay apart."""
    if not len(frame):
        return np.zeros((0, len(transformer.get_feature_names_out())))
    blocks = [transformer.transform(frame[start : start + _BLOCK]) for start in range(0, len(frame), _BLOCK)]
    return np.concatenate(blocks)


# --- What to expect ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Estimate:
    """Errors in per cent, by cross-validation over the labelled rows."""

    folds: int
    labels: int  # that each of the networks learned from
    judged: int  # labelled rows, each held out once
    wrong: int  # of them
    spread: float  # standard deviation over the folds; 0 is no certainty, only few rows
    majority_error: float  # of always saying the commonest class
    half_labels: int | None = None
    half_error: float | None = None

    @classmethod
    def of(cls, kept: dict[str, Any], labelled: int) -> "Estimate":
        """The estimate that a file keeps; one of an older version has the mean error of the folds and no counts."""
        counts = {"judged": labelled, "wrong": round(kept.get("error", 0.0) / 100 * labelled)}
        return cls(**counts | {name: value for name, value in kept.items() if name != "error"})

    @property
    def error(self) -> float:
        return 100 * self.wrong / self.judged

    @property
    def interval(self) -> tuple[float, float]:
        """The error's 90 % confidence interval."""
        return error_interval(self.wrong, self.judged)

    @property
    def double_error(self) -> float | None:
        """What twice as many labels would give if the error went on to fall as a power of their number.

        >>> Estimate(3, 100, 150, 12, spread=1.0, majority_error=50.0, half_labels=50, half_error=10.0).double_error
        6.4
        """
        return None if self.half_error is None else doubled(self.error, self.half_error)

    def about(self) -> dict[str, Any]:
        """All of it in values for JSON."""
        found = {"error": self.error, "interval": list(self.interval), "double_error": self.double_error}
        return asdict(self) | found | {"sentences": self.sentences()}

    def sentences(self) -> list[str]:
        """What the numbers say."""
        low, high = self.interval
        first = (
            f"Expected error on new rows: {self.error:.1f} %, between {low:.1f} and {high:.1f} % with 90 % confidence "
            f"({self.wrong:,} of {self.judged:,} labelled rows wrong in {self.folds}-fold cross-validation with "
            f"{self.labels:,} labels each time; always saying the commonest class: {self.majority_error:.1f} %)."
        )
        if self.half_error is None or self.double_error is None:
            return [first]
        measured = f"With half of the labels it is {self.half_error:.1f} %"
        by_rows = standard_error((self.error + self.half_error) / 2, self.judged)
        if self.half_error - self.error <= max(self.spread, by_rows):
            return [first, f"{measured}, no clear difference: what more labels would gain cannot be told."]
        if not self.wrong:  # a power law through no error says nothing
            return [first, f"{measured}; what more labels would gain cannot be told."]
        return [first, f"{measured}; with twice as many it would perhaps be {self.double_error:.1f} %."]


def estimate(
    make: Callable[[], LadderClassifier],
    X: np.ndarray,
    codes: np.ndarray,
    *,
    seed: int = 0,
    on_fit: Callable[[], None] = lambda: None,
) -> Estimate:
    """Train on some of the labels, and all unlabelled rows, and judge by the other labels, in turn.

    The rows that are judged by are not in the training at all. Each time is repeated with half of the labels, to see
    what labels are worth. ``on_fit`` is called before each training.
    """
    folds = folds_possible(codes)
    labelled = np.flatnonzero(codes != UNLABELLED)
    rng = np.random.default_rng(seed)
    wrong: dict[str, list[int]] = {"all": [], "half": []}
    judged: list[int] = []
    counts: dict[str, list[int]] = {"all": [], "half": []}
    split = StratifiedKFold(folds, shuffle=True, random_state=seed)
    for known, held in split.split(labelled, codes[labelled]):
        rest = np.delete(np.arange(len(codes)), labelled[held])
        judged.append(len(held))
        for share in ("all", "half"):
            given = codes.copy()
            if share == "half":
                for name in np.unique(codes[labelled]):
                    rows = rng.permutation(labelled[known][codes[labelled[known]] == name])
                    given[rows[(len(rows) + 1) // 2 :]] = UNLABELLED
            on_fit()
            predicted = make().fit(X[rest], given[rest]).predict(X[labelled[held]])
            wrong[share].append(int(np.count_nonzero(predicted != codes[labelled[held]])))
            counts[share].append(int(np.count_nonzero(given[rest] != UNLABELLED)))
    majority = 100 * (1 - np.bincount(codes[labelled]).max() / len(labelled))
    spread = 100 * float(np.std(np.divide(wrong["all"], judged)))
    everything = Estimate(
        folds, round(np.mean(counts["all"])), len(labelled), sum(wrong["all"]), spread, float(majority)
    )
    if counts["half"] == counts["all"]:  # one label of each class cannot be halved
        return everything
    half_error = 100 * sum(wrong["half"]) / len(labelled)
    return replace(everything, half_labels=round(np.mean(counts["half"])), half_error=half_error)


# --- The model --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TableModel:
    """A trained classifier together with how a table is turned into its inputs."""

    target: str
    columns: tuple[Column, ...]
    dropped: dict[str, str]
    positional: int
    transformer: ColumnTransformer
    classifier: LadderClassifier
    classes: tuple[str, ...]
    labels: dict[str, int]
    rows: int
    estimate: Estimate | None = None
    version: str = metadata.version("laddernet")  # that fitted it
    unlabeled: str | None = None  # what was said to mark a row without a label; None is -1 for arrays

    @classmethod
    def of(cls, rows: Rows, classifier: LadderClassifier) -> "TableModel":
        """The model of a classifier that was fitted to these rows."""
        return cls(
            rows.target,
            rows.columns,
            rows.dropped,
            rows.positional,
            rows.transformer,
            classifier,
            rows.classes,
            rows.labels,
            len(rows.codes),
            unlabeled=rows.unlabeled,
        )

    @classmethod
    def fit(cls, frame: pd.DataFrame, target: str, *, unlabeled: Any = None, **settings: Any) -> "TableModel":
        """Learn from a frame; ``settings`` are those of the classifier.

        Rows without a target are unlabelled, and so are those whose target is ``unlabeled``.
        """
        if not isinstance(frame, pd.DataFrame):
            raise InputError(f"frame must be a pandas DataFrame, got {type(frame).__name__}.")
        # A frame's columns may have numbers for names; here they are texts.
        rows = read_rows(Table.of(frame), None if target is None else str(target), unlabeled=unlabeled)
        for notice in rows.notices:
            warnings.warn(notice, stacklevel=2)
        return cls.of(rows, LadderClassifier(**settings).fit(rows.X, rows.codes))

    def features(self, frame: pd.DataFrame, unread: Counter[str] | None = None) -> np.ndarray:
        """A table's rows as the classifier's inputs; ``unread`` counts cells that were not understood, by column."""
        frame = frame.rename(columns=str)
        unique_names(list(frame.columns), "The table")
        absent = [column.name for column in self.columns if column.name not in frame.columns]
        if absent:
            raise InputError(f"The table has no column {listed(absent)}; give all that the model was fitted with.")
        odd: Counter[str] = Counter()
        values = read_columns(self.columns, frame, odd)
        for column in self.columns:
            if odd[column.name] >= _ENOUGH and values[column.name].isna().all():
                raise InputError(_not_understood(column, texts(frame[column.name])))
        if unread is not None:
            unread.update(odd)
        return _transformed(self.transformer, values)

    def predict_proba(self, frame: pd.DataFrame) -> np.ndarray:
        """The probability of each class, in the order of ``classes``."""
        return np.asarray(self.classifier.predict_proba(self.features(frame)))

    def predict(self, frame: pd.DataFrame) -> np.ndarray:
        """The most probable class of each row."""
        return np.asarray(np.array(self.classes, object)[self.predict_proba(frame).argmax(axis=1)])

    def check(self, table: Table) -> list[str]:
        """Refuse a table that lacks a column; the names of those it has that the model has never seen."""
        if table.positional and self.positional and table.positional != self.positional:
            raise InputError(f"{table.name}: X has {table.positional:,} columns; the model takes {self.positional:,}.")
        table.require(
            [column.name for column in self.columns],
            "give all that the model was fitted with; `laddernet inspect` lists them.",
        )
        known = {self.target, *self.dropped, *(column.name for column in self.columns)}
        return [name for name in table.columns if name not in known]

    def parts(self, table: Table, more: Sequence[str] = ()) -> Iterator[pd.DataFrame]:
        """The table a part at a time, with the columns that the model takes, and ``more``."""
        return table.parts(list(dict.fromkeys([*(column.name for column in self.columns), *more])))

    def save(self, path: str | Path) -> None:
        """Write everything into one safetensors file."""
        arrays, learned = cells.state(self.columns, self.transformer)
        fitted, about = self.classifier.state()
        modelfile.write(
            path,
            _KIND,
            arrays | {_PREFIX + name: array for name, array in fitted.items()},
            {
                "target": self.target,
                "columns": [asdict(column) for column in self.columns],
                "dropped": self.dropped,
                "positional": self.positional,
                "learned": learned,
                "classes": list(self.classes),
                "labels": self.labels,
                "rows": self.rows,
                "version": self.version,
                "estimate": None if self.estimate is None else asdict(self.estimate),
                "unlabeled": self.unlabeled,
                "classifier": about,
            },
        )

    @classmethod
    def load(cls, path: str | Path) -> "TableModel":
        """The model in a file; no code in it is run."""
        with modelfile.understood(path):
            return cls._from_state(*modelfile.read(path, _KIND))

    @classmethod
    def _from_state(cls, arrays: modelfile.Arrays, about: modelfile.About) -> "TableModel":
        rare = about["learned"]["rare"]
        if type(rare) is not int or not 0 < rare <= _MOST_RARE:
            raise InputError(f"The model says that categories in fewer than {rare} rows are rare; save it anew.")
        _check_types(about)
        columns = tuple(Column(**column) for column in about["columns"])
        fitted = {name.removeprefix(_PREFIX): array for name, array in arrays.items() if name.startswith(_PREFIX)}
        return cls(
            target=about["target"],
            columns=columns,
            dropped=about["dropped"],
            positional=about["positional"],
            transformer=cells.restore(columns, arrays, about["learned"]),
            classifier=LadderClassifier.from_state(fitted, about["classifier"]),
            classes=tuple(about["classes"]),
            labels=about["labels"],
            rows=about["rows"],
            estimate=about["estimate"] and Estimate.of(about["estimate"], sum(about["labels"].values())),
            version=about["version"],
            unlabeled=about.get("unlabeled"),  # which older files do not have
        )


def _check_types(about: modelfile.About) -> None:
    """Refuse a file that holds another type where the commands take a text or a number."""
    texts_in = {
        "target": [about["target"]],
        "version": [about["version"]],
        "unlabeled": [about["unlabeled"]] if about.get("unlabeled") is not None else [],
        "classes": [*about["classes"], *about["labels"]],
        "dropped": [*about["dropped"], *about["dropped"].values()],
        "columns": [column[field] for column in about["columns"] for field in ("name", "kind")],
    }
    numbers_in = {"rows": [about["rows"]], "positional": [about["positional"]], "labels": about["labels"].values()}
    for values, kind in ((texts_in, str), (numbers_in, int)):
        for name, held in values.items():
            if wrong := [value for value in held if type(value) is not kind]:
                raise TypeError(f"{name} holds {str(wrong[0])[:80]!r}, not {'a text' if kind is str else 'a number'}")
    if list(about["labels"]) != about["classes"] or len(about["classes"]) != len(
        about["classifier"]["classes"]["values"]
    ):
        raise ValueError("its classes are not those of its classifier")


def _not_understood(column: Column, cells: np.ndarray) -> str:
    """Why a column is refused of which no cell is what the model learned."""
    filled = cells[cells != ""]
    if column.kind == "boolean":
        right = "yes or no"
    elif column.kind == "number":
        right = f"numbers written as {column.form}"
    else:
        right = f"dates written as {written_day(column.form)}"
    some = ", ".join(map(repr, list(dict.fromkeys(filled))[:2]))
    found = f"not one of its {len(filled):,} filled cells is understood ({some})"
    return f"Column {column.name!r}: {found}; give {right}, as when the model was fitted."


def describe(model: TableModel) -> dict[str, Any]:
    """All that there is to know about a model, in values for JSON."""
    arrays, learned = cells.state(model.columns, model.transformer)
    fitted, about = model.classifier.state()
    filled = zip(model.columns, arrays["medians"], arrays["missing"], strict=True)
    parameters = {name: held.get("value") for name, held in about["parameters"].items()}
    names = ("batch_size", "learning_rate", "random_state")
    layers = sum(name.startswith("networks.0.encoder.") and name.endswith(".W") for name in fitted)
    shapes = [fitted[f"networks.0.encoder.{l}.W"].shape for l in range(layers)]  # a file keeps its arrays in any order
    deep = sum(f"networks.{number}.encoder.1.W" in fitted for number in range(about["networks"]))
    return {
        "version": model.version,
        "target": model.target,
        "unlabeled": model.unlabeled,
        "rows": model.rows,
        "labels": model.labels,
        "columns": [
            {"name": column.name, "kind": column.kind, "does": _does(column, learned, float(median), bool(missing))}
            for column, median, missing in filled
        ],
        "dropped": model.dropped,
        "network": {
            "model": str(model.classifier.model),
            "networks": deep,
            "linear_share": about["shares"][-1] if deep < about["networks"] else 0.0,
            "sizes": [shapes[0][0], *(units for _, units in shapes)],
            "parameters": sum(a.size for name, a in fitted.items() if ".encoder." in name or ".decoder." in name),
            "settings": {"steps": about["n_steps"], "noise": about["noise"], "recon_weights": about["recon_weights"]}
            | {name: parameters[name] for name in names},
        },
        "estimate": model.estimate and model.estimate.about(),
    }


def _does(column: Column, learned: dict[str, Any], median: float, missing: bool) -> str:
    """What becomes of a column's cells, in words."""
    if column.kind == "category":
        known = learned["categories"][column.name]
        pooled = ", rare and new ones together" if known["pooled"] else ", new ones as none of them"
        return f"an input for each of {listed(known['kept'], 6)}{pooled}"
    if column.kind in ("date", "time"):
        since, median_day = (
            str(datetime.fromtimestamp(s, UTC).date()) for s in (learned["since"][column.name], median)
        )
        hour = ", hour" if column.kind == "time" else ""
        done, fill = f"year, month, weekday, day of the year, days since {since}{hour}", median_day
    else:
        done, fill = ("1 for yes, 0 for no" if column.kind == "boolean" else "the number"), f"{median:g}"
    return f"{done}; {fill} where missing" + (", and an input that says so" if missing else "")

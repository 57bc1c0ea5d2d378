"""The scikit-learn transformer that makes the classifier's inputs of columns, and its state for the model file."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, get_args

import numpy as np
import pandas as pd
from sklearn.compose import ColumnTransformer
from sklearn.impute import MissingIndicator, SimpleImputer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder

from laddernet.inference.modelfile import About, Arrays
from laddernet.inference.network import blocks
from laddernet.table.columns import DAY, Column, Kind

CATEGORIES = 50  # the most inputs that one column may become

_BLOCK = 1 << 15  # rows that are transformed at a time
_RARE = "\0rare"  # a category that no cell has


def date_parts(seconds: Any, since: Sequence[float], timed: bool) -> np.ndarray:
    """Split dates into year, month, weekday, day of the year, days since a first day and, if ``timed``, the hour.

    >>> date_parts([[86400.0]], since=[0.0], timed=False).tolist()  # 2 January 1970, a Friday
    [[1970.0, 1.0, 4.0, 2.0, 1.0]]
    """
    seconds = np.asarray(seconds, np.float64)
    days = np.floor(seconds / DAY).astype(np.int64)
    day = days.astype("datetime64[D]")
    year, month = day.astype("datetime64[Y]"), day.astype("datetime64[M]").astype(np.int64)
    parts = [
        year.astype(np.int64) + 1970,
        month % 12 + 1,
        (days + 3) % 7,
        (day - year).astype(np.int64) + 1,
        (seconds - np.asarray(since)) / DAY,
        seconds % DAY / 3600,
    ]
    return np.hstack(parts if timed else parts[:-1]).astype(np.float64)


def _date_names(transformer: FunctionTransformer, names: Iterable[str]) -> list[str]:
    """Name the outputs of `date_parts`."""
    parts = ["year", "month", "weekday", "day of year", "days"] + ["hour"] * transformer.kw_args["timed"]
    return [f"{name} {part}" for part in parts for name in names]


def _untrained(columns: Sequence[Column], since: dict[str, float], rare: int) -> ColumnTransformer:
    """Make a transformer that is not fitted yet; it pools categories of fewer than ``rare`` rows."""
    named = {kind: [column.name for column in columns if column.kind == kind] for kind in get_args(Kind)}
    steps: list[tuple[str, Any, list[str]]] = [
        ("numbers", SimpleImputer(strategy="median", add_indicator=True), named["number"] + named["boolean"]),
    ]
    for kind, timed in (("date", False), ("time", True)):
        options = {"since": [since[name] for name in named[kind]], "timed": timed}
        parts = FunctionTransformer(date_parts, kw_args=options, feature_names_out=_date_names)
        filled = Pipeline([("fill", SimpleImputer(strategy="median")), ("parts", parts)])
        steps.append((f"{kind}s", filled, named[kind]))
    steps.append(("missing dates", MissingIndicator(error_on_new=False), named["date"] + named["time"]))
    encoder = OneHotEncoder(
        handle_unknown="infrequent_if_exist",
        min_frequency=rare,
        max_categories=CATEGORIES,
        sparse_output=False,
    )
    steps.append(("categories", encoder, named["category"]))
    return ColumnTransformer([step for step in steps if step[2]], sparse_threshold=0)


def rare_below(rows: int) -> int:
    """Return the number of rows below which a category is rare: 1 % of the rows, but from 2 to 10."""
    return min(max(rows // 100, 2), 10)


def learn(columns: Sequence[Column], frame: pd.DataFrame) -> ColumnTransformer:
    """Fit a transformer to a table that `read_columns` has converted.

    What it learns of each column is found here: scikit-learn counts categories one cell after another.
    """
    rare = rare_below(len(frame))
    about: About = {"rare": rare, "since": {}, "categories": {}}
    medians, missing = np.full(len(columns), np.nan), np.zeros(len(columns), bool)
    for place, column in enumerate(columns):
        cells = frame[column.name]
        if column.kind == "category":
            about["categories"][column.name] = _kept(cells.value_counts(), rare)
            continue
        medians[place], missing[place] = np.nanmedian(cells), cells.isna().any()
        if column.kind in ("date", "time"):
            about["since"][column.name] = cells.min()
    return restore(columns, {"medians": medians, "missing": missing}, about)


def _kept(counts: pd.Series, rare: int) -> dict[str, Any]:
    """Choose the categories that become inputs of their own, as `OneHotEncoder` does; the others are pooled."""
    counts = counts.sort_index()
    frequent = counts.to_numpy() >= rare
    if frequent.sum() >= CATEGORIES:  # one input is for the pooled
        frequent[np.argsort(counts.to_numpy(), kind="stable")[: 1 - CATEGORIES]] = False
    return {"kept": counts.index[frequent].tolist(), "pooled": int(not frequent.all())}


def state(columns: Sequence[Column], transformer: ColumnTransformer) -> tuple[Arrays, About]:
    """Return what the transformer has learned as arrays and values for JSON, without the names of rare categories."""
    medians: dict[str, float] = {}
    missing: set[str] = set()
    about: About = {"rare": 2, "since": {}, "categories": {}}
    for step, learned, names in transformer.transformers_:
        if step == "numbers":
            medians |= dict(zip(names, learned.statistics_, strict=True))
            missing |= {names[place] for place in learned.indicator_.features_}
        elif step in ("dates", "times"):
            medians |= dict(zip(names, learned["fill"].statistics_, strict=True))
            about["since"] |= dict(zip(names, map(float, learned["parts"].kw_args["since"]), strict=True))
        elif step == "missing dates":
            missing |= {names[place] for place in learned.features_}
        elif step == "categories":
            about["rare"] = learned.min_frequency
            for name, found, pooled in zip(names, learned.categories_, learned.infrequent_categories_, strict=True):
                rare = set() if pooled is None else set(pooled)
                about["categories"][name] = {"kept": [c for c in found if c not in rare], "pooled": len(rare)}
    arrays = {
        "medians": np.array([medians.get(column.name, np.nan) for column in columns]),
        "missing": np.array([column.name in missing for column in columns]),
    }
    return arrays, about


def restore(columns: Sequence[Column], arrays: Arrays, about: About) -> ColumnTransformer:
    """Make the transformer again that `state` described.

    It is fitted to a small table from which it learns the same, because the attributes inside scikit-learn's estimators
    change from version to version.
    """
    cells: dict[str, list[str]] = {}
    for name, known in about["categories"].items():
        cells[name] = [category for category in known["kept"] for _ in range(about["rare"])]
        cells[name] += [_RARE] * bool(known["pooled"])
    rows = max([2, *map(len, cells.values())])
    table = {}
    for column, median, missing in zip(columns, arrays["medians"], arrays["missing"], strict=True):
        if column.kind == "category":
            padded = cells[column.name] + cells[column.name][:1] * (rows - len(cells[column.name]))
            table[column.name] = pd.Series(padded, dtype=object)
        else:
            table[column.name] = pd.Series([*[median] * (rows - 1), np.nan if missing else median])
    return _untrained(columns, about["since"], about["rare"]).fit(pd.DataFrame(table))


def transformed(transformer: ColumnTransformer, frame: pd.DataFrame) -> np.ndarray:
    """Compute the inputs in float64, the precision in which the classifier scales large numbers that are close.

    They are those of ``transformer.transform``, which takes several times as long.
    """
    inputs = np.empty((len(frame), len(transformer.get_feature_names_out())))
    for rows in blocks(len(frame), _BLOCK):
        part, first = frame[rows], 0
        for name, step, names in transformer.transformers_:
            cells = part[names]
            for values in _one_hot(step, cells) if name == "categories" else [np.asarray(step.transform(cells))]:
                inputs[rows, first : first + values.shape[1]] = values
                first += values.shape[1]
    return inputs


def _one_hot(encoder: OneHotEncoder, frame: pd.DataFrame) -> Iterator[np.ndarray]:
    """Yield the inputs of each column of categories; the encoder computes those of each category once."""
    found = {name: pd.factorize(cells) for name, cells in frame.items()}
    most = max(len(values) for _, values in found.values())
    each = pd.DataFrame({name: np.resize(values, most) for name, (_, values) in found.items()}, dtype=object)
    pooled = [0 if rare is None else len(rare) - 1 for rare in encoder.infrequent_categories_]
    ends = np.cumsum([len(values) - fewer for values, fewer in zip(encoder.categories_, pooled, strict=True)])
    columns = np.split(np.asarray(encoder.transform(each)), ends[:-1], axis=1)
    return (inputs[places] for inputs, (places, _) in zip(columns, found.values(), strict=True))

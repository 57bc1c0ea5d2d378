"""The scikit-learn transformer that makes the classifier's inputs of columns, and its state for the model file."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pandas as pd
from sklearn.compose import ColumnTransformer
from sklearn.impute import MissingIndicator, SimpleImputer
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder

from laddernet.inference.modelfile import About, Arrays
from laddernet.table.columns import DAY, Column

CATEGORIES = 50  # the most inputs that one column may become

_BLOCK = 10_000  # rows that are transformed at a time
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
    named: dict[str, list[str]] = {"number": [], "boolean": [], "date": [], "time": [], "category": []}
    for column in columns:
        named[column.kind].append(column.name)
    steps: list[tuple[str, Any, list[str]]] = [
        ("numbers", SimpleImputer(strategy="median", add_indicator=True), named["number"] + named["boolean"]),
    ]
    for kind, timed in (("date", False), ("time", True)):
        options = {"since": [since[name] for name in named[kind]], "timed": timed}
        parts = FunctionTransformer(date_parts, kw_args=options, feature_names_out=_date_names)
        steps.append(
            (f"{kind}s", Pipeline([("fill", SimpleImputer(strategy="median")), ("parts", parts)]), named[kind])
        )
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
    """Fit a transformer to a table that `read_columns` has converted."""
    since = {column.name: frame[column.name].min() for column in columns if column.kind in ("date", "time")}
    return _untrained(columns, since, rare_below(len(frame))).fit(frame)


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
    """Compute the inputs in float64, the precision in which the classifier scales large numbers that are close."""
    if not len(frame):
        return np.zeros((0, len(transformer.get_feature_names_out())))
    blocks = [transformer.transform(frame[start : start + _BLOCK]) for start in range(0, len(frame), _BLOCK)]
    return np.concatenate(blocks)

"""A table's model as an ONNX graph: cells as they are in a CSV file go in, classes and probabilities come out.

Each column is an input of its own, with a row for each row of the table. What `laddernet.table.cells` and
`laddernet.table.transformer` do is done by operators of ONNX here; the tests compare the two.
"""

import json
import math
import re
from collections.abc import Collection, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from laddernet.classifier.onnx import probabilities
from laddernet.errors import InputError
from laddernet.inference.onnx import ML, TEXT_OPSET, Graph, Port, add_label
from laddernet.table.cells import COMMA, GROUPS, ISO, MISSING
from laddernet.table.columns import DAY, ENOUGH, Column, right_cells
from laddernet.table.spellings import NUMBERS, QUANTITIES, TINY, WHITE, bits, strict, truth
from laddernet.table.transformer import state

if TYPE_CHECKING:
    from laddernet.table.model import TableModel

_BEGIN = 719468 + 146097  # days from 1 March of the year -400 to 1 January 1970
_LARGEST = float(np.finfo(np.float32).max)


def write(path: Path, model: "TableModel", *, numbers: bool = False) -> None:
    """Write a model. With ``numbers``, columns of numbers are inputs of float64 instead of text, NaN where missing."""
    names = [column.name for column in model.columns]
    if "" in names:
        raise InputError("A column has no name, and an input of ONNX must have one; name it, and fit again.")
    label, chances = (name if name not in names else f"{name} (predicted)" for name in ("label", "probabilities"))
    graph = Graph(TEXT_OPSET, {*names, label, chances})
    typed = {column.name for column in model.columns if numbers and column.kind == "number"}
    p = probabilities(model.classifier, graph, _features(graph, model, typed))
    graph("Identity", graph.cast(p, np.float32), output=chances)
    add_label(graph, p, np.array(model.classes, object), label)
    inputs: list[Port] = [(name, np.float64 if name in typed else object, ["rows", 1]) for name in names]
    outputs: list[Port] = [(label, object, ["rows"]), (chances, np.float32, ["rows", len(model.classes)])]
    about = {
        "target": model.target,
        "classes": json.dumps(model.classes, ensure_ascii=False),
        "columns": json.dumps([asdict(column) for column in model.columns], ensure_ascii=False),
        "version": model.version,
    }
    graph.write(path, inputs, outputs, about)


# --- Cells ------------------------------------------------------------------------------------------------------------


def read(graph: Graph, column: Column, *, typed: bool = False) -> str:
    """Add what `Column.read` does to the cells of a column: float64, NaN where missing. Not for categories."""
    if typed:
        return _not_too_large(graph, column, column.name)
    text = _stripped(graph, column)
    if column.kind == "number":
        value = _not_too_large(graph, column, _number(graph, column, text))
    elif column.kind == "boolean":
        yes, no = (graph("RegexFullMatch", text, pattern=truth(value)) for value in (1, 0))
        value = graph("Where", yes, 1.0, graph("Where", no, 0.0, math.nan))
    else:
        value = _moment(graph, column, text)
    unread = graph("IsNaN", value)
    filled = graph("Not", graph("RegexFullMatch", text, pattern="|".join(map(re.escape, sorted(MISSING)))))
    odd = graph("ReduceSum", graph.cast(graph("And", unread, filled), np.int64), keepdims=0)
    none = graph("Equal", graph("ReduceSum", graph.cast(graph("Not", unread), np.int64), keepdims=0), 0)
    refused = graph("And", none, graph("GreaterOrEqual", odd, ENOUGH))
    value = graph.refuse(value, refused, f"Column {column.name!r}: no cell is understood; give {right_cells(column)}.")
    return _without_white(graph, column, value, text)


def one_hot(graph: Graph, column: Column, kept: Sequence[str], pooled: bool) -> str:
    """Add the inputs of a column of categories: one for each that is kept, and one for others if some are pooled."""
    text = _stripped(graph, column)
    places = {category: place for place, category in enumerate(kept)}
    if "" in places:
        places |= dict.fromkeys(MISSING, places[""])
    other = len(kept) if pooled else -1
    words, values = list(places), list(places.values())
    place = graph("LabelEncoder", text, domain=ML, keys_strings=words, values_int64s=values, default_int64=other)
    place = _without_white(graph, column, place, text)
    return graph.cast(graph("Equal", place, np.arange(len(kept) + pooled)[None]), np.float64)


def _stripped(graph: Graph, column: Column) -> str:
    """Remove the spaces around the cells of a column."""
    blank = graph("RegexFullMatch", column.name, pattern=" *")
    text = graph("Where", blank, np.array("?", object), column.name)  # missing too, and has a part where "" has none
    return graph("Reshape", graph("StringSplit", text, maxsplit=0, outputs=2), np.array([-1, 1]))


def _without_white(graph: Graph, column: Column, value: str, text: str) -> str:
    """Refuse cells that begin or end with other white space than spaces, which no operator of ONNX removes."""
    white = graph("RegexFullMatch", text, pattern=f"(?s:[{WHITE}].*|.*[{WHITE}])")
    sentence = f"Column {column.name!r}: a cell begins or ends with white space that is not a space; remove it."
    return graph.refuse(value, white, sentence)


def _not_too_large(graph: Graph, column: Column, value: str) -> str:
    """Refuse numbers that a float32 cannot hold."""
    sentence = f"Column {column.name!r}: a number is above 3e38; give a smaller one, or leave the cell empty."
    return graph.refuse(value, graph("Greater", graph("Abs", value), _LARGEST), sentence)


def _number(graph: Graph, column: Column, text: str) -> str:
    """Convert texts to numbers, NaN for texts that are none in the form of the column."""
    is_number = graph("RegexFullMatch", text, pattern=NUMBERS[column.form])
    text = graph("Where", is_number, text, np.array("nan", object))
    text = graph("Where", graph("RegexFullMatch", text, pattern=TINY), np.array("0", object), text)
    for sign, instead in {GROUPS: [(",", "")], COMMA: [(".", ""), (",", ".")]}.get(column.form, ()):
        text = graph.replaced(text, sign, instead)
    return graph.cast(text, np.float64)


def _moment(graph: Graph, column: Column, text: str) -> str:
    """Convert texts to seconds since 1970, NaN for texts that are no dates in the form of the column.

    Each bit of each part of a date is an expression that the text matches or not, so that no text need be cut.
    """
    found = bits(column.form)
    matched = [graph("RegexFullMatch", text, pattern=pattern) for pattern in found.values()]
    weights = np.zeros((len(matched), len(QUANTITIES)))
    for row, (quantity, value) in enumerate(found):
        weights[row, QUANTITIES.index(quantity)] = value
    sums = graph("MatMul", graph.cast(graph("Concat", *matched, axis=1), np.float64), weights)
    parts = (graph("Gather", sums, np.array([place]), axis=1) for place in range(len(QUANTITIES)))
    year, month, day, seconds, offset, west = parts
    first = _day_number(graph, graph.cast(year, np.int64), graph.cast(month, np.int64))
    days = graph("Add", first, graph.cast(day, np.int64))
    is_date = graph("RegexFullMatch", text, pattern=strict(column.form))
    is_date = graph("And", is_date, graph("Equal", _month(graph, days)[1], graph.cast(month, np.int64)))  # no 31 April
    if column.form != ISO:
        is_date = graph("And", is_date, graph("Greater", year, 0.0))
    zone = graph("Mul", offset, graph("Sub", 1.0, graph("Mul", west, 2.0)))
    moment = graph("Add", graph("Mul", graph.cast(days, np.float64), DAY), graph("Sub", seconds, zone))
    return graph("Where", is_date, moment, math.nan)


# --- The calendar -----------------------------------------------------------------------------------------------------


def _day_number(graph: Graph, year: str, month: str) -> str:
    """Compute the days from 1 January 1970 to the first day of a month; months count from 0.

    Years here begin in March, so that a leap day is the last, and from the year -400, so that no number is negative.
    """
    late = graph.cast(graph("Less", month, 2), np.int64)
    shifted = graph("Sub", graph("Add", year, 400), late)
    of_year = graph("Div", graph("Add", graph("Mul", graph("Mod", graph("Add", month, 10), 12), 153), 2), 5)
    leaps = graph("Sub", graph("Div", shifted, 4), graph("Sub", graph("Div", shifted, 100), graph("Div", shifted, 400)))
    return graph("Sub", graph("Add", graph("Add", graph("Mul", shifted, 365), leaps), of_year), _BEGIN)


def _month(graph: Graph, days: str) -> tuple[str, str]:
    """Compute the year and the month, from 0, of days since 1970."""
    day = graph("Add", days, _BEGIN)
    cycle, in_cycle = graph("Div", day, 146097), graph("Mod", day, 146097)  # 400 years
    year = in_cycle
    for length, sign in ((1460, "Sub"), (36524, "Add"), (146096, "Sub")):  # leap days, but not of centuries
        year = graph(sign, year, graph("Div", in_cycle, length))
    year = graph("Div", year, 365)
    before = graph("Add", graph("Mul", year, 365), graph("Sub", graph("Div", year, 4), graph("Div", year, 100)))
    of_year = graph("Sub", in_cycle, before)
    march = graph("Div", graph("Add", graph("Mul", of_year, 5), 2), 153)
    month = graph("Mod", graph("Add", march, 2), 12)
    year = graph("Add", graph("Sub", graph("Mul", cycle, 400), 400), year)
    return graph("Add", year, graph.cast(graph("Less", month, 2), np.int64)), month


# --- The transformer --------------------------------------------------------------------------------------------------


def _features(graph: Graph, model: "TableModel", typed: Collection[str]) -> str:
    """Add the model's transformer, which computes the classifier's inputs in float64."""
    arrays, learned = state(model.columns, model.transformer)
    columns = {column.name: column for column in model.columns}
    median = {column.name: value for column, value in zip(model.columns, arrays["medians"], strict=True)}
    missing = {column.name for column, value in zip(model.columns, arrays["missing"], strict=True) if value}
    cells: dict[str, str] = {}
    features: list[str] = []
    for step, _, names in model.transformer.transformers_:
        if step == "categories":
            for name in names:
                known = learned["categories"][name]
                features.append(one_hot(graph, columns[name], known["kept"], known["pooled"] > 0))
            continue
        cells |= {name: read(graph, columns[name], typed=name in typed) for name in names if name not in cells}
        values = graph("Concat", *(cells[name] for name in names), axis=1)
        absent = graph("IsNaN", values)
        filled = graph("Where", absent, np.array([[median[name] for name in names]]), values)
        if step == "numbers":
            features.append(filled)
        elif step in ("dates", "times"):
            features += _date_parts(graph, filled, [learned["since"][name] for name in names], step == "times")
        if step in ("numbers", "missing dates") and missing.intersection(names):
            places = np.array([place for place, name in enumerate(names) if name in missing])
            features.append(graph.cast(graph("Gather", absent, places, axis=1), np.float64))
    return graph("Concat", *features, axis=1)


def _date_parts(graph: Graph, seconds: str, since: Sequence[float], timed: bool) -> list[str]:
    """Add what `laddernet.table.transformer.date_parts` does."""
    floor = graph("Floor", graph("Div", seconds, DAY))
    days = graph.cast(floor, np.int64)
    year, month = _month(graph, days)
    of_year = graph("Sub", days, _day_number(graph, year, graph("Mul", month, 0)))
    integers = [year, graph("Add", month, 1), graph("Mod", graph("Add", days, 3), 7), graph("Add", of_year, 1)]
    parts = [graph.cast(part, np.float64) for part in integers]
    parts.append(graph("Div", graph("Sub", seconds, np.array([since])), DAY))
    if timed:
        parts.append(graph("Div", graph("Sub", seconds, graph("Mul", floor, DAY)), 3600.0))
    return parts

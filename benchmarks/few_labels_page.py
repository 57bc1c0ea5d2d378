"""table.md and table.csv of the few-labels benchmark."""

import csv
import io
import math
import platform
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from importlib import metadata
from statistics import fmean

import few_labels_data as data
import few_labels_halves as halves
from few_labels_comparison import Cell, Cells, against, behind, comparable, friedman, groups, ranks
from few_labels_methods import METHODS, Method

_TESTED = ("error", "log_loss")
_MEASURES = {"error": 1, "balanced_error": 1, "log_loss": 3, "ece": 1, "confidence": 1}  # and digits
_HEAD = ["", "mean rank", "error", "balanced error", "log loss", "calibration error", "confidence", "CPU seconds"]


def markdown(cells: Cells, sizes: Mapping[str, data.Parts], reference: str) -> str:
    """Return the page: the methods by group of sets, every error, and where the ladder is not best."""
    methods = [method for method in METHODS if any(method in of for of in cells.values())]
    counts = sorted({cell.labels for cell in cells})
    whole = comparable(cells, methods)
    lines = ["# Few labels", "", f"`{shlex.join(['python', *sys.argv])}`, {_environment(methods)}.", ""]
    lines += [f"- `{method}`: {METHODS[method].what}" for method in methods]
    lines += ["", "All but the ladder get columns of mean 0 and variance 1; pixels are divided by one number for all."]
    lines += ["", *_rank_lines(cells, whole, methods, counts)]
    lines += _group_lines(whole, methods, sizes, reference)
    for labels in counts:
        lines += ["", f"## {labels} label{'s' * (labels > 1)} a class", ""]
        lines += ["Test error in per cent, mean ± standard error of the draws; the best in bold.", ""]
        lines += rows_of([["", *methods], *_error_rows(cells, labels, methods, sizes)])
    if cut := [m for m in methods if any(_was_cut(METHODS[m], parts) for parts in sizes.values())]:
        limits = ", ".join(f"`{method}` {METHODS[method].most_rows:,}" for method in cut)
        lines += ["", f"\\* The method was given a part of the rows, all labelled ones among them: {limits}."]
    lines += _loss_lines(cells, whole, methods)
    lines += ["", "## The sets", "", "At most 20,000 training rows and 10,000 test rows of each are used.", ""]
    lines += rows_of([SIZES, *(size_row(name, sizes[name]) for name in sizes)])
    return "\n".join(lines) + "\n"


def _rank_lines(cells: Cells, whole: Cells, methods: Sequence[str], counts: Sequence[int]) -> list[str]:
    if not whole:
        return ["No cell is done by all these methods with the same draws: there are no ranks yet."]
    places = ranks(whole, methods)
    rows = [["", "mean rank", *(f"{n} a class" for n in counts), "best in", "mean CPU seconds of a fit"]]
    for method in sorted(methods, key=lambda method: fmean(of[method] for of in places.values())):
        row = [f"`{method}`", f"{fmean(of[method] for of in places.values()):.2f}"]
        for labels in counts:
            at = [of[method] for cell, of in places.items() if cell.labels == labels]
            row.append(f"{fmean(at):.2f}" if at else "")
        best = sum(of[method] == min(of.values()) for of in places.values())
        rows.append([*row, f"{best}", _mean(whole, method, "seconds", 2)])
    about = f"Ranks by mean error over the {len(whole)} cells, of {len(cells)}, that all these methods have done."
    return [about, "", *rows_of(rows)]


def _group_lines(
    whole: Cells, methods: Sequence[str], sizes: Mapping[str, data.Parts], reference: str
) -> Iterator[str]:
    """Give a table for each group of sets: means of the measures, and the tests against a method."""
    for group, members in groups(sizes).items():
        cells = {cell: of for cell, of in whole.items() if cell.set in members}
        if not cells:
            continue
        places = ranks(cells, methods)
        tests = {m: against(cells, reference, methods, m) for m in _TESTED} if reference in methods else {}
        tests = {measure: of for measure, of in tests.items() if of}
        rows = [[*_HEAD, *(f"p by {measure.replace('_', ' ')}" for measure in tests)]]
        for method in sorted(methods, key=lambda method: fmean(of[method] for of in places.values())):
            row = [f"`{method}`", f"{fmean(of[method] for of in places.values()):.2f}"]
            row += [_mean(cells, method, measure, digits) for measure, digits in _MEASURES.items()]
            row += [_mean(cells, method, "seconds", 2)]
            rows.append([*row, *(_p(of[method]) if method in of else "" for of in tests.values())])
        yield from ("", f"## {group}", "")
        draws = sorted({len(of[methods[0]].draws) for of in cells.values()})
        yield f"{len({cell.set for cell in cells})} sets, {len(cells)} cells of {' or '.join(map(str, draws))} draws."
        all_p = {measure: friedman(cells, methods, measure) for measure in _TESTED}
        known = [f"p = {_p(p)} by {measure.replace('_', ' ')}" for measure, p in all_p.items() if not math.isnan(p)]
        yield f"Friedman's test that all methods are equal: {' and '.join(known)}." if known else ""
        if tests:
            yield f"p of a method: Wilcoxon's signed-rank test against `{reference}` over sets, corrected by Holm."
        yield from ("", *rows_of(rows))


def _mean(cells: Cells, method: str, measure: str, digits: int) -> str:
    """Return the mean over cells, or nothing if a line does not hold the measure."""
    values = [of[method].mean(measure) for of in cells.values()]
    return _shown(None if None in values else fmean(v for v in values if v is not None), digits)


def _shown(value: float | None, digits: int) -> str:
    return "" if value is None else f"{value:.{digits}f}"


def _p(p: float) -> str:
    return f"{p:.3f}" if p >= 0.001 else "< 0.001"


def _error_rows(
    cells: Cells, labels: int, methods: Sequence[str], sizes: Mapping[str, data.Parts]
) -> Iterator[list[str]]:
    for cell, of in cells.items():
        if cell.labels != labels:
            continue
        best = min(summary.error for summary in of.values())
        row = [cell.set]
        for method in methods:
            text = ""
            if summary := of.get(method):
                text = f"{summary.error:.1f}"
                text = f"**{text}**" if summary.error == best else text
                text += f" ± {summary.standard_error:.1f}" if len(summary.draws) > 1 else ""
                text += r" \*" if _was_cut(METHODS[method], sizes[cell.set]) else ""
            row.append(text)
        yield row


def _was_cut(method: Method, parts: data.Parts) -> bool:
    return method.most_rows is not None and len(parts.y_train) > method.most_rows


def _loss_lines(cells: Cells, whole: Cells, methods: Sequence[str]) -> list[str]:
    if "ladder" not in methods:
        return []
    lines = []
    if "mlp" in methods:
        lines += ["", "## Where the ladder is worse than the label-only MLP", ""]
        lines += ["By more than one standard error of the mean difference between the two, draw by draw:", ""]
        worse = list(behind(cells, "ladder", "mlp"))
        lines += [f"- {_name(cell)}: by {by:.2f} ± {error:.2f}" for cell, by, error in worse] or ["Nowhere."]
    lines += ["", "## Where the ladder is not best", ""]
    beaten = []
    for cell, of in whole.items():
        best = min(methods, key=lambda method: of[method].error)
        if of["ladder"].error > of[best].error:
            beaten.append(f"- {_name(cell)}: {of['ladder'].error:.1f}, `{best}` {of[best].error:.1f}")
    return [*lines, f"In {len(beaten)} of {len(whole)} cells.", "", *beaten]


def _name(cell: Cell) -> str:
    return f"{cell.set}, {cell.labels} a class"


def rows_of(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return the lines of a table in Markdown; the first row is its head."""
    head, *rest = (f"| {' | '.join(row)} |" for row in rows)
    return [head, f"|{'---|' * len(rows[0])}", *rest]


SIZES = ["", "rows", "columns", "classes", "training rows", "test rows", "columns hold", "half", "from"]


def size_row(name: str, parts: data.Parts) -> list[str]:
    """Return the row of a set under the head `SIZES`."""
    sizes = (parts.rows, parts.columns, parts.classes, len(parts.y_train), len(parts.y_test))
    kind = "categories" if halves.categorical(name) else "numbers"
    return [name, *(f"{n:,}" for n in sizes), kind, halves.half(name), data.SETS[name].where]


def _environment(methods: Sequence[str]) -> str:
    packages = {METHODS[method].package for method in methods} - {"sklearn"}
    names = ("laddernet", "scikit-learn", "jax", "numpy", "scipy", *sorted(packages))
    versions = ", ".join(f"{name} {metadata.version(name)}" for name in names)
    return f"Python {platform.python_version()}, {versions}, one core for each fit"


def table(cells: Cells) -> str:
    """Return the same as CSV: a row for each method in each cell."""
    methods = [method for method in METHODS if any(method in of for of in cells.values())]
    places = ranks(comparable(cells, methods), methods)
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    others = [measure for measure in _MEASURES if measure != "error"]
    writer.writerow([*Cell._fields, "method", "draws", "error", "standard_error", "rank", "seconds", *others])
    for cell, of in cells.items():
        for method, s in of.items():
            error = f"{s.standard_error:.4f}" if len(s.draws) > 1 else ""
            rank = places.get(cell, {}).get(method, "")
            more = [_shown(s.mean("seconds"), 3), *(_shown(s.mean(measure), 4) for measure in others)]
            writer.writerow([*cell, method, len(s.draws), f"{s.error:.4f}", error, rank, *more])
    return buffer.getvalue()

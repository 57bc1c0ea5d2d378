r"""The study's table as Markdown, CSV, LaTeX and for the terminal.

A value that is absent is empty in CSV and "–" elsewhere. Names are escaped for the format: a name cannot be markup, a
formula or a control sequence.

>>> from laddernet.report.tables import Result, tabulate
>>> runs = [("vanilla", 1.10), ("vanilla", 1.06), ("linear", 5.2), ("linear", 4.6)]
>>> results = [Result(model, 100, seed, error) for seed, (model, error) in enumerate(runs)]
>>> table = tabulate(results, data="mnist", wanted={("vanilla", 100): 2, ("linear", 100): 3})
>>> print(to_markdown(table).split("\n\n")[1])
| model | 100 labels |
|---|---:|
| vanilla | **1.080 ± 0.020** |
| *paper* | 1.086 ± 0.023 (−0.006≈) |
| linear | 4.900 ± 0.300 (2/3) |
| *paper* | 5.027 ± 0.923 (−0.127≈) |
"""

import csv
import io
import string
from collections.abc import Iterable
from typing import NamedTuple

from rich import box
from rich.console import Group, RenderableType
from rich.table import Column
from rich.table import Table as RichTable
from rich.text import Text

from laddernet.report.tables import REFERENCE, Cell, Spearman, Table
from laddernet.text import quoted, visible

ABSENT = "–"


class _Line(NamedTuple):
    """A line of the table: a model's cells, or below it the paper's, which has no name."""

    name: str | None
    cells: list[str]
    best: list[bool]


# --- Text that all formats but CSV share ------------------------------------------------------------------------


def _lines(table: Table) -> list[_Line]:
    lines = []
    for row in table.rows:
        name = f"{row.model}, untuned" if row.model in table.untuned else row.model
        lines.append(_Line(name, [_ours(cell) for cell in row.cells], [cell.best for cell in row.cells]))
        if any(cell.paper_aer is not None for cell in row.cells):
            lines.append(_Line(None, [_paper(cell) for cell in row.cells], [False] * len(row.cells)))
    return lines


def _welch_lines(table: Table) -> list[_Line]:
    return [
        _Line(row.model, [_welch(cell) for cell in row.cells], [False] * len(row.cells))
        for row in table.rows
        if any(cell.welch for cell in row.cells)
    ]


def _heads(table: Table) -> list[str]:
    return ["model", *(f"{count} labels" for count in table.labels)]


def _title(data: str) -> str:
    return f"Test error on {data} in per cent: average (AER) ± standard error (SE)."


def _notes(table: Table) -> list[str]:
    cells = [cell for row in table.rows for cell in row.cells]
    done, wanted, failed = (sum(getattr(cell, what) for cell in cells) for what in ("n", "wanted", "failed"))
    sizes = " or ".join(map(str, sorted({cell.n for cell in cells if cell.complete})))
    notes = [f"{done} of {wanted} runs are finished, {failed} failed.", *table.remarks]
    if sizes:
        notes.append(f"Complete cells have n = {sizes} runs, the best of each column in bold.")
    if any(cell.n < cell.wanted for cell in cells):
        notes.append("Incomplete cells show (finished/wanted); the statistics use their finished runs.")
    notes.append("SE: the standard deviation (ddof = 1) over √n.")
    if any(cell.se is not None and not _is_shown(cell.se) for cell in cells):
        notes.append("A cell whose runs have equal errors has no SE: the spread is unknown, not 0.")
    if table.spearman:
        notes.append(
            "Paper: Table 1 of Pezeshki et al. (2016), and in brackets our AER − the paper's, which is ≈ within or "
            "≠ outside two standard errors of the difference, 2·√(SE² + SE_paper²)."
        )
        each = "; ".join(f"{rank.labels} labels: {_rank(rank)}" for rank in table.spearman)
        notes.append(f"Spearman rank correlation with the paper's order: {each}.")
    return notes


def _welch_title(table: Table) -> str:
    count = sum(cell.welch is not None for row in table.rows for cell in row.cells)
    if not count:
        return f"Welch tests against {REFERENCE}: {ABSENT}."
    return (
        f"Welch tests against {REFERENCE}: AER − {REFERENCE}'s, and the p-value after Benjamini and Hochberg's "
        f"correction over all {count} tests of this table."
    )


def _ours(cell: Cell) -> str:
    """Write our AER and SE, and how many runs are missing or failed.

    >>> _ours(Cell(100, n=7, wanted=10, failed=2, aer=1.32, se=0.05))
    '1.320 ± 0.050 (7/10, 2 failed)'
    """
    remarks = []
    if cell.n < cell.wanted and (cell.n or cell.failed):
        remarks.append(f"{cell.n}/{cell.wanted}")
    if cell.failed:
        remarks.append(f"{cell.failed} failed")
    return _value(cell.aer, cell.se if _is_shown(cell.se) else None) + (f" ({', '.join(remarks)})" if remarks else "")


def _paper(cell: Cell) -> str:
    """Write the paper's AER and SE, and our difference from them."""
    value = _value(cell.paper_aer, cell.paper_se)
    if cell.difference is None:
        return value
    mark = "" if cell.within_two_se is None else "≈" if cell.within_two_se else "≠"
    return f"{value} ({_signed(cell.difference)}{mark})"


def _welch(cell: Cell) -> str:
    return ABSENT if cell.welch is None else f"{_signed(cell.welch.difference)} ({_p(cell.welch.p_adjusted)})"


def _rank(rank: Spearman) -> str:
    if rank.rho is None or rank.p is None:
        return ABSENT
    return f"ρ = {_minus(f'{rank.rho:z.3f}')} ({_p(rank.p)}, {rank.n} models)"


def _is_shown(se: float | None) -> bool:
    """Whether a standard error is more than the 0.000 of runs that have equal errors by chance."""
    return se is not None and round(se, 3) > 0


def _value(aer: float | None, se: float | None) -> str:
    if aer is None:
        return ABSENT
    return f"{aer:.3f}" if se is None else f"{aer:.3f} ± {se:.3f}"


def _signed(number: float) -> str:
    return _minus(f"{number:+z.3f}")


def _minus(number: str) -> str:
    return number.replace("-", "−")


def _p(p: float) -> str:
    return "p < 0.001" if p < 0.001 else f"p = {p:.3f}"


# --- Markdown ---------------------------------------------------------------------------------------------------


def to_markdown(table: Table) -> str:
    """Write the table, its notes and the tests in GitHub's Markdown."""
    paragraphs = [
        _title(_markdown(table.data)),
        _markdown_grid(table, _lines(table)),
        "\n".join(f"- {note.translate(_MARKUP) if note in table.remarks else note}" for note in _notes(table)),
        _welch_title(table),
    ]
    if tests := _welch_lines(table):
        paragraphs.append(_markdown_grid(table, tests))
    return "\n\n".join(paragraphs) + "\n"


def _markdown_grid(table: Table, lines: Iterable[_Line]) -> str:
    rows = [_heads(table)]
    for name, cells, best in lines:
        shown = (f"**{text}**" if bold else text for text, bold in zip(cells, best, strict=True))
        rows.append(["*paper*" if name is None else _markdown(name), *shown])
    head, *body = (f"| {' | '.join(row)} |" for row in rows)
    return "\n".join([head, "|---|" + "---:|" * len(table.labels), *body])


_MARKDOWN = {ord(c): f"\\{c}" for c in string.punctuation if c not in "-/"}
_MARKDOWN |= {ord(c): f"&#{ord(c)};" for c in "&<>|"}  # parsers differ on a backslash before |


_MARKUP = {ord(c): f"&#{ord(c)};" for c in "&<>`*[]"}  # in sentences with names and commands, which stay readable


def _markdown(name: str) -> str:
    """Escape a name.

    >>> print(_markdown("my_gate.py:Gate|<b>"))
    my\\_gate\\.py\\:Gate&#124;&#60;b&#62;
    """
    return visible(name).translate(_MARKDOWN)


# --- CSV --------------------------------------------------------------------------------------------------------

_OF_CELL = (
    *("labels", "n", "wanted", "failed", "complete", "best", "aer", "se"),
    *("paper_aer", "paper_se", "difference", "within_two_se"),
)
_OF_WELCH = ("difference", "t", "p", "p_adjusted")


def to_csv(table: Table) -> str:
    """Write one line for each model and number of labels, with all digits.

    A ' is put before a name that a spreadsheet would compute as a formula.
    """
    text = io.StringIO()
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow(["data", "model", *_OF_CELL, *(f"welch_{name}" for name in _OF_WELCH)])
    for row in table.rows:
        names = [visible(quoted(name)) for name in (table.data, row.model)]
        for cell in row.cells:
            numbers = [getattr(cell, name) for name in _OF_CELL]
            tests = [getattr(cell.welch, name, None) for name in _OF_WELCH]
            lines.writerow([*names, *numbers, *tests])
    return text.getvalue()


def finished_runs(text: str) -> int:
    """Count the finished runs of a table in CSV.

    >>> from laddernet.report.tables import Result, tabulate
    >>> finished_runs(to_csv(tabulate([Result("vanilla", 100, 1, 2.0)], data="mnist")))
    1
    """
    return sum(int(line["n"]) for line in csv.DictReader(io.StringIO(text)))


# --- LaTeX ------------------------------------------------------------------------------------------------------

_LATEX_FLOAT = string.Template(r"""\begin{table*}
\centering
\caption{$caption}
\footnotesize
\setlength{\tabcolsep}{3pt}
\begin{tabular}{l$columns}
\toprule
$rows
\bottomrule
\end{tabular}
\end{table*}
""")


def to_latex(table: Table) -> str:
    r"""Write the table and the tests as floats of the page's width, which need ``\usepackage{booktabs}``."""
    caption = " ".join([_title(table.data), *_notes(table)])
    tests = _welch_lines(table)
    if not tests:
        return _latex_float(table, f"{caption} {_welch_title(table)}", _lines(table))
    return _latex_float(table, caption, _lines(table)) + "\n" + _latex_float(table, _welch_title(table), tests)


def _latex_float(table: Table, caption: str, lines: Iterable[_Line]) -> str:
    rows = [_heads(table)]
    for name, cells, best in lines:
        shown = (
            rf"\textbf{{{_latex(text)}}}" if bold else _latex(text) for text, bold in zip(cells, best, strict=True)
        )
        rows.append([r"\quad\textit{paper}" if name is None else _latex(name), *shown])
    head, *body = (rf"{' & '.join(row)} \\" for row in rows)
    return _LATEX_FLOAT.substitute(
        caption=_latex(caption), columns="r" * len(table.labels), rows="\n".join([head, r"\midrule", *body])
    )


_LATEX = {c: f"\\{c}" for c in "{}$&#_%"}
_LATEX |= {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", '"': r"{\char34}"}
_LATEX |= {"<": "$<$", ">": "$>$", "|": "$|$", "[": "{[}", "]": "{]}", "*": "{*}", "`": "{`}"}  # * and [ follow a \\
_LATEX |= {"–": r"\textendash{}", "−": "$-$", "±": r"$\pm$", "≈": r"$\approx$", "≠": r"$\neq$", "ρ": r"$\rho$"}
_LATEX |= {"√": r"$\surd$", "²": "$^2$", "·": r"$\cdot$"}


def _latex(text: str) -> str:
    r"""Escape text for every LaTeX; a letter that pdfLaTeX may not have becomes its number.

    >>> print(_latex("50_% {γ}"))
    50\_\% \{\textbackslash{}u03b3\}
    """
    known = "".join(c if c.isascii() or c in _LATEX else c.encode("unicode_escape").decode() for c in visible(text))
    return "".join(_LATEX.get(c, c) for c in known).replace("--", "-{}-{}")  # which would be one dash


# --- The terminal -----------------------------------------------------------------------------------------------


def to_rich(table: Table) -> Group:
    """Make the table, its notes and the tests for a Rich console."""
    shown: list[RenderableType] = [Text(_title(visible(table.data)), "bold"), _rich_grid(table, _lines(table))]
    shown += [*map(Text, _notes(table)), Text("\n" + _welch_title(table), "bold")]
    if tests := _welch_lines(table):
        shown.append(_rich_grid(table, tests))
    return Group(*shown)


def _rich_grid(table: Table, lines: Iterable[_Line]) -> RichTable:
    first, *others = _heads(table)
    heads = (Column(head, justify="right") for head in others)
    grid = RichTable(Column(first, overflow="fold"), *heads, box=box.SIMPLE_HEAD, pad_edge=False)
    for name, cells, best in lines:
        shown = (Text(text, "bold" if bold else "") for text, bold in zip(cells, best, strict=True))
        grid.add_row(Text("  paper" if name is None else visible(name)), *shown, style="dim" if name is None else None)
    return grid

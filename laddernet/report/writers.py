r"""The study's table as Markdown, CSV, LaTeX and for the terminal.

A value that is absent is empty in CSV and "–" elsewhere. Names are escaped for the format: a name cannot be markup, a
formula or a control sequence.

>>> from laddernet.report.tables import Result, tabulate
>>> runs = [("vanilla", 1.10), ("vanilla", 1.06), ("linear", 5.2), ("linear", 4.6)]
>>> results = [Result(model, 100, seed, error) for seed, (model, error) in enumerate(runs)]
>>> table = tabulate(results, data="mnist", wanted={("vanilla", 100): 2, ("linear", 100): 3})
>>> print(to_markdown(table).split("\n\n")[2])
| model | 100 labels |
|---|---:|
| vanilla | 1.080 ± 0.020 (2) |
| *paper* | 1.086 ± 0.023 (−0.006) |
| linear | 4.90 ± 0.30 (2/3) |
| *paper* | 5.0 ± 0.9 (−0.1) |
"""

import csv
import io
import string
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from rich import box
from rich.console import Group, RenderableType
from rich.table import Column
from rich.table import Table as RichTable
from rich.text import Text

from laddernet.report.comparisons import FEWEST, LEVEL, Comparison
from laddernet.report.conclusions import EXPLANATION, Conclusion, conclusions, summary
from laddernet.report.cost import Cost
from laddernet.report.findings import findings
from laddernet.report.numbers import ABSENT, chance, difference, is_shown, minus, signed, value
from laddernet.report.tables import REFERENCE, Cell, Spearman, Table
from laddernet.text import quoted, visible


class _Line(NamedTuple):
    """A line of the table: a model's cells, or below it the paper's, which has no name."""

    name: str | None
    cells: list[tuple[str, bool]]  # a text, and whether it is bold


# --- Text that all formats but CSV share ------------------------------------------------------------------------


def _lines(table: Table) -> list[_Line]:
    lines = []
    for row in table.rows:
        name = f"{row.model}, untuned" if row.model in table.untuned else row.model
        lines.append(_Line(name, [(_ours(cell), cell.leading) for cell in row.cells]))
        if any(cell.paper_aer is not None for cell in row.cells):
            lines.append(_Line(None, [(_paper(cell), False) for cell in row.cells]))
    return lines


def _test_lines(table: Table) -> list[_Line]:
    """Return the comparisons with the reference; none if no pair has enough seeds for a test."""
    rows = [row for row in table.rows if any(cell.to_reference for cell in row.cells)]
    if all(cell.to_reference is None or cell.to_reference.p is None for row in rows for cell in row.cells):
        return []
    return [_Line(row.model, [(comparison_text(cell.to_reference), False) for cell in row.cells]) for row in rows]


def _heads(table: Table) -> list[str]:
    return ["model", *(f"{count} labels" for count in table.labels)]


def _title(data: str) -> str:
    return f"Test error on {data} in per cent: mean ± standard error over the seeds, whose number is in brackets."


def notes(table: Table) -> list[str]:
    """Return the sentences that explain the table, without markup."""
    cells = [cell for row in table.rows for cell in row.cells]
    done, wanted, failed = (sum(getattr(cell, what) for cell in cells) for what in ("n", "wanted", "failed"))
    found = [f"{done} of {wanted} runs are finished, {failed} failed.", *table.remarks]
    if any(cell.leading for cell in cells):
        found.append(
            "Bold: the lowest mean of the complete cells of a column, and the models that are not distinguishable from "
            "it: paired t-tests over the seeds that both models have, with Holm's correction over the models of the "
            f"column, p of {LEVEL} or more."
        )
    if any(cell.n < cell.wanted for cell in cells):
        found.append("Incomplete cells show (finished/wanted); the statistics use their finished runs.")
    if any(cell.n > 1 for cell in cells):
        found.append("The decimals are those that fit the standard error: the standard deviation (ddof = 1) / √n.")
    if any(cell.se is not None and not is_shown(cell.se) for cell in cells):
        found.append("A cell whose runs have equal errors has no standard error: the spread is unknown, not 0.")
    if table.spearman:
        found.append(
            "Paper: Table 1 of Pezeshki et al. (2016), and in brackets our mean − the paper's. With "
            f"{FEWEST} seeds or more, ≈ is within and ≠ outside two standard errors of that difference, "
            "2·√(SE² + SE_paper²)."
        )
        each = "; ".join(f"{rank.labels} labels: {correlation(rank)}" for rank in table.spearman)
        found.append(f"Spearman rank correlation with the paper's order: {each}.")
    return found


def tests_title(table: Table) -> str:
    """Explain the comparisons with the reference, or why there is no test; nothing if nothing is compared."""
    if all(cell.to_reference is None for row in table.rows for cell in row.cells):
        return ""
    if not _test_lines(table):
        return f"Paired tests against {REFERENCE}: too few seeds; a test needs {FEWEST} that both models have."
    return (
        f"Difference to {REFERENCE} over the seeds that both models have, mean ± standard error; p of the paired "
        "t-test after Holm's correction over the models of the column."
    )


def _ours(cell: Cell) -> str:
    """Write our mean, its standard error and the number of seeds.

    >>> _ours(Cell(100, n=7, wanted=10, failed=2, aer=1.32, se=0.05))
    '1.32 ± 0.05 (7/10, 2 failed)'
    """
    return f"{value(cell.aer, cell.se)} {counts(cell)}".rstrip()


def counts(cell: Cell) -> str:
    """Write in brackets how many runs are finished, missing and failed; nothing for a cell that no run has reached."""
    if not cell.n and not cell.failed:
        return ""
    finished = f"{cell.n}/{cell.wanted}" if cell.n < cell.wanted else f"{cell.n}"
    return f"({finished}, {cell.failed} failed)" if cell.failed else f"({finished})"


def _paper(cell: Cell) -> str:
    """Write the paper's value, and our difference from it."""
    return value(cell.paper_aer, cell.paper_se) + (f" ({to_paper(cell)})" if cell.difference is not None else "")


def to_paper(cell: Cell) -> str:
    """Write our difference from the paper's value, with a mark if it can be judged.

    >>> to_paper(Cell(100, n=3, wanted=3, failed=0, aer=1.32, se=0.05, paper_aer=1.09, paper_se=0.02))
    '+0.23≠'
    """
    if cell.difference is None:
        return ABSENT
    mark = "" if cell.within_two_se is None else "≈" if cell.within_two_se else "≠"
    return f"{signed(cell.difference, cell.difference_se or cell.paper_se)}{mark}"


def comparison_text(comparison: Comparison | None) -> str:
    """Write a comparison.

    >>> comparison_text(Comparison(3, 0.25, 0.05, 5.0, 0.0377, 0.0377)), comparison_text(Comparison(2, 0.25, 0.05))
    ('+0.25 ± 0.05 (p = 0.038)', '+0.25 ± 0.05 (too few seeds)')
    """
    if comparison is None or comparison.difference is None:
        return ABSENT
    return "{} ({})".format(*comparison_parts(comparison))


def comparison_parts(comparison: Comparison) -> tuple[str, str]:
    """Write the difference, and p or why there is none."""
    result = comparison.verdict if comparison.p_adjusted is None else chance(comparison.p_adjusted)
    return difference(comparison.difference, comparison.se), result


def correlation(rank: Spearman) -> str:
    """Write a rank correlation, its p-value and the number of models."""
    if rank.rho is None or rank.p is None:
        return ABSENT
    return f"ρ = {minus(f'{rank.rho:z.2f}')} ({chance(rank.p)}, {rank.n} models)"


COST_HEADS = ("cost", "runs", "hours", "TFLOP")


def cost_rows(costs: Sequence[Cost]) -> list[list[str]]:
    """Write the cost of the runs with each number of labels, and of all.

    >>> cost_rows([Cost(100, 12, 2.61, 1234.5), Cost(1000, 1, 0.5, 80.0)])[-1]
    ['all', '13', '3.1', '1,314']
    """
    rows = [(f"{cost.labels:,} labels", cost.runs, cost.hours, cost.tflop) for cost in costs]
    if len(rows) > 1:
        rows.append(("all", *(sum(column) for column in list(zip(*rows, strict=True))[1:])))
    return [[name, f"{runs:,}", f"{hours:,.1f}", f"{tflop:,.0f}"] for name, runs, hours, tflop in rows]


# --- Markdown ---------------------------------------------------------------------------------------------------


def to_markdown(table: Table) -> str:
    """Write the findings, the table, its notes and the tests in GitHub's Markdown."""
    paragraphs = [
        "\n".join(f"- {finding}" for finding in findings(table, _markdown)),
        _title(_markdown(table.data)),
        _markdown_grid(table, _lines(table)),
        "\n".join(f"- {note.translate(_MARKUP) if note in table.remarks else note}" for note in notes(table)),
        tests_title(table),
    ]
    if tests := _test_lines(table):
        paragraphs.append(_markdown_grid(table, tests))
    if found := conclusions(table):
        paragraphs += ["\n".join(f"- {line}" for line in summary(found)), EXPLANATION]
        heads = ["conclusion", "sum of errors", *_heads(table)[1:]]
        paragraphs.append(_markdown_rows(heads, [_conclusion(one, table) for one in found], text=2))
    if table.cost:
        paragraphs.append(_markdown_rows(COST_HEADS, cost_rows(table.cost)))
    return "\n\n".join(filter(None, paragraphs)) + "\n"


def _markdown_grid(table: Table, lines: Iterable[_Line]) -> str:
    rows = []
    for name, cells in lines:
        shown = (f"**{text}**" if bold else text for text, bold in cells)
        rows.append(["*paper*" if name is None else _markdown(name), *shown])
    return _markdown_rows(_heads(table), rows)


def _markdown_rows(heads: Sequence[str], rows: Iterable[Sequence[str]], text: int = 1) -> str:
    """Write a table whose first ``text`` columns are on the left, the others on the right."""
    head, *body = (f"| {' | '.join(row)} |" for row in (heads, *rows))
    return "\n".join([head, "|" + "---|" * text + "---:|" * (len(heads) - text), *body])


def _conclusion(one: Conclusion, table: Table) -> list[str]:
    found = (one.findings.get(count) for count in table.labels)
    return [one.claim.statement, one.claim.test, *(f"{f.holds}: {f.evidence}" if f else ABSENT for f in found)]


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
    *("labels", "n", "wanted", "failed", "complete", "best", "leading", "aer", "se"),
    *("paper_aer", "paper_se", "difference", "within_two_se"),
)
_OF_COMPARISON = ("n", "difference", "se", "t", "p", "p_adjusted")


def to_csv(table: Table) -> str:
    """Write one line for each model and number of labels, with all digits.

    A ' is put before a name that a spreadsheet would compute as a formula.
    """
    text = io.StringIO()
    lines = csv.writer(text, lineterminator="\n")
    compared = [f"{other}_{name}" for other in ("to_best", f"to_{REFERENCE}") for name in _OF_COMPARISON]
    lines.writerow(["data", "model", *_OF_CELL, *compared])
    for row in table.rows:
        names = [visible(quoted(name)) for name in (table.data, row.model)]
        for cell in row.cells:
            numbers = [getattr(cell, name) for name in _OF_CELL]
            tests = [getattr(test, name, None) for test in (cell.to_best, cell.to_reference) for name in _OF_COMPARISON]
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
    caption = " ".join([_title(table.data), *findings(table), *notes(table)])
    tests = _test_lines(table)
    if not tests:
        return _latex_float(table, f"{caption} {tests_title(table)}".rstrip(), _lines(table))
    return _latex_float(table, caption, _lines(table)) + "\n" + _latex_float(table, tests_title(table), tests)


def _latex_float(table: Table, caption: str, lines: Iterable[_Line]) -> str:
    rows = [_heads(table)]
    for name, cells in lines:
        shown = (rf"\textbf{{{_latex(text)}}}" if bold else _latex(text) for text, bold in cells)
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
    """Make the findings, the table, its notes and the tests for a Rich console."""
    shown: list[RenderableType] = [Text(finding) for finding in findings(table, visible)]
    shown += [Text(_title(visible(table.data)), "bold"), _rich_grid(table, _lines(table))]
    shown += [*map(Text, notes(table)), Text("\n" + tests_title(table), "bold")]
    if tests := _test_lines(table):
        shown.append(_rich_grid(table, tests))
    return Group(*shown)


def _rich_grid(table: Table, lines: Iterable[_Line]) -> RichTable:
    first, *others = _heads(table)
    heads = (Column(head, justify="right") for head in others)
    grid = RichTable(Column(first, overflow="fold"), *heads, box=box.SIMPLE_HEAD, pad_edge=False)
    for name, cells in lines:
        shown = (Text(text, "bold" if bold else "") for text, bold in cells)
        grid.add_row(Text("  paper" if name is None else visible(name)), *shown, style="dim" if name is None else None)
    return grid

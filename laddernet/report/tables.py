r"""The study's table beside the paper's, with its statistics, as Markdown, CSV, LaTeX and for the terminal.

A cell holds the average error rate (AER) of a model's finished runs with one number of labels, and its standard error
(SE): their standard deviation, with ddof = 1, over √n. Where the paper has the cell, ours agrees with it if the two
differ by at most two standard errors *of the difference*, 2·√(SE² + SE_paper²). What cannot be computed (an SE of one
run, a test of two groups without spread) is absent: `None` here, empty in CSV, "–" for people.

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
import math
import string
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from importlib import resources
from statistics import fmean

import numpy as np
from rich import box
from rich.console import Group, RenderableType
from rich.table import Column
from rich.table import Table as RichTable
from rich.text import Text
from scipy import stats

from laddernet.study.plan import Key
from laddernet.text import quoted, visible

REFERENCE = "vanilla"  # the model that the others are tested against
ABSENT = "–"
_DECIMALS = 12  # beyond them is only rounding, which must not break ties nor make a spread


@dataclass(frozen=True)
class Result:
    """A finished run; the error is of the test rows, in per cent."""

    model: str
    labels: int
    seed: int
    error: float

    def __post_init__(self) -> None:
        if not 0 <= self.error <= 100:
            raise ValueError(f"A run's error must be from 0 to 100 per cent, not {self.error}.")


@dataclass(frozen=True)
class Welch:
    """Welch's test of a model against vanilla with as many labels.

    ``p_adjusted`` is corrected by Benjamini and Hochberg's procedure, over all tests of the table.
    """

    difference: float  # the model's AER − vanilla's
    t: float
    p: float
    p_adjusted: float


@dataclass(frozen=True)
class Cell:
    """One model with one number of labels."""

    labels: int
    n: int  # finished runs
    wanted: int  # never less than n
    failed: int
    aer: float | None = None
    se: float | None = None
    paper_aer: float | None = None
    paper_se: float | None = None
    best: bool = False  # no complete cell of its column has a lower AER
    welch: Welch | None = None

    @property
    def complete(self) -> bool:
        return 0 < self.n == self.wanted

    @property
    def difference(self) -> float | None:
        """Our AER − the paper's."""
        if self.aer is None or self.paper_aer is None:
            return None
        return round(self.aer - self.paper_aer, _DECIMALS)

    @property
    def within_two_se(self) -> bool | None:
        """Whether our AER and the paper's differ by at most 2·√(SE² + SE_paper²); None if our SE says nothing.

        >>> Cell(100, n=2, wanted=2, failed=0, aer=1.0, se=0.03, paper_aer=1.1, paper_se=0.04).within_two_se
        True
        """
        if self.difference is None or not self.se or self.paper_se is None:
            return None
        return abs(self.difference) <= 2 * math.hypot(self.se, self.paper_se)


@dataclass(frozen=True)
class Row:
    """A model's cells, one for each of the table's numbers of labels."""

    model: str
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class Spearman:
    """Rank correlation of our AERs with the paper's, over the ``n`` models that both have."""

    labels: int
    n: int
    rho: float | None = None
    p: float | None = None


@dataclass(frozen=True)
class Table:
    """The study's table: the paper's models in the paper's order, then the user's own by name."""

    data: str
    labels: tuple[int, ...]
    rows: tuple[Row, ...]
    spearman: tuple[Spearman, ...]  # for the numbers of labels that the paper has
    remarks: tuple[str, ...] = ()  # sentences on the runs, for all renderings but CSV


def _published() -> dict[Key, tuple[float, float]]:
    text = resources.files("laddernet.report").joinpath("paper_table1.csv").read_text("utf-8")
    return {
        (line["model"], int(line["labels"])): (float(line["aer"]), float(line["se"]))
        for line in csv.DictReader(text.splitlines())
    }


PAPER = _published()  # Table 1 of the paper, on MNIST: AER and SE
_ORDER = {model: place for place, model in enumerate(dict.fromkeys(model for model, _ in PAPER))}


# --- The numbers ------------------------------------------------------------------------------------------------


def tabulate(
    results: Iterable[Result],
    *,
    data: str,
    wanted: Mapping[Key, int] | None = None,
    failed: Mapping[Key, int] | None = None,
) -> Table:
    """The table of a study's results, in whatever order these come.

    ``wanted`` and ``failed`` say how many seeds each cell is to have and how many runs failed. A cell that has fewer
    runs than wanted is incomplete; one that is in neither wants no more than it has.

    >>> table = tabulate([Result("linear", 50, 0, 7.5)], data="digits", wanted={("vanilla", 50): 3})
    >>> [(row.model, row.cells[0].n, row.cells[0].wanted, row.cells[0].aer) for row in table.rows]
    [('vanilla', 0, 3, None), ('linear', 1, 1, 7.5)]
    """
    wanted, failed = wanted or {}, failed or {}
    errors: dict[Key, dict[int, float]] = defaultdict(dict)
    for result in results:
        runs = errors[result.model, result.labels]
        if result.seed in runs:
            raise ValueError(f"There are two results of {result.model}, {result.labels} labels, seed {result.seed}.")
        runs[result.seed] = result.error

    keys = {*errors, *wanted, *failed}
    models = sorted({model for model, _ in keys}, key=lambda model: (_ORDER.get(model, len(_ORDER)), model))
    labels = sorted({count for _, count in keys})
    paper = PAPER if data == "mnist" else {}

    def cell(model: str, labels: int) -> Cell:
        key = model, labels
        runs = sorted(errors[key].values()) if key in errors else []
        aer, se = _mean(runs)
        paper_aer, paper_se = paper.get(key, (None, None))
        seeds = max(wanted.get(key, 0), len(runs))
        return Cell(labels, len(runs), seeds, failed.get(key, 0), aer, se, paper_aer, paper_se)

    rows = [Row(model, tuple(cell(model, count) for count in labels)) for model in models]
    rows = _with_welch(_with_best(rows))
    paper_labels = {count for _, count in paper}
    columns = zip(labels, zip(*(row.cells for row in rows), strict=True), strict=True)
    spearman = tuple(_spearman(count, cells) for count, cells in columns if count in paper_labels)
    return Table(data, tuple(labels), tuple(rows), spearman)


def _mean(errors: list[float]) -> tuple[float | None, float | None]:
    """AER and SE."""
    if not errors:
        return None, None
    aer = round(fmean(errors), _DECIMALS)
    return aer, round(float(stats.sem(errors)), _DECIMALS) if len(errors) > 1 else None


def _with_best(rows: list[Row]) -> list[Row]:
    lowest: dict[int, float] = {}
    for row in rows:
        for cell in row.cells:
            if cell.complete and cell.aer is not None:
                lowest[cell.labels] = min(cell.aer, lowest.get(cell.labels, cell.aer))
    return [
        Row(row.model, tuple(replace(c, best=c.complete and c.aer == lowest[c.labels]) for c in row.cells))
        for row in rows
    ]


def _with_welch(rows: list[Row]) -> list[Row]:
    reference = next((row.cells for row in rows if row.model == REFERENCE), None)
    if reference is None:
        return rows
    tests = {
        (row.model, cell.labels): test
        for row in rows
        if row.model != REFERENCE
        for cell, vanilla in zip(row.cells, reference, strict=True)
        if (test := _welch(cell, vanilla)) is not None
    }
    if tests:
        adjusted = stats.false_discovery_control([test.p for test in tests.values()], method="bh")
        tests = {
            key: replace(test, p_adjusted=float(p)) for (key, test), p in zip(tests.items(), adjusted, strict=True)
        }
    return [
        Row(row.model, tuple(replace(cell, welch=tests.get((row.model, cell.labels))) for cell in row.cells))
        for row in rows
    ]


def _welch(cell: Cell, vanilla: Cell) -> Welch | None:
    """The test before its correction."""
    if cell.aer is None or vanilla.aer is None or cell.se is None or vanilla.se is None:
        return None
    if cell.se == vanilla.se == 0:
        return None
    # Not ttest_ind, which is the same test but warns if either group has no spread.
    t, p = stats.ttest_ind_from_stats(
        *(cell.aer, cell.se * math.sqrt(cell.n), cell.n),
        *(vanilla.aer, vanilla.se * math.sqrt(vanilla.n), vanilla.n),
        equal_var=False,
    )
    return Welch(round(cell.aer - vanilla.aer, _DECIMALS), float(t), float(p), p_adjusted=float(p))


def _spearman(labels: int, cells: Iterable[Cell]) -> Spearman:
    pairs = [(cell.aer, cell.paper_aer) for cell in cells if cell.aer is not None and cell.paper_aer is not None]
    n = len(pairs)
    if n < 3 or any(len(set(side)) == 1 for side in zip(*pairs, strict=True)):
        return Spearman(labels, n)
    rho, p = stats.spearmanr(pairs)
    if n < 8:  # SciPy's p-value is one of large samples, and 0 for three models in the paper's order
        ours, theirs = stats.rankdata(pairs, axis=0).T
        every_order = stats.permutation_test(
            (ours,), lambda ranks, axis: np.sum(ranks * theirs, axis), permutation_type="pairings", vectorized=True
        )
        p = every_order.pvalue
    return Spearman(labels, n, float(rho), float(p))


# --- What all renderings for people say -------------------------------------------------------------------------


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
        notes.append("Incomplete cells show (finished/wanted); the statistics take them as they are.")
    notes.append("SE: the standard deviation (ddof = 1) over √n.")
    if any(cell.se is not None and not _is_shown(cell.se) for cell in cells):
        notes.append(
            "A cell whose runs have equal errors, to the digits shown, has no SE: a few equal runs are no certainty."
        )
    if table.spearman:
        notes.append(
            "Paper: Table 1 of Pezeshki et al. (2016), and in brackets our AER − the paper's, which is ≈ within or "
            "≠ outside two standard errors of the difference, 2·√(SE² + SE_paper²)."
        )
        each = "; ".join(f"{rank.labels} labels: {_rank_shown(rank)}" for rank in table.spearman)
        notes.append(f"Spearman rank correlation with the paper's order: {each}.")
    return notes


def _heads(table: Table) -> list[str]:
    return [f"{count} labels" for count in table.labels]


def _welch_title(table: Table) -> str:
    count = sum(cell.welch is not None for row in table.rows for cell in row.cells)
    if not count:
        return f"Welch tests against {REFERENCE}: {ABSENT}."
    return (
        f"Welch tests against {REFERENCE}: AER − {REFERENCE}'s, and the p-value after Benjamini and Hochberg's "
        f"correction over all {count} tests of this table."
    )


def _welch_rows(table: Table) -> list[Row]:
    return [row for row in table.rows if any(cell.welch for cell in row.cells)]


def _ours_shown(cell: Cell) -> str:
    """
    >>> _ours_shown(Cell(100, n=7, wanted=10, failed=2, aer=1.32, se=0.05))
    '1.320 ± 0.050 (7/10, 2 failed)'
    """
    remarks = []
    if cell.n < cell.wanted and (cell.n or cell.failed):
        remarks.append(f"{cell.n}/{cell.wanted}")
    if cell.failed:
        remarks.append(f"{cell.failed} failed")
    return _value(cell.aer, cell.se if _is_shown(cell.se) else None) + (f" ({', '.join(remarks)})" if remarks else "")


def _paper_shown(cell: Cell) -> str:
    value = _value(cell.paper_aer, cell.paper_se)
    if cell.difference is None:
        return value
    mark = "" if cell.within_two_se is None else "≈" if cell.within_two_se else "≠"
    return f"{value} ({_signed(cell.difference)}{mark})"


def _welch_shown(cell: Cell) -> str:
    return ABSENT if cell.welch is None else f"{_signed(cell.welch.difference)} ({_p(cell.welch.p_adjusted)})"


def _rank_shown(rank: Spearman) -> str:
    if rank.rho is None or rank.p is None:
        return ABSENT
    return f"ρ = {_minus(f'{rank.rho:z.3f}')} ({_p(rank.p)}, {rank.n} models)"


def _is_shown(se: float | None) -> bool:
    """Whether a standard error is a spread, and not 0.000 for runs that happen to be equal."""
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


def _has_paper(row: Row) -> bool:
    return any(cell.paper_aer is not None for cell in row.cells)


# --- Markdown ---------------------------------------------------------------------------------------------------


def to_markdown(table: Table) -> str:
    """GitHub's Markdown: the table, what is to be known of it, and the tests."""
    head = [_markdown_line("model", *_heads(table)), "|".join(["", "---", *["---:"] * len(table.labels), ""])]
    lines = []
    for row in table.rows:
        cells = (f"**{_ours_shown(cell)}**" if cell.best else _ours_shown(cell) for cell in row.cells)
        lines.append(_markdown_line(_markdown(row.model), *cells))
        if _has_paper(row):
            lines.append(_markdown_line("*paper*", *map(_paper_shown, row.cells)))
    paragraphs = [_title(_markdown(table.data)), "\n".join(head + lines)]
    paragraphs += ["\n".join(f"- {note}" for note in _notes(table)), _welch_title(table)]
    if rows := _welch_rows(table):
        tests = [_markdown_line(_markdown(row.model), *map(_welch_shown, row.cells)) for row in rows]
        paragraphs.append("\n".join(head + tests))
    return "\n\n".join(paragraphs) + "\n"


def _markdown_line(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


_MARKDOWN = {ord(c): f"\\{c}" for c in string.punctuation if c not in "-/"}
_MARKDOWN |= {ord(c): f"&#{ord(c)};" for c in "&<>|"}  # parsers differ on a backslash before |


def _markdown(name: str) -> str:
    """
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
    """One line for each model and number of labels, with all digits; what is absent is an empty field.

    No spreadsheet takes a name for a formula: where it could, a ' stands before it.
    """
    text = io.StringIO()
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow(["data", "model", *_OF_CELL, *(f"welch_{name}" for name in _OF_WELCH)])
    for row in table.rows:
        for cell in row.cells:
            numbers = [getattr(cell, name) for name in _OF_CELL]
            tests = [getattr(cell.welch, name, None) for name in _OF_WELCH]
            lines.writerow([_csv(table.data), _csv(row.model), *numbers, *tests])
    return text.getvalue()


def finished_runs(text: str) -> int:
    """How many finished runs the table of a CSV text holds.

    >>> finished_runs(to_csv(tabulate([Result("vanilla", 100, 1, 2.0)], data="mnist")))
    1
    """
    return sum(int(line["n"]) for line in csv.DictReader(io.StringIO(text)))


def _csv(name: str) -> str:
    """
    >>> _csv("=1+1"), _csv("gate.py:Gate")
    ("'=1+1", 'gate.py:Gate')
    """
    return visible(quoted(name))


# --- LaTeX ------------------------------------------------------------------------------------------------------


def to_latex(table: Table) -> str:
    r"""Floats as wide as the page, of the table and of the tests; they need ``\usepackage{booktabs}``, nothing else."""
    lines = []
    for row in table.rows:
        cells = [_latex(_ours_shown(cell)) for cell in row.cells]
        cells = [rf"\textbf{{{text}}}" if cell.best else text for text, cell in zip(cells, row.cells, strict=True)]
        lines.append(_latex_line(_latex(row.model), *cells))
        if _has_paper(row):
            lines.append(_latex_line(r"\quad\textit{paper}", *(_latex(_paper_shown(cell)) for cell in row.cells)))
    caption = " ".join([_title(table.data), *_notes(table)])
    rows = _welch_rows(table)
    if not rows:
        return _latex_float(table, f"{caption} {_welch_title(table)}", lines)
    tests = [_latex_line(_latex(row.model), *(_latex(_welch_shown(cell)) for cell in row.cells)) for row in rows]
    return _latex_float(table, caption, lines) + "\n" + _latex_float(table, _welch_title(table), tests)


def _latex_float(table: Table, caption: str, lines: list[str]) -> str:
    return "\n".join(
        [
            r"\begin{table*}",
            r"\centering",
            rf"\caption{{{_latex(caption)}}}",
            r"\footnotesize",
            r"\setlength{\tabcolsep}{3pt}",
            rf"\begin{{tabular}}{{l{'r' * len(table.labels)}}}",
            r"\toprule",
            _latex_line("model", *_heads(table)),
            r"\midrule",
            *lines,
            r"\bottomrule",
            r"\end{tabular}",
            r"\end{table*}",
            "",
        ]
    )


def _latex_line(*cells: str) -> str:
    return rf"{' & '.join(cells)} \\"


_LATEX = {c: f"\\{c}" for c in "{}$&#_%"}
_LATEX |= {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", '"': r"{\char34}"}
_LATEX |= {"<": "$<$", ">": "$>$", "|": "$|$", "[": "{[}", "]": "{]}", "*": "{*}", "`": "{`}"}  # * and [ follow a \\
_LATEX |= {"–": r"\textendash{}", "−": "$-$", "±": r"$\pm$", "≈": r"$\approx$", "≠": r"$\neq$", "ρ": r"$\rho$"}
_LATEX |= {"√": r"$\surd$", "²": "$^2$", "·": r"$\cdot$"}


def _latex(text: str) -> str:
    r"""Text that every LaTeX prints as it is; of a letter that pdfLaTeX may not have, its number.

    >>> print(_latex("50_% {γ}"))
    50\_\% \{\textbackslash{}u03b3\}
    """
    known = "".join(c if c.isascii() or c in _LATEX else c.encode("unicode_escape").decode() for c in visible(text))
    return "".join(_LATEX.get(c, c) for c in known).replace("--", "-{}-{}")  # which would be one dash


# --- The terminal -----------------------------------------------------------------------------------------------


def to_rich(table: Table) -> Group:
    """What a Rich console prints: the table, what is to be known of it, and the tests."""
    grid = _rich_grid(table)
    for row in table.rows:
        cells = (Text(_ours_shown(cell), "bold" if cell.best else "") for cell in row.cells)
        grid.add_row(Text(visible(row.model)), *cells)
        if _has_paper(row):
            grid.add_row(*map(Text, ["  paper", *map(_paper_shown, row.cells)]), style="dim")
    notes = [Text(note) for note in _notes(table)]
    shown: list[RenderableType] = [
        Text(_title(visible(table.data)), "bold"),
        grid,
        *notes,
        Text("\n" + _welch_title(table), "bold"),
    ]
    if rows := _welch_rows(table):
        tests = _rich_grid(table)
        for row in rows:
            tests.add_row(*map(Text, [visible(row.model), *map(_welch_shown, row.cells)]))
        shown.append(tests)
    return Group(*shown)


def _rich_grid(table: Table) -> RichTable:
    grid = RichTable(Column("model", overflow="fold"), box=box.SIMPLE_HEAD, pad_edge=False)
    for head in _heads(table):
        grid.add_column(head, justify="right")
    return grid

"""The study's table beside the paper's, with its statistics.

A cell holds the average error rate (AER) of a model's finished runs with one number of labels, and its standard error
(SE): their standard deviation, with ddof = 1, over √n. Where the paper has the cell, ours agrees with it if the two
differ by at most two standard errors *of the difference*, 2·√(SE² + SE_paper²). The models of a column are compared
seed by seed (comparisons.py) with the best one and with vanilla. A value that cannot be computed is None.
"""

import csv
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from importlib import resources
from statistics import fmean

import numpy as np
from scipy import stats

from laddernet.report.comparisons import DECIMALS, FEWEST, Comparison, holm, paired, standard_error
from laddernet.report.cost import Cost
from laddernet.study.plan import Key

REFERENCE = "vanilla"  # the model that the others are compared with


@dataclass(frozen=True)
class Result:
    """A finished run and its error on the test rows, in per cent."""

    model: str
    labels: int
    seed: int
    error: float

    def __post_init__(self) -> None:
        if not 0 <= self.error <= 100:
            raise ValueError(f"error must be from 0 to 100 per cent, got {self.error}.")


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
    best: bool = False  # the lowest AER of its column, among the complete cells with enough seeds for a test, if any
    leading: bool = False  # the best, or not distinguishable from it by a test; no cell if nothing can be tested
    to_best: Comparison | None = None  # of this model's errors with the best model's
    to_reference: Comparison | None = None  # with vanilla's

    @property
    def complete(self) -> bool:
        return 0 < self.n == self.wanted

    @property
    def difference(self) -> float | None:
        """Our AER − the paper's."""
        if self.aer is None or self.paper_aer is None:
            return None
        return round(self.aer - self.paper_aer, DECIMALS)

    @property
    def difference_se(self) -> float | None:
        """The standard error of that difference; None if ours is unknown."""
        return math.hypot(self.se, self.paper_se) if self.se and self.paper_se is not None else None

    @property
    def within_two_se(self) -> bool | None:
        """Whether our AER and the paper's differ by at most 2·√(SE² + SE_paper²); None with too few seeds or no spread.

        >>> Cell(100, n=3, wanted=3, failed=0, aer=1.0, se=0.03, paper_aer=1.1, paper_se=0.04).within_two_se
        True
        """
        if self.difference is None or self.difference_se is None or self.n < FEWEST:
            return None
        return abs(self.difference) <= 2 * self.difference_se


@dataclass(frozen=True)
class Row:
    """A model's cells, one for each number of labels of the table."""

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
    errors: Mapping[Key, Mapping[int, float]]  # of each cell's finished runs, by seed
    remarks: tuple[str, ...] = ()  # sentences on the runs, which all writers but CSV's show
    cost: tuple[Cost, ...] = ()  # if the paper has some of the cells
    untuned: frozenset[str] = frozenset()  # models without tuned values, while others have some

    @property
    def is_of_paper(self) -> bool:
        """Whether the paper has some of the cells."""
        return any(cell.paper_aer is not None for row in self.rows for cell in row.cells)


def _published() -> dict[Key, tuple[float, float]]:
    """Read the paper's Table 1."""
    text = resources.files("laddernet.report").joinpath("paper_table1.csv").read_text("utf-8")
    return {
        (line["model"], int(line["labels"])): (float(line["aer"]), float(line["se"]))
        for line in csv.DictReader(text.splitlines())
    }


PAPER = _published()  # Table 1 of the paper, on MNIST: AER and SE
_ORDER = {model: place for place, model in enumerate(dict.fromkeys(model for model, _ in PAPER))}


def tabulate(
    results: Iterable[Result],
    *,
    data: str,
    is_own: bool = False,
    wanted: Mapping[Key, int] | None = None,
    failed: Mapping[Key, int] | None = None,
) -> Table:
    """Compute the table of a study's results, which may be in any order.

    ``wanted`` is the number of seeds that each cell should have, ``failed`` the number of its runs that failed. A cell
    with fewer runs than wanted is incomplete; a cell that is not in ``wanted`` is complete. ``is_own``: the data is a
    file of the user, which the paper does not have, whatever its name.

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
    paper = PAPER if data == "mnist" and not is_own else {}

    def cell(model: str, count: int) -> Cell:
        key = model, count
        runs = sorted(errors.get(key, {}).values())
        aer = round(fmean(runs), DECIMALS) if runs else None
        seeds = max(wanted.get(key, 0), len(runs))
        return Cell(count, len(runs), seeds, failed.get(key, 0), aer, standard_error(runs), *paper.get(key, ()))

    columns = [
        _compared(
            {model: cell(model, count) for model in models},
            {model: errors[model, count] for model in models if (model, count) in errors},
        )
        for count in labels
    ]
    rows = tuple(Row(model, tuple(column[model] for column in columns)) for model in models)
    paper_labels = {count for _, count in paper}
    spearman = tuple(
        _spearman(count, column.values())
        for count, column in zip(labels, columns, strict=True)
        if count in paper_labels
    )
    return Table(data, tuple(labels), rows, spearman, dict(errors))


def _compared(column: dict[str, Cell], errors: Mapping[str, Mapping[int, float]]) -> dict[str, Cell]:
    """Compare the cells of a column with the best one and with the reference."""

    def with_model(other: str | None) -> dict[str, Comparison]:
        if other is None or other not in errors:
            return {}
        return holm({model: paired(errors[model], errors[other]) for model in errors if model != other})

    best = _best(column)
    to_best, to_reference = with_model(best[0] if best else None), with_model(REFERENCE)
    tested = any(comparison.p is not None for comparison in to_best.values())
    # "lower": the seeds that both have may be harder than the others.
    near = {model for model, test in to_best.items() if test.verdict in ("no clear difference", "lower")}
    return {
        model: replace(
            cell,
            best=model in best,
            leading=tested and (model in best or model in near),
            to_best=to_best.get(model),
            to_reference=to_reference.get(model),
        )
        for model, cell in column.items()
    }


def _best(column: Mapping[str, Cell]) -> list[str]:
    """Return the models with the lowest AER of the complete cells, if possible of those with seeds for a test."""
    complete = {model: cell.aer for model, cell in column.items() if cell.complete and cell.aer is not None}
    enough = {model: aer for model, aer in complete.items() if column[model].n >= FEWEST}
    candidates = enough or complete
    return [model for model, aer in candidates.items() if aer == min(candidates.values())]


def _spearman(labels: int, cells: Iterable[Cell]) -> Spearman:
    """Correlate the ranks of a column, exactly if it has few models."""
    pairs = [(cell.aer, cell.paper_aer) for cell in cells if cell.aer is not None and cell.paper_aer is not None]
    n = len(pairs)
    if n < 3 or any(len(set(side)) == 1 for side in zip(*pairs, strict=True)):
        return Spearman(labels, n)
    rho, p = stats.spearmanr(pairs)
    if n < 8:  # SciPy's p-value is for large samples: it is 0 for three models in the paper's order
        ours, theirs = stats.rankdata(pairs, axis=0).T
        every_order = stats.permutation_test(
            (ours,), lambda ranks, axis: np.sum(ranks * theirs, axis), permutation_type="pairings", vectorized=True
        )
        p = every_order.pvalue
    return Spearman(labels, n, float(rho), float(p))

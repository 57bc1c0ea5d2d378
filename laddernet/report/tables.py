"""The study's table beside the paper's, with its statistics.

A cell holds the average error rate (AER) of a model's finished runs with one number of labels, and its standard error
(SE): their standard deviation, with ddof = 1, over √n. Where the paper has the cell, ours agrees with it if the two
differ by at most two standard errors *of the difference*, 2·√(SE² + SE_paper²). A value that cannot be computed (an SE
of one run, a test of two groups without spread) is None.
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

from laddernet.study.plan import Key

REFERENCE = "vanilla"  # the model that the others are tested against
_DECIMALS = 12  # rounding errors beyond them must not break ties or make a spread


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
class Welch:
    """Welch's test of a model against vanilla with the same number of labels.

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
        """Whether our AER and the paper's differ by at most 2·√(SE² + SE_paper²); None without a spread of ours.

        >>> Cell(100, n=2, wanted=2, failed=0, aer=1.0, se=0.03, paper_aer=1.1, paper_se=0.04).within_two_se
        True
        """
        if self.difference is None or not self.se or self.paper_se is None:
            return None
        return abs(self.difference) <= 2 * math.hypot(self.se, self.paper_se)


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
    remarks: tuple[str, ...] = ()  # sentences on the runs, which all writers but CSV's show
    untuned: frozenset[str] = frozenset()  # models without tuned values, while others have some


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
    """Compute AER and SE."""
    if not errors:
        return None, None
    aer = round(fmean(errors), _DECIMALS)
    return aer, round(float(stats.sem(errors)), _DECIMALS) if len(errors) > 1 else None


def _with_best(rows: list[Row]) -> list[Row]:
    """Mark the complete cells with the lowest AER of their column."""
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
    """Add the tests against the reference, with p-values corrected over the whole table."""
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
    """Compute the test, with a p-value that is not corrected yet."""
    if cell.aer is None or vanilla.aer is None or cell.se is None or vanilla.se is None:
        return None
    if cell.se == vanilla.se == 0:
        return None
    # ttest_ind is the same test but warns if either group has no spread.
    t, p = stats.ttest_ind_from_stats(
        *(cell.aer, cell.se * math.sqrt(cell.n), cell.n),
        *(vanilla.aer, vanilla.se * math.sqrt(vanilla.n), vanilla.n),
        equal_var=False,
    )
    return Welch(round(cell.aer - vanilla.aer, _DECIMALS), float(t), float(p), p_adjusted=float(p))


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

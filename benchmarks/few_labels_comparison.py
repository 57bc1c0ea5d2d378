"""Comparisons of the methods of the few-labels benchmark: ranks over cells, and tests over sets."""

import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import NamedTuple

import few_labels_data as data
import few_labels_halves as halves
import numpy as np
from few_labels_methods import METHODS
from few_labels_results import Result, Results
from scipy.stats import friedmanchisquare, rankdata, wilcoxon

SKEWED = 4.0  # the training rows of the largest class over those of the smallest


class Cell(NamedTuple):
    """One set with one number of labels per class."""

    set: str
    labels: int


@dataclass(frozen=True)
class Summary:
    """The results of a method in a cell, by draw."""

    draws: dict[int, Result]

    def mean(self, measure: str = "error") -> float | None:
        """Return the mean of a measure over the draws; None if a line does not hold it."""
        values = [getattr(result, measure) for result in self.draws.values()]
        return None if None in values else fmean(values)

    @property
    def error(self) -> float:
        return fmean(result.error for result in self.draws.values())

    @property
    def standard_error(self) -> float:
        return standard_error([result.error for result in self.draws.values()])


def standard_error(values: Sequence[float], unknown: float = math.nan) -> float:
    return stdev(values) / math.sqrt(len(values)) if len(values) > 1 else unknown


Cells = dict[Cell, dict[str, Summary]]


def summarise(results: Results) -> Cells:
    """Return all results by cell and method, in the order in which sets and methods are listed."""
    by_cell: dict[Cell, dict[str, dict[int, Result]]] = defaultdict(lambda: defaultdict(dict))
    for fit, result in results.items():
        if fit.set in data.SETS and fit.method in METHODS:
            by_cell[Cell(fit.set, fit.labels)][fit.method][fit.draw] = result
    order = {name: place for place, name in enumerate(data.SETS)}
    return {
        cell: {method: Summary(draws) for method in METHODS if (draws := by_cell[cell].get(method))}
        for cell in sorted(by_cell, key=lambda cell: (cell.labels, order[cell.set]))
    }


def comparable(cells: Cells, methods: Sequence[str]) -> Cells:
    """Return the cells that all methods have done, with the same draws."""
    return {
        cell: of
        for cell, of in cells.items()
        if all(m in of and of[m].draws.keys() == of[methods[0]].draws.keys() for m in methods)
    }


def ranks(cells: Cells, methods: Sequence[str]) -> dict[Cell, dict[str, float]]:
    """Return the rank of each method in each cell by mean error; methods with the same error share theirs."""
    found = {}
    for cell, of in cells.items():
        places = rankdata([of[method].error for method in methods])
        found[cell] = dict(zip(methods, map(float, places), strict=True))
    return found


def behind(cells: Cells, method: str, other: str) -> Iterator[tuple[Cell, float, float]]:
    """Yield the cells where a method is worse than another by more than the standard error of the mean difference."""
    for cell, of in cells.items():
        if method in of and other in of:
            shared = of[method].draws.keys() & of[other].draws.keys()
            differences = [of[method].draws[draw].error - of[other].draws[draw].error for draw in shared]
            if differences and fmean(differences) > (error := standard_error(differences, unknown=0)):
                yield cell, fmean(differences), error


# --- Tests: over sets, since the cells of one set are not independent -----------------------------------------


def by_set(cells: Cells, method: str, measure: str) -> dict[str, float] | None:
    """Return the mean of a measure over the cells of each set; None if a line does not hold it."""
    values = defaultdict(list)
    for cell, of in cells.items():
        values[cell.set].append(of[method].mean(measure))
    return None if any(None in of for of in values.values()) else {name: fmean(of) for name, of in values.items()}  # type: ignore[type-var]


def friedman(cells: Cells, methods: Sequence[str], measure: str) -> float:
    """Return the p-value of Friedman's test that all methods are equally good; NaN for fewer than three."""
    samples = [of for method in methods if (of := by_set(cells, method, measure))]
    if len(samples) < 3 or len(samples[0]) < 2:
        return math.nan
    return float(friedmanchisquare(*(list(of.values()) for of in samples)).pvalue)


def against(cells: Cells, reference: str, methods: Sequence[str], measure: str) -> dict[str, float]:
    """Return p-values, corrected by `holm`, of Wilcoxon's signed-rank test of each method against the reference."""
    own = by_set(cells, reference, measure)
    found = {}
    for method in methods:
        other = by_set(cells, method, measure)
        if method != reference and own and other:
            differences = [other[name] - own[name] for name in own]
            found[method] = float(wilcoxon(differences).pvalue) if any(differences) else 1.0
    return holm(found)


def holm(p: Mapping[str, float]) -> dict[str, float]:
    """Correct p-values for their number by Holm's step-down method.

    >>> holm({"a": 0.01, "b": 0.04, "c": 0.03})
    {'a': 0.03, 'c': 0.06, 'b': 0.06}
    """
    order = sorted(p, key=p.__getitem__)
    scaled = [min(1.0, p[name] * (len(p) - place)) for place, name in enumerate(order)]
    return dict(zip(order, map(float, np.maximum.accumulate(scaled)), strict=True)) if p else {}


# --- Groups of sets -------------------------------------------------------------------------------------------


def groups(sizes: Mapping[str, data.Parts]) -> dict[str, set[str]]:
    """Return the sets of each group that results are shown for."""
    return {
        "All sets": set(sizes),
        "Numeric: no column holds categories": {name for name in sizes if not halves.categorical(name)},
        "Categorical: at least one column does": {name for name in sizes if halves.categorical(name)},
        f"Skewed: the largest class has {SKEWED:g} times the rows of the smallest, or more": {
            name for name, parts in sizes.items() if skew(parts) >= SKEWED
        },
    }


def skew(parts: data.Parts) -> float:
    """Return the number of training rows of the largest class over that of the smallest."""
    counts = np.bincount(parts.y_train)
    return float(counts.max() / counts.min())

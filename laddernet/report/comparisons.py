"""Paired comparisons of models, seed by seed.

A seed fixes the labelled rows, the initial values, the noise and the order, whatever the model. So two models are
compared by the differences of their errors over the seeds that both have, with a two-sided t-test; several comparisons
are corrected by Holm's method.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Literal, TypeVar

from scipy import stats

FEWEST = 3  # seeds of a test: with two, the t distribution has one degree of freedom and the test hardly any power
LEVEL = 0.05
DECIMALS = 12  # rounding errors beyond them must not break ties or make a spread

Verdict = Literal["too few seeds", "no spread", "higher", "lower", "no clear difference"]
Name = TypeVar("Name", bound=Hashable)


@dataclass(frozen=True)
class Comparison:
    """The mean of differences over seeds, and the test that it is 0.

    ``t`` and ``p`` are None with too few seeds, or if all differences are equal: their spread is then unknown.
    ``p_adjusted`` is corrected for the other comparisons of the same family.
    """

    n: int  # seeds
    difference: float | None = None
    se: float | None = None
    t: float | None = None
    p: float | None = None
    p_adjusted: float | None = None

    @property
    def verdict(self) -> Verdict:
        """The result of the test at the level of 0.05.

        >>> [t_test([0.1, 0.2]).verdict, t_test([0.1, 0.12, 0.11]).verdict, t_test([-0.1, 0.1, 0.2]).verdict]
        ['too few seeds', 'higher', 'no clear difference']
        """
        if self.n < FEWEST or self.difference is None:
            return "too few seeds"
        if self.p_adjusted is None:
            return "no spread"
        if self.p_adjusted >= LEVEL:
            return "no clear difference"
        return "higher" if self.difference > 0 else "lower"


def t_test(differences: Sequence[float]) -> Comparison:
    """Test whether the mean of differences, one for each seed, is 0."""
    rounded = [round(difference, DECIMALS) for difference in differences]
    n = len(rounded)
    if not rounded:
        return Comparison(n)
    mean = round(fmean(rounded), DECIMALS)
    se = standard_error(rounded)
    if n < FEWEST or not se:
        return Comparison(n, mean, se)
    t = mean / se
    p = float(2 * stats.t.sf(abs(t), n - 1))
    return Comparison(n, mean, se, t, p, p)


def paired(errors: Mapping[int, float], others: Mapping[int, float]) -> Comparison:
    """Compare the errors of two models by seed, over the seeds that both have.

    >>> paired({1: 3.0, 2: 4.0, 3: 6.0}, {1: 2.0, 2: 2.0, 3: 3.0, 4: 9.0}).difference
    2.0
    """
    return t_test([errors[seed] - others[seed] for seed in sorted(errors.keys() & others.keys())])


def holm(family: Mapping[Name, Comparison]) -> dict[Name, Comparison]:
    """Correct the p-values of a family of comparisons by Holm's method.

    >>> family = holm({name: Comparison(5, 1.0, 0.1, 10.0, p) for name, p in (("a", 0.01), ("b", 0.04), ("c", 0.03))})
    >>> [comparison.p_adjusted for comparison in family.values()]
    [0.03, 0.06, 0.06]
    """
    p = {name: comparison.p for name, comparison in family.items() if comparison.p is not None}
    adjusted: dict[Name, float] = {}
    highest = 0.0
    for rank, name in enumerate(sorted(p, key=lambda name: p[name])):
        highest = adjusted[name] = max(highest, min(1.0, p[name] * (len(p) - rank)))
    return {name: replace(comparison, p_adjusted=adjusted.get(name)) for name, comparison in family.items()}


def standard_error(values: Sequence[float]) -> float | None:
    """Return the standard error of a mean: the standard deviation, with ddof = 1, over √n; None for a single value.

    >>> standard_error([1.0, 3.0]), standard_error([1.1, 1.1, 1.1]), standard_error([1.0])
    (1.0, 0.0, None)
    """
    return round(float(stats.sem(values)), DECIMALS) if len(values) > 1 else None

import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import stats

from laddernet.report.comparisons import Comparison, holm, paired, t_test

pytestmark = pytest.mark.filterwarnings("error")

few = settings(max_examples=40, deadline=None)
percent = st.integers(0, 400).map(lambda count: count / 10)
by_seed = st.dictionaries(st.integers(1, 12), percent, min_size=3, max_size=12)


def t_two_sided(t: float, df: float) -> float:
    """P(|T| ≥ |t|), by integrating Student's density."""
    x = np.linspace(0, abs(t), 20_001)
    scale = math.exp(math.lgamma((df + 1) / 2) - math.lgamma(df / 2)) / math.sqrt(df * math.pi)
    return float(1 - 2 * np.trapezoid(scale * (1 + x**2 / df) ** (-(df + 1) / 2), x))


# Student's own example (1908), of Cushny and Peebles: hours of sleep gained with two drugs by the same ten patients.
FIRST = [0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0]
SECOND = [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4]


def test_the_paired_test_on_a_published_example() -> None:
    found = paired(dict(enumerate(FIRST)), dict(enumerate(SECOND)))
    assert found.t is not None
    assert found.p is not None
    assert (found.n, found.difference, round(found.t, 4), round(found.p, 6)) == (10, -1.58, -4.0621, 0.002833)


@given(by_seed, by_seed)
@few
def test_the_paired_test_is_its_formula_and_that_of_scipy_over_the_common_seeds(
    ours: dict[int, float], theirs: dict[int, float]
) -> None:
    common = sorted(ours.keys() & theirs.keys())
    assume(len(common) >= 3)
    x, y = (np.array([errors[seed] for seed in common]) for errors in (ours, theirs))
    assume(np.ptp((x - y).round(9)) > 0)
    found = paired(ours, theirs)
    d = x - y
    se = math.sqrt(sum((d - d.mean()) ** 2) / (len(d) - 1) / len(d))
    assert found.n == len(common)
    assert found.difference == pytest.approx(d.mean(), abs=1e-9)
    assert found.se == pytest.approx(se)
    assert found.t == pytest.approx(d.mean() / se, abs=1e-6)
    assert found.p == pytest.approx(t_two_sided(d.mean() / se, len(d) - 1), abs=1e-4)
    expected = stats.ttest_rel(x, y)
    assert found.t == pytest.approx(expected.statistic, abs=1e-6)
    assert found.p == pytest.approx(expected.pvalue, abs=1e-9)


@pytest.mark.parametrize("seeds", [0, 1, 2])
def test_two_seeds_are_too_few_for_a_test(seeds: int) -> None:
    found = paired({seed: 1.0 + seed for seed in range(seeds)}, {seed: 2.5 * seed for seed in range(9)})
    assert (found.n, found.t, found.p, found.p_adjusted, found.verdict) == (seeds, None, None, None, "too few seeds")


@pytest.mark.parametrize("errors", [[1.1] * 4, [1.3, 0.4, 2.2, 9.9]])
def test_the_same_difference_with_every_seed_is_not_taken_for_certain(errors: list[float]) -> None:
    others = dict(enumerate(error + 0.3 for error in errors))
    found = paired(dict(enumerate(errors)), others)
    assert (found.difference, found.se, found.p, found.verdict) == (-0.3, 0.0, None, "no spread")


def test_the_verdict_follows_the_corrected_p_value() -> None:
    found = t_test([1.0, 1.1, 1.3])
    assert found.verdict == "higher"
    assert t_test([-1.0, -1.1, -1.3]).verdict == "lower"
    many = holm({name: found for name in range(30)})
    assert many[0].verdict == "no clear difference"


@given(st.lists(st.one_of(st.none(), st.floats(0, 1)), max_size=12))
@few
def test_holm_is_his_procedure(ps: list[float | None]) -> None:
    family = holm({place: Comparison(5 if p is not None else 2, 1.0, 0.1, p=p) for place, p in enumerate(ps)})
    known = [p for p in ps if p is not None]
    assert list(family) == list(range(len(ps)))
    for level in (0.01, 0.05, 0.5):  # Holm's steps: reject the smallest p while p(k) ≤ level / (m − k + 1)
        rejected = []
        for k, p in enumerate(sorted(known)):
            if p * (len(known) - k) > level:
                break
            rejected.append(p)
        found = sorted(
            c.p for c in family.values() if c.p is not None and c.p_adjusted is not None and c.p_adjusted <= level
        )
        assert found == rejected
    assert all(
        (comparison.p_adjusted is None) == (p is None) for comparison, p in zip(family.values(), ps, strict=True)
    )

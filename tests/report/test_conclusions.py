"""The paper's conclusions: each formula is written again here, from the paper's text."""

from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats

from laddernet.network.models import MODELS
from laddernet.report.conclusions import CLAIMS, Conclusion, conclusions, summary
from laddernet.report.tables import PAPER, Result, Table, tabulate

pytestmark = pytest.mark.filterwarnings("error")

LABELS = (100, 1000, 60000)
SEEDS = range(1, 6)
Errors = Callable[[str], np.ndarray]  # of a model, one for each seed

BEST = {100: ("mlp-2-2", "amlp-2-2-2"), 1000: ("mlp-4", "amlp-4"), 60000: ("mlp-2-2", "amlp-2-2")}  # in the paper
OTHERS = [model for model in MODELS if model not in ("vanilla", "baseline", "baseline-noise")]

FORMULAS: list[Callable[[Errors, str, str], np.ndarray]] = [
    lambda e, mlp, amlp: e("no-lateral") - e("first-noise-recons"),
    lambda e, mlp, amlp: e("no-lateral") - 2 * e("first-noise-recons") + e("vanilla"),
    lambda e, mlp, amlp: e("baseline") - e("baseline-noise"),
    lambda e, mlp, amlp: e("first-noise") - e("vanilla"),
    lambda e, mlp, amlp: e("first-recons") - e("vanilla"),
    lambda e, mlp, amlp: e("no-sig") - e("vanilla"),
    lambda e, mlp, amlp: e("no-mult") - e("vanilla"),
    lambda e, mlp, amlp: e("no-mult") - e("no-sig"),
    lambda e, mlp, amlp: e("rand-init") - e("vanilla"),
    lambda e, mlp, amlp: e("rev-init") - e("rand-init"),
    lambda e, mlp, amlp: e("vanilla") - e("gaussian"),
    lambda e, mlp, amlp: e("gated-gauss") - e("gaussian"),
    lambda e, mlp, amlp: e("vanilla") - e(amlp),
    lambda e, mlp, amlp: e(mlp) - e(amlp),
]
SHRINKING: list[Callable[[Errors], np.ndarray]] = [
    lambda e: e("no-lateral") - e("first-noise-recons"),
    lambda e: e("first-recons") - e("vanilla"),
    lambda e: np.mean([e(model) for model in OTHERS], axis=0) - e("vanilla"),
]


def made_up(models: list[str], labels: tuple[int, ...] = LABELS) -> dict[tuple[str, int], np.ndarray]:
    """Errors near the paper's, with an effect of the seed that all models share."""
    rng = np.random.default_rng(0)
    seeds = rng.normal(1, 0.05, len(SEEDS))
    return {
        (model, count): PAPER[model, count][0] * seeds
        + rng.normal(0, 2 * PAPER[model, count][1], len(SEEDS)).clip(-0.2, 9)
        for model in models
        for count in labels
    }


def table_of(errors: dict[tuple[str, int], np.ndarray], data: str = "mnist") -> Table:
    results = [
        Result(model, labels, seed, float(error))
        for (model, labels), each in errors.items()
        for seed, error in zip(SEEDS, each, strict=True)
    ]
    return tabulate(results, data=data)


@pytest.fixture(scope="module")
def errors() -> dict[tuple[str, int], np.ndarray]:
    return made_up(list(MODELS))


@pytest.fixture(scope="module")
def found(errors: dict[tuple[str, int], np.ndarray]) -> tuple[Conclusion, ...]:
    return conclusions(table_of(errors))


def expected(errors: dict[tuple[str, int], np.ndarray], labels: int, place: int) -> np.ndarray:
    def of(count: int) -> Errors:
        return lambda model: errors[model, count]

    if place < len(FORMULAS):
        return FORMULAS[place](of(labels), *BEST[labels])
    fewer = LABELS[LABELS.index(labels) - 1]
    formula = SHRINKING[place - len(FORMULAS)]
    return formula(of(fewer)) - formula(of(labels))


def test_every_conclusion_is_tested_with_each_number_of_labels(found: tuple[Conclusion, ...]) -> None:
    assert [one.claim for one in found] == list(CLAIMS)
    assert len(CLAIMS) == len(FORMULAS) + len(SHRINKING)
    for one in found:
        assert tuple(one.findings) == (LABELS[1:] if one.claim.shrinks else LABELS)


@pytest.mark.parametrize("place", range(len(CLAIMS)), ids=[claim.statement for claim in CLAIMS])
def test_a_conclusion_is_the_t_test_of_its_sum_over_the_seeds(
    place: int, found: tuple[Conclusion, ...], errors: dict[tuple[str, int], np.ndarray]
) -> None:
    for labels, finding in found[place].findings.items():
        sums = expected(errors, labels, place)
        test = stats.ttest_1samp(sums, 0)
        assert finding.ours.n == len(SEEDS)
        assert finding.ours.difference == pytest.approx(sums.mean(), abs=1e-9)
        assert finding.ours.se == pytest.approx(stats.sem(sums), abs=1e-9)
        assert finding.ours.p == pytest.approx(test.pvalue, rel=1e-6, abs=1e-12)
        averages = {key: np.array([aer]) for key, (aer, _) in PAPER.items()}
        assert finding.paper == pytest.approx(float(expected(averages, labels, place)[0]))


def test_the_conclusions_of_a_column_are_one_family_of_holms_method(found: tuple[Conclusion, ...]) -> None:
    for labels in LABELS:
        tests = sorted(
            (one.findings[labels].ours for one in found if labels in one.findings), key=lambda test: test.p or 0
        )
        highest = 0.0
        for rank, test in enumerate(tests):
            assert test.p is not None
            highest = max(highest, min(1, test.p * (len(tests) - rank)))
            assert test.p_adjusted == pytest.approx(highest)


def test_the_papers_own_averages_agree_with_all_but_three_of_its_conclusions(found: tuple[Conclusion, ...]) -> None:
    against = {
        (one.claim.test, labels) for one in found for labels, finding in one.findings.items() if finding.paper <= 1e-9
    }
    assert against == {
        ("(no-lateral − first-noise-recons) − (first-noise-recons − vanilla)", 60000),  # said of fewer labels
        ("first-recons − vanilla", 60000),  # equal averages
        ("rand-init − vanilla", 1000),  # 1.011 and 1.017
    }


def test_a_conclusion_holds_or_is_reversed_only_by_a_test() -> None:
    holds = {model: np.array([1.0, 1.1, 1.2, 1.05, 1.15]) for model in ("vanilla", "gaussian", "gated-gauss")}
    holds["gated-gauss"] = holds["gated-gauss"] + [0.5, 0.52, 0.51, 0.5, 0.53]
    holds["gaussian"] = holds["gaussian"] + [0.2, 0.21, 0.22, 0.2, 0.19]
    found = conclusions(table_of({(model, 100): each for model, each in holds.items()}))
    assert {one.claim.test: one.findings[100].holds for one in found} == {
        "vanilla − gaussian": "reversed",
        "gated-gauss − gaussian": "holds",
    }
    assert summary(found) == ["100 labels: of 2 conclusions of the paper, 1 holds, 1 is reversed."]


def test_with_two_seeds_every_conclusion_says_too_few_seeds() -> None:
    results = [
        Result(model, 100, seed, 1.0 + place + seed / 10) for place, model in enumerate(MODELS) for seed in (1, 2)
    ]
    found = conclusions(tabulate(results, data="mnist"))
    assert {one.findings[100].holds for one in found} == {"too few seeds"}
    assert summary(found) == ["100 labels: of 14 conclusions of the paper, 14 have too few seeds for a test."]
    assert all("p " not in one.findings[100].evidence for one in found)


@pytest.mark.parametrize(
    ("data", "labels", "models"),
    [
        ("digits", 100, ["vanilla", "gaussian"]),
        ("mnist", 50, ["vanilla", "gaussian"]),
        ("mnist", 100, ["vanilla", "a.py:A"]),
    ],
)
def test_a_study_of_something_else_tests_no_conclusion(data: str, labels: int, models: list[str]) -> None:
    results = [Result(model, labels, seed, 1.0) for model in models for seed in SEEDS]
    assert conclusions(tabulate(results, data=data)) == ()


def test_a_model_whose_runs_are_missing_leaves_the_conclusion_open() -> None:
    results = [Result("vanilla", 100, seed, 1.0 + seed / 10) for seed in SEEDS]
    (one,) = conclusions(tabulate(results, data="mnist", wanted={("gaussian", 100): 3}))
    assert one.findings[100].holds == "too few seeds"
    assert one.findings[100].evidence == "paper +0.02"

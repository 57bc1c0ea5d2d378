import itertools
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_up import cell, runs, to_vanilla

from laddernet.network.models import MODELS
from laddernet.report.comparisons import holm, paired
from laddernet.report.tables import PAPER, Cell, Result, Spearman, tabulate
from laddernet.report.writers import to_markdown

pytestmark = pytest.mark.filterwarnings("error")

few = settings(max_examples=30, deadline=None)


def t_two_sided(t: float, df: float) -> float:
    """P(|T| ≥ |t|), by integrating Student's density."""
    x = np.linspace(0, abs(t), 20_001)
    scale = math.exp(math.lgamma((df + 1) / 2) - math.lgamma(df / 2)) / math.sqrt(df * math.pi)
    return float(1 - 2 * np.trapezoid(scale * (1 + x**2 / df) ** (-(df + 1) / 2), x))


# --- The paper's table ------------------------------------------------------------------------------------------


def test_the_papers_table_has_the_twenty_models_in_their_order_with_each_number_of_labels() -> None:
    assert list(PAPER) == [(model, labels) for model in MODELS for labels in (100, 1000, 60000)]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (("baseline", 100), (25.804, 0.40)),
        (("vanilla", 100), (1.086, 0.023)),
        (("no-lateral", 1000), (5.251, 0.099)),
        (("amlp-2-2", 60000), (0.569, 0.010)),
        (("amlp-2-2-2", 100), (1.002, 0.038)),
    ],
)
def test_the_papers_table_holds_what_was_printed(key: tuple[str, int], value: tuple[float, float]) -> None:
    assert PAPER[key] == value


# --- Cells ------------------------------------------------------------------------------------------------------


def test_a_cell_is_the_mean_and_its_standard_error() -> None:
    got = cell(tabulate(runs("vanilla", [1, 2, 4]), data="digits"), "vanilla")
    assert got.aer == pytest.approx(7 / 3, abs=1e-11)
    assert got.se == pytest.approx(math.sqrt(7 / 3) / math.sqrt(3), abs=1e-11)  # squares 16/9 + 1/9 + 25/9, over 2
    assert (got.n, got.wanted, got.failed, got.complete) == (3, 3, 0, True)


def test_one_run_has_no_standard_error_and_none_has_no_mean() -> None:
    table = tabulate(runs("vanilla", [1.5]), data="mnist", wanted={("linear", 100): 2})
    assert (cell(table, "vanilla").aer, cell(table, "vanilla").se) == (1.5, None)
    assert (cell(table, "linear").aer, cell(table, "linear").se) == (None, None)
    assert cell(table, "vanilla").difference == pytest.approx(0.414)
    assert cell(table, "vanilla").within_two_se is None
    assert cell(table, "linear").difference is None


@pytest.mark.parametrize("error", [1.1, 0.1, 33.3])
def test_equal_errors_have_a_standard_error_of_exactly_nought(error: float) -> None:
    for n in range(2, 12):
        assert cell(tabulate(runs("vanilla", [error] * n), data="mnist"), "vanilla").se == 0


def test_the_papers_models_come_in_its_order_and_ones_own_after_them_by_name() -> None:
    models = ["z.py:Z", "a.py:A", *reversed(MODELS)]
    table = tabulate([Result(model, 100, 0, 1) for model in models], data="mnist")
    assert [row.model for row in table.rows] == [*MODELS, "a.py:A", "z.py:Z"]


def test_every_model_has_a_cell_for_every_number_of_labels() -> None:
    table = tabulate(runs("vanilla", [1, 2]), data="digits", wanted={("linear", 50): 3}, failed={("linear", 20): 1})
    assert table.labels == (20, 50, 100)
    assert [[c.labels for c in row.cells] for row in table.rows] == [[20, 50, 100]] * 2
    assert [(c.n, c.wanted, c.failed) for c in table.rows[1].cells] == [(0, 0, 1), (0, 3, 0), (0, 0, 0)]


@given(st.permutations(runs("vanilla", [1.1, 1.3, 1.7]) + runs("linear", [0.1, 0.2, 0.3]) + runs("a:A", [5, 6])))
@few
def test_the_order_in_which_runs_finish_changes_nothing(results: list[Result]) -> None:
    assert tabulate(results, data="mnist") == tabulate(sorted(results, key=lambda run: run.seed), data="mnist")


def test_a_run_that_comes_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="two results of vanilla, 100 labels, seed 0"):
        tabulate(runs("vanilla", [1]) + runs("vanilla", [1]), data="mnist")


@pytest.mark.parametrize("error", [math.nan, math.inf, -0.1, 100.1])
def test_an_error_that_is_no_percentage_is_refused(error: float) -> None:
    with pytest.raises(ValueError, match="from 0 to 100 per cent"):
        Result("vanilla", 100, 0, error)


def test_a_cell_is_complete_when_it_has_the_runs_that_were_wanted() -> None:
    wanted = {("vanilla", 100): 3, ("linear", 100): 2}
    table = tabulate(runs("vanilla", [1, 2]) + runs("linear", [3, 4]), data="mnist", wanted=wanted)
    assert not cell(table, "vanilla").complete
    assert cell(table, "linear").complete


def test_the_best_of_a_column_is_the_lowest_of_its_complete_cells() -> None:
    results = runs("vanilla", [1.0, 1.2]) + runs("linear", [1.2, 1.4]) + runs("linear", [9], 50)
    table = tabulate(results, data="digits", wanted={("vanilla", 100): 3, ("vanilla", 50): 1})
    best = {(row.model, c.labels) for row in table.rows for c in row.cells if c.best}
    assert best == {("linear", 100), ("linear", 50)}


def test_cells_that_differ_only_by_rounding_are_both_the_best() -> None:
    table = tabulate(runs("vanilla", [0.01, 0.05]) + runs("linear", [0.03, 0.03]), data="digits")
    assert cell(table, "vanilla").best
    assert cell(table, "linear").best


# --- Beside the paper -------------------------------------------------------------------------------------------


def test_the_difference_is_ours_less_the_papers() -> None:
    got = cell(tabulate(runs("vanilla", [1.0, 1.1]), data="mnist"), "vanilla")
    assert (got.paper_aer, got.paper_se) == (1.086, 0.023)
    assert got.difference == pytest.approx(1.05 - 1.086, abs=1e-11)


@pytest.mark.parametrize(("aer", "within"), [(1.1, True), (1.1001, False), (0.9, True), (0.8999, False)])
def test_two_standard_errors_are_those_of_the_difference(aer: float, within: bool) -> None:
    got = Cell(100, n=3, wanted=3, failed=0, aer=aer, se=0.03, paper_aer=1.0, paper_se=0.04)  # 2·√(0.03² + 0.04²) = 0.1
    assert got.within_two_se is within
    assert Cell(100, n=2, wanted=3, failed=0, aer=aer, se=0.03, paper_aer=1.0, paper_se=0.04).within_two_se is None


@pytest.mark.parametrize(
    ("data", "model", "labels"), [("digits", "vanilla", 100), ("mnist", "vanilla", 50), ("mnist", "gate.py:Gate", 100)]
)
def test_what_the_paper_does_not_have_is_compared_with_nothing(data: str, model: str, labels: int) -> None:
    table = tabulate(runs(model, [1, 2], labels), data=data)
    got = cell(table, model, labels)
    assert (got.paper_aer, got.paper_se, got.difference, got.within_two_se) == (None,) * 4
    assert table.spearman == ((Spearman(100, 0),) if "gate" in model else ())


# --- Spearman ---------------------------------------------------------------------------------------------------


def test_spearman_is_the_formula_of_squared_rank_differences() -> None:
    models = ["baseline", "vanilla", "no-lateral", "linear", "no-mult", "gaussian", "amlp-4", "amlp-2-2-2", "no-sig"]
    paper_ranks = [9, 4, 8, 7, 6, 2, 3, 1, 5]  # of 25.8, 1.086, 16.4, 5.03, 3.04, 1.064, 1.072, 1.002, 1.61
    ranks = [9, 1, 8, 7, 5, 3, 4, 2, 6]
    table = tabulate([Result(m, 100, 0, rank) for m, rank in zip(models, ranks, strict=True)], data="mnist")
    rho = 1 - 6 * sum((a - b) ** 2 for a, b in zip(paper_ranks, ranks, strict=True)) / (9 * (81 - 1))
    (got,) = table.spearman
    assert (got.labels, got.n) == (100, 9)
    assert got.rho == pytest.approx(rho)
    assert got.p == pytest.approx(t_two_sided(rho * math.sqrt(7 / (1 - rho**2)), 7), abs=1e-6)


@given(st.lists(st.integers(0, 9), min_size=3, max_size=5).filter(lambda errors: len(set(errors)) > 1))
@few
def test_with_few_models_the_p_value_counts_every_order(errors: list[int]) -> None:
    models = ["vanilla", "linear", "gaussian", "first-noise", "first-noise-recons"][: len(errors)]  # the last two tie
    table = tabulate([Result(m, 100, 0, error) for m, error in zip(models, errors, strict=True)], data="mnist")
    paper = [PAPER[m, 100][0] for m in models]

    def rank(values: list[Any]) -> list[float]:
        return [sum(w < v for w in values) + (sum(w == v for w in values) + 1) / 2 for v in values]

    def score(order: tuple[int, ...]) -> float:
        return sum(a * b for a, b in zip(rank(list(order)), rank(paper), strict=True))

    scores = np.array([score(order) for order in itertools.permutations(errors)])
    tails = (scores >= score(tuple(errors))).mean(), (scores <= score(tuple(errors))).mean()
    (got,) = table.spearman
    assert got.rho == pytest.approx(np.corrcoef(rank(errors), rank(paper))[0, 1])
    assert got.p == pytest.approx(min(1, 2 * min(tails)))


def test_three_models_in_the_papers_order_prove_little() -> None:
    table = tabulate(runs("vanilla", [1]) + runs("linear", [5]) + runs("gaussian", [0.5]), data="mnist")
    (got,) = table.spearman
    assert (got.n, got.rho) == (3, 1)
    assert got.p == pytest.approx(1 / 3)


@pytest.mark.parametrize(
    "errors",
    [
        {"vanilla": 1, "linear": 5},
        {"vanilla": 1, "linear": 1, "gaussian": 1},
        {"first-noise": 1, "first-noise-recons": 2, "a:A": 3},
        {},
    ],
)
def test_too_few_models_or_constant_ranks_have_no_correlation(errors: dict[str, float]) -> None:
    wanted = {("vanilla", 100): 1}
    table = tabulate([Result(m, 100, 0, e) for m, e in errors.items()], data="mnist", wanted=wanted)
    (got,) = table.spearman
    assert (got.rho, got.p) == (None, None)
    assert "order: 100 labels: –" in to_markdown(table)


# --- Comparisons ------------------------------------------------------------------------------------------------

VANILLA = [1.10, 1.20, 1.30, 1.15, 1.25]


def shifted(by: float, noise: float = 0.01) -> list[float]:
    return [error + by + noise * (-1) ** seed for seed, error in enumerate(VANILLA)]


def test_each_model_is_compared_with_vanilla_and_with_the_best_over_the_common_seeds() -> None:
    results = runs("vanilla", VANILLA) + runs("linear", shifted(3)[:4]) + runs("gaussian", shifted(-0.5))
    results += runs("no-sig", [2.0]) + runs("vanilla", [3.0, 3.1], 50)
    table = tabulate(results, data="digits", wanted={("no-mult", 100): 3})
    errors = {"vanilla": VANILLA, "linear": shifted(3)[:4], "gaussian": shifted(-0.5), "no-sig": [2.0]}
    by_seed = {model: dict(enumerate(each)) for model, each in errors.items()}
    for name, other in (("to_reference", "vanilla"), ("to_best", "gaussian")):
        expected = holm({model: paired(each, by_seed[other]) for model, each in by_seed.items() if model != other})
        assert {row.model: found for row in table.rows if (found := getattr(row.cells[1], name))} == expected
    assert to_vanilla(table, "linear").n == 4
    assert to_vanilla(table, "no-sig").verdict == "too few seeds"
    assert all(row.cells[0].to_reference is row.cells[0].to_best is None for row in table.rows)


def test_each_number_of_labels_is_a_family_of_its_own() -> None:
    models = {"vanilla": VANILLA, "linear": shifted(0.1, 0.05), "gaussian": shifted(0.2)}
    few, many = (
        [run for model, errors in models.items() for run in runs(model, errors, labels)] for labels in (50, 100)
    )
    together, alone = tabulate(few + many, data="digits"), tabulate(few, data="digits")
    for model in ("linear", "gaussian"):
        assert to_vanilla(together, model, 50) == to_vanilla(together, model, 100) == to_vanilla(alone, model, 50)


def test_the_leading_models_are_the_best_and_those_that_no_test_distinguishes_from_it() -> None:
    results = runs("vanilla", VANILLA) + runs("gaussian", shifted(0.02, 0.05)) + runs("linear", shifted(3))
    table = tabulate(results + runs("no-sig", [1.2, 1.3]), data="digits")
    assert {row.model: (row.cells[0].best, row.cells[0].leading) for row in table.rows} == {
        "vanilla": (True, True),
        "gaussian": (False, True),
        "linear": (False, False),
        "no-sig": (False, False),  # too few seeds to say
    }


def test_no_model_leads_where_nothing_can_be_tested() -> None:
    table = tabulate(runs("vanilla", [1.0, 1.2]) + runs("linear", [5.0, 5.2]), data="digits")
    assert [(row.cells[0].best, row.cells[0].leading) for row in table.rows] == [(True, False), (False, False)]


def test_a_model_better_over_the_common_seeds_is_not_called_worse() -> None:
    results = [Result("vanilla", 100, seed, error) for seed, error in enumerate([2.0, 2.1, 2.2, 0.1, 0.1, 0.1])]
    table = tabulate(results + runs("linear", [1.5, 1.61, 1.69]), data="digits")
    assert cell(table, "vanilla").best
    assert cell(table, "linear").leading


def test_a_lucky_run_is_not_the_best_if_other_models_have_enough_seeds() -> None:
    table = tabulate(runs("vanilla", VANILLA) + runs("linear", [0.5]), data="digits")
    assert [row.model for row in table.rows if row.cells[0].best] == ["vanilla"]
    assert [
        row.model
        for row in tabulate(runs("vanilla", [1.0]) + runs("linear", [0.5]), data="x").rows
        if row.cells[0].best
    ] == ["linear"]


def test_the_errors_are_kept_by_seed() -> None:
    table = tabulate([Result("vanilla", 100, 7, 1.5), Result("vanilla", 100, 3, 1.0)], data="mnist")
    assert table.errors == {("vanilla", 100): {7: 1.5, 3: 1.0}}

import csv
import io
import itertools
import math
import re
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token
from rich.console import Console

from laddernet.network.models import MODELS
from laddernet.report.tables import (
    PAPER,
    Cell,
    Result,
    Spearman,
    Table,
    Welch,
    tabulate,
    to_csv,
    to_latex,
    to_markdown,
    to_rich,
)

pytestmark = pytest.mark.filterwarnings("error")

few = settings(max_examples=30, deadline=None)


def runs(model: str, errors: Iterable[float], labels: int = 100) -> list[Result]:
    return [Result(model, labels, seed, error) for seed, error in enumerate(errors)]


def cell(table: Table, model: str, labels: int = 100) -> Cell:
    (row,) = (row for row in table.rows if row.model == model)
    return row.cells[table.labels.index(labels)]


def welch(table: Table, model: str, labels: int = 100) -> Welch:
    test = cell(table, model, labels).welch
    assert test is not None
    return test


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


def test_equal_errors_are_not_shown_as_certain() -> None:
    table = tabulate([*runs("vanilla", [1.5] * 3), *runs("linear", [2.0, 2.5])], data="mnist")
    assert cell(table, "vanilla").within_two_se is None
    for shown in (to_markdown(table), to_latex(table), printed(table)):
        assert "0.000" not in shown
        assert "1.500" in shown
        assert "a few equal runs are no certainty" in " ".join(shown.split())
    assert "equal runs" not in to_markdown(tabulate(runs("linear", [2.0, 2.5]), data="mnist"))


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
    got = Cell(100, n=2, wanted=2, failed=0, aer=aer, se=0.03, paper_aer=1.0, paper_se=0.04)  # 2·√(0.03² + 0.04²) = 0.1
    assert got.within_two_se is within


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


# --- Welch ------------------------------------------------------------------------------------------------------

# The first example of Wikipedia's "Welch's t-test", where t = −2.46, ν = 25.0 and p = 0.021.
A1 = [27.5, 21.0, 19.0, 23.6, 17.0, 17.9, 16.9, 20.1, 21.9, 22.6, 23.1, 19.6, 19.0, 21.7, 21.4]
A2 = [27.1, 22.0, 20.8, 23.4, 23.4, 23.5, 25.8, 22.0, 24.8, 20.2, 21.9, 22.1, 22.9, 20.5, 24.4]


def test_welch_on_a_published_example() -> None:
    test = welch(tabulate(runs("linear", A1) + runs("vanilla", A2), data="digits"), "linear")
    assert round(test.t, 2) == -2.46
    assert round(test.p, 3) == 0.021
    assert test.p_adjusted == test.p  # the only test
    assert test.difference == pytest.approx(sum(A1) / 15 - sum(A2) / 15)


errors_with_spread = st.lists(st.integers(0, 200), min_size=2, max_size=8).filter(lambda counts: len(set(counts)) > 1)


@given(errors_with_spread, st.one_of(errors_with_spread, st.just([7, 7, 7])))
@few
def test_welch_is_its_formula(ours: list[int], vanilla: list[int]) -> None:
    x, y = np.array(ours) / 10, np.array(vanilla) / 10
    test = welch(tabulate(runs("linear", x) + runs("vanilla", y), data="digits"), "linear")
    u, v = x.var(ddof=1) / len(x), y.var(ddof=1) / len(y)
    t = (x.mean() - y.mean()) / math.sqrt(u + v)
    df = (u + v) ** 2 / (u**2 / (len(x) - 1) + v**2 / (len(y) - 1))
    assert test.t == pytest.approx(t, abs=1e-6)
    assert test.p == pytest.approx(t_two_sided(t, df), abs=1e-4)


def test_p_values_are_corrected_by_benjamini_and_hochberg_over_the_whole_table() -> None:
    rng = np.random.default_rng(0)
    table = tabulate(
        [
            Result(model, labels, seed, float(rng.uniform(1 + place * 0.1, 3)))
            for place, model in enumerate(["vanilla", "linear", "gaussian", "a:A"])
            for labels in (100, 1000)
            for seed in range(5)
        ],
        data="mnist",
    )
    tests = [c.welch for row in table.rows for c in row.cells if c.welch]
    assert len(tests) == 6
    tests.sort(key=lambda test: test.p)
    for i, test in enumerate(tests):
        expected = min(1, *(6 * later.p / (k + 1) for k, later in enumerate(tests) if k >= i))
        assert test.p_adjusted == pytest.approx(expected)
    assert "Benjamini and Hochberg's correction over all 6 tests" in to_markdown(table)


@pytest.mark.parametrize(
    ("model", "vanilla"),
    [([1.1] * 3, [1.1] * 3), ([1.1] * 3, [2.2] * 7), ([1, 2], [1]), ([1], [1, 2]), ([1, 2], []), ([], [1, 2])],
)
def test_a_welch_test_that_cannot_be_made_is_absent(model: list[float], vanilla: list[float]) -> None:
    table = tabulate(runs("linear", model) + runs("vanilla", vanilla), data="digits")
    assert all(c.welch is None for row in table.rows for c in row.cells)
    assert "Welch tests against vanilla: –" in to_markdown(table)
    assert to_latex(table).count("tabular}") == 2  # one table: there is no second, empty one


# --- Renderings -------------------------------------------------------------------------------------------------


@pytest.fixture
def table() -> Table:
    results = [
        *runs("vanilla", [1.0, 1.1, 1.2]),
        *runs("linear", [4.0, 5.0]),
        *runs("gaussian", [0.9]),
        *runs("vanilla", [3.0, 3.3], 50),
        *runs("my_gate.py:Gate", [2.0, 2.5], 50),
    ]
    wanted = {("vanilla", 100): 3, ("linear", 100): 10, ("gaussian", 100): 3, ("no-sig", 100): 3, ("no-mult", 100): 3}
    return tabulate(results, data="mnist", wanted=wanted, failed={("linear", 100): 2, ("no-sig", 100): 1})


def printed(table: Table, **options: Any) -> str:
    out = io.StringIO()
    Console(file=out, width=120, **options).print(to_rich(table))
    return out.getvalue()


def grid(markdown: str) -> list[list[str]]:
    """The cells of the first table, with their markup."""
    block = markdown.split("\n\n")[1]
    return [line.strip("|").split("|") for line in block.replace(" | ", "|").replace("| ", "|").splitlines()]


def test_markdown_shows_every_state_of_a_cell(table: Table) -> None:
    text = to_markdown(table)
    assert text.startswith("Test error on mnist in per cent: average (AER) ± standard error (SE).\n\n| model |")
    lines = text.splitlines()
    assert "| vanilla | 3.150 ± 0.150 | **1.100 ± 0.058** |" in lines
    assert "| *paper* | – | 1.086 ± 0.023 (+0.014≈) |" in lines
    assert "| no-sig | – | – (0/3, 1 failed) |" in lines
    assert "| no-mult | – | – |" in lines
    assert "| linear | – | 4.500 ± 0.500 (2/10, 2 failed) |" in lines
    assert "| gaussian | – | 0.900 (1/3) |" in lines
    assert "| *paper* | – | 1.064 ± 0.021 (−0.164) |" in lines
    assert "| my\\_gate\\.py\\:Gate | **2.250 ± 0.250** | – |" in lines
    assert "10 of 26 runs are finished, 3 failed." in text
    assert "Complete cells have n = 2 or 3 runs" in text
    assert "2·√(SE² + SE_paper²)" in text
    assert "100 labels: ρ = 1.000 (p = 0.333, 3 models)" in text
    assert "| linear | – | +3.400 (p = " in text


def test_a_cell_outside_two_standard_errors_is_marked() -> None:
    assert "1.086 ± 0.023 (+0.464≠)" in to_markdown(tabulate(runs("vanilla", [1.5, 1.6]), data="mnist"))


def test_nought_has_no_minus() -> None:
    assert "(+0.000≈)" in to_markdown(tabulate(runs("vanilla", [1.0857, 1.0861]), data="mnist"))


def test_without_the_papers_data_there_is_no_word_of_the_paper() -> None:
    table = tabulate(runs("vanilla", [1, 2]), data="digits")
    for text in (to_markdown(table), to_latex(table), printed(table)):
        assert "paper" not in text.lower()


def test_an_empty_study_is_an_empty_table() -> None:
    table = tabulate([], data="mnist")
    assert grid(to_markdown(table)) == [["model "], ["---"]]
    assert len(to_csv(table).splitlines()) == 1
    assert r"\begin{tabular}{l}" in to_latex(table)
    assert "0 of 0 runs" in printed(table)


def test_the_terminal_shows_what_markdown_shows(table: Table) -> None:
    shown = printed(table)
    for line in grid(to_markdown(table))[2:]:
        cells = (text.strip().strip("*").replace("\\", "") for text in line)
        assert re.search(r"\s+".join(map(re.escape, cells)), shown), line
    assert "\x1b" not in shown


def test_the_terminal_shows_the_best_in_bold(table: Table) -> None:
    shown = printed(table, force_terminal=True, color_system="standard")
    assert re.findall(r"\x1b\[1m *(\d[^\x1b]* ± [^\x1b]*)\x1b", shown) == ["1.100 ± 0.058", "2.250 ± 0.250"]


@pytest.mark.parametrize("width", [40, 80])
def test_a_narrow_terminal_loses_no_digit(table: Table, width: int) -> None:
    out = io.StringIO()
    Console(file=out, width=width).print(to_rich(table))
    assert "…" not in out.getvalue()
    assert max(map(len, out.getvalue().splitlines())) <= width


def test_latex_is_a_booktabs_table_with_the_best_in_bold(table: Table) -> None:
    text = to_latex(table)
    assert text.isascii()
    assert text.count(r"\toprule") == text.count(r"\midrule") == text.count(r"\bottomrule") == 2
    assert r"\begin{tabular}{lrr}" in text
    assert r"vanilla & 3.150 $\pm$ 0.150 & \textbf{1.100 $\pm$ 0.058} \\" in text
    assert r"\quad\textit{paper} & \textendash{} & 1.086 $\pm$ 0.023 (+0.014$\approx$) \\" in text
    assert r"my\_gate.py:Gate & \textbf{2.250 $\pm$ 0.250} & \textendash{} \\" in text
    assert set(re.findall(r"\\begin{(.*?)}", text)) == {"table*", "tabular"}


def test_csv_has_every_number_of_a_cell(table: Table) -> None:
    lines = {(line["model"], line["labels"]): line for line in csv.DictReader(io.StringIO(to_csv(table)))}
    assert len(lines) == 6 * 2
    linear, vanilla, no_mult = (lines[model, "100"] for model in ("linear", "vanilla", "no-mult"))
    counts = {"n": "2", "wanted": "10", "failed": "2", "complete": "False", "best": "False"}
    assert linear.items() >= counts.items()
    assert float(linear["difference"]) == pytest.approx(4.5 - 5.027)
    assert linear["within_two_se"] == "True"
    test = welch(table, "linear")
    assert {name: float(linear[f"welch_{name}"]) for name in asdict(test)} == asdict(test)
    assert (vanilla["best"], vanilla["welch_p"]) == ("True", "")
    assert [no_mult[name] for name in ("aer", "se", "difference", "within_two_se", "welch_t")] == [""] * 5
    assert (no_mult["data"], no_mult["paper_aer"]) == ("mnist", "3.041")


# --- What holds for every study ---------------------------------------------------------------------------------

NUMBERS = ("aer", "se", "paper_aer", "paper_se", "difference")
percentages = st.one_of(st.floats(0, 100), st.sampled_from([0.0, 1.1, 1.1 + 2e-16, 5e-324, 100.0]))


@st.composite
def studies(draw: st.DrawFn) -> Table:
    names = st.sampled_from(["vanilla", "linear", "gaussian", "first-noise", "first-noise-recons", "a.py:A"])
    keys = st.tuples(names, st.sampled_from([100, 1000, 7]))
    errors = draw(st.dictionaries(keys, st.lists(percentages, max_size=4), max_size=8))
    counts = st.dictionaries(keys, st.integers(0, 5), max_size=8)
    results = [run for (model, labels), each in errors.items() for run in runs(model, each, labels)]
    return tabulate(results, data=draw(st.sampled_from(["mnist", "digits"])), wanted=draw(counts), failed=draw(counts))


@given(studies())
@few
def test_no_study_has_nan_or_infinity_and_csv_reads_back(table: Table) -> None:
    lines = list(csv.DictReader(io.StringIO(to_csv(table))))
    cells = [(row.model, c) for row in table.rows for c in row.cells]
    assert len(lines) == len(cells)
    for line, (model, c) in zip(lines, cells, strict=True):
        assert (line["model"], line["labels"]) == (model, str(c.labels))
        expected = {name: getattr(c, name) for name in NUMBERS}
        expected |= {f"welch_{name}": getattr(c.welch, name, None) for name in ("difference", "t", "p", "p_adjusted")}
        for name, number in expected.items():
            assert number is None or math.isfinite(number)
            assert (float(line[name]) if line[name] else None) == number
    for text in (to_markdown(table), to_latex(table), printed(table)):
        assert not re.search(r"\b(nan|inf|None)\b", text)


# --- What a user's text cannot do -------------------------------------------------------------------------------

nasty = st.text(
    st.one_of(
        st.sampled_from("=+-@\t\r\n\0|\\`*_~[]()<>&#!$%^{}\"',;:./ ＝＋－＠\x1b\u202e\u2028\udc80é"), st.characters()
    ),
    max_size=12,
)
known = st.sampled_from(
    [
        "=cmd|' /C calc'!A0",
        "x;=1+1",
        'a",=1+1,"',
        "<script>alert(1)</script>",
        "a | b",
        "\\| x",
        "**b** _i_ `c` ~~s~~",
        "![x](http://e.x/y)",
        "https://e.x www.e.x a@e.x",
        "[2pt] x",
        "* x",
        "\\input{x}^^5c",
        "[bold red]x[/]",
        "\x1b[31mred",
        "a\n\n# b",
        "%",
        "a--b",
    ]
)
user_text = st.one_of(known, nasty).filter(lambda name: name not in MODELS)


def study_of(name: str, data: str) -> Table:
    return tabulate(runs("vanilla", [1.0, 1.1]) + runs(name, [2.0, 2.1]) + runs("linear", [3, 4]), data=data)


def visible(name: str) -> str:
    """How a name is to look: what does not print is written as Python writes it."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in name)


def squeezed(text: str) -> str:
    return " ".join(text.split())


@given(user_text, user_text)
@few
def test_csv_gives_spreadsheets_no_formula(name: str, data: str) -> None:
    text = to_csv(study_of(name, data))
    text.encode()  # no lone surrogates
    lines = list(csv.DictReader(io.StringIO(text)))
    assert len(lines) == 3
    for line in lines:
        for cell in (line["data"], line["model"]):
            for part in re.split('[,;"]', cell):  # whatever a spreadsheet takes for the separator
                assert not part.lstrip().startswith(tuple("=+-@＝＋－＠"))
                assert not part.startswith(("\t", "\r", "\n", "\0"))
        assert float(line["aer"]) >= 1
    differences = [line["welch_difference"] for line in lines if line["model"] != "vanilla"]
    assert [float(number) for number in differences] == [2.45, 1.0]  # linear, then the user's own


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("=1+1", "'=1+1"),
        ("+x", "'+x"),
        ("-x", "'-x"),
        ("@x", "'@x"),
        ("\tx", "'\\tx"),
        ("\rx", "'\\rx"),
        (" =x", "' =x"),
        ("x;=1", "x;'=1"),
        ("a.py:A", "a.py:A"),
        ("a-b=c", "a-b=c"),
    ],
)
def test_csv_prefixes_what_a_spreadsheet_would_compute(name: str, shown: str) -> None:
    lines = list(csv.DictReader(io.StringIO(to_csv(study_of(name, "digits")))))
    assert lines[-1]["model"] == shown


def test_a_negative_difference_remains_a_number_in_csv() -> None:
    (line,) = csv.DictReader(io.StringIO(to_csv(tabulate(runs("vanilla", [1.0, 1.0]), data="mnist"))))
    assert float(line["difference"]) == -0.086


def leaves(tokens: Iterable[Token]) -> list[Token]:
    return [leaf for token in tokens if token.type == "inline" for leaf in token.children or ()]


@given(user_text, user_text)
@few
def test_markdown_shows_a_name_as_it_is_and_nothing_more(name: str, data: str) -> None:
    parser = MarkdownIt("commonmark").enable(["table", "strikethrough"])
    text = to_markdown(study_of(name, data))
    text.encode()
    tokens = parser.parse(text)
    plain = parser.parse(to_markdown(study_of("name", "data")))
    assert [token.type for token in tokens] == [token.type for token in plain]
    assert {leaf.type for leaf in leaves(tokens)} <= {"text", "text_special", "strong_open", "strong_close"}
    inline = [
        squeezed("".join(leaf.content for leaf in token.children or ())) for token in tokens if token.type == "inline"
    ]
    assert inline[0] == squeezed(f"Test error on {visible(data)} in per cent: average (AER) ± standard error (SE).")
    assert inline.count(squeezed(visible(name))) >= 2  # in the table, and in the tests


@pytest.mark.parametrize("name", ["https://e.x/y", "www.e.x"])
def test_markdown_makes_no_link_of_an_address(name: str) -> None:
    assert name not in to_markdown(study_of(name, "digits"))


LATEX_TEXT = re.compile(
    r"(?:[A-Za-z0-9 .,:;/()=+!?@'-]|\\[{}$&#_%]|\\text(?:backslash|asciitilde|asciicircum|endash)\{\}|\{\\char34\}"
    r"|\{[\[\]*`]\}|\{\}|\$(?:[<>|-]|\\(?:pm|approx|neq|rho|surd|cdot)|\^2)\$)*"
)


@given(user_text, user_text)
@few
def test_latex_has_only_text_where_a_name_is(name: str, data: str) -> None:
    text = to_latex(study_of(name, data))
    plain = to_latex(study_of("name", "data")).splitlines()
    assert len(text.splitlines()) == len(plain)
    for line, expected in zip(text.splitlines(), plain, strict=True):
        if expected.startswith(r"\caption{"):
            assert LATEX_TEXT.fullmatch(line.removeprefix(r"\caption{").removesuffix("}"))
        elif expected.startswith("name"):
            assert line.endswith(expected.removeprefix("name"))
            assert LATEX_TEXT.fullmatch(line.removesuffix(expected.removeprefix("name")))
            assert not line.startswith(("[", "*"))  # which the \\ before would take for its own
        else:
            assert line == expected


def test_every_character_that_latex_takes_for_its_own_is_escaped() -> None:
    text = to_latex(study_of("\\{}$&#_%~^--[", "digits"))
    assert r"\textbackslash{}\{\}\$\&\#\_\%\textasciitilde{}\textasciicircum{}-{}-{}{[} & " in text


@given(user_text, user_text)
@few
def test_the_terminal_shows_a_name_as_it_is(name: str, data: str) -> None:
    out = io.StringIO()
    Console(file=out, width=400, force_terminal=True, color_system="truecolor").print(to_rich(study_of(name, data)))
    out.getvalue().encode()
    shown = re.sub(r"\x1b\[[0-9;]*m", "", out.getvalue())
    assert squeezed(shown).count(squeezed(visible(name))) >= 2  # in the table, and in the tests
    assert squeezed(visible(data)) in squeezed(shown)
    assert not re.search(r"[\x00-\x09\x0b-\x1f]", shown)
    assert not re.search(r"\x1b\[31m", out.getvalue())

import csv
import io
import math
import re
from collections.abc import Iterable
from dataclasses import asdict, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from made_up import cell, runs, to_vanilla
from markdown_it import MarkdownIt
from markdown_it.token import Token
from rich.console import Console

from laddernet.network.models import MODELS
from laddernet.report.cost import Cost
from laddernet.report.tables import Table, tabulate
from laddernet.report.writers import to_csv, to_latex, to_markdown, to_rich

pytestmark = pytest.mark.filterwarnings("error")

few = settings(max_examples=30, deadline=None)

# --- Renderings -------------------------------------------------------------------------------------------------


@pytest.fixture
def table() -> Table:
    results = [
        *runs("vanilla", [1.0, 1.1, 1.2]),
        *runs("linear", [4.0, 4.5, 5.0]),
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
    block = next(block for block in markdown.split("\n\n") if block.startswith("|"))
    return [line.strip("|").split("|") for line in block.replace(" | ", "|").replace("| ", "|").splitlines()]


def test_markdown_shows_every_state_of_a_cell(table: Table) -> None:
    text = to_markdown(table)
    assert text.startswith(
        "- 50 labels: my\\_gate\\.py\\:Gate has the lowest mean error, 2.25 ± 0.25 %. Too few seeds to"
    )
    assert "\n- 100 labels: vanilla has the lowest mean error, 1.10 ± 0.06 %. Worse: linear. Too few seeds for" in text
    assert "Test error on mnist in per cent: mean ± standard error over the seeds, whose number is in brackets." in text
    lines = text.splitlines()
    assert "| vanilla | 3.15 ± 0.15 (2) | **1.10 ± 0.06 (3)** |" in lines
    assert "| *paper* | – | 1.086 ± 0.023 (+0.01≈) |" in lines
    assert "| no-sig | – | – (0/3, 1 failed) |" in lines
    assert "| no-mult | – | – |" in lines
    assert "| linear | – | 4.50 ± 0.29 (3/10, 2 failed) |" in lines
    assert "| gaussian | – | 0.90 (1/3) |" in lines
    assert "| *paper* | – | 1.064 ± 0.021 (−0.164) |" in lines
    assert "| my\\_gate\\.py\\:Gate | 2.25 ± 0.25 (2) | – |" in lines
    assert "11 of 26 runs are finished, 3 failed." in text
    assert "2·√(SE² + SE_paper²)" in text
    assert "100 labels: ρ = 1.00 (p = 0.33, 3 models)" in text
    assert "| linear | – | +3.40 ± 0.23 (p = 0.0046) |" in lines
    assert "| gaussian | – | −0.10 (too few seeds) |" in lines
    assert "| Gaussian is better than vanilla | vanilla − gaussian | – | too few seeds: +0.10, paper +0.02 |" in lines


def test_plus_minus_is_explained_once_where_the_numbers_begin(table: Table) -> None:
    for text in (to_markdown(table), to_latex(table).replace(r"$\pm$", "±"), printed(table)):
        assert " ".join(text.split()).count("mean ± standard error over the seeds") == 1


def test_a_table_without_tests_says_that_the_seeds_are_too_few() -> None:
    table = tabulate(runs("vanilla", [1.0, 1.2]) + runs("linear", [5.0, 5.1]), data="digits")
    for text in (to_markdown(table), to_latex(table), printed(table)):
        shown = " ".join(text.split())
        assert "Paired tests against vanilla: too few seeds; a test needs 3 that both models have." in shown
        assert "p = " not in shown
        assert "**" not in shown
    assert to_latex(table).count("tabular}") == 2  # one table: there is no second, empty one
    assert "Paired tests" not in to_markdown(tabulate(runs("linear", [5.0, 5.1]), data="digits"))


def test_the_cost_is_shown_by_number_of_labels_and_in_all(table: Table) -> None:
    costly = replace(table, cost=(Cost(50, 4, 1.25, 400.0), Cost(100, 7, 10.0, 1100.4)))
    lines = to_markdown(costly).splitlines()
    assert "| 50 labels | 4 | 1.2 | 400 |" in lines
    assert "| all | 11 | 11.2 | 1,500 |" in lines


def test_equal_errors_are_not_shown_as_certain() -> None:
    table = tabulate([*runs("vanilla", [1.5] * 3), *runs("linear", [2.0, 2.5])], data="mnist")
    assert cell(table, "vanilla").within_two_se is None
    for shown in (to_markdown(table), to_latex(table), printed(table)):
        assert "± 0.00 " not in shown
        assert "1.50 (3)" in shown
        assert "the spread is unknown, not 0" in " ".join(shown.split())
    assert "spread is unknown" not in to_markdown(tabulate(runs("linear", [2.0, 2.5]), data="mnist"))


def test_a_cell_outside_two_standard_errors_is_marked() -> None:
    assert "1.086 ± 0.023 (+0.51≠)" in to_markdown(tabulate(runs("vanilla", [1.5, 1.6, 1.7]), data="mnist"))
    assert "1.086 ± 0.023 (+0.46)" in to_markdown(tabulate(runs("vanilla", [1.5, 1.6]), data="mnist"))  # too few to say


def test_nought_has_no_minus() -> None:
    assert "(+0.000≈)" in to_markdown(tabulate(runs("vanilla", [1.0857, 1.0860, 1.0861]), data="mnist"))


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


def test_the_terminal_shows_the_leading_models_in_bold(table: Table) -> None:
    shown = printed(table, force_terminal=True, color_system="standard")
    assert re.findall(r"\x1b\[1m *(\d[^\x1b]* ± [^\x1b]*)\x1b", shown) == ["1.10 ± 0.06 (3)"]


@pytest.mark.parametrize("width", [40, 80])
def test_a_narrow_terminal_loses_no_digit(table: Table, width: int) -> None:
    out = io.StringIO()
    Console(file=out, width=width).print(to_rich(table))
    assert "…" not in out.getvalue()
    assert max(map(len, out.getvalue().splitlines())) <= width


def test_latex_is_a_booktabs_table_with_the_leading_models_in_bold(table: Table) -> None:
    text = to_latex(table)
    assert text.isascii()
    assert text.count(r"\toprule") == text.count(r"\midrule") == text.count(r"\bottomrule") == 2
    assert r"\begin{tabular}{lrr}" in text
    assert r"vanilla & 3.15 $\pm$ 0.15 (2) & \textbf{1.10 $\pm$ 0.06 (3)} \\" in text
    assert r"\quad\textit{paper} & \textendash{} & 1.086 $\pm$ 0.023 (+0.01$\approx$) \\" in text
    assert r"my\_gate.py:Gate & 2.25 $\pm$ 0.25 (2) & \textendash{} \\" in text
    assert "vanilla has the lowest mean error" in text
    assert set(re.findall(r"\\begin{(.*?)}", text)) == {"table*", "tabular"}


def test_csv_has_every_number_of_a_cell(table: Table) -> None:
    lines = {(line["model"], line["labels"]): line for line in csv.DictReader(io.StringIO(to_csv(table)))}
    assert len(lines) == 6 * 2
    linear, vanilla, no_mult = (lines[model, "100"] for model in ("linear", "vanilla", "no-mult"))
    counts = {"n": "3", "wanted": "10", "failed": "2", "complete": "False", "best": "False", "leading": "False"}
    assert linear.items() >= counts.items()
    assert float(linear["difference"]) == pytest.approx(4.5 - 5.027)
    assert linear["within_two_se"] == "True"
    test = to_vanilla(table, "linear")
    for other in ("vanilla", "best"):  # which is vanilla
        assert {name: float(linear[f"to_{other}_{name}"]) for name in asdict(test)} == asdict(test)
    assert (vanilla["best"], vanilla["leading"], vanilla["to_vanilla_p"]) == ("True", "True", "")
    assert [no_mult[name] for name in ("aer", "se", "difference", "within_two_se", "to_vanilla_t")] == [""] * 5
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
        tests = {"to_best": c.to_best, "to_vanilla": c.to_reference}
        names = ("difference", "se", "t", "p", "p_adjusted")
        expected |= {f"{other}_{name}": getattr(test, name, None) for other, test in tests.items() for name in names}
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
    results = runs("vanilla", [1.0, 1.1, 1.2]) + runs(name, [2.0, 2.2, 2.1]) + runs("linear", [3, 4, 3.8])
    return tabulate(results, data=data)


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
        for shown in (line["data"], line["model"]):
            for part in re.split('[,;"]', shown):  # whatever a spreadsheet takes for the separator
                assert not part.lstrip().startswith(tuple("=+-@＝＋－＠"))
                assert not part.startswith(("\t", "\r", "\n", "\0"))
        assert float(line["aer"]) >= 1
    differences = [line["to_vanilla_difference"] for line in lines if line["model"] != "vanilla"]
    assert [float(number) for number in differences] == [2.5, 1.0]  # linear, then the user's own


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
    assert squeezed(f"Test error on {visible(data)} in per cent: mean ± standard error") in squeezed(" ".join(inline))
    assert inline.count(squeezed(visible(name))) >= 2  # in the table, and in the tests
    assert squeezed(f"Worse: linear, {visible(name)}.") in squeezed(" ".join(inline))


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

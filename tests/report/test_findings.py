from made_up import runs

from laddernet.report.findings import findings
from laddernet.report.tables import Result, tabulate

VANILLA = [1.10, 1.20, 1.30, 1.15]


def shifted(by: float, *noise: float) -> list[float]:
    return [error + by + extra for error, extra in zip(VANILLA, noise, strict=True)]


def test_each_number_of_labels_has_a_sentence_that_names_the_leading_models_the_worse_and_the_untested() -> None:
    results = [
        *runs("vanilla", VANILLA),
        *runs("gaussian", shifted(0.01, 0.1, -0.1, 0.05, 0)),
        *runs("linear", shifted(5, 0, 0.01, 0.02, 0)),
        *runs("no-sig", [1.3, 1.4]),
        *runs("vanilla", VANILLA, 1000),
    ]
    assert findings(tabulate(results, data="mnist")) == [
        "100 labels: vanilla has the lowest mean error, 1.19 ± 0.04 %. Not distinguishable from it: gaussian. "
        "Worse: linear. Too few seeds for a test: no-sig.",
        "1,000 labels: vanilla has the lowest mean error, 1.19 ± 0.04 %.",
    ]


def test_two_seeds_are_too_few_to_compare_models() -> None:
    (found,) = findings(tabulate([*runs("vanilla", [1.1, 1.3]), *runs("linear", [5.0, 5.1])], data="digits"))
    assert found == (
        "100 labels: vanilla has the lowest mean error, 1.20 ± 0.10 %. Too few seeds to compare the models: a test "
        "needs 3 that two models have in common."
    )


def test_a_single_run_is_named_as_such() -> None:
    assert (
        "1.10 % (one run). Too few seeds"
        in findings(tabulate([Result("a:A", 5, 1, 1.1), Result("b:B", 5, 1, 2)], data="x"))[0]
    )


def test_a_model_with_one_lucky_run_does_not_lead_those_with_enough_seeds() -> None:
    table = tabulate([*runs("vanilla", VANILLA), *runs("linear", [0.5])], data="digits")
    assert findings(table) == [
        "100 labels: vanilla has the lowest mean error, 1.19 ± 0.04 %. Too few seeds to compare the models: a test "
        "needs 3 that two models have in common."
    ]


def test_equal_differences_are_said_to_be_untestable() -> None:
    table = tabulate([*runs("vanilla", [1.1] * 3), *runs("linear", [1.5] * 3)], data="digits")
    assert findings(table) == [
        "100 labels: vanilla has the lowest mean error, 1.10 %. "
        "The same difference with every seed, so no test: linear."
    ]


def test_many_models_are_counted() -> None:
    results = [run for place in range(9) for run in runs(f"m{place}:M", shifted(place, 0, 0.01, 0, place / 100))]
    assert "Worse: 8 models." in findings(tabulate(results, data="digits"))[0]


def test_a_study_without_a_complete_cell_has_found_nothing() -> None:
    table = tabulate(runs("vanilla", [1.0]), data="mnist", wanted={("vanilla", 100): 3, ("linear", 1000): 1})
    assert findings(table) == ["100 labels: No cell is complete yet.", "1,000 labels: No cell is complete yet."]
    assert findings(tabulate([], data="mnist")) == []


def test_names_are_written_as_asked() -> None:
    table = tabulate([*runs("a|b", [1.0] * 3), *runs("c|d", [2, 2.1, 2.3])], data="digits")
    (found,) = findings(table, lambda name: name.replace("|", "/"))
    assert "a/b has" in found
    assert "Worse: c/d" in found

"""The few-labels benchmark: its measures, its halves, its comparisons, and the command."""

import doctest
import importlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"


@pytest.fixture
def part(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Import a module of the benchmark by the end of its name."""
    monkeypatch.syspath_prepend(BENCHMARKS)  # type: ignore[no-untyped-call]
    return lambda name: importlib.import_module(f"few_labels_{name}")


@pytest.mark.parametrize("name", ["comparison", "data", "halves", "methods"])
def test_the_examples_in_docstrings_are_right(part: Any, name: str) -> None:
    assert doctest.testmod(part(name)).failed == 0


# --- Measures -------------------------------------------------------------------------------------------------


def test_the_measures_are_those_of_their_definitions(part: Any) -> None:
    methods = part("methods")
    y = np.array([0, 0, 0, 1, 2, 2])
    p = np.array([[0.8, 0.1, 0.1], [0.7, 0.2, 0.1], [0.2, 0.5, 0.3], [0.3, 0.6, 0.1], [0.1, 0.1, 0.8], [0.6, 0.1, 0.3]])
    found = methods.measured(y, methods.Predicted(p.argmax(axis=1), p, seconds=2.0))
    assert found.seconds == 2
    assert found.error == pytest.approx(100 * 2 / 6)
    assert found.balanced_error == pytest.approx(100 * (1 / 3 + 0 + 1 / 2) / 3)
    assert found.log_loss == pytest.approx(-np.mean(np.log([0.8, 0.7, 0.2, 0.6, 0.8, 0.3])))
    assert found.confidence == pytest.approx(100 * np.mean([0.8, 0.7, 0.5, 0.6, 0.8, 0.6]))
    # Fifteen bins of confidence: 0.8 twice (both right), 0.7 (right), 0.5 (wrong), 0.6 twice (one right).
    assert found.ece == pytest.approx(100 * (2 * 0.2 + 1 * 0.3 + 1 * 0.5 + 2 * 0.1) / 6)


def test_confidence_that_equals_accuracy_is_calibrated(part: Any) -> None:
    confidence = np.repeat([0.55, 0.9], 20)
    correct = np.array(([True] * 11 + [False] * 9) + ([True] * 18 + [False] * 2))
    assert part("methods").calibration_error(correct, confidence) == pytest.approx(0)


def test_a_blend_is_a_weighted_mean_of_probabilities_or_of_their_logarithms(part: Any) -> None:
    of = {"forest": np.array([[0.9, 0.1], [0.5, 0.5]]), "ladder": np.array([[0.6, 0.4], [0.2, 0.8]])}
    blend = part("blends").Blend({"ladder": 2, "forest": 1})
    np.testing.assert_allclose(blend(of), [[0.7, 0.3], [0.3, 0.7]])
    products = (of["ladder"] ** 2 * of["forest"]) ** (1 / 3)
    np.testing.assert_allclose(blend._replace(geometric=True)(of), products / products.sum(axis=1, keepdims=True))
    assert str(blend) == "2 × ladder, forest"


# --- Halves ---------------------------------------------------------------------------------------------------


def test_every_set_is_in_one_half_which_has_half_of_the_sets_of_each_kind(part: Any) -> None:
    halves, sets = part("halves"), part("data").SETS
    for kind in (True, False):
        names = [name for name in sets if halves.categorical(name) == kind]
        counts = [sum(halves.half(name) == half for name in names) for half in halves.HALVES]
        assert sum(counts) == len(names)
        assert 0 <= counts[0] - counts[1] <= 1


@pytest.mark.parametrize("name", ["iris", "wine", "breast-cancer", "digits", "moons", "imbalanced", "wide"])
def test_sets_of_numbers_are_listed_as_such(part: Any, name: str) -> None:
    halves, data = part("halves"), part("data")
    assert halves.categorical(name) == halves.holds_categories(data.SETS[name].read()) == False  # noqa: E712


# --- Lines ----------------------------------------------------------------------------------------------------


def test_a_line_without_measures_is_read_and_kept_beside_a_new_one(part: Any, tmp_path: Path) -> None:
    results = part("results")
    path = tmp_path / "results.jsonl"
    old = {"set": "iris", "labels": 5, "draw": 0, "method": "forest", "error": 4.0, "seconds": 0.2}
    path.write_text(json.dumps(old) + "\n" + '{"set": "iris", "lab')
    new = results.Result(3.0, 1.0, 3.5, 0.2, 1.5, 95.0)
    results.keep(path, results.Fit("iris", 5, 0, "ladder"), new)
    kept = results.kept(path)
    assert kept == {
        results.Fit("iris", 5, 0, "forest"): results.Result(4.0, 0.2),
        results.Fit("iris", 5, 0, "ladder"): new,
    }
    results.forget(path, ["ladder"], ["iris"])
    assert [json.loads(line) for line in path.read_text().splitlines()] == [old]


# --- Comparisons ----------------------------------------------------------------------------------------------


def cells(part: Any, errors: dict[str, list[float]]) -> Any:
    """Return results with these errors by method on the first sets; the log loss is a hundredth of the error."""
    results = part("results")
    return part("comparison").summarise(
        {
            results.Fit(name, labels, 0, method): results.Result(error + labels, 1.0, error, error / 100, 1.0, 50.0)
            for method, of in errors.items()
            for name, error in zip(part("data").SETS, of, strict=False)
            for labels in (3, 10)
        }
    )


def test_holm_multiplies_the_smallest_p_by_their_number_and_never_falls(part: Any) -> None:
    holm = part("comparison").holm
    assert holm({}) == {}
    corrected = holm({"a": 0.02, "b": 0.001, "c": 0.5, "d": 0.019})
    assert corrected == pytest.approx({"b": 0.004, "d": 0.057, "a": 0.057, "c": 0.5})


def test_a_method_that_is_worse_on_every_set_differs_and_an_equal_one_does_not(part: Any) -> None:
    rng = np.random.default_rng(0)
    best = rng.uniform(10, 40, 12)
    errors = {"ladder": best, "forest": best + rng.uniform(1, 5, 12), "logistic": best + rng.normal(0, 1, 12)}
    whole = cells(part, {method: of.tolist() for method, of in errors.items()})
    found = part("comparison").against(whole, "ladder", list(errors), "error")
    # The exact test of 12 differences with one sign: 2 of 2^12 signs are as extreme; two methods are compared.
    assert found["forest"] == pytest.approx(2 * 2 / 2**12)
    assert found["logistic"] > 0.05
    assert part("comparison").friedman(whole, list(errors), "log_loss") < 0.01


def test_the_page_has_a_table_for_each_group_and_leaves_out_what_old_lines_lack(part: Any) -> None:
    results, page, data = part("results"), part("page"), part("data")
    names = list(data.SETS)[:4]
    x, y = np.zeros((20, 2), np.float32), np.repeat([0, 1], [18, 2]).astype(np.int32)
    sizes = {name: data.Parts(x, y, x, y, 40) for name in names}
    old = {
        results.Fit(name, 3, 0, method): results.Result(error + place, 1.0)
        for place, name in enumerate(names)
        for method, error in (("ladder", 20.0), ("forest", 25.0), ("logistic", 24.0))
    }
    text = page.markdown(part("comparison").summarise(old), sizes, reference="ladder")
    assert "| `ladder` | 1.00 | 21.5 |  |  |  |  | 1.00 |  |" in text
    assert text.count("4 sets, 4 cells of 1 draws") == 3  # all, numeric and skewed: none has categories
    assert "p by log loss" not in text
    assert "p by error" in text


@pytest.mark.process
def test_the_command_measures_keeps_and_resumes(tmp_path: Path) -> None:
    def run(*more: str) -> "subprocess.CompletedProcess[str]":
        command = [sys.executable, BENCHMARKS / "few_labels.py", "--sets", "iris,wine", "--labels", "3"]
        command += [
            "--methods",
            "logistic,extra-trees",
            "--draws",
            "1",
            "--against",
            "logistic",
            "--out",
            str(tmp_path),
        ]
        return subprocess.run([*command, *more], capture_output=True, text=True)

    first = run("--sets", "iris")
    assert first.returncode == 0, first.stderr
    lines = (tmp_path / "results.jsonl").read_text()
    second = run()
    assert second.returncode == 0, second.stderr
    assert "2 fits done now, 2 before" in second.stdout
    assert (tmp_path / "results.jsonl").read_text().startswith(lines)
    for line in (tmp_path / "results.jsonl").read_text().splitlines():
        assert {"error", "balanced_error", "log_loss", "ece", "confidence", "seconds"} < json.loads(line).keys()
    assert "Wilcoxon's signed-rank test against `logistic`" in (tmp_path / "table.md").read_text()
    assert len((tmp_path / "table.csv").read_text().splitlines()) == 5

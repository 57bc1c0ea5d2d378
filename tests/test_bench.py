"""The benchmarks run, and keep what they promise: with a tiny network, since the figures mean nothing here."""

import importlib
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import reference
from support import digits

from laddernet.machine import cores
from laddernet.training.settings import configure

CORES = "2 cores" if cores() > 1 else "1 core"
BENCH = Path(__file__).parent.parent / "benchmarks" / "bench.py"


def bench(*arguments: str | Path) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, str(BENCH), "--quick", "--sizes", "12,8,4", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True)


@pytest.mark.process
def test_every_figure_is_kept_with_its_spread_and_how_it_was_obtained(tmp_path: Path) -> None:
    sections = {
        "steps": {f"matrix products alone, XLA, {CORES}", f"vanilla, {CORES}"},
        "models": {"baseline", "vanilla"},
        "prediction": {f"{who}, batch {n}" for who in ("laddernet", "scikit-learn") for n in ("1", "100", "10,000")},
    }
    done = bench("--json", tmp_path / "bench.json", "--only", *sections)
    assert done.returncode == 0, done.stderr
    kept = json.loads((tmp_path / "bench.json").read_text())
    assert kept["environment"]["versions"]["jax"]
    assert {name: set(section["figures"]) for name, section in kept["sections"].items()} == sections
    for section in kept["sections"].values():
        assert len(section["how"]) > 50
        for row in section["figures"].values():
            assert row
            for figure in row.values():
                assert 0 < figure["min"] <= figure["median"] <= figure["max"]
    assert {target["what"] for target in kept["targets"]} == {
        *({"share of the limit: vanilla, 2 cores"} if CORES == "2 cores" else set()),
        "slowest ladder model over the fastest",
    }


@pytest.mark.process
def test_without_pytorch_one_sentence_says_what_to_do() -> None:
    hidden = (
        "import importlib.util as util, runpy, sys\n"
        "find = util.find_spec\n"
        "util.find_spec = lambda name, *rest: None if name == 'torch' else find(name, *rest)\n"
        f"sys.path.insert(0, {str(BENCH.parent)!r})\n"
        f"runpy.run_path({str(BENCH)!r}, run_name='__main__')\n"
    )
    done = subprocess.run([sys.executable, "-c", hidden, "--quick"], capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "make bench" in done.stderr


def test_rivals_are_checked_by_the_cost_that_the_equations_give(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(BENCH.parent)  # type: ignore[no-untyped-call]
    case = importlib.import_module("ours").reference(sizes=(12, 8, 4), batch=10)
    held = case["weights"]
    names = reference.initial("vanilla")
    combinators = [dict(zip(names, held[f"combinator{l}"], strict=True)) for l in range(3)]
    weights = {
        "encoder": [{name: held[f"{name}{l}"] for name in ("W", "gamma", "beta")} for l in range(2)],
        "decoder": [{"V": held.get(f"V{l}"), "combinator": c} for l, c in enumerate(combinators)],
    }
    x_labelled, y, x_unlabelled, *hyper = case["inputs"]
    halves = map(list, zip(*case["noise"], strict=True))
    expected = reference.costs("vanilla", weights, x_labelled, y, x_unlabelled, *halves, *hyper)
    np.testing.assert_allclose(case["cost"], expected["total"], rtol=1e-4)
    assert {name: array.shape for name, array in case["gradient"].items()} == {n: a.shape for n, a in held.items()}


def test_the_frontier_is_that_of_the_runs_in_the_repository(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(BENCH.parent)  # type: ignore[no-untyped-call]
    frontier = importlib.import_module("frontier")
    assert frontier.table(frontier.kept()) in (BENCH.parent.parent / "results" / "README.md").read_text()


def test_a_line_of_the_frontier_is_the_mean_of_runs_that_differ_in_their_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(BENCH.parent)  # type: ignore[no-untyped-call]
    frontier = importlib.import_module("frontier")
    rows = replace(digits().training_rows(), name="mnist")
    paper, quick, brief = (
        configure(rows, recipe=recipe, epochs=epochs, validation=0)
        for recipe, epochs in (("paper", None), ("quick", None), ("quick", 3))
    )
    errors = {paper: {1: 0.9, 2: 1.3, 3: 1.2}, quick: {3: 1.3, 1: 1.0, 2: 1.3}, brief: {0: 9.0}}
    runs = [frontier.Run(replace(c, seed=s), e, 10.0, 1) for c, of in errors.items() for s, e in of.items()]
    lines = [[cell.strip() for cell in line.split("|")[2:-1]] for line in frontier.table(runs).splitlines()[2:]]
    assert [[name, epochs, *cost] for name, epochs, _, _, _, _, *cost in lines] == [
        ["**paper**", "150", "90,000", "290", "10 (1)", "1.13 ± 0.12 %", "1: 0.90, 2: 1.30, 3: 1.20", ""],
        ["**quick**", "30", "9,000", "163", "10 (1)", "1.20 ± 0.10 %", "1: 1.00, 2: 1.30, 3: 1.30", "+0.07 ± 0.03"],
        ["", "3", "900", "16", "10 (1)", "9.00 %", "0: 9.00", ""],
    ]

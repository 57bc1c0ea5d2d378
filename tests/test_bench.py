"""The benchmarks run, and keep what they promise: with a tiny network, since the figures mean nothing here."""

import json
import subprocess
import sys
from pathlib import Path

BENCH = Path(__file__).parent.parent / "benchmarks" / "bench.py"


def bench(*arguments: str | Path) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, str(BENCH), "--quick", "--sizes", "12,8,4", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True)


def test_every_figure_is_kept_with_its_spread_and_how_it_was_obtained(tmp_path: Path) -> None:
    sections = {
        "steps": {"matrix products alone, XLA, 2 cores", "vanilla, 2 cores"},
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
        "share of the limit: vanilla, 2 cores",
        "slowest ladder model over the fastest",
    }


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

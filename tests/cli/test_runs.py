"""What the commands train, study and tune have in common."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from support import NO_UNITS, OPTIONS, laddernet, without_units

from laddernet.study.plan import PRESETS
from laddernet.training.settings import RECIPES
from laddernet.tune.samplers import SAMPLERS


@pytest.mark.process
@pytest.mark.parametrize("command", ["train", "study", "report", "tune"])
def test_help_of_the_papers_commands_loads_nothing_that_takes_long(command: str) -> None:
    program = """
import sys
from laddernet.cli.main import main
try:
    main()
finally:
    assert not {"jax", "sklearn", "pandas", "optuna", "sqlalchemy", "scipy"} & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", program, command, "--help"], capture_output=True, check=True)


def test_help_names_the_recipes_presets_and_samplers_that_there_are(tmp_path: Path) -> None:
    for command, names in (
        ("train", [f"'{name}' ({recipe.epochs} epochs" for name, recipe in RECIPES.items()]),
        ("study", [f"A preset ({', '.join(PRESETS)})"]),
        ("tune", [f"{', '.join(SAMPLERS[:-1])} or {SAMPLERS[-1]}."]),
    ):
        shown = re.sub(r"[\s│]+", " ", laddernet(command, "--help", cwd=tmp_path).out)
        assert [name for name in names if name not in shown] == []


def test_the_commands_pass_the_precision_on_and_say_when_it_is_no_faster(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    without_units(tmp_path, monkeypatch)
    done = laddernet("train", *OPTIONS, "--precision", "bfloat16", "--out", "run", cwd=tmp_path)
    assert (done.code, done.err.splitlines()) == (0, [NO_UNITS])
    assert json.loads((tmp_path / "run" / "config.json").read_text())["precision"] == "bfloat16"
    refused = laddernet("train", *OPTIONS, "--precision", "float16", "--out", "other", cwd=tmp_path)
    assert refused.code == 2
    assert "precision must be 'float32' or 'bfloat16', got 'float16'" in refused.err
    for command in (("study", "demo", "--dry-run"), ("tune", "vanilla", "--trials", "1")):
        done = laddernet(*command, "--precision", "float16", cwd=tmp_path)
        assert (done.code, "precision must be" in done.err) == (2, True)

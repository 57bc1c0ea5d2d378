"""The campaign for Table 1: what results/table1/go trains and results/table1/publish writes."""

import os
import shutil
import subprocess
import sys
from itertools import product
from pathlib import Path

import pytest

from laddernet.network.models import MODELS

ROOT = Path(__file__).parent.parent
BEGIN, END = "<!-- table -->\n", "<!-- end of the table -->\n"


@pytest.mark.process
def test_publish_puts_the_table_of_the_runs_into_the_readme_and_leaves_the_rest_of_it(tmp_path: Path) -> None:
    folder = tmp_path / "results" / "table1"
    shutil.copytree(ROOT / "results" / "table1", folder)
    runs = (folder / "runs.jsonl").read_text().splitlines(keepends=True)
    (folder / "runs.jsonl").write_text("".join(runs[:2]))
    before = (folder / "README.md").read_text()
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "laddernet").write_text(f'#!/bin/sh\nexec {sys.executable} -m laddernet "$@"\n')
    (programs / "laddernet").chmod(0o755)
    environment = {**os.environ, "PATH": f"{programs}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    for _ in range(2):  # the second changes nothing
        subprocess.run(["results/table1/publish"], cwd=tmp_path, env=environment, check=True, capture_output=True)
        after = (folder / "README.md").read_text()
        table = (folder / "table.md").read_text()
        assert after.split(BEGIN)[0] == before.split(BEGIN)[0]
        assert after.split(END)[1] == before.split(END)[1]
        assert after.split(BEGIN)[1].split(END)[0] == table
    assert "- 2 of 2 runs are finished, 0 failed." in table
    assert "of 1 conclusion of the paper, 1 has too few seeds" in table
    assert "<!doctype html>" in (folder / "report.html").read_text()
    assert len((folder / "table.csv").read_text().splitlines()) == 3


@pytest.mark.process
def test_the_campaign_trains_the_paper_s_sixty_cells_once_for_each_of_three_seeds(tmp_path: Path) -> None:
    folder = tmp_path / "results" / "table1"
    folder.mkdir(parents=True)
    shutil.copy(ROOT / "results" / "table1" / "go", folder)
    program = tmp_path / "laddernet"  # writes down its arguments and trains nothing
    program.write_text('#!/bin/sh\necho "$@" >> commands.txt\n')
    program.chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "EXPORT_EVERY": "0"}
    subprocess.run(["results/table1/go"], cwd=tmp_path, env=environment, check=True, capture_output=True)
    commands = [line.split() for line in (tmp_path / "commands.txt").read_text().splitlines()]
    studies = [
        dict(zip(words[2::2], words[3::2], strict=True)) for words in commands if words[:2] == ["study", "paper"]
    ]
    for seeds in "123":
        cells = [
            (model, study["--labels"], study["--recipe"])
            for study in studies
            if study["--seeds"] == seeds
            for model in study["--models"].split(",")
        ]
        assert {(model, labels) for model, labels, _ in cells} == set(product(MODELS, ["100", "1000", "60000"]))
        assert len(cells) == 60
        assert {model for model, _, recipe in cells if recipe == "paper"} == {"baseline", "baseline-noise"}

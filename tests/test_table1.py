"""The table of the campaign: what results/table1/publish writes."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

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

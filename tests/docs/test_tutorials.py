"""The tutorials run and do what the text promises."""

import contextlib
import csv
import io
import json
import re
from pathlib import Path
from typing import Any

import pytest
from documents import DOCS, blocks, shell


@pytest.mark.process
def test_the_tutorials_combinator_ends_within_three_points_of_vanilla(elsewhere: Path) -> None:
    document = "docs/tutorials/combinator.md"
    (elsewhere / "gate.py").write_text(blocks(document)[0])
    training, study = blocks(document, "sh")
    gate, vanilla = (float(error) for error in re.findall(r"test error (\S+) %", shell(training)))
    assert vanilla < 6
    assert gate < vanilla + 3

    shell(study.replace("--seeds 3", "--seeds 2"))
    with (elsewhere / "study-gate" / "table.csv").open() as file:
        errors = {row["model"]: float(row["aer"]) for row in csv.DictReader(file)}
    assert errors["vanilla"] < 5
    assert errors["gate.py:Gate"] < errors["vanilla"] + 3


@pytest.mark.process
def test_the_tutorials_table_gains_by_unlabelled_rows_and_by_suggested_labels(elsewhere: Path) -> None:
    """Its blocks run in their order, with the output that it shows; the curves are made with fewer fits and steps."""
    names: dict[str, Any] = {}
    seen, said = [], ""
    shown = (DOCS / "tutorials/table.md").read_text()
    for language, block in re.findall(r"^```(sh|python)\n(.*?)^```", shown, re.MULTILINE | re.DOTALL):
        if language == "python":
            with contextlib.redirect_stdout(io.StringIO()) as out:
                exec(block, names)
            seen += re.findall(r"^(\S+) % of the new scans are wrong$", out.getvalue(), re.MULTILINE)
        elif "laddernet curve" in block:
            shell(re.sub(r"--repeats 3.*?(--out .*)?$", r"--repeats 2 --counts 1,2 --max-steps 20 \1", block.strip()))
        else:
            said += shell(block.replace("--target digit\n", "--target digit --no-estimate\n"))
    ladder, regression, second = map(float, seen)
    assert ladder < 12
    assert regression > ladder + 5
    assert second < ladder
    assert (elsewhere / "curve.svg").exists()
    numberless = {re.sub(r"[\d,.]+", "#", line) for line in shown.splitlines()}
    assert {re.sub(r"[\d,.]+", "#", line) for line in said.splitlines()} <= numberless


def test_the_notebooks_cells_run_and_it_holds_what_they_gave(elsewhere: Path) -> None:
    path = DOCS / "tutorials" / "notebook.ipynb"
    assert path.stat().st_size < 300_000
    cells = [cell for cell in json.loads(path.read_text())["cells"] if cell["cell_type"] == "code"]
    kinds = {kind for cell in cells for output in cell["outputs"] for kind in output.get("data", {})}
    assert {"image/png", "text/html"} <= kinds
    assert not any(output["output_type"] == "error" for cell in cells for output in cell["outputs"])
    names: dict[str, Any] = {}
    for number, cell in enumerate(cells):
        exec("".join(cell["source"]), names)
        if not number:
            names |= {"SETTINGS": {"hidden": (8,), "max_steps": 32}, "COUNTS": [1, 2], "REPEATS": 2}
    assert [point.per_class for point in names["points"]] == [1, 2]
    assert (names["again"].predict(names["X_test"]) == names["classifier"].predict(names["X_test"])).all()

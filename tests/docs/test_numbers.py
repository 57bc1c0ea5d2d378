"""The numbers in the README are those of the results."""

import csv
import json
import re
from statistics import fmean, stdev

from documents import ROOT

from laddernet.report import numbers


def rows(document: str, heading: str) -> list[list[str]]:
    """Return the cells of the table below a heading, without bold and code."""
    text = (ROOT / document).read_text()
    table = re.search(rf"^\| {heading}.*?\n\|[-|]+\n(.*?)\n\n", text, re.MULTILINE | re.DOTALL)
    assert table, heading
    return [[cell.strip(" *`") for cell in line.strip("|").split("|")] for line in table[1].splitlines()]


def test_the_few_labels_in_the_readme_are_those_of_the_comparison() -> None:
    with (ROOT / "results/few-labels/table.csv").open() as file:
        cells = list(csv.DictReader(file))
    methods = ["ladder", "forest", "logistic", "spreading-rbf"]
    *tables, ranks = rows("README.md", "table ")
    for name, *shown in tables:
        errors = {c["method"]: c["error"] for c in cells if c["set"] == name and c["labels"] == "5"}
        assert shown == [f"{float(errors[method]):.1f}" for method in methods]
    means = (fmean(float(cell["rank"]) for cell in cells if cell["method"] == method) for method in methods)
    assert ranks[1:] == [f"{mean:.2f}" for mean in means]


RUNS = [  # of the README's table, in its order
    "mnist-baseline/labels100-seed?",
    "mnist-100-vanilla*",
    "mnist-100-quick/vanilla-30-copies4-labelled400-seed?",
    "mnist-100-amlp-2-2-2*",
    "mnist-100-quick/amlp-2-2-2-30-copies4-labelled400-seed?",
]


def test_the_errors_in_the_readme_are_those_of_the_runs_and_of_the_paper() -> None:
    with (ROOT / "laddernet/report/paper_table1.csv").open() as file:
        paper = {row["model"]: row for row in csv.DictReader(file) if row["labels"] == "100"}
    for (model, _, seeds, ours, published), pattern in zip(rows("README.md", "model "), RUNS, strict=True):
        results = ROOT.glob(f"results/{pattern}/result.json")
        errors = [json.loads(result.read_text())["test_error"] for result in results]
        assert int(seeds) == len(errors)
        assert ours == numbers.value(fmean(errors), stdev(errors) / len(errors) ** 0.5)
        if published:
            row = paper[model.split("`")[0].split(":")[0]]
            assert published == numbers.value(float(row["aer"]), float(row["se"]))

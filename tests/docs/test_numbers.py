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


def test_the_few_labels_in_the_readme_are_those_of_the_reported_half() -> None:
    held = {row[0]: row for row in rows("results/few-labels/reported/table.md", r" *\| mean rank \| error ")}
    methods = ["blend", "ladder", "self-training-logistic", "extra-trees", "logistic", "forest", "catboost", "realmlp"]
    for method, shown in zip([*methods, "lightgbm"], rows("README.md", r"\| mean rank of ten "), strict=True):
        _, rank, error, balanced, loss, *_, p, _ = held[method]
        assert shown[1:] == [rank, f"{error} %", f"{balanced} %", loss, p]


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

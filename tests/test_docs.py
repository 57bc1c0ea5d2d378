"""The examples in the documents are run as they stand there."""

import re
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent


def python_blocks(document: str) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", (ROOT / document).read_text(), re.MULTILINE | re.DOTALL)


def run(document: str) -> dict[str, Any]:
    names: dict[str, Any] = {}
    for block in python_blocks(document):
        exec(compile(block, document, "exec"), names)
    return names


def test_the_readme_example_learns_digits_from_a_hundred_labels() -> None:
    names = run("README.md")
    assert names["classifier"].score(names["X"][100:], names["truth"][100:]) > 0.92


def test_the_example_of_training_does_far_better_than_chance() -> None:
    names = run("docs/reference/training.md")
    assert names["trained"].error(names["digits"].x_test, names["digits"].y_test) < 20


def test_a_combinator_of_ones_own_takes_under_fifteen_lines_and_trains() -> None:
    class_block = python_blocks("docs/explanation/models.md")[0]
    assert len(class_block.splitlines()) < 15
    names = run("docs/explanation/models.md")
    assert names["config"].model.endswith(":Gate")
    assert len(names["trained"].history) == 2


@pytest.mark.parametrize(
    "document",
    [
        "README.md",
        *(f"docs/{name}.md" for name in ("models", "training", "tuning", "architecture", "classifier", "tables")),
    ],
)
def test_links_between_documents_lead_somewhere(document: str) -> None:
    targets = re.findall(r"\]\(([^)#:]+)\)", (ROOT / document).read_text())
    missing = [target for target in targets if not (ROOT / document).parent.joinpath(target).exists()]
    assert not missing

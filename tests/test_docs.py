"""The examples in the documents are run as they stand there, and the site is built from them."""

import contextlib
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import laddernet

ROOT = Path(__file__).parent.parent
BIN = Path(sys.executable).parent
DOCUMENTS = sorted(
    str(path.relative_to(ROOT))
    for pattern in ("*.md", "docs/**/*.md", "docs/**/*.ipynb", "results/*.md")
    for path in ROOT.glob(pattern)
)


def blocks(document: str, language: str = "python") -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", (ROOT / document).read_text(), re.MULTILINE | re.DOTALL)


def run(document: str) -> dict[str, Any]:
    names: dict[str, Any] = {}
    for block in blocks(document):
        exec(compile(block, document, "exec"), names)
    return names


@pytest.fixture
def elsewhere(tmp_path: Path) -> Iterator[Path]:
    """For examples that write files."""
    with contextlib.chdir(tmp_path):
        yield tmp_path


def test_the_readme_example_learns_digits_from_a_hundred_labels() -> None:
    names = run("README.md")
    assert names["classifier"].score(names["X"][100:], names["truth"][100:]) > 0.92


def test_the_example_of_training_does_far_better_than_chance() -> None:
    names = run("docs/reference/training.md")
    assert names["trained"].error(names["digits"].x_test, names["digits"].y_test) < 20


def test_a_combinator_of_ones_own_takes_under_fifteen_lines_and_learns() -> None:
    document = "docs/explanation/models.md"
    assert len(blocks(document)[0].splitlines()) < 15
    assert blocks(document)[0] == blocks("docs/tutorials/combinator.md")[0]
    names = run(document)
    assert names["config"].model.endswith(":Gate")
    assert names["trained"].error(names["digits"].x_test, names["digits"].y_test) < 7


@pytest.mark.process
def test_the_tutorials_combinator_ends_within_three_points_of_vanilla(elsewhere: Path) -> None:
    document = "docs/tutorials/combinator.md"
    (elsewhere / "gate.py").write_text(blocks(document)[0])
    path = f"{BIN}{os.pathsep}{os.environ['PATH']}"
    said = subprocess.run(
        ["sh", "-ec", blocks(document, "sh")[0]],
        check=True,
        capture_output=True,
        text=True,
        env=os.environ | {"PATH": path},
    ).stdout
    gate, vanilla = (float(error) for error in re.findall(r"test error (\S+) %", said))
    assert vanilla < 6
    assert gate < vanilla + 3


def test_the_examples_of_deployment_predict_from_the_files_they_wrote(elsewhere: Path) -> None:
    names = run("docs/how-to/deploy.md")
    assert set(names["predictions"]) == {"a", "b"}
    assert names["probabilities"].shape == (5, 10)
    assert (elsewhere / "digits.onnx").exists()


def test_the_example_of_imbalanced_classes_finds_the_rare_class() -> None:
    names = run("docs/how-to/imbalanced-classes.md")
    rare = names["truth"] == 1
    assert (names["classifier"].predict(names["X"])[rare] == 1).mean() > 0.5


def test_the_example_of_an_own_data_set_learns() -> None:
    names = run("docs/how-to/own-data.md")
    assert names["trained"].error(names["wine"].x_test, names["wine"].y_test) < 20


def test_the_api_page_has_every_public_name() -> None:
    shown = re.findall(r"^::: laddernet\.(\S+)$", (ROOT / "docs/reference/api.md").read_text(), re.MULTILINE)
    assert sorted(shown) == laddernet.__all__


@pytest.mark.parametrize("document", DOCUMENTS)
def test_links_between_documents_lead_somewhere(document: str) -> None:
    text = re.sub(r"^```.*?^```$", "", (ROOT / document).read_text(), flags=re.MULTILINE | re.DOTALL)
    targets = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text)
    missing = [target for target in targets if not (ROOT / document).parent.joinpath(target).exists()]
    assert not missing


@pytest.mark.process
def test_the_site_builds_without_a_warning_and_loads_nothing_from_other_hosts(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")]
    built = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    pages = {str(page.relative_to(tmp_path / "site")): page.read_text() for page in tmp_path.glob("site/**/*.html")}
    assert "--recon-weights" in pages["reference/cli.html"]
    assert "LadderClassifier" in pages["reference/api.html"]
    loaded = re.compile(r"""<(?:script|img|iframe)[^>]*\ssrc="(?:https?:)?//|<link[^>]*\shref="(?:https?:)?//""")
    assert not [name for name, page in pages.items() if loaded.search(page)]

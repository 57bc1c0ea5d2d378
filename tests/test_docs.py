"""The examples in the documents run and do what the text promises, and the site is built from them."""

import contextlib
import csv
import io
import json
import math
import os
import re
import runpy
import shlex
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from statistics import fmean, stdev
from typing import Any
from xml.etree import ElementTree

import jax
import jax.numpy as jnp
import optax
import pytest
import typer
from sklearn.datasets import load_digits, load_iris

import laddernet
from laddernet.cli.main import app
from laddernet.network.ladder import Pass
from laddernet.report import numbers
from laddernet.training import program

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
BIN = Path(sys.executable).parent
DOCUMENTS = sorted(
    str(path.relative_to(ROOT))
    for pattern in ("*.md", "docs/**/*.md", "docs/**/*.ipynb", "results/**/*.md")
    for path in ROOT.glob(pattern)
)


def blocks(document: str, language: str = "python") -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", (ROOT / document).read_text(), re.MULTILINE | re.DOTALL)


def run(document: str) -> dict[str, Any]:
    names: dict[str, Any] = {}
    for block in blocks(document):
        exec(compile(block, document, "exec"), names)
    return names


def shell(command: str) -> str:
    """Return what a block of commands prints, with this environment's programs."""
    path = f"{BIN}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(["sh", "-ec", command], capture_output=True, text=True, env=os.environ | {"PATH": path})
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def elsewhere(tmp_path: Path) -> Iterator[Path]:
    """For examples that write files."""
    with contextlib.chdir(tmp_path):
        yield tmp_path


# --- Examples --------------------------------------------------------------------------------------------------------


TESTED = {  # documents with examples in Python, all of which the tests below run
    "README.md",
    "docs/explanation/models.md",
    "docs/how-to/deploy.md",
    "docs/how-to/extending.md",
    "docs/how-to/imbalanced-classes.md",
    "docs/how-to/own-data.md",
    "docs/reference/classifier.md",
    "docs/reference/training.md",
    "docs/tutorials/combinator.md",
    "docs/tutorials/table.md",
}


def test_no_example_is_left_out() -> None:
    assert {document for document in DOCUMENTS if blocks(document)} == TESTED


def test_commands_in_the_documents_have_only_options_that_exist() -> None:
    group: Any = typer.main.get_command(app)
    lines = [line for document in DOCUMENTS for block in blocks(document, "sh") for line in joined(block).splitlines()]
    commands = [line for line in lines if line.strip().startswith("laddernet ")]
    assert len(commands) > 40
    with group.make_context("laddernet", ["models"]) as context:
        for line in commands:
            _, name, *rest = shlex.split(line.split(";")[0].split(">")[0], comments=True)
            command = group.resolve_command(context, [name])[1]
            known = {option for parameter in command.params for option in parameter.opts + parameter.secondary_opts}
            assert not {word for word in rest if word.startswith("--")} - known, line


def joined(block: str) -> str:
    """Return a block with each command on one line."""
    return block.replace("\\\n", " ")


@pytest.mark.parametrize("document", ["README.md", "docs/reference/classifier.md"])
def test_the_first_example_learns_digits_from_a_hundred_labels(document: str) -> None:
    names = run(document)
    truth = load_digits().target
    assert names["classifier"].score(names["X"][100:], truth[100:]) > 0.94


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
    training, study = blocks(document, "sh")
    gate, vanilla = (float(error) for error in re.findall(r"test error (\S+) %", shell(training)))
    assert vanilla < 6
    assert gate < vanilla + 3

    shell(study.replace("--seeds 3", "--seeds 2"))
    with (elsewhere / "study-gate" / "table.csv").open() as file:
        errors = {row["model"]: float(row["aer"]) for row in csv.DictReader(file)}
    assert errors["vanilla"] < 5
    assert errors["gate.py:Gate"] < errors["vanilla"] + 3


def test_the_examples_of_deployment_predict_from_the_files_they_wrote(elsewhere: Path) -> None:
    names = run("docs/how-to/deploy.md")
    assert set(names["predictions"]) == {"a", "b"}
    assert names["probabilities"].shape == (5, 10)
    assert (elsewhere / "digits.onnx").exists()


def test_the_example_of_imbalanced_classes_finds_the_rare_class() -> None:
    names = run("docs/how-to/imbalanced-classes.md")
    rare = names["truth"] == 1
    assert (names["classifier"].predict(names["X"])[rare] == 1).mean() > 0.5


def test_the_examples_of_extending_change_schedule_optimiser_and_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    names: dict[str, Any] = {"jax": jax, "jnp": jnp, "optax": optax, "Array": jax.Array, "Pass": Pass}
    for block in blocks("docs/how-to/extending.md"):
        exec(block, names)
    for name in ("SCHEDULE", "OPTIMISER", "TERMS"):
        monkeypatch.setattr(program, name, names[name])
    digits = laddernet.load("digits")
    config = laddernet.configure(digits, labels=100, hidden=[16], epochs=3, decay_epochs=0)
    trained = laddernet.train(config, laddernet.training_data(digits, 100, config.validation, config.seed))
    first, _, last = trained.history
    assert config.learning_rate > first["learning_rate"] > last["learning_rate"]  # constant with the usual schedule
    assert 0 < last["entropy"] < 0.1 * math.log(10)
    assert last["cost"] < first["cost"]


def test_the_example_of_an_own_data_set_learns() -> None:
    names = run("docs/how-to/own-data.md")
    assert names["trained"].error(names["wine"].x_test, names["wine"].y_test) < 20


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
            shell(re.sub(r"--repeats 3.*?(--out .*)?$", r"--repeats 2 --counts 1,5 --max-steps 20 \1", block.strip()))
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


# --- Numbers ---------------------------------------------------------------------------------------------------------


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


# --- Pictures --------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def pictures() -> dict[str, Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(DOCS)
        return runpy.run_path(str(DOCS / "pictures.py"))


def texts(svg: Path) -> list[str]:
    """Return what can be read in a picture, in order: with it the numbers that it shows."""
    return ["".join(text.itertext()) for text in ElementTree.parse(svg).iter("{http://www.w3.org/2000/svg}text")]


@pytest.mark.parametrize("name", ["ladder", "methods", "ranks", "terminal"])
def test_a_picture_is_what_its_script_draws(name: str, pictures: dict[str, Any], tmp_path: Path) -> None:
    pictures["PARTS"][name](tmp_path)
    drawn = texts(tmp_path / f"{name}.svg")
    assert drawn
    assert drawn == texts(DOCS / "images" / f"{name}.svg")


def test_two_moons_with_four_labels_gain_by_the_unlabelled_rows(pictures: dict[str, Any], tmp_path: Path) -> None:
    pictures["moons"](tmp_path)
    drawn = texts(tmp_path / "moons.svg")
    regression, ladder = (float(text.split()[0]) for text in drawn if "are wrong" in text)
    assert regression > 10
    assert ladder < 5
    shown = [float(text.split()[0]) for text in texts(DOCS / "images/moons.svg") if "are wrong" in text]
    assert shown == pytest.approx([regression, ladder], abs=2)


def test_label_curves_are_drawn_from_what_was_measured_and_measured_once(
    pictures: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    iris = load_iris(return_X_y=True)
    settings = {"hidden": (8,), "max_steps": 32, "n_networks": 1}
    small = {"KEPT": tmp_path / "kept.json", "COUNTS": [1, 2], "REPEATS": 2}
    small |= {"LadderClassifier": partial(laddernet.LadderClassifier, **settings)}
    small |= {"SETS": {name: (name, lambda: iris) for name in ("one", "two")}}
    for name, value in small.items():
        monkeypatch.setitem(pictures["labels"].__globals__, name, value)
    pictures["labels"](tmp_path)
    first = (tmp_path / "labels.svg").read_bytes(), capsys.readouterr().out
    monkeypatch.delattr(laddernet.LadderClassifier, "fit")
    pictures["labels"](tmp_path)
    assert ((tmp_path / "labels.svg").read_bytes(), capsys.readouterr().out) == first


def test_each_picture_is_shown_and_made_by_a_command_that_a_document_has() -> None:
    documents = {name: (ROOT / name).read_text() for name in DOCUMENTS}
    parts = " ".join(re.findall(r"python docs/pictures\.py [a-z ]+", " ".join(documents.values()))).split()
    made = {"study-page": "page", "study-network": "page", "tutorial-curve": "table"}
    for picture in (path for path in (DOCS / "images").iterdir() if path.suffix in (".svg", ".png")):
        assert [name for name, text in documents.items() if f"images/{picture.name})" in text], picture
        assert made.get(picture.stem, picture.stem) in parts, picture


# --- Links and the site ----------------------------------------------------------------------------------------------

QUESTIONS = {
    "How do I predict in production?": "laddernet predict",
    "How many labels do I need?": "laddernet curve",
    "Which rows should I label next?": "laddernet suggest",
    "Can I use my GPU?": "jax.devices()",
    "How do I cite it?": "@inproceedings",
    "What does λ mean?": "weight of layer l's reconstruction cost",
    "How do I add a combinator?": "class Gate(Combinator)",
    "Does it work with missing values?": "filled with the median",
    "How do I run the study on a cluster?": "--executor ray",
    "Why is it worse than a forest on my table?": "`class_weight`",
}


def section(path: Path, anchor: str) -> str:
    """Return a page, or the part of it below the heading that an anchor names."""
    text = path.read_text()
    if not anchor:
        return text
    for heading, part in re.findall(r"^#+ (.+?)\n(.*?)(?=^#|\Z)", text, re.MULTILINE | re.DOTALL):
        if re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") == anchor:
            return str(part)
    raise AssertionError(f"{path} has no heading {anchor}")


@pytest.mark.parametrize("question", QUESTIONS)
@pytest.mark.parametrize("document", ["README.md", "docs/index.md"])
def test_a_question_is_one_click_from_the_front_page_and_answered_there(document: str, question: str) -> None:
    (line,) = (line for line in (ROOT / document).read_text().splitlines() if question in line)
    ((target, anchor),) = re.findall(r"\]\(([^)#]+)#?([^)]*)\)", line)
    assert QUESTIONS[question] in section((ROOT / document).parent / target, anchor)


def test_the_readme_has_its_commands_on_lines_of_their_own_after_the_clone() -> None:
    lines = (ROOT / "README.md").read_text().splitlines()
    clone = next(number for number, line in enumerate(lines) if line.startswith("git clone "))
    assert clone < lines.index("make demo") < lines.index("make test")


def test_the_api_page_has_every_public_name() -> None:
    shown = re.findall(r"^::: laddernet\.(\S+)$", (ROOT / "docs/reference/api.md").read_text(), re.MULTILINE)
    assert sorted(shown) == laddernet.__all__


@pytest.mark.parametrize("document", DOCUMENTS)
def test_links_between_documents_lead_somewhere(document: str) -> None:
    text = re.sub(r"^```.*?^```$", "", (ROOT / document).read_text(), flags=re.MULTILINE | re.DOTALL)
    for target, anchor in re.findall(r"\]\(([^)#:]*)#?([^)]*)\)", re.sub(r"\]\(\w+://[^)]*\)", "", text)):
        found = (ROOT / document).parent.joinpath(target) if target else ROOT / document
        assert found.exists(), target
        if found.suffix == ".md" and found.name != "cli.md":  # its headings are generated; the site's build checks
            section(found, anchor)


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

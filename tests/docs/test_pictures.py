"""The pictures are what their scripts draw."""

import re
import runpy
from functools import partial
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from documents import DOCS, DOCUMENTS, ROOT
from sklearn.datasets import load_iris

import laddernet


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
    monkeypatch.setattr(laddernet.LadderClassifier, "fit", None)
    pictures["labels"](tmp_path)
    assert ((tmp_path / "labels.svg").read_bytes(), capsys.readouterr().out) == first


def test_each_picture_is_shown_and_made_by_a_command_that_a_document_has() -> None:
    documents = {name: (ROOT / name).read_text() for name in DOCUMENTS}
    parts = " ".join(re.findall(r"python docs/pictures\.py [a-z ]+", " ".join(documents.values()))).split()
    made = {"study-page": "page", "study-network": "page", "tutorial-curve": "table"}
    for picture in (path for path in (DOCS / "images").iterdir() if path.suffix in (".svg", ".png")):
        assert [name for name, text in documents.items() if f"images/{picture.name})" in text], picture
        assert made.get(picture.stem, picture.stem) in parts, picture

"""How the error falls with the number of labels: against scikit-learn by hand; pictures."""

import re
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, Self
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest
from clinic import NETWORK, OPTIONS, clinic
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.datasets import load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler
from support import laddernet

from laddernet import InputError, LadderClassifier, label_curve, plot_label_curve
from laddernet.classifier.curve import Point, forecast, save_picture
from laddernet.table.rows import read_rows
from laddernet.table.table import Table
from laddernet.text import visible

X, TRUTH = load_iris(return_X_y=True)
SPECIES = np.array(["setosa", "versicolor", "virginica"])[TRUTH]
# As in test_estimator.py.
SETTINGS: dict[str, Any] = {"hidden": (8,), "recon_weights": (10.0, 1.0, 0.1), "max_steps": 64, "n_networks": 1}


class Recorder(ClassifierMixin, BaseEstimator):
    """Says always the same, and keeps the numbers of the rows that it gets, which are their last column."""

    kept: list[dict[str, Any]] = []  # noqa: RUF012  (a clone shares it)

    def __init__(self, random_state: Any = None) -> None:
        self.random_state = random_state

    def fit(self, X: Any, y: Any) -> Self:
        self.kept.append({"rows": X[:, -1].astype(int), "y": y, "random_state": self.random_state})
        return self

    def predict(self, X: Any) -> np.ndarray:
        self.kept[-1]["judged"] = X[:, -1].astype(int)
        return np.full(len(X), 1)


@cache
def recorded() -> tuple[list[Point], list[dict[str, Any]], np.ndarray, np.ndarray]:
    """A curve over iris with numbered rows, of which every fourth is unlabelled; not to be changed."""
    x = np.column_stack([X, np.arange(len(X))])
    y = np.where(np.arange(len(X)) % 4 == 0, -1, TRUTH)
    Recorder.kept.clear()
    points = label_curve(Recorder(), x, y, counts=[1, 3, 10], repeats=4, seed=7)
    return points, list(Recorder.kept), x, y


# --- What is measured -------------------------------------------------------------------------------------------


def test_judged_rows_are_labelled_and_never_in_the_training_and_all_others_always_are() -> None:
    _, fits, _, y = recorded()
    assert len(fits) == 12
    for fit in fits:
        assert (y[fit["judged"]] != -1).all()
        assert sorted([*fit["rows"], *fit["judged"]]) == list(range(150))
    assert len({fit["random_state"] for fit in fits}) == 4


def test_each_class_gets_its_labels_and_more_labels_are_the_same_and_further_ones() -> None:
    points, fits, _, y = recorded()
    known = [fit["rows"][fit["y"] != -1] for fit in fits]
    for fit, rows, count in zip(fits, known, np.repeat([1, 3, 10], 4), strict=True):
        assert np.bincount(y[rows]).tolist() == [count] * 3
        assert np.array_equal(fit["y"][fit["y"] != -1], y[rows])
    for number in range(4):
        assert set(known[number]) < set(known[4 + number]) < set(known[8 + number])
        assert np.array_equal(fits[number]["judged"], fits[8 + number]["judged"])
    assert [(point.per_class, point.labels) for point in points] == [(1, 3), (3, 9), (10, 30)]


def test_errors_are_what_scikit_learn_by_hand_gives_on_the_same_rows() -> None:
    points, fits, x, y = recorded()
    errors = [error for point in points for error in point.errors]
    alone = [error for point in points for error in point.alone]
    for fit, error, by_labels in zip(fits, errors, alone, strict=True):
        assert error == pytest.approx(100 * np.mean(y[fit["judged"]] != 1))
        v = StandardScaler().fit(x[fit["rows"]]).transform(x)
        scaled = v / np.sqrt(1 + v**2 / 9)  # as the classifier sees them
        known = fit["rows"][fit["y"] != -1]
        regression = LogisticRegression(max_iter=1000).fit(scaled[known], y[known])
        right = regression.score(scaled[fit["judged"]], y[fit["judged"]])
        assert by_labels == pytest.approx(100 * (1 - right))
    assert points[0].summary()[1] == pytest.approx(np.std(points[0].errors, ddof=1) / 2)


def test_the_same_seed_gives_the_same_errors_whatever_the_classes_are_called() -> None:
    def curve(y: Any, seed: int = 0, **settings: Any) -> list[Point]:
        return label_curve(LadderClassifier(**SETTINGS, **settings), X, y, counts=[2], repeats=2, seed=seed)

    numbers = curve(TRUTH)
    assert curve(pd.Series(SPECIES)) == numbers
    assert curve(TRUTH - 1, unlabeled=None) == numbers  # one class is called -1
    assert curve(TRUTH, seed=1) != numbers


def test_a_class_with_few_labels_gives_all_it_has() -> None:
    y = np.where((TRUTH == 2) & (np.arange(150) > 102), -1, TRUTH)  # three of the third class
    points = label_curve(Recorder(), X, y, repeats=3)
    assert [point.per_class for point in points] == [1, 2, 5, 10, 20, 33]
    assert [point.labels for point in points] == [3, 6, 12, 22, 42, 68]


def test_bad_arguments_are_one_sentence() -> None:
    with pytest.raises(InputError, match=r"repeats is 1; it must be 2 or more"):
        label_curve(Recorder(), X, TRUTH, repeats=1)
    with pytest.raises(InputError, match=r"counts is \[1, 50\]; give whole numbers from 1 to 34"):
        label_curve(Recorder(), X, TRUTH, counts=[1, 50], repeats=3)
    with pytest.raises(InputError, match=r"X has 150 rows and y has 100"):
        label_curve(Recorder(), X, TRUTH[:100])
    with pytest.raises(InputError, match=r"The class 'virginica' has one label; give two"):
        label_curve(Recorder(), X[:101], SPECIES[:101])


def test_a_forecast_is_made_only_where_the_trend_is_clearer_than_the_spread() -> None:
    def point(labels: int, *errors: float) -> Point:
        return Point(labels // 2, labels, 1000, errors, errors)

    falling = [point(10, 20.0, 22.0), point(20, 15.0, 17.0), point(40, 10.0, 12.0)]
    # 16 % with 20 labels and 11 % with 40: by 11/16 once more.
    assert forecast(falling) == "With 80 labels the error would perhaps be 7.6 %, if it goes on to fall like this."
    noisy = [point(10, 12.0, 20.0), point(40, 11.0, 10.0)]
    unknown = "the gain by more labels is unknown."
    assert forecast(noisy) == f"From 10 to 40 labels there is no clear difference: {unknown}"
    few = [replace(point, judged=10) for point in falling]  # five points less, on twenty rows: one row
    assert forecast(few) == f"From 20 to 40 labels there is no clear difference: {unknown}"
    assert forecast(falling[:1]) == f"There is no point with half as many labels as the last: {unknown}"


# --- Pictures ---------------------------------------------------------------------------------------------------


def test_the_picture_shows_the_means_with_their_errors_over_the_counts(tmp_path: Path) -> None:
    points = recorded()[0]
    figure = plot_label_curve(points, title="iris")
    ax = figure.axes[0]
    assert (ax.get_xscale(), ax.get_xlabel(), ax.get_ylabel()) == ("log", "labels per class", "error (%)")
    for container, alone in zip(ax.containers, (True, False), strict=True):
        means, doubts = np.array([point.summary(alone) for point in points]).T
        line, _, (bars,) = container.lines  # type: ignore[attr-defined]
        assert np.array_equal(line.get_xydata(), np.column_stack([[1, 3, 10], means]))
        ends = np.array(bars.get_segments())[:, :, 1]
        np.testing.assert_allclose(ends, np.column_stack([means - doubts, means + doubts]))
    save_picture(figure, tmp_path / "a.svg")
    texts = [element.text for element in ElementTree.parse(tmp_path / "a.svg").iter() if element.text]
    assert {"1", "3", "10", "iris", "labels per class", "Ladder Network"} <= set(texts)
    save_picture(plot_label_curve(points, title="iris"), tmp_path / "b.svg")
    assert (tmp_path / "a.svg").read_bytes() == (tmp_path / "b.svg").read_bytes()
    for name, head in {"c.png": b"\x89PNG\r\n", "d.PDF": b"%PDF"}.items():
        save_picture(figure, tmp_path / name)
        assert (tmp_path / name).read_bytes().startswith(head)


# --- laddernet curve --------------------------------------------------------------------------------------------


def test_the_command_measures_what_the_function_does_on_the_tables_rows(tmp_path: Path) -> None:
    clinic().to_csv(tmp_path / "clinic.csv", index=False)
    options = ("--counts", "1,5", "--repeats", "3", *OPTIONS)
    done = laddernet("curve", "clinic.csv", "--target", "result", "--out", "c.svg", *options, cwd=tmp_path)
    assert (done.code, done.err) == (0, "")
    rows = read_rows(Table.of(clinic()), "result")
    points = label_curve(LadderClassifier(**NETWORK), rows.X, rows.codes, counts=[1, 5], repeats=3, seed=1)
    lines = done.out.splitlines()
    assert lines[0] == "clinic.csv: 240 rows, 60 of them labelled; 4 columns are used"
    assert "Error on 20 held-out labelled rows, mean ± standard error of 3 random draws," in lines
    for line, point in zip(lines[-4:-2], points, strict=True):
        cells = [point.shown(), point.shown(alone=True)]
        assert line.split() == f"{point.per_class} {point.labels} {' '.join(cells)}".split()
    assert lines[-2:] == [forecast(points), "saved to c.svg"]
    assert ElementTree.parse(tmp_path / "c.svg").getroot().tag.endswith("svg")


BAD: dict[str, tuple[str, str]] = {
    "a picture of no known kind": ("--out c.txt", "A picture cannot be written to c.txt; give it a name that ends in"),
    "a picture over the table": ("--out t.svg", "--out is t.svg, which is read from; name another file."),
    "a folder that is not there": ("--out absent/c.svg", "Cannot write absent/c.svg ("),
    "no number": ("--counts 1,a", "--counts has 'a' where a whole number should be."),
    "too many labels": ("--counts 99", "counts is [99]; give whole numbers from 1 to "),
    "no such model": ("--model vanila", "There is no model 'vanila'; did you mean 'vanilla'?"),
    "no such target": ("--target reslt", "t.svg has no column 'reslt'; did you mean 'result'?"),
    "one label": (
        "--target single",
        "'b' has one label; give two or more of each class, for training and testing.",
    ),
}


@pytest.mark.parametrize("what", BAD)
def test_bad_input_is_one_sentence_before_any_training(
    tmp_path: Path, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LadderClassifier, "fit", None)
    options, sentence = BAD[what]
    clinic().assign(single=["a", "a", "b"] + [None] * 237).to_csv(tmp_path / "t.svg", index=False)
    done = laddernet("curve", "t.svg", "--target", "result", *options.split(), cwd=tmp_path)
    assert done.code == 2
    assert done.err.startswith(f"laddernet: {sentence}")
    assert done.err.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir()] == ["t.svg"]


def test_without_matplotlib_a_picture_is_refused_with_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LadderClassifier, "fit", None)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    clinic().to_csv(tmp_path / "t.csv", index=False)
    done = laddernet("curve", "t.csv", "--target", "result", "--out", "c.svg", cwd=tmp_path)
    assert (done.code, done.out, done.err.count("\n")) == (2, "", 1)
    sentence = "A picture needs matplotlib, which is not installed; install it with pip install 'laddernet[plot]'."
    assert done.err == f"laddernet: {sentence}\n"
    with pytest.raises(InputError, match=re.escape(sentence)):
        plot_label_curve(recorded()[0])


@pytest.mark.parametrize("title", ["$", "a$b$c_{", "$\\frac$", "two\nlines", "\x1b[31m", "a\udc80", "\x00"])
@pytest.mark.parametrize("ending", ["svg", "pdf"])
def test_a_picture_may_have_any_title(tmp_path: Path, title: str, ending: str) -> None:
    pytest.importorskip("matplotlib")
    points = [Point(1, 2, 30, (4.0, 6.0), (9.0, 9.0)), Point(2, 4, 30, (3.0, 5.0), (8.0, 9.0))]
    save_picture(plot_label_curve(points, title=title, name="a$"), tmp_path / f"p.{ending}")
    if ending == "svg":
        text = (tmp_path / "p.svg").read_text("utf-8")
        assert visible(title) in text
        assert "\x1b" not in text

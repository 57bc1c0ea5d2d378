"""Make what the documents show: python docs/pictures.py [PART …], by default all parts.

- ladder: images/ladder.svg, by drawing.py.
- moons: images/moons.svg, by two fits that take seconds.
- labels: images/labels.svg, from images/labels.json. That is measured again (nine minutes of a core) if the settings
  have changed; delete it if the classifier itself has.
- methods, ranks: images/methods.svg and images/ranks.svg, from results/few-labels/table.csv.
- table: runs tutorials/table.md, puts in the outputs, and makes images/tutorial-curve.svg.
- terminal: images/terminal.svg, from the outputs in tutorials/table.md.
- page: images/study-page.png and images/study-network.png, from study-demo/report.html as `make demo` writes it, with
  Chromium.
- notebook: runs tutorials/notebook.ipynb in place, with nbclient and ipykernel.
"""

import csv
import json
import sys
from collections import defaultdict
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
from drawing import ladder
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator
from recordings import notebook, page, table, terminal
from sklearn.datasets import load_breast_cancer, load_digits, make_moons
from sklearn.linear_model import LogisticRegression

from laddernet import LadderClassifier, label_curve, plot_label_curve
from laddernet.classifier.curve import Point, forecast, save_picture
from laddernet.files import write_atomic
from laddernet.training.programs import keep_compiled_programs

DOCS = Path(__file__).parent
IMAGES = DOCS / "images"
BLUE, ORANGE, GREEN, PURPLE, GREY = "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#777777"  # also for the colour-blind


# --- Two moons -------------------------------------------------------------------------------------------------------


def two_moons() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return X, y with four labels, at a quarter and three quarters of each moon, and the true classes."""
    X, truth = make_moons(500, noise=0.1, random_state=0)
    angles = np.pi * np.array([1 / 4, 3 / 4])
    upper = np.column_stack([np.cos(angles), np.sin(angles)])
    places = np.concatenate([upper, [1, 0.5] - upper])
    y = np.full(len(X), -1)
    for place, c in zip(places, (0, 0, 1, 1), strict=True):
        distances = np.linalg.norm(X - place, axis=1)
        y[np.argmin(np.where(truth == c, distances, np.inf))] = c
    return X, y, truth


def moons(folder: Path = IMAGES) -> None:
    """Draw the boundaries of logistic regression and of the ladder, with their errors on all rows."""
    X, y, truth = two_moons()
    known = y != -1
    fits = {
        "Logistic regression: 4 labelled rows": LogisticRegression().fit(X[known], y[known]),
        "Ladder Network: 4 labelled and 496 unlabelled rows": LadderClassifier(random_state=0).fit(X, y),
    }
    figure = Figure(figsize=(9.6, 3.5), layout="constrained")
    for ax, (title, fitted) in zip(figure.subplots(1, 2), fits.items(), strict=True):
        xs, ys = np.meshgrid(np.linspace(-1.6, 2.6, 211), np.linspace(-1.1, 1.6, 136))
        share = fitted.predict_proba(np.column_stack([xs.ravel(), ys.ravel()]))[:, 1].reshape(xs.shape)
        ax.contourf(xs, ys, share, [0, 0.5, 1], colors=["#D6E8F5", "#FBE3D2"])
        ax.contour(xs, ys, share, [0.5], colors=["#333333"], linewidths=1.2)
        ax.scatter(*X[~known].T, s=7, color="#8A8A8A", linewidths=0)
        for c, colour in ((0, BLUE), (1, ORANGE)):
            ax.scatter(*X[y == c].T, s=110, color=colour, edgecolor="white", linewidth=1.5, zorder=3)
        ax.set_title(title, fontsize=11)
        ax.set_xlabel(f"{100 * (1 - fitted.score(X, truth)):.1f} % of the rows are wrong", fontsize=11)
        ax.set_xticks([])
        ax.set_yticks([])
    save_picture(figure, folder / "moons.svg")


# --- How many labels -------------------------------------------------------------------------------------------------

KEPT = IMAGES / "labels.json"
COUNTS = [1, 2, 5, 10, 20, 50]
REPEATS = 5


def digits() -> tuple[Any, Any]:
    return load_digits(return_X_y=True)  # type: ignore[no-any-return]


def breast_cancer() -> tuple[Any, Any]:
    return load_breast_cancer(return_X_y=True)  # type: ignore[no-any-return]


def across_clusters() -> tuple[Any, Any]:
    """Return six clusters that each hold both classes: one plane through all of them separates the classes."""
    rng = np.random.default_rng(0)
    centres = rng.normal(0, 4, (6, 10))
    across = rng.normal(size=10)
    across /= np.linalg.norm(across)
    centres -= np.outer(centres @ across, across)
    x = centres[rng.integers(0, 6, 900)] + rng.normal(size=(900, 10))
    return x, (x @ across > 0).astype(int)


SETS: dict[str, tuple[str, Callable[[], tuple[Any, Any]]]] = {
    "digits": ("Digits: 10 classes", digits),
    "breast-cancer": ("Breast cancer: 2 classes", breast_cancer),
    "across-clusters": ("Classes across clusters", across_clusters),
}


def measured(name: str) -> list[Point]:
    """Return the curve of a data set: the kept one if it has the same settings, otherwise a new one, which is kept."""
    classifier = LadderClassifier()
    how = {"counts": COUNTS, "repeats": REPEATS, "classifier": json.loads(json.dumps(classifier.get_params()))}
    kept = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    if kept.get(name, {}).get("how") != how:
        points = label_curve(classifier, *SETS[name][1](), counts=COUNTS, repeats=REPEATS)
        kept[name] = {"how": how, "points": [asdict(point) for point in points]}
        write_atomic(KEPT, (json.dumps(kept, indent=1) + "\n").encode())
    return [
        Point(**{key: tuple(value) if isinstance(value, list) else value for key, value in point.items()})
        for point in kept[name]["points"]
    ]


def labels(folder: Path = IMAGES) -> None:
    """Draw the label curves of three data sets, and print the numbers that docs/how-to/how-many-labels.md quotes."""
    keep_compiled_programs()
    curves = {name: measured(name) for name in SETS}
    figure = Figure(figsize=(11, 3.4), layout="constrained")
    for ax, (name, points) in zip(figure.subplots(1, len(curves)), curves.items(), strict=True):
        plot_label_curve(points, ax=ax, title=SETS[name][0])
        print(f"\n{name}, error in %, on {points[0].judged} rows, mean ± standard error of {REPEATS} draws")
        for point in points:
            cells = (f"{point.shown(alone):>12}" for alone in (False, True))
            print(f"| {point.per_class:2} |", " | ".join(cells), "|")
        print(forecast(points))
    for ax in figure.axes[1:]:
        ax.set_ylabel("")
        ax.legend().remove()
    save_picture(figure, folder / "labels.svg")


# --- The comparison of methods ---------------------------------------------------------------------------------------

# The two that spread labels and the two that train themselves are drawn by the better of the two by mean rank.
METHODS = {
    "ladder": ("Ladder Network", BLUE, "o-"),
    "forest": ("random forest", GREEN, "^--"),
    "logistic": ("logistic regression", ORANGE, "s--"),
    "self-training-logistic": ("self-training", PURPLE, "v--"),
    "spreading-rbf": ("label spreading", GREY, "D--"),
}
NAMES = {name: label for name, (label, *_) in METHODS.items()} | {
    "self-training-logistic": "self-training, logistic regression",
    "mlp": "MLP of the same size",
    "spreading-rbf": "label spreading, RBF kernel",
    "self-training-svm": "self-training, SVM",
    "spreading-knn": "label spreading, neighbours",
    "boosting": "gradient boosting",
}


def compared() -> list[dict[str, str]]:
    """Return the cells of the comparison: a table, a number of labels per class and a method each."""
    with (DOCS.parent / "results" / "few-labels" / "table.csv").open() as file:
        return list(csv.DictReader(file))


def methods(folder: Path = IMAGES) -> None:
    """Draw error against labels for five methods, on tables where the ladder is ahead, among others and behind."""
    cells = compared()
    figure = Figure(figsize=(11, 3.6), layout="constrained")
    titles = {"digits": "Digits", "breast-cancer": "Breast cancer", "mlc-churn": "Customer churn"}
    for ax, (name, title) in zip(figure.subplots(1, len(titles)), titles.items(), strict=True):
        for method, (label, colour, style) in METHODS.items():
            mine = [cell for cell in cells if cell["set"] == name and cell["method"] == method]
            counts = [int(cell["labels"]) for cell in mine]
            values, doubts = ([float(cell[key]) for cell in mine] for key in ("error", "standard_error"))
            ax.errorbar(counts, values, doubts, fmt=style, color=colour, label=label, capsize=2, markersize=5, lw=1.5)
        ax.set_xscale("log")
        ax.set_xticks(counts, [str(count) for count in counts])
        ax.xaxis.set_minor_locator(NullLocator())
        ax.set_ylim(bottom=0)
        ax.set_xlabel("labels per class")
        ax.set_title(title, fontsize=11)
        ax.spines[["top", "right"]].set_visible(False)
    figure.axes[0].set_ylabel("test error (%)")
    figure.axes[0].legend(frameon=False)
    save_picture(figure, folder / "methods.svg")


def ranks(folder: Path = IMAGES) -> None:
    """Draw how often each method has each rank, with its mean rank; methods that share ranks 1 and 2 have rank 1."""
    found = defaultdict(list)
    for cell in compared():
        found[cell["method"]].append(float(cell["rank"]))
    order = sorted(found, key=lambda method: fmean(found[method]), reverse=True)
    figure = Figure(figsize=(8.4, 3.8), layout="constrained")
    ax = figure.subplots()
    shades = ["#08519C", "#3182BD", "#6BAED6", "#9ECAE1", "#C6DBEF", "#DEDEDE", "#CFCFCF", "#BDBDBD", "#A6A6A6"]
    for place, method in enumerate(order):
        at = 0.0
        for rank, shade in enumerate(shades, start=1):
            share = 100 * fmean(rank <= value < rank + 1 for value in found[method])
            label = {1: "rank 1", 9: "rank 9"}.get(rank, str(rank)) if place == 0 else None
            ax.barh(place, share, left=at, color=shade, height=0.74, label=label, edgecolor="white", linewidth=0.8)
            at += share
        ax.text(101.5, place, f"{fmean(found[method]):.2f}", va="center", fontsize=10)
    ax.text(101.5, len(order) - 0.35, "mean rank", fontsize=10)
    ax.set_yticks(range(len(order)), [NAMES[method] for method in order])
    ax.set_xlim(0, 100)
    cells = len(found["ladder"])
    ax.set_xlabel(f"share of the {cells} cells (a table with a number of labels per class) in per cent")
    ax.tick_params(axis="y", length=0)
    ax.spines[["top", "right", "left"]].set_visible(False)
    figure.legend(loc="outside upper center", ncols=9, frameon=False, handlelength=1, columnspacing=1, fontsize=9)
    save_picture(figure, folder / "ranks.svg")


def draw_ladder(folder: Path = IMAGES) -> None:
    """Draw the network."""
    write_atomic(folder / "ladder.svg", ladder().encode())


PARTS: dict[str, Callable[[], None]] = {
    "ladder": draw_ladder,
    "moons": moons,
    "labels": labels,
    "methods": methods,
    "ranks": ranks,
    "table": table,
    "terminal": terminal,
    "page": page,
    "notebook": notebook,
}

if __name__ == "__main__":
    for part in sys.argv[1:] or PARTS:
        PARTS[part]()

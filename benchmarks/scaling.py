"""Compare scalings on tables of few distinct values: codes of categories, answers on a scale, images of few greys.

``python benchmarks/scaling.py`` prints for each table the number of its values, the choice of ``scale="auto"``, and the
test error with ``scale="range"`` and ``scale="columns"``: means over two draws of labels that the comparison of
benchmarks/few_labels.py does not use.
"""

import itertools
import sys
from collections.abc import Callable

import few_labels_data as data
import few_labels_r as r
import numpy as np

from laddernet import LadderClassifier
from laddernet.classifier.scaling import find_scaling

SEEDS = (200, 201)
LABELS = (5, 10)  # per class
MOST_ROWS = 2000  # of the training part


def boards() -> data.Parts:
    """Make all finished boards of tic-tac-toe: 0, ½ and 1 for o, blank and x; the class is whether x has won."""
    lines = [(0, 1, 2), (3, 4, 5), (6, 7, 8), (0, 3, 6), (1, 4, 7), (2, 5, 8), (0, 4, 8), (2, 4, 6)]
    rows, won = [], []
    for board in itertools.product((0.0, 0.5, 1.0), repeat=9):
        x, o = (any(all(board[place] == mark for place in line) for line in lines) for mark in (1.0, 0.0))
        more = board.count(1.0) - board.count(0.0)  # x begins
        if (x and not o and more == 1) or (o and not x and more == 0) or (more == 1 and 0.5 not in board and not x + o):
            rows.append(board)
            won.append(x)
    return data.split(np.array(rows), np.array(won))


def balance() -> data.Parts:
    """Make all balances of weights and distances from 1 to 5; the class is the side to which it tips."""
    rows = np.array(list(itertools.product(range(1, 6), repeat=4)), float)
    return data.split(rows, np.sign(rows[:, 0] * rows[:, 1] - rows[:, 2] * rows[:, 3]))


def coded(package: str, name: str, target: str, *without: str) -> data.Parts:
    """Load a table of an R package with numbers for categories, and the middle number for a missing one."""
    folder = f"usr/lib/R/site-library/{package}/data"
    columns = r.tables(data.from_debian(f"r-cran-{package.lower()}", f"{folder}/{name}.rda"))[name]
    inputs = [column for label, column in columns.items() if label != target and label not in without]
    codes = []
    for column in inputs:
        levels = sorted({value for value in column if value is not None and value == value})
        places = {value: place for place, value in enumerate(levels)}
        codes.append([places.get(value, (len(levels) - 1) / 2) for value in column])
    return data.split(np.array(codes, float).T, columns[target].astype(str))


def dna() -> data.Parts:
    """Load splice junctions: each of 60 bases as one of four codes."""
    found = data.load("dna")
    x_train, x_test = (
        x.reshape(len(x), 60, 3) @ np.array([1, 2, 3], np.float32) for x in (found.x_train, found.x_test)
    )
    return data.Parts(x_train, found.y_train, x_test, found.y_test, found.rows)


def terciles(name: str) -> data.Parts:
    """Load a table, with each column cut into low (0), middle (½) and high (1)."""
    found = data.load(name)
    cuts = np.quantile(found.x_train, [1 / 3, 2 / 3], axis=0)
    x_train, x_test = (((x > cuts[0]) + 0.0 + (x > cuts[1])) / 2 for x in (found.x_train, found.x_test))
    return data.Parts(x_train, found.y_train, x_test, found.y_test, found.rows)


def greys(name: str, levels: int) -> data.Parts:
    """Load images with ``levels`` greys, evenly spaced from 0 to 1."""
    found = data.load(name)
    most = found.x_train.max()
    x_train, x_test = (np.round(x / most * (levels - 1)) / (levels - 1) for x in (found.x_train, found.x_test))
    return data.Parts(x_train, found.y_train, x_test, found.y_test, found.rows)


TABLES: dict[str, Callable[[], data.Parts]] = {
    "tic-tac-toe, codes": boards,
    "house-votes, codes": lambda: coded("mlbench", "HouseVotes84", "Class"),
    "dna, codes of 60 bases": dna,
    "hayes-roth": lambda: data.load("hayes-roth"),
    "balance": balance,
    "wisconsin": lambda: data.from_keel("wisconsin"),
    **{
        f"{name}, terciles": lambda name=name: terciles(name)  # type: ignore[misc]
        for name in ("breast-cancer", "wine", "vehicle", "segment", "pima", "sonar", "glass", "satellite")
    },
    "letter": lambda: data.load("letter"),
    **{f"digits, {n} greys": lambda n=n: greys("digits", n) for n in (2, 3, 5, 9, 17)},  # type: ignore[misc]
    **{f"mnist, {n} greys": lambda n=n: greys("mnist", n) for n in (2, 3, 9)},  # type: ignore[misc]
}


def error(parts: data.Parts, scale: str, labels: int, seed: int) -> float:
    """Return the test error in per cent with ``labels`` labels per class."""
    rng = np.random.default_rng(seed)
    rows = rng.permutation(len(parts.y_train))[:MOST_ROWS]
    y = np.full(len(rows), -1)
    for c in range(parts.classes):
        known = np.flatnonzero(parts.y_train[rows] == c)[:labels]
        y[known] = c
    fitted = LadderClassifier(scale=scale, random_state=seed).fit(parts.x_train[rows], y)
    return 100 * float(np.mean(fitted.predict(parts.x_test) != parts.y_test))


def main(names: list[str]) -> None:
    print("| table | columns | values | auto | labels per class | range | columns |\n|---|---|---|---|---|---|---|")
    for name in names or TABLES:
        parts = TABLES[name]()
        found = f"{parts.columns} | {len(np.unique(parts.x_train))} | {find_scaling(parts.x_train)[0]}"
        for labels in LABELS:
            errors = [np.mean([error(parts, how, labels, seed) for seed in SEEDS]) for how in ("range", "columns")]
            print(f"| {name} | {found} | {labels} | {errors[0]:.1f} | {errors[1]:.1f} |", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])

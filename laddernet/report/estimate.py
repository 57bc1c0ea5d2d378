"""Pictures of an estimate: the confusion matrix, and the calibration of the probabilities."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from laddernet.errors import InputError
from laddernet.table.estimate import Estimate, counted, interval
from laddernet.text import visible

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_BLUE = "#0072B2"
_LONGEST = 20  # characters of a class
_NUMBERED = 20  # classes, above which the cells are too small for numbers


def plot_confusion(estimate: Estimate, classes: Sequence[str]) -> "Figure":
    """Plot the confusion matrix; a cell's shade is its share of the rows of its class."""
    from matplotlib.figure import Figure

    if not estimate.confusion:
        raise InputError("the estimate is of an older version, without a confusion matrix; fit the model anew.")
    rows = estimate.matrix(len(classes))
    share = rows / np.maximum(rows.sum(axis=1, keepdims=True), 1)
    size = min(max(2.2 + 0.45 * len(classes), 3.4), 20)
    figure = Figure(figsize=(size, size), layout="constrained")
    ax = figure.subplots()
    ax.imshow(share, cmap="Blues", vmin=0, vmax=1)
    names = [visible(name)[:_LONGEST] for name in classes]
    for tick in (*ax.set_xticks(range(len(names)), names, rotation=90), *ax.set_yticks(range(len(names)), names)):
        tick.label1.set_parse_math(False)  # a dollar sign in a name must not start a formula
    if len(classes) <= _NUMBERED:
        for truth, predicted in np.argwhere(rows > 0):
            color = "white" if share[truth, predicted] > 0.5 else "black"
            ax.text(predicted, truth, counted(rows[truth, predicted]), ha="center", va="center", color=color)
    ax.set_xlabel("predicted class")
    ax.set_ylabel("class")
    ax.set_title(f"{counted(estimate.wrong)} of {estimate.judged:,} held-out rows wrong")
    return figure


def plot_calibration(estimate: Estimate) -> "Figure":
    """Plot the share of right rows against the confidence, with 90 % intervals; on the diagonal the two are equal."""
    from matplotlib.figure import Figure

    if not estimate.bins:
        raise InputError("calibration needs forty labelled rows that can be held out; give more labels.")
    figure = Figure(figsize=(4.2, 4.2), layout="constrained")
    ax = figure.subplots()
    confidence = [held.confidence for held in estimate.bins]
    right = np.array([100 * held.right / held.rows for held in estimate.bins])
    limits = np.transpose([interval(held.right, held.rows) for held in estimate.bins])
    ax.plot([0, 100], [0, 100], "--", color="grey", linewidth=1)
    ax.errorbar(confidence, right, np.abs(limits - right), fmt="o", color=_BLUE, capsize=3, markersize=4)
    ax.set_xlim(0, 102)
    ax.set_ylim(0, 102)
    ax.set_xlabel("confidence (%)")
    ax.set_ylabel("rows that are right (%)")
    ax.spines[["top", "right"]].set_visible(False)
    ax.set_title(f"{estimate.judged:,} held-out rows in {len(estimate.bins)} groups")
    return figure

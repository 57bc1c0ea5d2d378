"""The label curve: error against the number of labels, measured on a user's rows and plotted."""

import io
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.stats import binomtest
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import RepeatedStratifiedKFold
from sklearn.utils import check_array

from laddernet.classifier.labels import UNLABELLED, encode_labels
from laddernet.classifier.scaling import find_scaling
from laddernet.errors import InputError, packages
from laddernet.files import write_atomic
from laddernet.inference.network import Rows, dense
from laddernet.text import visible

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PICTURES = (".svg", ".png", ".pdf")
_BLUE, _ORANGE = "#0072B2", "#D55E00"  # distinguishable by colour-blind readers


@dataclass(frozen=True)
class Point:
    """Errors in per cent with one number of labels per class, one error for each random choice of labels."""

    per_class: int  # fewer in a class that has fewer
    labels: int  # in all classes together
    judged: int  # number of held-out rows
    errors: tuple[float, ...]
    alone: tuple[float, ...]  # errors of logistic regression on the labelled rows alone

    def summary(self, alone: bool = False) -> tuple[float, float]:
        """Return the mean and its standard error.

        >>> Point(1, 2, 30, errors=(4.0, 6.0), alone=(9.0, 9.0)).summary()
        (5.0, 1.0)
        """
        return _mean(self.alone if alone else self.errors)

    def limits(self, alone: bool = False) -> tuple[float, float]:
        """Return the mean ∓ its standard error; if that rounds to 0.0, the 90 % interval for that number of rows.

        >>> low, high = Point(1, 2, 8, errors=(0.0, 0.0, 0.0), alone=(4.0, 6.0, 5.0)).limits()
        >>> low, round(high, 1)
        (0.0, 11.7)
        """
        mean, doubt = self.summary(alone)
        if round(doubt, 1):
            return mean - doubt, mean + doubt
        return error_interval(round(mean / 100 * self.all_judged), self.all_judged)

    @property
    def all_judged(self) -> int:
        """Rows held out at least once: three repeats hold out all labelled rows, so further repeats add none."""
        return self.judged * min(len(self.errors), 3)

    def shown(self, alone: bool = False) -> str:
        """Format the mean ± its standard error, or the limits in brackets if the standard error rounds to 0.0.

        >>> point = Point(1, 2, 8, errors=(0.0, 0.0, 0.0), alone=(4.0, 6.0, 5.0))
        >>> point.shown(), point.shown(alone=True)
        ('0.0 (0–12) %', '5.0 ± 0.6 %')
        """
        mean, doubt = self.summary(alone)
        low, high = self.limits(alone)
        return f"{mean:.1f} ± {doubt:.1f} %" if round(doubt, 1) else f"{mean:.1f} ({low:.0f}–{high:.0f}) %"


def label_curve(
    classifier: Any,
    X: Any,
    y: Any,
    *,
    counts: Sequence[int] | None = None,
    repeats: int = 5,
    seed: int = 0,
    on_fit: Callable[[int, int], None] = lambda number, total: None,
    on_point: Callable[[Point], None] = lambda point: None,
) -> list[Point]:
    """Measure the held-out error of a classifier for increasing numbers of labels per class.

    Each repeat holds out a third of the labelled rows (half if a class has only two labels), as in cross-validation,
    and shuffles the others. The first of these in each class keep their labels; the rest are unlabelled training rows,
    as are the rows without a label. Logistic regression is fitted to the same labelled rows, with the columns scaled
    in the same way, for comparison.

    Parameters
    ----------
    classifier
        A scikit-learn classifier that accepts unlabelled rows. It is cloned and not changed.
    X
        The rows: an array or a sparse matrix.
    y
        A label for each row, or the classifier's ``unlabeled`` value (−1 if it has no such parameter).
    counts
        Numbers of labels per class; a class with fewer keeps all of its labels. None: 1, 2, 5, 10 … and all.
    repeats
        Number of fits for each count, 2 or more.
    seed
        Fixes the random choices. The classifier's ``random_state`` is ``seed`` plus the number of the repeat.
    on_fit
        Called before each fit with its number, from 1, and the number of all fits.
    on_point
        Called with each point when it is measured.

    Returns
    -------
    list of Point
        One point for each count, in increasing order.

    Raises
    ------
    InputError
        If a class has a single label, y and X differ in length, or ``counts`` or ``repeats`` is out of range.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.semi_supervised import LabelSpreading
    >>> points = label_curve(LabelSpreading(), *load_iris(return_X_y=True))
    >>> [point.per_class for point in points]
    [1, 2, 5, 10, 20, 34]
    """
    if repeats < 2:
        raise InputError(f"repeats is {repeats}; it must be 2 or more, for one error has no spread.")
    x = check_array(X, accept_sparse="csr", dtype="numeric")
    mark = getattr(classifier, "unlabeled", UNLABELLED)
    classes, codes = encode_labels(y, mark)
    if len(codes) != x.shape[0]:
        raise InputError(f"X has {x.shape[0]} rows and y has {len(codes)}; give a label, or a mark, for each row.")
    draws = list(_draws(codes, classes, repeats, seed))
    counts = _counts(counts, min(max(map(len, shuffled)) for _, shuffled in draws))
    points: list[Point] = []
    for place, count in enumerate(counts):
        found = []
        for number, (held, shuffled) in enumerate(draws):
            on_fit(place * repeats + number + 1, len(counts) * repeats)
            known = np.concatenate([rows[:count] for rows in shuffled])
            rest = np.delete(np.arange(len(codes)), held)
            given = np.full(len(codes), UNLABELLED)
            given[known] = codes[known]
            fitted = _seeded(classifier, seed + number).fit(x[rest], _labels(classes, given[rest], mark))
            wrong = fitted.predict(x[held]) != classes[codes[held]]
            alone = _label_only(x, rest, known, codes[known], held) != codes[held]
            found.append((len(known), len(held), 100 * float(wrong.mean()), 100 * float(alone.mean())))
        labels, judged, errors, alone_errors = zip(*found, strict=True)
        points.append(Point(count, round(np.mean(labels)), round(np.mean(judged)), errors, alone_errors))
        on_point(points[-1])
    return points


def _draws(
    codes: np.ndarray, classes: np.ndarray, repeats: int, seed: int
) -> Iterator[tuple[np.ndarray, list[np.ndarray]]]:
    """Yield for each repeat the held-out rows and, for each class, its other labelled rows, shuffled."""
    folds = folds_possible(codes)
    if not folds:
        single = classes[np.bincount(codes[codes != UNLABELLED]) == 1].tolist()[0]
        raise InputError(
            f"The class {single!r} has one label; give two or more of each class, to learn and to judge by."
        )
    labelled = np.flatnonzero(codes != UNLABELLED)
    rng = np.random.default_rng(seed)
    split = RepeatedStratifiedKFold(n_splits=folds, n_repeats=math.ceil(repeats / folds), random_state=seed)
    for known, held in islice(split.split(labelled, codes[labelled]), repeats):
        rows = labelled[known]
        yield labelled[held], [rng.permutation(rows[codes[rows] == c]) for c in range(len(classes))]


def folds_possible(codes: np.ndarray) -> int:
    """Return the number of folds that the labels allow: three, two, or 0 if a class has a single label.

    >>> folds_possible(np.array([0, 0, 0, 1, 1, -1]))
    2
    """
    fewest = int(np.bincount(codes[codes != UNLABELLED]).min())
    return min(fewest, 3) if fewest > 1 else 0


def _counts(asked: Sequence[int] | None, most: int) -> list[int]:
    """Return the numbers of labels per class, by default 1, 2, 5, 10 … and the largest possible number.

    >>> _counts(None, 30), _counts(None, 27), _counts(None, 1)
    ([1, 2, 5, 10, 20, 30], [1, 2, 5, 10, 27], [1])
    """
    if asked is None:
        steps = (digit * 10**zeros for zeros in range(len(str(most))) for digit in (1, 2, 5))
        return [step for step in steps if 1.5 * step <= most or step == 1 < most] + [most]
    if not len(asked) or not all(isinstance(count, int | np.integer) and 1 <= count <= most for count in asked):
        besides = "the labels of the most frequent class that are not held out"
        raise InputError(f"counts is {list(asked)}; give whole numbers from 1 to {most}, {besides}.")
    return sorted({int(count) for count in asked})


def _seeded(classifier: Any, seed: int) -> Any:
    copy = clone(classifier)
    return copy.set_params(random_state=seed) if "random_state" in copy.get_params(deep=False) else copy


def _labels(classes: np.ndarray, codes: np.ndarray, mark: Any) -> np.ndarray:
    """Decode labels for the classifier, with its ``unlabeled`` value for rows without a label."""
    kind = np.result_type(classes, type(mark)) if isinstance(mark, int | float) else np.dtype(object)
    plain = classes.dtype.kind in "iuf" and (kind.kind != "f" or classes.dtype.kind == "f")  # no digit is lost
    labels: np.ndarray = classes[codes].astype(kind if plain else object)
    labels[codes == UNLABELLED] = mark
    return labels


def _label_only(x: Rows, rest: np.ndarray, known: np.ndarray, codes: np.ndarray, held: np.ndarray) -> np.ndarray:
    """Predict the held-out rows with logistic regression."""
    scaling = find_scaling(x[rest])[1]
    fitted = LogisticRegression(max_iter=1000).fit(scaling(dense(x[known])), codes)
    return np.asarray(fitted.predict(scaling(dense(x[held]))))


def _mean(values: Sequence[float]) -> tuple[float, float]:
    """Return the mean and its standard error."""
    return float(np.mean(values)), float(np.std(values, ddof=1) / math.sqrt(len(values)))


def error_interval(wrong: int, total: int) -> tuple[float, float]:
    """Return the exact (Clopper–Pearson) 90 % interval, in per cent, of an error measured on ``total`` rows.

    >>> [tuple(round(limit, 1) for limit in error_interval(wrong, 24)) for wrong in (0, 3, 24)]
    [(0.0, 11.7), (3.5, 29.2), (88.3, 100.0)]
    """
    found = binomtest(wrong, total).proportion_ci(confidence_level=0.9, method="exact")
    return 100 * float(found.low), 100 * float(found.high)


def standard_error(error: float, rows: int) -> float:
    """Return the standard error, in per cent, of an error that was measured on this number of rows.

    >>> standard_error(10.0, 100)
    3.0
    """
    return math.sqrt(error * (100 - error) / rows)


# --- Forecast ---------------------------------------------------------------------------------------------------


def doubled(error: float, before: float, doublings: float = 1.0) -> float:
    """Extrapolate the error to twice as many labels by a power law.

    ``before`` is the error with the number of labels halved ``doublings`` times.

    >>> doubled(8.0, 10.0), round(doubled(4.0, 16.0, 4.0), 3), doubled(8.0, 7.0)
    (6.4, 2.828, 8.0)
    """
    if before <= error:
        return error
    return error * max(math.pow(error / before, 1 / doublings), 0.5)  # faster falls have not been observed


def forecast(points: Sequence[Point]) -> str:
    """Forecast in one sentence the error with more labels, by a power law through the last point and an earlier one.

    The earlier point has at most half as many labels. The difference is significant if it exceeds twice its standard
    error over paired repeats, and twice the standard error for the number of held-out rows.
    """
    last = points[-1]
    fewer = [point for point in points if 2 * point.labels <= last.labels]
    unknown = "the gain by more labels is unknown."
    if not fewer:
        return f"There is no point with half as many labels as the last: {unknown}"
    before = fewer[-1]
    gain, spread = _mean(np.subtract(before.errors, last.errors).tolist())
    by_rows = standard_error(float(np.mean([*before.errors, *last.errors])), last.all_judged)
    if gain <= 2 * max(spread, by_rows):
        return f"From {before.labels:,} to {last.labels:,} labels there is no clear difference: {unknown}"
    then = doubled(last.summary()[0], before.summary()[0], math.log2(last.labels / before.labels))
    return f"With {2 * last.labels:,} labels the error would perhaps be {then:.1f} %, if it goes on to fall like this."


# --- Pictures ---------------------------------------------------------------------------------------------------


def plot_label_curve(
    points: Sequence[Point], *, ax: "Axes | None" = None, title: str = "", name: str = "Ladder Network"
) -> "Figure":
    """Plot the errors of a `label_curve`.

    Parameters
    ----------
    points
        The points that `label_curve` returned.
    ax
        Matplotlib axes to draw on. None: those of a new figure.
    title
        Title of the axes.
    name
        Name of the classifier in the legend.

    Returns
    -------
    matplotlib.figure.Figure
        The figure of the axes.

    Raises
    ------
    InputError
        If matplotlib is not installed.
    """
    check_matplotlib()
    from matplotlib.figure import Figure
    from matplotlib.ticker import NullLocator

    if ax is None:
        ax = Figure(figsize=(5.6, 3.6), layout="constrained").subplots()
    counts = [point.per_class for point in points]
    for label, alone, style, color in (
        ("logistic regression, labels alone", True, "s--", _ORANGE),
        (name, False, "o-", _BLUE),
    ):
        means = [point.summary(alone)[0] for point in points]
        doubts = np.abs(np.transpose([point.limits(alone) for point in points]) - means)
        ax.errorbar(counts, means, doubts, fmt=style, color=color, label=label, capsize=3, markersize=4)
    ax.set_xscale("log")
    ax.set_xticks(counts, [f"{count:,}" for count in counts])
    ax.xaxis.set_minor_locator(NullLocator())
    ax.set_ylim(bottom=0)
    ax.set_xlabel("labels per class")
    ax.set_ylabel("error (%)")
    ax.spines[["top", "right"]].set_visible(False)
    ax.set_title(visible(title), parse_math=False)  # a dollar sign in a name must not start a formula
    for text in ax.legend(frameon=False).get_texts():
        text.set_parse_math(False)
    figure = ax.get_figure(root=True)
    assert figure is not None
    return figure


def save_picture(figure: "Figure", path: str | Path) -> None:
    """Write a figure in the format of the file's suffix; the same figure gives the same bytes."""
    from matplotlib import rc_context

    check_picture(path)
    date = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}.get(Path(path).suffix.lower())
    out = io.BytesIO()
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "laddernet"}):
        figure.savefig(out, format=Path(path).suffix[1:].lower(), dpi=150, metadata=date)
    write_atomic(path, out.getvalue())


def check_picture(path: str | Path) -> None:
    """Refuse a picture that cannot be written, before the computation starts."""
    if Path(path).suffix.lower() not in PICTURES:
        raise InputError(f"A picture cannot be written to {path}; give it a name that ends in {', '.join(PICTURES)}.")
    check_matplotlib()


def check_matplotlib() -> None:
    with packages("A picture"):
        import matplotlib  # noqa: F401

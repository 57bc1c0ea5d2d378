"""How the error falls with the number of labels: measured on one's own rows, and drawn."""

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
from laddernet.errors import InputError
from laddernet.files import write_atomic
from laddernet.inference.network import Rows, dense
from laddernet.text import visible

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PICTURES = (".svg", ".png", ".pdf")
_BLUE, _ORANGE = "#0072B2", "#D55E00"  # which the colour-blind tell apart too


@dataclass(frozen=True)
class Point:
    """Errors in per cent with so many labels a class, one for each draw of labels."""

    per_class: int  # or as many as the class has
    labels: int  # of all classes together
    judged: int  # rows that an error is measured on
    errors: tuple[float, ...]
    alone: tuple[float, ...]  # of logistic regression, which learns from the labelled rows alone

    def summary(self, alone: bool = False) -> tuple[float, float]:
        """The mean and its standard error.

        >>> Point(1, 2, 30, errors=(4.0, 6.0), alone=(9.0, 9.0)).summary()
        (5.0, 1.0)
        """
        return _mean(self.alone if alone else self.errors)

    def limits(self, alone: bool = False) -> tuple[float, float]:
        """The mean ∓ its standard error; if that rounds to 0.0, the 90 % interval for that number of rows.

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
        """Rows that were held out at least once: three draws hold out all labelled rows, and further ones no others."""
        return self.judged * min(len(self.errors), 3)

    def shown(self, alone: bool = False) -> str:
        """The mean ± its standard error as text; the limits in brackets if that rounds to 0.0.

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
    """Fit the classifier with more and more of the labels, and measure its error on labelled rows that it has not seen.

    Each of the ``repeats`` holds out a third of the labelled rows (half if a class has two), as cross-validation does,
    and shuffles the others. Their first 1, 2, 5, 10 … of each class keep their labels, or those of ``counts``; a class
    with fewer gives all it has. The rest of them, and the rows without a label, are unlabelled rows of the training;
    the rows held out are not in it. ``seed`` fixes the draws and the classifier's ``random_state``, which is another in
    each repeat. Beside it stands logistic regression, on the same labels and columns scaled alike.

    ``on_fit`` is told before each fit which it is, and of how many; ``on_point`` each point as soon as it is measured.

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
    """For each repeat the rows to judge by, and of each class its other labelled rows, shuffled."""
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
    """How many folds the labels allow: three, two, or 0 if a class has a single label.

    >>> folds_possible(np.array([0, 0, 0, 1, 1, -1]))
    2
    """
    fewest = int(np.bincount(codes[codes != UNLABELLED]).min())
    return min(fewest, 3) if fewest > 1 else 0


def _counts(asked: Sequence[int] | None, most: int) -> list[int]:
    """How many labels a class to measure with: 1, 2, 5, 10 … and at last all.

    >>> _counts(None, 30), _counts(None, 27), _counts(None, 1)
    ([1, 2, 5, 10, 20, 30], [1, 2, 5, 10, 27], [1])
    """
    if asked is None:
        steps = (digit * 10**zeros for zeros in range(len(str(most))) for digit in (1, 2, 5))
        return [step for step in steps if 1.5 * step <= most or step == 1 < most] + [most]
    if not len(asked) or not all(isinstance(count, int | np.integer) and 1 <= count <= most for count in asked):
        besides = "what the commonest class has besides the rows to judge by"
        raise InputError(f"counts is {list(asked)}; give whole numbers from 1 to {most}, {besides}.")
    return sorted({int(count) for count in asked})


def _seeded(classifier: Any, seed: int) -> Any:
    copy = clone(classifier)
    return copy.set_params(random_state=seed) if "random_state" in copy.get_params(deep=False) else copy


def _labels(classes: np.ndarray, codes: np.ndarray, mark: Any) -> np.ndarray:
    """Labels as the classifier takes them, with its mark for rows without one."""
    kind = np.result_type(classes, type(mark)) if isinstance(mark, int | float) else np.dtype(object)
    plain = classes.dtype.kind in "iuf" and (kind.kind != "f" or classes.dtype.kind == "f")  # all digits stay
    labels: np.ndarray = classes[codes].astype(kind if plain else object)
    labels[codes == UNLABELLED] = mark
    return labels


def _label_only(x: Rows, rest: np.ndarray, known: np.ndarray, codes: np.ndarray, held: np.ndarray) -> np.ndarray:
    """What logistic regression says of the rows held out."""
    scaling = find_scaling(x[rest])[1]
    fitted = LogisticRegression(max_iter=1000).fit(scaling(dense(x[known])), codes)
    return np.asarray(fitted.predict(scaling(dense(x[held]))))


def _mean(values: Sequence[float]) -> tuple[float, float]:
    """The mean and its standard error."""
    return float(np.mean(values)), float(np.std(values, ddof=1) / math.sqrt(len(values)))


def error_interval(wrong: int, total: int) -> tuple[float, float]:
    """Limits of an error in per cent, if so many of the rows are wrong: the exact (Clopper–Pearson) 90 % interval.

    >>> [tuple(round(limit, 1) for limit in error_interval(wrong, 24)) for wrong in (0, 3, 24)]
    [(0.0, 11.7), (3.5, 29.2), (88.3, 100.0)]
    """
    found = binomtest(wrong, total).proportion_ci(confidence_level=0.9, method="exact")
    return 100 * float(found.low), 100 * float(found.high)


def standard_error(error: float, rows: int) -> float:
    """The standard error in per cent of an error that was measured on this number of rows.

    >>> standard_error(10.0, 100)
    3.0
    """
    return math.sqrt(error * (100 - error) / rows)


# --- What it says -----------------------------------------------------------------------------------------------


def doubled(error: float, before: float, doublings: float = 1.0) -> float:
    """The error with twice as many labels, if it went on to fall as a power of their number.

    It was ``before`` with so many ``doublings`` less.

    >>> doubled(8.0, 10.0), round(doubled(4.0, 16.0, 4.0), 3), doubled(8.0, 7.0)
    (6.4, 2.828, 8.0)
    """
    if before <= error:
        return error
    return error * max(math.pow(error / before, 1 / doublings), 0.5)  # no error was ever seen to fall much faster


def forecast(points: Sequence[Point]) -> str:
    """What more labels would perhaps gain, in a sentence: a power law through the last point and one with half as many.

    The difference counts if it is more than twice its standard error, with draws compared pair by pair, and more than
    twice what so many judged rows can tell: three draws judge by all labelled rows, and further ones by no others.
    """
    last = points[-1]
    fewer = [point for point in points if 2 * point.labels <= last.labels]
    unknown = "what more labels would gain cannot be told."
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
    """Draw the errors of a `label_curve`, on axes of one's own or on a new figure; returns the figure."""
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
    ax.set_xlabel("labels a class")
    ax.set_ylabel("error (%)")
    ax.spines[["top", "right"]].set_visible(False)
    ax.set_title(visible(title), parse_math=False)  # a dollar sign in a name begins no formula
    for text in ax.legend(frameon=False).get_texts():
        text.set_parse_math(False)
    figure = ax.get_figure(root=True)
    assert figure is not None
    return figure


def save_picture(figure: "Figure", path: str | Path) -> None:
    """Write a figure, in the format that the name ends in; the same figure gives the same bytes."""
    from matplotlib import rc_context

    check_picture(path)
    date = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}.get(Path(path).suffix.lower())
    out = io.BytesIO()
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "laddernet"}):
        figure.savefig(out, format=Path(path).suffix[1:].lower(), dpi=150, metadata=date)
    write_atomic(path, out.getvalue())


def check_picture(path: str | Path) -> None:
    """Refuse a picture that could not be made, before the work that would be lost."""
    if Path(path).suffix.lower() not in PICTURES:
        raise InputError(f"A picture cannot be written to {path}; give it a name that ends in {', '.join(PICTURES)}.")
    check_matplotlib()


def check_matplotlib() -> None:
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        advice = "install it with pip install 'laddernet[plot]'"
        raise InputError(f"matplotlib is not installed ({error}); {advice}.") from error

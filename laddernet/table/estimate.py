"""The estimate of the error on new rows by cross-validation, with its parts, and of the gain by more labels."""

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.stats import beta

from laddernet.checks import is_finite
from laddernet.classifier.curve import doubled, standard_error
from laddernet.classifier.estimator import LadderClassifier
from laddernet.classifier.members import LADDER, members_of

if TYPE_CHECKING:
    from laddernet.classifier.held_out import HeldOut

LEVEL = 0.9  # of the intervals
_BIN = 20  # held-out rows, at least, of a bin of confidence
_MOST_BINS = 10


@dataclass(frozen=True)
class Bin:
    """Held-out rows of similar confidence."""

    confidence: float  # the mean probability of the predicted class, in per cent
    right: float  # rows that were classified rightly, the mean of the repeats
    rows: int


@dataclass(frozen=True)
class Estimate:
    """Errors in per cent, by cross-validation over the labelled rows."""

    folds: int
    labels: int  # of each training
    judged: int  # labelled rows that were held out, once in each repeat
    wrong: float  # held-out rows that were classified wrongly, the mean of the repeats
    spread: float  # standard error of the difference between all and half of the labels; in older files, over folds
    majority_error: float  # of always predicting the most frequent class
    half_labels: int | None = None
    half_error: float | None = None
    repeats: int = 1
    method: str = LADDER
    methods: dict[str, float] | None = None  # the number of rows that each method had wrong
    advice: str = ""  # which method to use
    confusion: tuple[tuple[int, int, float], ...] = ()  # (class, predicted class, rows), where there are any
    bins: tuple[Bin, ...] = ()

    @classmethod
    def of(cls, kept: dict[str, Any], labels: dict[str, int]) -> "Estimate":
        """Read the estimate in a file; that of an older version has the mean error of the folds and no counts."""
        labelled = sum(labels.values())
        counts = {"judged": labelled, "wrong": round(kept.get("error", 0.0) / 100 * labelled)}
        bins = tuple(Bin(**held) for held in kept.get("bins", ()))
        made = cls(**counts | {name: value for name, value in kept.items() if name != "error"} | {"bins": bins})
        numbers = [made.wrong, made.judged, *(made.methods or {}).values()]
        if not all(is_finite(number) and 0 <= number <= made.judged for number in numbers):
            raise ValueError("the counts of its estimate are not from 0 to the number of rows")
        if not all(0 <= code < len(labels) for held in made.confusion for code in held[:2]):
            raise ValueError("its estimate has other classes")
        return replace(made, confusion=tuple((int(a), int(b), float(rows)) for a, b, rows in made.confusion))

    @property
    def error(self) -> float:
        """The share of the held-out rows that were wrong."""
        return 100 * self.wrong / self.judged

    @property
    def interval(self) -> tuple[float, float]:
        """The 90 % confidence interval of the error."""
        return interval(self.wrong, self.judged)

    @property
    def double_error(self) -> float | None:
        """The error with twice as many labels, if it goes on to fall as a power of their number.

        >>> Estimate(3, 100, 150, 12, spread=1.0, majority_error=50.0, half_labels=50, half_error=10.0).double_error
        6.4
        """
        if self.half_error is None or not self.half_labels:
            return None
        return doubled(self.error, self.half_error, max(math.log2(self.labels / self.half_labels), 0.5))

    def by_class(self, classes: Sequence[str]) -> list[dict[str, Any]]:
        """Return for each class its held-out rows, how many of them were wrong, the error and its interval."""
        found = []
        for code, name in enumerate(classes):
            rows = sum(count for truth, _, count in self.confusion if truth == code)
            wrong = sum(count for truth, predicted, count in self.confusion if truth == code != predicted)
            about: dict[str, Any] = {"class": name, "judged": round(rows), "wrong": round(wrong, 6)}
            limits = interval(wrong, rows) if rows else None
            found.append(about | {"error": 100 * wrong / rows if rows else None, "interval": limits and list(limits)})
        return found

    def matrix(self, classes: int) -> np.ndarray:
        """Return the confusion matrix: a row for each class, a column for each predicted class."""
        out = np.zeros((classes, classes))
        for truth, predicted, rows in self.confusion:
            out[truth, predicted] = rows
        return out

    def about(self, classes: Sequence[str] = ()) -> dict[str, Any]:
        """Return all figures as values for JSON."""
        found = {"error": self.error, "interval": list(self.interval), "double_error": self.double_error}
        return asdict(self) | found | {"classes": self.by_class(classes), "sentences": self.sentences()}

    def sentences(self) -> list[str]:
        """Write the figures as sentences."""
        low, high = self.interval
        mean = f", mean of {self.repeats} repeats," if self.repeats > 1 else ""
        out = [
            f"Expected error on new rows: {self.error:.1f} %, between {low:.1f} and {high:.1f} % with 90 % confidence "
            f"({counted(self.wrong)} of {self.judged:,} labelled rows wrong in {self.folds}-fold cross-validation{mean}"
            f" with {self.labels:,} labels each time; always predicting the most frequent class: "
            f"{self.majority_error:.1f} %)."
        ]
        if self.half_error is not None and self.double_error is not None:
            out.append(self._gain_by_labels(self.half_error, self.double_error))
        if self.bins:
            rows = sum(held.rows for held in self.bins)
            confidence = sum(held.confidence * held.rows for held in self.bins) / rows
            right = 100 * sum(held.right for held in self.bins) / rows
            out.append(f"Its mean confidence was {confidence:.0f} %, and {right:.0f} % of the rows were right.")
        return out

    def _gain_by_labels(self, half: float, double: float) -> str:
        measured = f"With half of the labels it is {half:.1f} %"
        by_rows = standard_error((self.error + half) / 2, self.judged)
        if half - self.error <= max(self.spread, by_rows):
            return f"{measured}, no clear difference: the gain by more labels is unknown."
        if not self.wrong:  # a power law through 0 has no meaning
            return f"{measured}; the gain by more labels is unknown."
        return f"{measured}; with twice as many it may be {double:.1f} %."


def interval(wrong: float, rows: float) -> tuple[float, float]:
    """Return the Clopper–Pearson 90 % interval, in per cent, of an error; a mean of repeats need not be an integer.

    Repeats judge the same rows again, so they do not count as more rows.

    >>> [tuple(round(limit, 1) for limit in interval(wrong, 24)) for wrong in (0, 2.5, 24)]
    [(0.0, 11.7), (2.4, 26.6), (88.3, 100.0)]
    """
    tail = (1 - LEVEL) / 2
    low = float(beta.ppf(tail, wrong, rows - wrong + 1)) if wrong > 0 else 0.0
    high = float(beta.ppf(1 - tail, wrong + 1, rows - wrong)) if wrong < rows else 1.0
    return 100 * low, 100 * high


def counted(rows: float) -> str:
    """Format a number of rows that is the mean of repeats.

    >>> counted(1200.0), counted(27.5), counted(8 / 3)
    ('1,200', '27.5', '2.7')
    """
    return f"{rows:,.0f}" if math.isclose(rows, round(rows), abs_tol=1e-6) else f"{rows:,.1f}"


def estimate(
    held: "HeldOut",
    method: str,
    x: np.ndarray,
    codes: np.ndarray,
    *,
    ladder: LadderClassifier | None = None,
    seed: int = 0,
    on_fit: Callable[[str], None] = lambda name: None,
) -> Estimate:
    """Estimate the error of a method from the held-out rows of `cross_validate`.

    The same is measured with half of the labels, by cross-validation with two folds.
    """
    from laddernet.classifier.held_out import cross_validate

    truth, p = held.codes, held.probabilities[method]
    predicted = p.argmax(axis=2)
    pairs, rows = np.unique(np.stack([np.tile(truth, held.repeats), predicted.ravel()]), axis=1, return_counts=True)
    found = Estimate(
        held.folds,
        held.labels,
        len(truth),
        float(held.wrong(method).sum()),
        spread=0.0,
        majority_error=100 * (1 - float(np.bincount(truth).max()) / len(truth)),
        repeats=held.repeats,
        method=method,
        methods=held.errors(),
        advice=held.advice(method) if len(held.probabilities) > 1 else "",
        confusion=tuple(
            (int(a), int(b), float(count) / held.repeats) for (a, b), count in zip(pairs.T, rows, strict=True)
        ),
        bins=_bins(p, truth),
    )
    if held.folds == 2:  # then half of the labels are all that is learned from
        return found
    names = members_of(method)
    half = cross_validate(names, x, codes, folds=2, repeats=1, ladder=ladder, seed=seed, on_fit=on_fit)
    loss = half.wrong(method) - held.wrong(method)
    return replace(
        found,
        spread=100 * float(loss.std(ddof=1)) / math.sqrt(len(loss)),
        half_labels=half.labels,
        half_error=100 * float(half.wrong(method).mean()),
    )


def _bins(p: np.ndarray, truth: np.ndarray) -> tuple[Bin, ...]:
    """Sort the held-out rows by confidence into bins of equal size; none if there are too few rows for two bins."""
    number = min(len(truth) // _BIN, _MOST_BINS)
    if number < 2:
        return ()
    confidence, right = p.max(axis=2).mean(axis=0), (p.argmax(axis=2) == truth).mean(axis=0)
    return tuple(
        Bin(100 * float(confidence[rows].mean()), float(right[rows].sum()), len(rows))
        for rows in np.array_split(np.argsort(confidence, kind="stable"), number)
    )

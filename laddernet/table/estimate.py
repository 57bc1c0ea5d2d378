"""The estimate of the error on new rows, and of the gain by more labels."""

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from sklearn.model_selection import StratifiedKFold

from laddernet.classifier.curve import doubled, error_interval, folds_possible, standard_error
from laddernet.classifier.estimator import LadderClassifier
from laddernet.classifier.labels import UNLABELLED


@dataclass(frozen=True)
class Estimate:
    """Errors in per cent, by cross-validation over the labelled rows."""

    folds: int
    labels: int  # of each training
    judged: int  # labelled rows; each is held out once
    wrong: int  # held-out rows that were classified wrongly
    spread: float  # standard deviation over the folds; 0 does not mean certainty
    majority_error: float  # of always predicting the most frequent class
    half_labels: int | None = None
    half_error: float | None = None

    @classmethod
    def of(cls, kept: dict[str, Any], labelled: int) -> "Estimate":
        """Read the estimate in a file; that of an older version has the mean error of the folds and no counts."""
        counts = {"judged": labelled, "wrong": round(kept.get("error", 0.0) / 100 * labelled)}
        return cls(**counts | {name: value for name, value in kept.items() if name != "error"})

    @property
    def error(self) -> float:
        """The share of the held-out rows that were wrong."""
        return 100 * self.wrong / self.judged

    @property
    def interval(self) -> tuple[float, float]:
        """The 90 % confidence interval of the error."""
        return error_interval(self.wrong, self.judged)

    @property
    def double_error(self) -> float | None:
        """The error with twice as many labels, if it goes on to fall as a power of their number.

        >>> Estimate(3, 100, 150, 12, spread=1.0, majority_error=50.0, half_labels=50, half_error=10.0).double_error
        6.4
        """
        return None if self.half_error is None else doubled(self.error, self.half_error)

    def about(self) -> dict[str, Any]:
        """Return all figures as values for JSON."""
        found = {"error": self.error, "interval": list(self.interval), "double_error": self.double_error}
        return asdict(self) | found | {"sentences": self.sentences()}

    def sentences(self) -> list[str]:
        """Say the figures in words."""
        low, high = self.interval
        first = (
            f"Expected error on new rows: {self.error:.1f} %, between {low:.1f} and {high:.1f} % with 90 % confidence "
            f"({self.wrong:,} of {self.judged:,} labelled rows wrong in {self.folds}-fold cross-validation "
            f"with {self.labels:,} labels each time; always predicting the most frequent class: "
            f"{self.majority_error:.1f} %)."
        )
        if self.half_error is None or self.double_error is None:
            return [first]
        measured = f"With half of the labels it is {self.half_error:.1f} %"
        by_rows = standard_error((self.error + self.half_error) / 2, self.judged)
        if self.half_error - self.error <= max(self.spread, by_rows):
            return [first, f"{measured}, no clear difference: the gain by more labels is unknown."]
        if not self.wrong:  # a power law through 0 has no meaning
            return [first, f"{measured}; the gain by more labels is unknown."]
        return [first, f"{measured}; with twice as many it may be {self.double_error:.1f} %."]


def estimate(
    make: Callable[[], LadderClassifier],
    X: np.ndarray,
    codes: np.ndarray,
    *,
    seed: int = 0,
    on_fit: Callable[[], None] = lambda: None,
) -> Estimate:
    """Estimate the error by cross-validation over the labelled rows; all unlabelled rows are in every training.

    The held-out rows are not in the training. Each fold is repeated with half of the labels, which shows the value of
    labels. ``on_fit`` is called before each training.
    """
    folds = folds_possible(codes)
    labelled = np.flatnonzero(codes != UNLABELLED)
    rng = np.random.default_rng(seed)
    wrong: dict[str, list[int]] = {"all": [], "half": []}
    judged: list[int] = []
    counts: dict[str, list[int]] = {"all": [], "half": []}
    split = StratifiedKFold(folds, shuffle=True, random_state=seed)
    for known, held in split.split(labelled, codes[labelled]):
        rest = np.delete(np.arange(len(codes)), labelled[held])
        judged.append(len(held))
        for share in ("all", "half"):
            given = codes.copy()
            if share == "half":
                for name in np.unique(codes[labelled]):
                    rows = rng.permutation(labelled[known][codes[labelled[known]] == name])
                    given[rows[(len(rows) + 1) // 2 :]] = UNLABELLED
            on_fit()
            predicted = make().fit(X[rest], given[rest]).predict(X[labelled[held]])
            wrong[share].append(int(np.count_nonzero(predicted != codes[labelled[held]])))
            counts[share].append(int(np.count_nonzero(given[rest] != UNLABELLED)))
    majority = 100 * (1 - np.bincount(codes[labelled]).max() / len(labelled))
    spread = 100 * float(np.std(np.divide(wrong["all"], judged)))
    everything = Estimate(
        folds, round(np.mean(counts["all"])), len(labelled), sum(wrong["all"]), spread, float(majority)
    )
    if counts["half"] == counts["all"]:  # a single label of each class cannot be halved
        return everything
    half_error = 100 * sum(wrong["half"]) / len(labelled)
    return replace(everything, half_labels=round(np.mean(counts["half"])), half_error=half_error)

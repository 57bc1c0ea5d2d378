"""The methods of the few-labels benchmark, and one fit: a method, trained on one draw of labels and measured."""

import math
import time
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from typing import Any, NamedTuple

import few_labels_data as data
import numpy as np
from few_labels_results import Fit, Result
from numpy.typing import NDArray

from laddernet.errors import InputError

BINS = 15  # of confidence, in the calibration error


class Case(NamedTuple):
    """The properties of a fit on which the parameters of a classifier may depend."""

    columns: int
    labels: int  # of each class
    labelled: int  # rows
    seed: int
    hidden: tuple[int, ...]  # as LadderClassifier has them for these rows


@dataclass(frozen=True)
class Method:
    what: str
    make: Callable[[Case], Any]
    unlabelled: bool = True  # whether it is given the rows without labels
    scaled: bool = True
    most_rows: int | None = None  # it learns from no more: all labelled ones, and others drawn at random
    package: str = "sklearn"


def _ladder(case: Case) -> Any:
    from laddernet.classifier.estimator import LadderClassifier

    return LadderClassifier(random_state=case.seed)


def _blend(case: Case) -> Any:
    from laddernet.classifier.few_labels import FewLabelClassifier

    return FewLabelClassifier("blend", random_state=case.seed)


def _spreading_knn(case: Case) -> Any:
    from sklearn.semi_supervised import LabelSpreading

    return LabelSpreading(kernel="knn")


def _spreading_rbf(case: Case) -> Any:
    from sklearn.semi_supervised import LabelSpreading

    # The default, 20, is for two columns: in many, no row would be near another. Of 1, 3, 10 and 30 over the columns,
    # 10 had the least test error on six of eight of these sets (10 labels per class, 3 draws): it favours this method.
    return LabelSpreading(kernel="rbf", gamma=10 / case.columns)


def _self_training_svm(case: Case) -> Any:
    from scipy.special import softmax
    from sklearn.semi_supervised import SelfTrainingClassifier
    from sklearn.svm import SVC

    class Margins(SVC):  # type: ignore[misc]
        """Use margins with one label per class, since no row can be held out for calibration."""

        def predict_proba(self, x: NDArray[np.float32]) -> NDArray[np.float64]:
            margins = self.decision_function(x)
            both = np.column_stack([-margins, margins]) if margins.ndim == 1 else margins
            return np.asarray(softmax(both, axis=1))

    if case.labels == 1:
        return SelfTrainingClassifier(Margins())
    return SelfTrainingClassifier(SVC(C=10, probability=True, random_state=case.seed))


def _self_training_logistic(case: Case) -> Any:
    from sklearn.linear_model import LogisticRegression
    from sklearn.semi_supervised import SelfTrainingClassifier

    return SelfTrainingClassifier(LogisticRegression(max_iter=1000))


def _logistic(case: Case) -> Any:
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(max_iter=1000)


def _weak_logistic(case: Case) -> Any:
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(C=0.1, max_iter=1000)


def _boosting(case: Case) -> Any:
    from sklearn.ensemble import HistGradientBoostingClassifier

    return HistGradientBoostingClassifier(min_samples_leaf=_leaf(case), random_state=case.seed)


def _lightgbm(case: Case) -> Any:
    from lightgbm import LGBMClassifier

    return LGBMClassifier(min_child_samples=_leaf(case), random_state=case.seed, n_jobs=1, verbose=-1)


def _leaf(case: Case) -> int:
    # With the default, 20 rows a leaf, fewer than 40 labels would give no tree at all.
    return min(20, max(1, case.labelled // 10))


def _catboost(case: Case) -> Any:
    from catboost import CatBoostClassifier

    return CatBoostClassifier(random_seed=case.seed, thread_count=1, verbose=False, allow_writing_files=False)


def _forest(case: Case) -> Any:
    from sklearn.ensemble import RandomForestClassifier

    return RandomForestClassifier(random_state=case.seed)


def _extra_trees(case: Case) -> Any:
    from sklearn.ensemble import ExtraTreesClassifier

    return ExtraTreesClassifier(random_state=case.seed)


def _mlp(case: Case) -> Any:
    from sklearn.neural_network import MLPClassifier

    return MLPClassifier(case.hidden, max_iter=1000, random_state=case.seed)


def _realmlp(case: Case) -> Any:
    from pytabkit import RealMLP_TD_Classifier

    return RealMLP_TD_Classifier(random_state=case.seed, device="cpu", n_threads=1)


METHODS: dict[str, Method] = {
    "blend": Method("the blend of `laddernet fit`, as it comes, on columns as they come", _blend, scaled=False),
    "ladder": Method("LadderClassifier as it comes, on columns as they come", _ladder, scaled=False),
    "spreading-knn": Method("LabelSpreading, kernel knn, 7 neighbours", _spreading_knn),
    "spreading-rbf": Method(
        "LabelSpreading, kernel rbf, γ = 10 / columns, chosen by test error on eight of the sets",
        _spreading_rbf,
        most_rows=10_000,
    ),
    "self-training-svm": Method(
        "SelfTrainingClassifier with an SVC of C = 10 and the probabilities that it finds itself (with 1 label per "
        "class the softmax of its margins), which test errors on nine of the sets preferred to C = 1 and other "
        "calibration",
        _self_training_svm,
        most_rows=5_000,
    ),
    "self-training-logistic": Method("SelfTrainingClassifier with LogisticRegression", _self_training_logistic),
    "logistic": Method("LogisticRegression, labelled rows only", _logistic, unlabelled=False),
    "logistic-0.1": Method("LogisticRegression with C = 0.1, labelled rows only", _weak_logistic, unlabelled=False),
    "boosting": Method(
        "HistGradientBoostingClassifier, labelled rows only, leaves of at least a tenth of them (1 to 20 rows)",
        _boosting,
        unlabelled=False,
    ),
    "lightgbm": Method(
        "LGBMClassifier, labelled rows only, leaves of at least a tenth of them (1 to 20 rows)",
        _lightgbm,
        unlabelled=False,
        package="lightgbm",
    ),
    "catboost": Method("CatBoostClassifier, labelled rows only", _catboost, unlabelled=False, package="catboost"),
    "forest": Method("RandomForestClassifier, labelled rows only", _forest, unlabelled=False),
    "extra-trees": Method("ExtraTreesClassifier, labelled rows only", _extra_trees, unlabelled=False),
    "mlp": Method("MLPClassifier, labelled rows only, hidden layers as the ladder has them", _mlp, unlabelled=False),
    "realmlp": Method(
        "RealMLP_TD_Classifier of pytabkit, labelled rows only", _realmlp, unlabelled=False, package="pytabkit"
    ),
}


def check_installed(methods: Iterable[str]) -> None:
    """Refuse methods whose packages are missing."""
    if missing := sorted({p for m in methods if not find_spec(p := METHODS[m].package)}):
        of = ", ".join(m for m in METHODS if METHODS[m].package in missing)
        raise InputError(
            f"{', '.join(missing)} is not installed: `pip install -e '.[rivals]'` brings it, or leave {of} out of "
            "--methods."
        )


# --- One fit --------------------------------------------------------------------------------------------------


def draw_labels(y: NDArray[np.int32], labels: int, seed: int) -> NDArray[np.int32]:
    """Return the classes of ``labels`` random rows per class, and -1 for the others; a smaller choice is a subset.

    >>> draw_labels(np.array([0, 0, 0, 1, 1], np.int32), 2, seed=0)
    array([ 0, -1,  0,  1,  1], dtype=int32)
    """
    rng = np.random.default_rng(seed)
    drawn = np.full_like(y, -1)
    for k in range(int(y.max()) + 1):
        drawn[rng.permutation(np.flatnonzero(y == k))[:labels]] = k
    return drawn


def measure(fit: Fit) -> Result:
    """Fit one method to one draw, in a process that has one core."""
    return measured(_loaded(fit.set).y_test, predicted(fit))


class Predicted(NamedTuple):
    """The predictions for the test rows, and the seconds that the fit took."""

    classes: NDArray[np.integer]
    probabilities: NDArray[np.float64]
    seconds: float


def predicted(fit: Fit) -> Predicted:
    """Fit one method, and predict the test rows."""
    method = METHODS[fit.method]
    parts = _loaded(fit.set)
    y = draw_labels(parts.y_train, fit.labels, fit.draw)
    rows = _rows(y, method, fit.draw)
    model = method.make(Case(parts.columns, fit.labels, int(np.sum(y >= 0)), fit.draw, _hidden(fit.set)))
    with warnings.catch_warnings():
        # That an optimiser stopped early, or that nothing was left to label, is part of the method.
        warnings.simplefilter("ignore")
        started = time.process_time()
        x_train, x_test = _scaled(fit.set) if method.scaled else (parts.x_train, parts.x_test)
        model.fit(x_train[rows], y[rows])
        seconds = time.process_time() - started
        classes = np.ravel(model.predict(x_test))
        # Label spreading has no probabilities for rows that no label reaches, and predicts their first class.
        probabilities = np.nan_to_num(np.asarray(model.predict_proba(x_test), np.float64), nan=1 / parts.classes)
    return Predicted(classes, probabilities / probabilities.sum(axis=1, keepdims=True), seconds)


def measured(y: NDArray[np.integer], found: Predicted) -> Result:
    """Measure predictions by the true classes."""
    from sklearn.metrics import accuracy_score, balanced_accuracy_score, log_loss

    confidence = found.probabilities[np.arange(len(y)), found.classes]
    return Result(
        error=100 * (1 - accuracy_score(y, found.classes)),
        seconds=found.seconds,
        balanced_error=100 * (1 - balanced_accuracy_score(y, found.classes)),
        log_loss=float(log_loss(y, found.probabilities, labels=np.arange(found.probabilities.shape[1]))),
        ece=100 * calibration_error(found.classes == y, confidence),
        confidence=100 * float(confidence.mean()),
    )


def calibration_error(correct: NDArray[np.bool_], confidence: NDArray[np.float64]) -> float:
    """Return the mean distance between accuracy and confidence, over bins of equal width (Guo et al., 2017).

    >>> round(calibration_error(np.array([True, False, True, True]), np.array([0.5, 0.5, 0.9, 0.9])), 6)
    0.05
    """
    bins = np.minimum((confidence * BINS).astype(int), BINS - 1)
    excess = np.bincount(bins, weights=correct - confidence, minlength=BINS)
    return float(np.abs(excess).sum()) / len(correct)


def _rows(y: NDArray[np.int32], method: Method, seed: int) -> NDArray[np.intp]:
    labelled, others = np.flatnonzero(y >= 0), np.flatnonzero(y < 0)
    if not method.unlabelled:
        return labelled
    if method.most_rows and len(y) > method.most_rows:
        others = np.random.default_rng(seed).permutation(others)[: max(0, method.most_rows - len(labelled))]
    return np.sort(np.concatenate([labelled, others]))


@lru_cache(1)  # fits of one set follow each other
def _loaded(name: str) -> data.Parts:
    return data.load(name)


@lru_cache(1)
def _hidden(name: str) -> tuple[int, ...]:
    """Return the layers that LadderClassifier has for a set by default."""
    from laddernet.classifier.defaults import DEFAULTS
    from laddernet.classifier.scaling import find_scaling

    return DEFAULTS[find_scaling(_loaded(name).x_train)[0]].hidden


@lru_cache(1)
def _scaled(name: str) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Scale columns to mean 0 and variance 1, by all training rows; pixels are divided by one number for all."""
    parts = _loaded(name)
    mean, deviation = parts.x_train.mean(0, np.float64), parts.x_train.std(0, np.float64)
    if data.SETS[name].one_unit:
        deviation = np.full_like(deviation, math.sqrt(np.mean(deviation**2)))
    deviation[deviation == 0] = 1
    train, test = (((x - mean) / deviation).astype(np.float32) for x in (parts.x_train, parts.x_test))
    return train, test

"""Cross-validation of any scikit-learn estimator on rows of which only some have a label."""

from collections.abc import Iterator
from typing import Any, Self

import numpy as np
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.model_selection import BaseCrossValidator
from sklearn.utils import Tags, check_random_state, get_tags
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_consistent_length, check_is_fitted

from laddernet import checks
from laddernet.classifier.labels import known_labels
from laddernet.errors import InputError


class LabelledKFold(BaseCrossValidator):
    """Repeated stratified folds of the labelled rows; every unlabelled row is in every training.

    A splitter for ``cv=`` of `cross_val_score`, `cross_validate`, `cross_val_predict` (with one repeat) and
    `GridSearchCV`. The held-out rows all have a label, so any ``scoring`` applies. The labels of a class are spread
    over the folds as evenly as possible. The row of a class with a single label is in every training, since no
    estimator can learn a class without a row of it.

    Parameters
    ----------
    n_splits : number of folds, 2 or more.
    n_repeats : number of repeats, with other random folds each time.
    unlabeled : value in y of a row without a label, besides None, NaN and NA. None: only those.
    random_state : fixes the folds; None: other folds at each call.

    Examples
    --------
    >>> y = [0, 1, -1, 0, 1, -1, 2]
    >>> for train, test in LabelledKFold(2).split(np.zeros((7, 1)), y):
    ...     print(train.tolist(), test.tolist())
    [0, 1, 2, 5, 6] [3, 4]
    [2, 3, 4, 5, 6] [0, 1]
    """

    def __init__(self, n_splits: int = 5, *, n_repeats: int = 1, unlabeled: Any = -1, random_state: Any = 0) -> None:
        self.n_splits = int(checks.integer("n_splits", n_splits, least=2))
        self.n_repeats = int(checks.integer("n_repeats", n_repeats))
        self.unlabeled = unlabeled
        self.random_state = random_state

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """Return the number of splits.

        Parameters
        ----------
        X, y, groups : ignored; scikit-learn passes them.

        Returns
        -------
        int
            The number of splits of all repeats together.
        """
        return self.n_splits * self.n_repeats

    def _iter_test_indices(self, X: Any = None, y: Any = None, groups: Any = None) -> Iterator[np.ndarray]:
        if y is None:
            raise InputError("LabelledKFold needs y, to find the labelled rows.")
        mask, labels = known_labels(y, self.unlabeled)
        labelled = np.flatnonzero(mask)
        codes = np.unique(labels, return_inverse=True)[1]
        judged = held_out_rows(codes)
        if len(judged) < self.n_splits:
            counted = f"{len(judged)} labelled rows of classes with two labels or more"
            raise InputError(f"n_splits is {self.n_splits}, and y has {counted}; give fewer folds or more labels.")
        rng = check_random_state(self.random_state)
        for _ in range(self.n_repeats):
            # The rows are dealt to the folds class by class: each class is spread evenly, and so are all rows.
            shuffled = rng.permutation(judged)
            dealt = shuffled[np.argsort(codes[shuffled], kind="stable")]
            folds = np.arange(len(dealt)) % self.n_splits
            for fold in range(self.n_splits):
                yield np.sort(labelled[dealt[folds == fold]])


def held_out_rows(codes: np.ndarray) -> np.ndarray:
    """Return the labelled rows that can be held out: those of classes with two labels or more.

    >>> held_out_rows(np.array([0, 1, -1, 0, 2, 2])).tolist()
    [0, 3, 4, 5]
    """
    counts = np.bincount(codes[codes >= 0])
    return np.flatnonzero((codes >= 0) & (counts[codes] > 1))


def _has(method: str) -> Any:
    """Return whether the estimator of a meta-estimator has a method, for `available_if`."""

    def check(meta: "LabelledOnly") -> bool:
        getattr(getattr(meta, "estimator_", meta.estimator), method)  # the AttributeError is the estimator's own
        return True

    return check


class LabelledOnly(MetaEstimatorMixin, ClassifierMixin, BaseEstimator):
    """Fit a supervised estimator to the labelled rows only, so that it accepts the same y as semi-supervised ones.

    Parameters
    ----------
    estimator : a scikit-learn classifier, which is cloned and not changed.
    unlabeled : value in y of a row without a label, besides None, NaN and NA. None: only those.

    Attributes
    ----------
    estimator_ : the fitted estimator.
    classes_ : its classes.

    Examples
    --------
    >>> from sklearn.linear_model import LogisticRegression
    >>> X = np.arange(6.0)[:, None]
    >>> LabelledOnly(LogisticRegression()).fit(X, [0, 0, -1, -1, 1, 1]).predict(X).tolist()
    [0, 0, 0, 1, 1, 1]
    """

    def __init__(self, estimator: Any, *, unlabeled: Any = -1) -> None:
        self.estimator = estimator
        self.unlabeled = unlabeled

    def fit(self, X: Any, y: Any) -> Self:
        """Fit a clone of the estimator to the labelled rows.

        Parameters
        ----------
        X : the rows, as the estimator accepts them.
        y : a label for each row, or the value of ``unlabeled``, None, NaN or NA.

        Returns
        -------
        self

        Raises
        ------
        InputError
            If y is None.
        """
        if y is None:
            raise InputError(f"This {type(self).__name__} requires y to be passed, but the target y is None.")
        check_consistent_length(X, y)
        rows, labels = known_labels(y, self.unlabeled)
        self.estimator_ = clone(self.estimator).fit(_taken(X, np.flatnonzero(rows)), labels)
        self.classes_ = self.estimator_.classes_
        return self

    @property
    def n_features_in_(self) -> int:
        """The number of columns that the estimator was fitted to."""
        check_is_fitted(self)
        return int(self.estimator_.n_features_in_)

    @property
    def feature_names_in_(self) -> np.ndarray:
        """The names of the columns that the estimator was fitted to, if they had names."""
        check_is_fitted(self)
        names: np.ndarray = self.estimator_.feature_names_in_
        return names

    @available_if(_has("predict"))  # type: ignore[untyped-decorator]
    def predict(self, X: Any) -> Any:
        """Predict the class of each row with the fitted estimator.

        Parameters
        ----------
        X : the rows, as the estimator accepts them.

        Returns
        -------
        numpy.ndarray of shape (rows,)
            The estimator's classes.
        """
        check_is_fitted(self)
        return self.estimator_.predict(X)

    @available_if(_has("predict_proba"))  # type: ignore[untyped-decorator]
    def predict_proba(self, X: Any) -> Any:
        """Compute the probability of each class with the fitted estimator.

        Parameters
        ----------
        X : the rows, as the estimator accepts them.

        Returns
        -------
        numpy.ndarray of shape (rows, classes)
            The probabilities, in the order of ``classes_``.
        """
        check_is_fitted(self)
        return self.estimator_.predict_proba(X)

    @available_if(_has("predict_log_proba"))  # type: ignore[untyped-decorator]
    def predict_log_proba(self, X: Any) -> Any:
        """Compute the logarithm of the probability of each class with the fitted estimator.

        Parameters
        ----------
        X : the rows, as the estimator accepts them.

        Returns
        -------
        numpy.ndarray of shape (rows, classes)
            The logarithms, in the order of ``classes_``.
        """
        check_is_fitted(self)
        return self.estimator_.predict_log_proba(X)

    @available_if(_has("decision_function"))  # type: ignore[untyped-decorator]
    def decision_function(self, X: Any) -> Any:
        """Compute the decision function of the fitted estimator.

        Parameters
        ----------
        X : the rows, as the estimator accepts them.

        Returns
        -------
        numpy.ndarray
            The estimator's decision values, in its own shape.
        """
        check_is_fitted(self)
        return self.estimator_.decision_function(X)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Compute the fitted estimator's score on the labelled rows.

        Parameters
        ----------
        X : the rows, as the estimator accepts them.
        y : the class of each row; rows without a label do not count.
        sample_weight : array of shape (rows,), optional
            The weight of each row.

        Returns
        -------
        float
            The estimator's own score; for a classifier, the accuracy.
        """
        check_is_fitted(self)
        check_consistent_length(X, y, sample_weight)
        rows, labels = known_labels(y, self.unlabeled)
        weights = {} if sample_weight is None else {"sample_weight": np.asarray(sample_weight)[rows]}
        return float(self.estimator_.score(_taken(X, np.flatnonzero(rows)), labels, **weights))

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        inner = get_tags(self.estimator)
        tags.input_tags = inner.input_tags
        tags.classifier_tags = inner.classifier_tags
        return tags


def _taken(X: Any, rows: np.ndarray) -> Any:
    """Take rows of an array, a sparse matrix, a data frame or a list."""
    if hasattr(X, "iloc"):
        return X.iloc[rows]
    if issparse(X):
        return X.tocsr()[rows]
    return X[rows] if hasattr(X, "shape") else np.asarray(X)[rows]

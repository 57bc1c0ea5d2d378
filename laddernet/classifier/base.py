"""The base of the classifiers: a fit that restores the last one after an error, predictions, their score, files."""

import os
from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics import accuracy_score
from sklearn.utils.validation import check_array, check_consistent_length, check_is_fitted, validate_data

from laddernet.classifier.labels import encode_labels, known_labels
from laddernet.classifier.stored import as_json, restored_classes, restored_parameters, restored_scaling
from laddernet.errors import InputError
from laddernet.inference import modelfile
from laddernet.inference.network import Rows, Scaling


class SemiSupervisedClassifier(ClassifierMixin, BaseEstimator):
    """A classifier whose y may lack labels.

    Subclasses have the parameter ``unlabeled``, ``_fit`` and ``predict_proba``, and write and read with ``_state`` and
    ``_restore`` what their files hold beside parameters, classes and columns.
    """

    _kind: str  # of its files
    _unkept: tuple[str, ...] = ()  # parameters that its files do not hold
    unlabeled: Any

    def fit(self, X: Any, y: Any) -> Self:
        """Train on all rows of X and on the labels in y; after an error, the previous fit is restored.

        Parameters
        ----------
        X : array, data frame or sparse matrix of shape (rows, columns).
        y : a label for each row, or the value of ``unlabeled``, None, NaN or NA.

        Returns
        -------
        self

        Raises
        ------
        InputError
            If X, y or a parameter is invalid, or y holds labels of fewer than two classes.
        """
        kept = vars(self).copy()
        try:
            return self._fit(X, y)
        except BaseException:  # restore the previous fit
            self.__dict__.clear()
            self.__dict__.update(kept)
            raise

    def _fit(self, X: Any, y: Any) -> Self:
        raise NotImplementedError

    def predict(self, X: Any) -> np.ndarray:
        """Predict the class of each row.

        Parameters
        ----------
        X : array, data frame or sparse matrix of shape (rows, columns).

        Returns
        -------
        numpy.ndarray of shape (rows,)
            The most probable class of each row.
        """
        best = self._scores(X).argmax(axis=1)  # first: it raises NotFittedError
        classes: np.ndarray = self.classes_[best]
        return classes

    def predict_proba(self, X: Any) -> np.ndarray:
        """Compute the probability of each class."""
        raise NotImplementedError

    def _scores(self, X: Any) -> np.ndarray:
        """Return a score of each row for each class; the class with the highest is predicted."""
        return self.predict_proba(X)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Compute the accuracy on the labelled rows.

        Parameters
        ----------
        X : array, data frame or sparse matrix of shape (rows, columns).
        y : the class of each row; rows without a label do not count.
        sample_weight : array of shape (rows,), optional
            The weight of each row.

        Returns
        -------
        float
            The accuracy, from 0 to 1.

        Raises
        ------
        InputError
            If no row has a label.
        """
        check_consistent_length(X, y, sample_weight)
        rows, truth = known_labels(y, self.unlabeled)
        if not len(truth):
            raise InputError("No row of y has a label; give some to judge by.")
        weights = None if sample_weight is None else np.asarray(sample_weight)[rows]
        return float(accuracy_score(truth, self.predict(X)[rows], sample_weight=weights))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted classifier to one safetensors file.

        Parameters
        ----------
        path : the file, which is written completely or not at all.

        Raises
        ------
        InputError
            If the file cannot be written.
        """
        modelfile.write(path, self._kind, *self.state())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a classifier from a file of :meth:`save`; no code in the file is run.

        Parameters
        ----------
        path : the file.

        Returns
        -------
        Self
            The fitted classifier, which predicts as before.

        Raises
        ------
        InputError
            If the file is damaged, of another kind, or of a newer version.
        """
        with modelfile.understood(path):
            return cls.from_state(*modelfile.read(path, cls._kind))

    def state(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Return the fitted state.

        Returns
        -------
        dict of str to numpy.ndarray
            The arrays by name.
        dict
            All else, in values for JSON.
        """
        check_is_fitted(self)
        arrays, about = self._state()
        names = list(self.feature_names_in_) if hasattr(self, "feature_names_in_") else None
        return arrays, {
            "parameters": {name: as_json(value) for name, value in self.get_params(deep=False).items()},
            "classes": {"dtype": self.classes_.dtype.str, "values": self.classes_.tolist()},
            "n_features_in": int(self.n_features_in_),
            "feature_names_in": names,
            **about,
        }

    @classmethod
    def from_state(cls, arrays: Mapping[str, np.ndarray], about: Mapping[str, Any]) -> Self:
        """Make a classifier from its :meth:`state`.

        Parameters
        ----------
        arrays, about : the two parts of the state.

        Returns
        -------
        Self
            The fitted classifier.

        Raises
        ------
        InputError
            If a value is out of range, or an array holds NaN or infinity.
        ValueError
            If the parts contradict each other.
        """
        names = [name for name in cls._get_param_names() if name not in cls._unkept]
        made = cls(**restored_parameters(about["parameters"], names))
        made.classes_, made.n_features_in_ = restored_classes(about["classes"]), about["n_features_in"]
        if about["feature_names_in"] is not None:
            made.feature_names_in_ = np.array(about["feature_names_in"], dtype=object)
        made._restore(restored_scaling(arrays, about), arrays, about)
        return made

    def _state(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        raise NotImplementedError

    def _restore(self, scaling: Scaling, arrays: Mapping[str, np.ndarray], about: Mapping[str, Any]) -> None:
        raise NotImplementedError

    def _read(self, X: Any, y: Any) -> tuple[Rows, np.ndarray]:
        """Check the rows and labels of a fit; set ``classes_``, and return the rows and their codes."""
        x = self._checked(X, reset=True)
        if y is None:
            raise InputError(f"This {type(self).__name__} requires y to be passed, but the target y is None.")
        self.classes_, codes = encode_labels(y, self.unlabeled)
        if len(codes) != x.shape[0]:
            raise InputError(f"X has {x.shape[0]} rows and y has {len(codes)}; give a label, or a mark, for each row.")
        return x, codes

    def _checked(self, X: Any, *, reset: bool) -> Rows:
        # Keep the type of the numbers: a copy of all rows in another type would double the memory.
        how: dict[str, Any] = {"accept_sparse": "csr", "dtype": "numeric", "ensure_min_samples": 1}
        if reset or type(X) is not np.ndarray or hasattr(self, "feature_names_in_"):
            return validate_data(self, X, reset=reset, **how)
        # The same without the search for column names, which takes a fifth of the time for one row.
        x = check_array(X, estimator=self, input_name="X", **how)
        if x.shape[1] != self.n_features_in_:
            expected = f"{type(self).__name__} is expecting {self.n_features_in_} features as input"
            raise InputError(f"X has {x.shape[1]} features, but {expected}.")
        return x

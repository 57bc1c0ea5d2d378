"""FewLabelClassifier: the Ladder Network, other methods for few labels, and the choice among them."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Self

import numpy as np
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import check_is_fitted

from laddernet import checks
from laddernet.classifier.base import SemiSupervisedClassifier
from laddernet.classifier.estimator import LadderClassifier
from laddernet.classifier.members import BLEND, FOLDS, LADDER, MEMBERS, METHODS, REPEATS, Members, members_of
from laddernet.classifier.stored import arrays_below
from laddernet.errors import InputError
from laddernet.inference.linear import Linear
from laddernet.inference.network import Scaling
from laddernet.inference.trees import Trees

AUTO = "auto"
CHOICES = (AUTO, *METHODS)
_FIRST_BLEND = (LADDER, "self-training", "extra-trees")  # of files that hold no weights


class FewLabelClassifier(SemiSupervisedClassifier):
    """The best of several methods for rows of which few have a label.

    The methods are ``"ladder"`` (`LadderClassifier`), ``"logistic"`` (logistic regression),
    ``"self-training"`` (self-training logistic regression), ``"forest"`` (a random forest), ``"extra-trees"``,
    ``"boosting"`` (gradient boosting) and ``"blend"``: the mean of the probabilities of the ladder, counted twice,
    logistic regression and extra-trees.

    Parameters
    ----------
    method : one of these, or "auto": the blend, unless repeated cross-validation over the labelled rows finds another
        to be better by more than two standard errors of the difference. If no class has two labels, the blend.
    ladder : a `LadderClassifier` with the parameters of the network; it is cloned. None: its defaults.
    n_splits, n_repeats : folds and repeats of the cross-validation; fewer folds if there are fewer labels.
    unlabeled : value in y of a row without a label, besides None, NaN and NA. None: only those.
    random_state : fixes the folds, initial values, noise and order.

    Attributes
    ----------
    classes_, n_features_in_, feature_names_in_ : as in scikit-learn.
    method_ : the method that predicts.
    errors_ : with "auto", the cross-validated error of each method in per cent; else empty.
    advice_ : with "auto", a sentence that names the method to use, with the reason; else empty.
    members_ : the fitted methods that predict, with their weights.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> X, truth = load_iris(return_X_y=True)
    >>> y = np.where(np.arange(150) % 10 == 0, truth, -1)
    >>> classifier = FewLabelClassifier(method="extra-trees", random_state=0).fit(X, y)
    >>> bool(classifier.score(X, truth) > 0.9)
    True
    """

    _kind = "few-labels"
    _unkept = ("ladder",)

    def __init__(
        self,
        method: str = AUTO,
        *,
        ladder: LadderClassifier | None = None,
        n_splits: int = FOLDS,
        n_repeats: int = REPEATS,
        unlabeled: Any = -1,
        random_state: Any = None,
    ) -> None:
        self.method = method
        self.ladder = ladder
        self.n_splits = n_splits
        self.n_repeats = n_repeats
        self.unlabeled = unlabeled
        self.random_state = random_state

    def _fit(self, X: Any, y: Any) -> Self:
        # Prediction does without these, and without most of scikit-learn.
        from laddernet.classifier.held_out import cross_validate
        from laddernet.classifier.methods import fit_members
        from laddernet.classifier.splits import held_out_rows

        method = checks.choice("method", self.method, CHOICES)
        folds, repeats = checks.integer("n_splits", self.n_splits, least=2), checks.integer("n_repeats", self.n_repeats)
        if self.ladder is not None and not isinstance(self.ladder, LadderClassifier):
            raise InputError(f"ladder must be a LadderClassifier or None, got {checks.shown(self.ladder)}.")
        x, codes = self._read(X, y)
        random = check_random_state(self.random_state)
        seed = self.random_state if isinstance(self.random_state, int) else int(random.randint(2**31))
        how: dict[str, Any] = {"ladder": self.ladder, "seed": seed}
        self.errors_, self.advice_ = {}, ""
        if method == AUTO:
            method = BLEND
            if folds := min(folds, len(held_out_rows(codes))):
                held = cross_validate(MEMBERS, x, codes, folds=folds, repeats=repeats, **how)
                method = held.choice()
                self.errors_ = {name: 100 * wrong / len(held.codes) for name, wrong in held.errors().items()}
                self.advice_ = held.advice(method)
        self.method_ = method
        self.members_ = replace(fit_members(members_of(method), x, codes, **how), weights=dict(members_of(method)))
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        """Compute the probability of each class.

        Parameters
        ----------
        X : array, data frame or sparse matrix of shape (rows, columns).

        Returns
        -------
        numpy.ndarray of shape (rows, classes)
            The probabilities, in the order of ``classes_``: the weighted mean over the fitted methods.
        """
        check_is_fitted(self)
        return self.members_.mean(self._checked(X, reset=False))

    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Compute the logarithm of the probability of each class.

        Parameters
        ----------
        X : array, data frame or sparse matrix of shape (rows, columns).

        Returns
        -------
        numpy.ndarray of shape (rows, classes)
            The logarithms of :meth:`predict_proba`.
        """
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.predict_proba(X)))

    def embed(self, X: Any) -> np.ndarray:
        """Compute the coordinates in which the distance of two rows is measured.

        Parameters
        ----------
        X : array, data frame or sparse matrix of shape (rows, columns).

        Returns
        -------
        numpy.ndarray of shape (rows, units)
            Activations of the Ladder Network's last hidden layer; the scaled columns if there is no Ladder Network.
        """
        check_is_fitted(self)
        x = self._checked(X, reset=False)
        ladder = self.network
        return self.members_.scaled(x) if ladder is None else ladder.transform(x)

    @property
    def network(self) -> LadderClassifier | None:
        """The fitted Ladder Network, if it is one of the members."""
        found = self.members_.models.get(LADDER)
        return found if isinstance(found, LadderClassifier) else None

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _state(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        scaling = self.members_.scaling
        arrays = {"scaling.shift": scaling.shift, "scaling.factor": scaling.factor}
        about: dict[str, Any] = {
            "method": self.method_,
            "weights": self.members_.weights,
            "bound": scaling.bound,
            "errors": self.errors_,
            "advice": self.advice_,
            "ladder": None,
        }
        for name, model in self.members_.models.items():
            held = model.arrays() if isinstance(model, Linear | Trees) else {}
            if isinstance(model, LadderClassifier):
                held, about["ladder"] = model.state()
            arrays |= {f"members.{name}.{part}": array for part, array in held.items()}
        return arrays, about

    def _restore(self, scaling: Scaling, arrays: Mapping[str, np.ndarray], about: Mapping[str, Any]) -> None:
        self.method_ = checks.choice("method", about["method"], tuple(METHODS))
        self.errors_, self.advice_ = dict(about["errors"]), str(about["advice"])
        self.members_ = Members(scaling, {}, _weights(self.method_, about.get("weights")))
        for name in self.members_.weights:
            held = arrays_below(arrays, f"members.{name}.")
            if name == LADDER:
                ladder = LadderClassifier.from_state(held, about["ladder"])
                if ladder.classes_.tolist() != list(range(len(self.classes_))):
                    raise ValueError("the classes of its Ladder Network are not its own")
                if ladder.n_features_in_ != self.n_features_in_:
                    raise ValueError("the columns of its Ladder Network are not its own")
                self.members_.models[name] = ladder
            else:
                kind = Linear if "W" in held else Trees
                self.members_.models[name] = kind.restored(held, self.n_features_in_, len(self.classes_))


def _weights(method: str, held: Any) -> dict[str, float]:
    """Check the weights of a file's members."""
    if held is None:  # an older file
        return dict.fromkeys(_FIRST_BLEND if method == BLEND else (method,), 1.0)
    names = set(MEMBERS) if method == BLEND else {method}
    if not held or not names.issuperset(held) or not all(checks.is_finite(w) and w > 0 for w in held.values()):
        raise ValueError("the weights of its members are wrong")
    return dict(held)

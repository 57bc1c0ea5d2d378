"""LadderClassifier: the Ladder Network as a scikit-learn estimator."""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn import get_config
from sklearn.base import BaseEstimator, ClassifierMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.metrics import accuracy_score
from sklearn.utils import Tags
from sklearn.utils.validation import check_array, check_consistent_length, check_is_fitted, validate_data

from laddernet.checks import flag, is_finite
from laddernet.classifier.labels import encode_labels, is_missing, known_labels
from laddernet.errors import InputError
from laddernet.inference import modelfile
from laddernet.inference.network import Rows, Scaling, encoder_arrays, folded, join, log_softmax, softmax

if TYPE_CHECKING:
    from laddernet.network.models import AnyModel

_MOST_CLASS_BYTES = 1 << 30  # limit for the classes of a file in memory


class LadderClassifier(ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClassifierMixin, BaseEstimator):
    """A semi-supervised classifier: a Ladder Network that learns from labelled and unlabelled rows.

    Defaults for None depend on the scaling (`scale`): "range" below means scaled by the range of all columns.

    Parameters
    ----------
    model : a model's id (``laddernet models`` lists them), or ``file.py:Class`` or a class for your own combinator.
    hidden : sizes of the hidden layers, or of the only one. None: (64, 32); range: (256, 128).
    noise : standard deviation of the noise: one value, two (input, layers above), or one per layer.
        None: 0.3, less where rows are close together or with more than twelve labels per class (0.15 with fifty).
        Range: 0.2, less at the input where rows are close together.
    recon_weights : λ, weights of the reconstruction costs: one value, three (λ(0), λ(1), λ(≥2)), or one per layer.
        None: 0.5 for λ(1), 0.05 above, and 200 for λ(0); range: 2000 for λ(0).
    eta : standard deviation of the initial weights of MLP and AMLP combinators.
    epochs, max_steps : length of the training, in passes over all rows or in steps; give at most one of them.
        None: as many steps as rows, but at least 300 and at most 1000; range: at most 5000.
    batch_size : unlabelled rows per step, and labelled rows per step.
    learning_rate, weight_decay : AdamW; the rate falls to 0 over the last 70 % of steps. Decay None: 0.5; range: 0.2.
    label_smoothing : share of a label, in [0, 1), spread over all classes. None: 1 / classes, sharpened; range: 0.
    n_networks : number of networks, with different initial values; their mean logits decide. None: 4; range: 1.
    linear_share : share, in [0, 1), of one more network in that mean. It has no hidden layers and no reconstruction,
        so its class boundaries are linear. None: 0.25; range: 0 (no such network).
    class_weight : ``{class: weight}`` or "balanced": weights of the labels of each class.
    early_stopping : keep the network with the lowest error on held-out rows (``validation_fraction`` of the labelled),
        and stop after ``n_iter_no_change`` evaluations, one every 32 steps, without a lower one. Off, with a warning,
        if a class has fewer than five labels.
    scale : scaling of the columns: "columns", "range", "none" or "auto" (`laddernet.classifier.scaling`).
    unlabeled : value in y of a row without a label, besides None, NaN and NA. None: only those.
    random_state : fixes initial values, noise and order.
    warm_start : start from the networks of the last fit instead of random values.
    verbose : show progress.
    device : "cpu", "gpu" or "tpu". None: JAX's default.
    n_jobs : cores in training (None or −1: all available; −2: all but one). Concurrent fits use different ones.
    precision : of matrix products in training: "float32" or "bfloat16" (faster for wide networks on some processors).

    Attributes
    ----------
    classes_, n_features_in_, feature_names_in_ : as in scikit-learn.
    history_ : per network and 32 steps (fewer with many columns) a record: costs, learning rate, any validation error.
    n_steps_ : number of steps of all networks together.
    noise_, recon_weights_ : noise and λ of each layer, as used.
    network_ : the network that predicts: NumPy matrices in which all networks are joined.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> X, truth = make_moons(400, noise=0.1, random_state=0)
    >>> y = np.full(400, -1)
    >>> y[:20] = truth[:20]
    >>> classifier = LadderClassifier(label_smoothing=0, random_state=0).fit(X, y)  # 0: the moons do not overlap
    >>> bool(classifier.score(X, truth) > 0.95)
    True
    """

    def __init__(
        self,
        model: "AnyModel" = "vanilla",
        *,
        hidden: Sequence[int] | None = None,
        noise: float | Sequence[float] | None = None,
        recon_weights: float | Sequence[float] | None = None,
        eta: float = 0.1,
        epochs: int | None = None,
        max_steps: int | None = None,
        batch_size: int = 100,
        learning_rate: float = 0.02,
        weight_decay: float | None = None,
        label_smoothing: float | None = None,
        n_networks: int | None = None,
        linear_share: float | None = None,
        class_weight: Mapping[Any, float] | str | None = None,
        early_stopping: bool = False,
        validation_fraction: float = 0.2,
        n_iter_no_change: int = 10,
        scale: str = "auto",
        unlabeled: Any = -1,
        random_state: Any = None,
        warm_start: bool = False,
        verbose: bool = False,
        device: str | None = None,
        n_jobs: int | None = None,
        precision: str = "float32",
    ) -> None:
        self.model = model
        self.hidden = hidden
        self.noise = noise
        self.recon_weights = recon_weights
        self.eta = eta
        self.epochs = epochs
        self.max_steps = max_steps
        self.batch_size = batch_size
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.label_smoothing = label_smoothing
        self.n_networks = n_networks
        self.linear_share = linear_share
        self.class_weight = class_weight
        self.early_stopping = early_stopping
        self.validation_fraction = validation_fraction
        self.n_iter_no_change = n_iter_no_change
        self.scale = scale
        self.unlabeled = unlabeled
        self.random_state = random_state
        self.warm_start = warm_start
        self.verbose = verbose
        self.device = device
        self.n_jobs = n_jobs
        self.precision = precision

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
        # These import JAX, which prediction does not need.
        from laddernet.classifier.fit import Earlier, learn
        from laddernet.classifier.parameters import Parameters

        earlier = None
        if flag("warm_start", self.warm_start) and hasattr(self, "network_"):
            kept = vars(self)
            earlier = Earlier(kept["classes_"], kept["_how"], kept["network_"].scaling, kept["_networks"])
        x = self._checked(X, reset=True)
        if y is None:
            raise InputError("This LadderClassifier requires y to be passed, but the target y is None.")
        self.classes_, codes = encode_labels(y, self.unlabeled)
        if len(codes) != x.shape[0]:
            raise InputError(f"X has {x.shape[0]} rows and y has {len(codes)}; give a label, or a mark, for each row.")
        given = Parameters(**{field.name: getattr(self, field.name) for field in fields(Parameters)})
        learned = learn(given, x, self.classes_, codes, earlier)
        self._how, self._networks, self._shares = learned.how, learned.networks, learned.shares
        self.history_, self.n_steps_ = learned.history, learned.steps
        self.network_ = join([folded(arrays, learned.scaling) for arrays in learned.networks], learned.shares)
        self.noise_, self.recon_weights_ = learned.noise, learned.recon_weights
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Return the most probable class of each row of X, as an array of shape (rows,)."""
        best = self._logits(X).argmax(axis=1)
        classes: np.ndarray = self.classes_[best]
        return classes

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the probabilities of the classes, in the order of ``classes_``: an array of shape (rows, classes)."""
        return softmax(self._logits(X))

    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Return the logarithms of `predict_proba`."""
        return log_softmax(self._logits(X))

    def decision_function(self, X: Any) -> np.ndarray:
        """Return the logits; with two classes, the second logit minus the first, of shape (rows,)."""
        logits = self._logits(X)
        return logits[:, 1] - logits[:, 0] if len(self.classes_) == 2 else logits

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the accuracy on the labelled rows, from 0 to 1; raise InputError if no row has a label."""
        check_consistent_length(X, y, sample_weight)
        rows, truth = known_labels(y, self.unlabeled)
        if not len(truth):
            raise InputError("No row of y has a label; give some to judge by.")
        weights = None if sample_weight is None else np.asarray(sample_weight)[rows]
        return float(accuracy_score(truth, self.predict(X)[rows], sample_weight=weights))

    def transform(self, X: Any, layer: int | None = None) -> np.ndarray:
        """Return the activations of a layer: 0 is the scaled input, None the last hidden layer."""
        check_is_fitted(self)
        top = len(self.network_.weights)
        layer = top - 1 if layer is None else layer
        if layer not in range(top + 1):
            raise InputError(f"There is no layer {layer!r}; give 0 (the scaled input) to {top} (the logits).")
        config = getattr(self, "_sklearn_output_config", {}).get("transform", get_config()["transform_output"])
        if layer != top - 1 and config != "default":
            advice = f"for layer {layer} say set_output(transform='default')"
            raise InputError(f"set_output names the columns of the last hidden layer, {top - 1}, only; {advice}.")
        return self._layer(X, layer)

    def _logits(self, X: Any) -> np.ndarray:
        if not hasattr(self, "network_"):  # saves a tenth of the time for one row
            check_is_fitted(self)
        return self._layer(X, len(self.network_.weights))

    def _layer(self, X: Any, layer: int) -> np.ndarray:
        x = self._checked(X, reset=False)
        with np.errstate(over="ignore", invalid="ignore"):
            out = self.network_.layer(x, layer)
        if not np.isfinite(out).all():  # X is finite, so a value is too large
            far = abs(x).max()
            raise InputError(f"X holds a value of size {far:.3g}, too large to compute with; give a smaller one.")
        return out

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

    @property
    def _n_features_out(self) -> int:
        return int(self.network_.weights[-1].shape[0])

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float32"]  # the output is always float32
        return tags

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted classifier to one safetensors file.

        Parameters
        ----------
        path : the file, which is written completely or not at all.
        """
        modelfile.write(path, "classifier", *self.state())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Return the classifier in a file of `save`; no code from the file is run.

        Parameters
        ----------
        path : the file.

        Raises
        ------
        InputError
            If the file is damaged, of another kind, or of a newer version.
        """
        with modelfile.understood(path):
            return cls.from_state(*modelfile.read(path, "classifier"))

    def state(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Return the fitted state: arrays, and a description that JSON can hold."""
        check_is_fitted(self)
        scaling = self.network_.scaling
        arrays = {"scaling.shift": scaling.shift, "scaling.factor": scaling.factor}
        for number, network in enumerate(self._networks):
            arrays |= {f"networks.{number}.{name}": array for name, array in network.items()}
        about = {
            "parameters": {name: _as_json(value) for name, value in self.get_params(deep=False).items()},
            "classes": {"dtype": self.classes_.dtype.str, "values": self.classes_.tolist()},
            "n_features_in": int(self.n_features_in_),
            "feature_names_in": list(self.feature_names_in_) if hasattr(self, "feature_names_in_") else None,
            "scaled": self._how,
            "bound": scaling.bound,
            "networks": len(self._networks),
            "shares": self._shares,
            "n_steps": self.n_steps_,
            "noise": list(self.noise_),
            "recon_weights": list(self.recon_weights_),
            "history": self.history_,
        }
        return arrays, about

    @classmethod
    def from_state(cls, arrays: Mapping[str, np.ndarray], about: Mapping[str, Any]) -> Self:
        """Make a classifier from its :meth:`state`."""
        parameters = {name: held["value"] for name, held in about["parameters"].items() if "value" in held}
        parameters |= {name: dict(held["pairs"]) for name, held in about["parameters"].items() if "pairs" in held}
        made = cls(**{name: value for name, value in parameters.items() if name in cls._get_param_names()})
        made.classes_ = _classes(about["classes"]["values"], np.dtype(about["classes"]["dtype"]))
        made.n_features_in_ = about["n_features_in"]
        if about["feature_names_in"] is not None:
            made.feature_names_in_ = np.array(about["feature_names_in"], dtype=object)
        made.n_steps_ = about["n_steps"]
        made.noise_, made.recon_weights_ = tuple(about["noise"]), tuple(about["recon_weights"])
        made.history_ = about["history"]
        if broken := [name for name, array in arrays.items() if not np.isfinite(array).all()]:
            raise InputError(f"The model's {broken[0]} holds NaN or infinity; save the model anew.")
        bound = about.get("bound")  # None before format 2
        if bound is not None and not (is_finite(bound) and bound > 0):
            raise InputError("The model's bound is not a number above 0; save the model anew.")
        scaling = Scaling(arrays["scaling.shift"], arrays["scaling.factor"], bound)
        held = {name.split(".")[1] for name in arrays if name.startswith("networks.")}
        if about["networks"] != len(held):
            raise InputError(
                f"The model says it has {about['networks']} networks and holds {len(held)}; save the model anew."
            )
        made._networks = [_below(arrays, f"networks.{number}.") for number in range(len(held))]
        equal = [1 / len(made._networks)] * len(made._networks)  # before format 3, shares were always equal
        made._shares = about.get("shares", equal)
        _check_shapes(scaling, made._networks, made.n_features_in_, len(made.classes_))
        made.network_ = join([folded(network, scaling) for network in made._networks], made._shares)
        # Older files do not hold it; in these, only the scaling by columns has a bound.
        made._how = about.get("scaled", "range" if scaling.bound is None else "columns")
        return made

    def to_onnx(self, path: str | os.PathLike[str]) -> None:
        """Write an ONNX model: input ``X``, outputs ``label`` and ``probabilities``. The package onnx is required."""
        from laddernet.inference.onnx import write

        check_is_fitted(self)
        write(Path(path), self.network_, self.classes_)


def _check_shapes(scaling: Scaling, networks: Sequence[Mapping[str, np.ndarray]], columns: object, top: int) -> None:
    """Refuse networks of a file whose shapes do not match its columns, or that have not one logit per class."""
    shapes = {scaling.shift.shape, scaling.factor.shape}
    if type(columns) is not int or shapes != {(columns,)}:
        raise ValueError(f"it has {str(columns)[:80]} columns, and its scaling the shapes {sorted(shapes)}")
    for network in networks:
        below = columns
        for l, (W, gamma, beta) in enumerate(zip(*encoder_arrays(network), strict=True)):
            others = (gamma, beta, *(network[f"statistics.{name}.{l}"] for name in ("mu", "sigma")))
            if W.shape[:1] != (below,) or any(W.shape[1:] != other.shape for other in others):
                raise ValueError(f"the shapes in layer {l + 1} do not fit")
            below = W.shape[1]
        if below != top:
            raise ValueError(f"it has {top} classes and {below} logits")


def _classes(values: Sequence[Any], dtype: np.dtype[Any]) -> np.ndarray:
    """Convert the classes of a file to their type, and refuse a type that would take too much memory."""
    if dtype.kind not in "biufU" or dtype.itemsize * len(values) > _MOST_CLASS_BYTES:
        raise InputError(f"The model says its {len(values):,} classes are of the type {dtype}; save the model anew.")
    return np.array(values, dtype=dtype)


def _below(arrays: Mapping[str, np.ndarray], prefix: str) -> dict[str, np.ndarray]:
    """Return the arrays whose names start with a prefix, by the rest of the name."""
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def _plain(value: Any) -> Any:
    """Convert NumPy's types to Python's, and missing values to None."""
    if isinstance(value, list | tuple):
        return [_plain(held) for held in value]
    if is_missing(value):
        return None
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value


def _as_json(value: Any) -> dict[str, Any]:
    """Return a parameter as JSON for a file; of a class or a generator, which JSON cannot hold, only its repr."""
    value = value.id if hasattr(value, "combinator") else _plain(value)
    kind = "value"
    if isinstance(value, dict):  # JSON would convert its keys to text
        kind, value = "pairs", [[_plain(key), _plain(held)] for key, held in value.items()]
    try:
        return {kind: json.loads(json.dumps(value))}
    except TypeError:
        return {"shown": repr(value)}

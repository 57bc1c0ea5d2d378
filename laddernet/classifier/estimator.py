"""LadderClassifier: the Ladder Network as a scikit-learn estimator."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from sklearn import get_config
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from laddernet.checks import flag
from laddernet.classifier.base import SemiSupervisedClassifier
from laddernet.classifier.stored import arrays_below, check_shapes
from laddernet.errors import InputError, packages
from laddernet.inference.network import Scaling, folded, join, log_softmax, softmax

if TYPE_CHECKING:
    from laddernet.network.models import AnyModel


class LadderClassifier(ClassNamePrefixFeaturesOutMixin, TransformerMixin, SemiSupervisedClassifier):
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
    early_stopping : keep the network with the lowest error on held-out labelled rows, evaluated every 32 steps. Off,
        with a warning, if a class has fewer than five labels.
    validation_fraction : share of the labelled rows that ``early_stopping`` holds out.
    n_iter_no_change : number of evaluations without a lower error after which ``early_stopping`` ends the training.
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

    _kind = "classifier"

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

    def _fit(self, X: Any, y: Any) -> Self:
        with packages("Training"):  # JAX, which prediction does not need
            from laddernet.classifier.fit import Earlier, learn
            from laddernet.classifier.parameters import Parameters

        earlier = None
        if flag("warm_start", self.warm_start) and hasattr(self, "network_"):
            kept = vars(self)
            earlier = Earlier(kept["classes_"], kept["_how"], kept["network_"].scaling, kept["_networks"])
        x, codes = self._read(X, y)
        given = Parameters(**{field.name: getattr(self, field.name) for field in fields(Parameters)})
        learned = learn(given, x, self.classes_, codes, earlier)
        self._how, self._networks, self._shares = learned.how, learned.networks, learned.shares
        self.history_, self.n_steps_ = learned.history, learned.steps
        self.network_ = join([folded(arrays, learned.scaling) for arrays in learned.networks], learned.shares)
        self.noise_, self.recon_weights_ = learned.noise, learned.recon_weights
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        """Compute the probability of each class.

        Parameters
        ----------
        X : array, data frame or sparse matrix of shape (rows, columns).

        Returns
        -------
        numpy.ndarray of shape (rows, classes)
            The probabilities, in the order of ``classes_``.
        """
        return softmax(self._logits(X))

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
        return log_softmax(self._logits(X))

    def decision_function(self, X: Any) -> np.ndarray:
        """Compute the logits.

        Parameters
        ----------
        X : array, data frame or sparse matrix of shape (rows, columns).

        Returns
        -------
        numpy.ndarray of shape (rows, classes)
            The logits; with two classes, the second logit minus the first, of shape (rows,).
        """
        logits = self._logits(X)
        return logits[:, 1] - logits[:, 0] if len(self.classes_) == 2 else logits

    def transform(self, X: Any, layer: int | None = None) -> np.ndarray:
        """Compute the activations of a layer.

        Parameters
        ----------
        X : array, data frame or sparse matrix of shape (rows, columns).
        layer : int, optional
            The layer: 0 is the scaled input, None the last hidden layer.

        Returns
        -------
        numpy.ndarray of shape (rows, units)
            The activations.

        Raises
        ------
        InputError
            If there is no such layer, or ``set_output`` asks for a data frame of another layer than the last hidden
            one.
        """
        check_is_fitted(self)
        top = len(self.network_.weights)
        layer = top - 1 if layer is None else layer
        if layer not in range(top + 1):
            raise InputError(f"There is no layer {layer!r}; give 0 (the scaled input) to {top} (the logits).")
        config = getattr(self, "_sklearn_output_config", {}).get("transform", get_config()["transform_output"])
        if layer != top - 1 and config != "default":
            advice = f"for layer {layer} call set_output(transform='default')"
            raise InputError(f"set_output names the columns of the last hidden layer, {top - 1}, only; {advice}.")
        return self._layer(X, layer)

    def _scores(self, X: Any) -> np.ndarray:
        return self._logits(X)

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

    @property
    def _n_features_out(self) -> int:
        return int(self.network_.weights[-1].shape[0])

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = ["float32"]  # the output is always float32
        return tags

    def _state(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        scaling = self.network_.scaling
        arrays = {"scaling.shift": scaling.shift, "scaling.factor": scaling.factor}
        for number, network in enumerate(self._networks):
            arrays |= {f"networks.{number}.{name}": array for name, array in network.items()}
        return arrays, {
            "scaled": self._how,
            "bound": scaling.bound,
            "networks": len(self._networks),
            "shares": self._shares,
            "n_steps": self.n_steps_,
            "noise": list(self.noise_),
            "recon_weights": list(self.recon_weights_),
            "history": self.history_,
        }

    def _restore(self, scaling: Scaling, arrays: Mapping[str, np.ndarray], about: Mapping[str, Any]) -> None:
        self.n_steps_ = about["n_steps"]
        self.noise_, self.recon_weights_ = tuple(about["noise"]), tuple(about["recon_weights"])
        self.history_ = about["history"]
        held = {name.split(".")[1] for name in arrays if name.startswith("networks.")}
        if about["networks"] != len(held):
            raise InputError(
                f"The model declares {about['networks']} networks and holds {len(held)}; save the model anew."
            )
        self._networks = [arrays_below(arrays, f"networks.{number}.") for number in range(len(held))]
        equal = [1 / len(self._networks)] * len(self._networks)  # before format 3, shares were always equal
        self._shares = about.get("shares", equal)
        check_shapes(self._networks, self.n_features_in_, len(self.classes_))
        self.network_ = join([folded(network, scaling) for network in self._networks], self._shares)
        # Older files do not hold it; in these, only the scaling by columns has a bound.
        self._how = about.get("scaled", "range" if scaling.bound is None else "columns")

    def to_onnx(self, path: str | os.PathLike[str]) -> None:
        """Write an ONNX model: input ``X``, outputs ``label`` and ``probabilities``. The package onnx is required.

        Parameters
        ----------
        path : the file, which is written completely or not at all.

        Raises
        ------
        InputError
            If the package onnx is missing, or the file cannot be written.
        """
        from laddernet.inference.onnx import write

        check_is_fitted(self)
        write(Path(path), self.network_, self.classes_)

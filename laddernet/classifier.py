"""LadderClassifier: the Ladder Network as a scikit-learn estimator."""

import json
import math
import os
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.metrics import accuracy_score
from sklearn.model_selection import train_test_split
from sklearn.utils import Tags, check_random_state, compute_class_weight
from sklearn.utils.validation import check_array, check_consistent_length, check_is_fitted, validate_data

from laddernet import modelfile
from laddernet.checkpoint import from_named_arrays, named_arrays
from laddernet.errors import InputError
from laddernet.labels import UNLABELLED, encode_labels, known_labels
from laddernet.ladder import Ladder
from laddernet.models import AnyModel, find
from laddernet.network import Network, Rows, Scaling, dense, fold, join, log_softmax, softmax, statistics
from laddernet.scaling import SCALINGS, find_scaling
from laddernet.settings import by_layer
from laddernet.stream import Job, Table, template, train
from laddernet.training import cores as cores_here

_FEWEST_STEPS, _MOST_STEPS = 300, 1000
_DECAY = 0.7  # the share of the steps, the last, over which the learning rate falls to zero
_NEIGHBOUR = 5  # the nearest row may be there by chance
_NEIGHBOUR_ROWS, _NEIGHBOUR_CELLS = 1000, 2**22  # how near rows lie to each other is measured on so many at most
_STATISTICS_ROWS = 10_000  # the normalisation for prediction is measured on so many rows at most


@dataclass(frozen=True)
class Defaults:
    """What is taken for parameters that are None. How they were chosen is in docs/classifier.md."""

    hidden: tuple[int, ...]
    noise: tuple[float, float]  # of the input, of the layers above; there is less for rows that lie close together
    recon_weights: tuple[float, float, float]
    weight_decay: float
    label_smoothing: float
    n_networks: int
    linear_share: float


# By scaling: of pixels from 0 to 1 the variance is about a tenth of that of a column with deviation 1.
_ALIKE = Defaults(
    hidden=(256, 128),
    noise=(0.2, 0.2),
    recon_weights=(2000.0, 0.5, 0.05),
    weight_decay=0.2,
    label_smoothing=0.0,
    n_networks=1,
    linear_share=0.0,
)
_UNLIKE = Defaults(
    hidden=(64, 32),
    noise=(0.3, 0.3),
    recon_weights=(200.0, 0.5, 0.05),
    weight_decay=0.5,
    label_smoothing=1.0,  # divided by the number of classes
    n_networks=4,
    linear_share=0.25,
)
DEFAULTS = {"range": _ALIKE, "columns": _UNLIKE, "none": _UNLIKE}
# Noise is too much for rows that lie less than so far `_apart`, and with more than so many labels a class.
_CLOSE = {"range": 0.18, "columns": 0.12, "none": 0.12}
_FEW_LABELS = {"range": 6, "columns": 12, "none": 12}


def defaults(scaling: str, labels: float, classes: int, apart: float) -> Defaults:
    """What suits a table that is scaled so, has so many labels a class, and whose rows lie so far `_apart`.

    >>> [defaults("range", labels=5, classes=26, apart=apart).noise for apart in (0.09, 0.18, 0.3)]
    [(0.1, 0.2), (0.2, 0.2), (0.2, 0.2)]
    >>> [round(defaults("columns", labels, classes=2, apart=0.3).noise[0], 2) for labels in (1, 12, 50)]
    [0.3, 0.3, 0.15]
    """
    found = DEFAULTS[scaling]
    near = min(apart / _CLOSE[scaling], 1.0)
    many = max(math.sqrt(labels / _FEW_LABELS[scaling]), 1.0)
    # Of columns that are alike there may be few, each of which says much, or many that repeat each other.
    less = (near**many, 1.0) if scaling == "range" else (min(max(near, 0.5), 1 / many),) * 2
    noise = (found.noise[0] * less[0], found.noise[1] * less[1])
    return replace(found, noise=noise, label_smoothing=found.label_smoothing / classes)


class LadderClassifier(ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClassifierMixin, BaseEstimator):
    """A classifier that learns from labelled and unlabelled rows alike: a Ladder Network.

    Parameters
    ----------
    model : a model's id (``laddernet models`` lists them), ``file.py:Class`` or a class for a combinator of your own.
    hidden : sizes of the hidden layers, or of the only one. None: (64, 32), or (256, 128) if the columns are scaled by
        the range of all of them (`scale`), as pixels are.
    noise : standard deviation of the noise: one value, two (input, layers above), or one for each layer.
        None: 0.3, but less where rows lie close together, or with more than twelve labels a class (0.15 with fifty). If
        the columns are scaled by that range: 0.2, but less at the input where rows lie close together.
    recon_weights : λ, the weight of each layer's reconstruction: one value, three (λ(0), λ(1), λ(≥2)), or one a layer.
        None: 0.5 for λ(1), 0.05 above, and for λ(0) 200, or 2000 if the columns are scaled by that range.
    eta : standard deviation of the initial weights of MLP and AMLP combinators.
    epochs, max_steps : how long to learn, in passes over all rows or in steps; give one of them at most.
        None: as many steps as there are rows, but 300 at least and 1000 at most.
    batch_size : rows of a step, of unlabelled and of labelled ones each.
    learning_rate, weight_decay : AdamW's; the rate falls to zero over the last seven tenths of the steps.
        None for the decay: 0.5, or 0.2 if the columns are scaled by that range.
    label_smoothing : how often, from 0 to below 1, a label is taken for one of all classes instead: labels are not
        learned by heart. None: one over the number of classes, or 0 if the columns are scaled by that range.
    n_networks : how many networks to train, from different initial values; the mean of their logits decides.
        None: 4, or 1 if the columns are scaled by that range.
    linear_share : from 0 to below 1, the share in that decision of one more network, which has no hidden layers,
        reconstructs nothing, and so draws straight borders by the labels alone. None: 0.25, or 0, which means none, if
        the columns are scaled by that range.
    class_weight : ``{class: weight}`` or "balanced": how much the labels of each class count.
    early_stopping : hold out ``validation_fraction`` of the labelled rows and keep the network that does best on them;
        stop when that has not become better for ``n_iter_no_change`` looks, of which there is one every 32 steps.
        Off, with a warning, if a class has fewer than five labels.
    scale : how columns are brought to a common scale: "columns", "range", "none", or "auto" (`laddernet.scaling`).
    unlabeled : the value in y that marks a row without a label, besides None, NaN and NA, which always do.
        None: only those.
    random_state : fixes initial values, noise and order.
    warm_start : begin at the networks of the last fit instead of at random values.
    verbose : show progress.
    device : "cpu", "gpu" or "tpu"; None is what JAX prefers.
    n_jobs : how many cores to use while learning (None or −1: all that the process may use).

    Attributes
    ----------
    classes_, n_features_in_, feature_names_in_ : as everywhere in scikit-learn.
    history_ : a record for each 32 steps of each network: costs, learning rate; validation error with early stopping.
    n_steps_ : how many steps were taken, by all networks together.
    noise_, recon_weights_ : noise and λ of each layer, as they were used.
    network_ : what predicts: plain matrices, in which all networks lie side by side.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> X, truth = make_moons(400, noise=0.1, random_state=0)
    >>> y = np.full(400, -1)
    >>> y[:20] = truth[:20]
    >>> classifier = LadderClassifier(label_smoothing=0, random_state=0).fit(X, y)  # 0: moons are divided cleanly
    >>> bool(classifier.score(X, truth) > 0.95)
    True
    """

    def __init__(
        self,
        model: AnyModel = "vanilla",
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

    # --- Learning ------------------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any) -> Self:
        """Learn from all rows of X, and from the labels of those that have one."""
        kept = vars(self).copy()
        try:
            return self._fit(X, y)
        except BaseException:  # what was learned before is still there
            self.__dict__.clear()
            self.__dict__.update(kept)
            raise

    def _fit(self, X: Any, y: Any) -> Self:
        before = vars(self).copy() if self.warm_start and hasattr(self, "network_") else None
        x = self._checked(X, reset=True)
        if y is None:
            raise InputError("This LadderClassifier requires y to be passed, but the target y is None.")
        self.classes_, codes = encode_labels(y, self.unlabeled)
        if len(codes) != x.shape[0]:
            raise InputError(f"X has {x.shape[0]} rows and y has {len(codes)}; give a label, or a mark, for each row.")
        labelled = np.flatnonzero(codes != UNLABELLED)
        if self.scale not in SCALINGS:
            raise InputError(f"scale is {self.scale!r}; give one of {', '.join(map(repr, SCALINGS))}.")
        how, scaling = find_scaling(x, self.scale)
        if before is not None:  # the networks know no other
            how, scaling = before["_how"], before["network_"].scaling
        classes = len(self.classes_)
        suiting = defaults(how, len(labelled) / classes, classes, _apart(x, scaling))
        jobs, shares = self._jobs(x.shape[0], asdict(suiting))
        seeds = [int(seed) for seed in check_random_state(self.random_state).randint(2**31, size=len(jobs))]
        starts: Sequence[Ladder | None] = [None] * len(jobs)
        if before is not None:
            starts = self._starts(before, jobs)
        labelled, held_out = self._held_out(labelled, codes, seeds[0])
        table = Table(x, scaling, labelled, codes[labelled], self._probabilities(codes[labelled]))
        seen = _seen(table, jobs[0], np.random.default_rng(seeds[0]))
        with _on_device(self.device), _on_cores(self.n_jobs), _shown(self.verbose, jobs) as shown:
            watches = [
                _Watch(self.n_iter_no_change, table, seen, held_out, codes[held_out], partial(shown, number))
                for number in range(len(jobs))
            ]
            ladders = _trained(jobs, table, seeds, starts, [watch.hear for watch in watches])
            learned = [
                watch.best or _parameters(ladder, table, seen) for watch, ladder in zip(watches, ladders, strict=True)
            ]
        history = [{"network": number, **record} for number, watch in enumerate(watches) for record in watch.history]
        taken = sum(watch.history[-1]["step"] for watch in watches)
        self._how, self._networks, self._shares = how, learned, shares
        self.history_, self.n_steps_ = history, taken
        self.network_ = join([_folded(arrays, scaling) for arrays in learned], shares)
        self.noise_, self.recon_weights_ = jobs[0].noise, jobs[0].recon_weights
        return self

    def _jobs(self, rows: int, suiting: dict[str, Any]) -> tuple[list[Job], list[float]]:
        """The networks to be trained, and the share of each in what they decide.

        Every parameter is checked, and for None there is what suits the table.
        """
        given = {name: getattr(self, name) for name in suiting}
        chosen = suiting | {name: value for name, value in given.items() if value is not None}
        hidden = tuple(chosen["hidden"]) if np.ndim(chosen["hidden"]) else (chosen["hidden"],)
        if not hidden or not all(_whole(n) and n >= 1 for n in hidden):
            raise InputError(f"hidden is {self.hidden!r}; give one or more sizes of 1 or more.")
        if self.epochs is not None and self.max_steps is not None:
            raise InputError("Both epochs and max_steps are given; give one of them.")
        for name in ("epochs", "max_steps", "batch_size", "n_iter_no_change", "n_networks"):
            value = getattr(self, name)
            if value is not None and not (_whole(value) and value >= 1):
                raise InputError(f"{name} is {value!r}; it must be a whole number, 1 or more.")
        for name, least in {"learning_rate": "above 0", "eta": "above 0", "weight_decay": "0 or more"}.items():
            value = chosen[name] if name in chosen else getattr(self, name)
            if not (_finite(value) and value >= 0 and (value > 0 or least != "above 0")):
                raise InputError(f"{name} is {value!r}; it must be a finite number {least}.")
        for name in ("label_smoothing", "linear_share"):
            if not (_finite(chosen[name]) and 0 <= chosen[name] < 1):
                raise InputError(f"{name} is {chosen[name]!r}; it must be 0 or more, and less than 1.")
        layers = len(hidden) + 2
        passes = None if self.epochs is None else self.epochs * math.ceil(rows / self.batch_size)
        job = Job(
            # The paper normalises the labelled rows by themselves. With a label or two a class that says little about
            # the rows to be classified, so here they are normalised together with the unlabelled ones.
            model=replace(find(self.model), joint=True),
            sizes=(self.n_features_in_, *map(int, hidden), len(self.classes_)),
            noise=by_layer("noise", _plain(chosen["noise"]), layers, short=2),
            recon_weights=by_layer("recon_weights", _plain(chosen["recon_weights"]), layers, short=3),
            eta=self.eta,
            learning_rate=self.learning_rate,
            weight_decay=chosen["weight_decay"],
            decay=_DECAY,
            steps=passes or self.max_steps or min(max(rows, _FEWEST_STEPS), _MOST_STEPS),
            batch_size=self.batch_size,
            labelled_batch_size=self.batch_size,
            label_smoothing=chosen["label_smoothing"],
        )
        networks, share = int(chosen["n_networks"]), chosen["linear_share"]
        jobs, shares = [job] * networks, [(1 - share) / networks] * networks
        if share:
            linear = replace(
                job,
                sizes=(job.sizes[0], job.sizes[-1]),
                noise=(job.noise[0], job.noise[-1]),
                recon_weights=(0.0, 0.0),
            )
            jobs, shares = [*jobs, linear], [*shares, share]
        return jobs, shares

    def _starts(self, before: dict[str, Any], jobs: Sequence[Job]) -> list[Ladder]:
        """The networks of the last fit, on which this one goes on."""
        if not np.array_equal(before["classes_"], self.classes_):
            raise InputError(
                f"The last fit was for the classes {before['classes_'].tolist()}, this one is for "
                f"{self.classes_.tolist()}; with warm_start=True they must be the same."
            )
        if len(before["_networks"]) != len(jobs):
            raise InputError(
                f"The last fit trained {len(before['_networks'])} networks, this one is to train {len(jobs)}; with "
                "warm_start=True n_networks must be the same, and linear_share above 0 in both or in neither."
            )
        learned = [
            {name: array for name, array in arrays.items() if not name.startswith("statistics.")}
            for arrays in before["_networks"]
        ]
        return [
            from_named_arrays(template(job), arrays, "The last fit") for job, arrays in zip(jobs, learned, strict=True)
        ]

    def _held_out(self, labelled: np.ndarray, codes: np.ndarray, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """The labelled rows to learn from, and those by which to stop."""
        if not self.early_stopping:
            return labelled, labelled[:0]
        if not 0 < self.validation_fraction < 1:
            raise InputError(f"validation_fraction is {self.validation_fraction!r}; it must lie between 0 and 1.")
        fewest = np.bincount(codes[labelled]).min()
        if fewest < 5 or len(labelled) * self.validation_fraction < len(self.classes_):
            warnings.warn("There are too few labels to hold any out: early_stopping is off.", stacklevel=3)
            return labelled, labelled[:0]
        learn, held_out = train_test_split(
            labelled, test_size=self.validation_fraction, stratify=codes[labelled], random_state=seed
        )
        return np.sort(learn), np.sort(held_out)

    def _probabilities(self, codes: np.ndarray) -> np.ndarray | None:
        """How often each labelled row is to be drawn, if classes have weights."""
        if self.class_weight is None:
            return None
        weights = compute_class_weight(self.class_weight, classes=self.classes_, y=self.classes_[codes])
        share: np.ndarray = weights[codes]
        if not (np.isfinite(share).all() and (share >= 0).all() and share.sum() > 0):
            raise InputError(f"class_weight is {self.class_weight!r}; weights must be finite, not below 0, not all 0.")
        share /= share.sum()
        return share

    # --- Prediction ----------------------------------------------------------------------------------------------

    def predict(self, X: Any) -> np.ndarray:
        """The most probable class of each row."""
        best = self._logits(X).argmax(axis=1)
        classes: np.ndarray = self.classes_[best]
        return classes

    def predict_proba(self, X: Any) -> np.ndarray:
        """The probability of each class for each row, in the order of ``classes_``."""
        return softmax(self._logits(X))

    def predict_log_proba(self, X: Any) -> np.ndarray:
        return log_softmax(self._logits(X))

    def decision_function(self, X: Any) -> np.ndarray:
        """The logits; with two classes, by how much that of the second is above that of the first."""
        logits = self._logits(X)
        return logits[:, 1] - logits[:, 0] if len(self.classes_) == 2 else logits

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The share of the labelled rows that are classified rightly; what has no label says nothing."""
        check_consistent_length(X, y, sample_weight)
        rows, truth = known_labels(y, self.unlabeled)
        if not len(truth):
            raise InputError("No row of y has a label; give some to judge by.")
        weights = None if sample_weight is None else np.asarray(sample_weight)[rows]
        return float(accuracy_score(truth, self.predict(X)[rows], sample_weight=weights))

    def transform(self, X: Any, layer: int | None = None) -> np.ndarray:
        """What the rows are at a layer of the clean path: 1 is the first hidden layer; None is the last hidden one."""
        check_is_fitted(self)
        top = len(self.network_.weights)
        layer = top - 1 if layer is None else layer
        if not 0 <= layer <= top:
            raise InputError(f"There is no layer {layer}; give 0 (the scaled input) to {top} (the logits).")
        return self.network_.layer(self._checked(X, reset=False), layer)

    def _logits(self, X: Any) -> np.ndarray:
        if not hasattr(self, "network_"):  # a tenth of the time that one row takes is spared
            check_is_fitted(self)
        return self.network_.logits(self._checked(X, reset=False))

    def _checked(self, X: Any, *, reset: bool) -> Rows:
        # Numbers stay as they are: a copy of all rows in another type would double the memory.
        how: dict[str, Any] = {"accept_sparse": "csr", "dtype": "numeric", "ensure_min_samples": 1}
        if reset or type(X) is not np.ndarray or hasattr(self, "feature_names_in_"):
            return validate_data(self, X, reset=reset, **how)
        # The same without a search for names of columns, which takes a fifth of the time that one row takes.
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
        tags.transformer_tags.preserves_dtype = ["float32"]  # what comes out is always that
        return tags

    # --- Files ---------------------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Put all that `load` needs into one safetensors file."""
        modelfile.write(Path(path), "classifier", *self.state())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """The classifier that a file holds; no code from the file is run."""
        return cls.from_state(*modelfile.read(Path(path), "classifier"))

    def state(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """All that was learned: arrays, and what can be said in JSON."""
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
        """The classifier of a :meth:`state`."""
        parameters = {name: held["value"] for name, held in about["parameters"].items() if "value" in held}
        parameters |= {name: dict(held["pairs"]) for name, held in about["parameters"].items() if "pairs" in held}
        made = cls(**{name: value for name, value in parameters.items() if name in cls._get_param_names()})
        made.classes_ = np.array(about["classes"]["values"], dtype=about["classes"]["dtype"])
        made.n_features_in_ = about["n_features_in"]
        if about["feature_names_in"] is not None:
            made.feature_names_in_ = np.array(about["feature_names_in"], dtype=object)
        made.n_steps_ = about["n_steps"]
        made.noise_, made.recon_weights_ = tuple(about["noise"]), tuple(about["recon_weights"])
        made.history_ = about["history"]
        scaling = Scaling(arrays["scaling.shift"], arrays["scaling.factor"], about.get("bound"))  # None before format 2
        made._networks = [_below(arrays, f"networks.{number}.") for number in range(about["networks"])]
        equal = [1 / len(made._networks)] * len(made._networks)  # before format 3 there were no others
        made._shares = about.get("shares", equal)
        made.network_ = join([_folded(network, scaling) for network in made._networks], made._shares)
        # Before it was kept, only the scaling by columns had a bound.
        made._how = about.get("scaled", "range" if scaling.bound is None else "columns")
        return made

    def to_onnx(self, path: str | os.PathLike[str]) -> None:
        """Write a model for ONNX runtimes: input ``X``, outputs ``label`` and ``probabilities``."""
        from laddernet.onnx import write

        check_is_fitted(self)
        write(Path(path), self.network_, self.classes_)


def _apart(x: Rows, scaling: Scaling) -> float:
    """How far rows are from the fifth nearest that differs, in the mean of the columns: the median of some rows.

    >>> _apart(np.arange(100.0)[:, None], Scaling(np.zeros(1), np.ones(1)))
    3.0
    """
    n = min(_NEIGHBOUR_ROWS, _NEIGHBOUR_CELLS // x.shape[1])
    rows = np.random.default_rng(0).permutation(x.shape[0])[:n]
    if len(rows) <= _NEIGHBOUR:
        return math.inf
    some = scaling(dense(x[rows])).astype(np.float64)
    squares = np.square(some).sum(axis=1)
    distances = squares[:, None] + squares - 2 * some @ some.T
    distances[distances <= 1e-12 * squares.max()] = np.inf  # itself, its like, and what is but rounding
    fifth = np.partition(distances, _NEIGHBOUR - 1, axis=1)[:, _NEIGHBOUR - 1]
    return math.sqrt(np.median(fifth) / max(np.count_nonzero(scaling.factor), 1))


# --- What is learned ----------------------------------------------------------------------------------------------


def _trained(
    jobs: Sequence[Job],
    table: Table,
    seeds: Sequence[int],
    starts: Sequence[Ladder | None],
    hear: Sequence[Callable[[dict[str, Any], Callable[[], Any]], bool]],
) -> list[Ladder]:
    """Train each network in a thread, as many at a time as there are cores.

    Their operations are too small to be divided among cores, and no network depends on how another is getting on. The
    first of a kind compiles its program; the others of that kind wait until it has. One program is compiled at a time:
    that takes more memory than all else.
    """
    import jax

    device = jax.config.jax_default_device  # type: ignore[attr-defined]  # a setting of this thread only
    compiled = {job: threading.Event() for job in jobs}
    compiling = threading.Lock()
    stopped = threading.Event()

    def learn(number: int) -> Ladder:
        job = jobs[number]
        first = jobs.index(job) == number
        if first:
            compiling.acquire()
        else:
            compiled[job].wait()

        def has_compiled() -> None:
            if first and not compiled[job].is_set():
                compiled[job].set()
                compiling.release()

        def on_chunk(record: dict[str, Any], now: Callable[[], Any]) -> bool:
            has_compiled()
            return hear[number](record, now) or stopped.is_set()

        try:
            with jax.default_device(device):
                return train(job, table, seeds[number], start=starts[number], on_chunk=on_chunk)
        except BaseException:
            stopped.set()
            raise
        finally:
            has_compiled()

    with ThreadPoolExecutor(cores_here()) as pool:
        try:
            # One of each kind first.
            order = sorted(range(len(jobs)), key=lambda number: jobs.index(jobs[number]) < number)
            ladders = dict(zip(order, pool.map(learn, order), strict=True))
        except BaseException:  # also Ctrl-C, which reaches only this thread
            stopped.set()
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return [ladders[number] for number in range(len(jobs))]


def _seen(table: Table, job: Job, rng: np.random.Generator) -> np.ndarray:
    """The rows over which networks are to be normalised: as in a step, half labelled ones, half of all.

    The labelled rows of a step are normalised together with the others. Where classes have other shares among the
    labels than among the rows, statistics of all rows alone would be of something that the networks have never seen.
    """
    n = min(table.x.shape[0], _STATISTICS_ROWS // 2)
    if table.probabilities is None:
        labelled = np.resize(rng.permutation(table.labelled), n)  # repeated, or cut: in an order that says nothing
    else:
        labelled = rng.choice(table.labelled, n, p=table.probabilities)
    if job.model.combinator is None:  # then only labelled rows teach
        return labelled
    return np.concatenate([labelled, rng.choice(table.x.shape[0], n, replace=False)])


def _parameters(ladder: Ladder, table: Table, seen: np.ndarray) -> dict[str, np.ndarray]:
    """A network's arrays by name, and the statistics that its clean path has over some of the rows."""
    arrays = {name: array.copy() for name, array in named_arrays(ladder).items()}
    mu, sigma = statistics(table.bring, seen, *_encoder(arrays))
    known = {"mu": mu, "sigma": sigma}
    return arrays | {f"statistics.{name}.{l}": a for name, all_l in known.items() for l, a in enumerate(all_l)}


def _below(arrays: Mapping[str, np.ndarray], prefix: str) -> dict[str, np.ndarray]:
    """The arrays whose names begin with a prefix, by what follows it."""
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def _folded(arrays: Mapping[str, np.ndarray], scaling: Scaling) -> Network:
    W, gamma, beta = _encoder(arrays)
    mu, sigma = ([arrays[f"statistics.{name}.{l}"] for l in range(len(W))] for name in ("mu", "sigma"))
    return fold(scaling, W, gamma, beta, mu, sigma)


def _encoder(arrays: Mapping[str, np.ndarray]) -> list[list[np.ndarray]]:
    """W, γ and β of layers 1 to L."""
    layers = sum(name.startswith("encoder.") and name.endswith(".W") for name in arrays)
    return [[arrays[f"encoder.{l}.{name}"] for l in range(layers)] for name in ("W", "gamma", "beta")]


class _Watch:
    """Hears each chunk: keeps the records and, with rows held out, the best network so far."""

    def __init__(
        self,
        patience: int,
        table: Table,
        seen: np.ndarray,
        held_out: np.ndarray,
        codes: np.ndarray,
        tell: Callable[[dict[str, Any]], None],
    ) -> None:
        self.history: list[dict[str, Any]] = []
        self.best: dict[str, np.ndarray] | None = None
        self._patience, self._tell = patience, tell
        self._table, self._seen, self._held_out, self._codes = table, seen, held_out, codes
        self._lowest, self._since = math.inf, 0

    def hear(self, record: dict[str, Any], now: Callable[[], Any]) -> bool:
        self.history.append(record)
        if len(self._held_out):
            parameters = _parameters(now(), self._table, self._seen)
            logits = _folded(parameters, self._table.scaling).logits(self._table.x[self._held_out])
            error = record["validation_error"] = 100 * float(np.mean(logits.argmax(axis=1) != self._codes))
            self._since += 1
            if error <= self._lowest:  # of equals the last, which has learned for longer
                self._since = 0 if error < self._lowest else self._since
                self._lowest, self.best = error, parameters
        self._tell(record)
        return self._since >= self._patience


# --- Around it ----------------------------------------------------------------------------------------------------


@contextmanager
def _shown(verbose: bool, jobs: Sequence[Job]) -> Iterator[Callable[[int, dict[str, Any]], None]]:
    """What tells of a network's record, by its number: on a terminal a live line, else some ten plain ones."""
    from rich.console import Console

    from laddernet.progress import progress_shown

    console = Console(stderr=True)
    steps = sum(job.steps for job in jobs)
    taken = [0] * len(jobs)
    telling = threading.Lock()  # networks are trained in several threads

    def of_all(number: int, record: dict[str, Any]) -> dict[str, Any]:
        taken[number] = record["step"]
        return {**record, "step": sum(taken)}

    if not verbose:
        yield lambda number, record: None
    elif console.is_terminal:
        with progress_shown("step", steps, 1, console) as shown:

            def show(number: int, record: dict[str, Any]) -> None:
                with telling:
                    shown(of_all(number, record))

            yield show
    else:
        said = 0

        def say(number: int, record: dict[str, Any]) -> None:
            nonlocal said
            with telling:
                step = of_all(number, record)["step"]
                if step * 10 // steps > said:
                    said = step * 10 // steps
                    error = f", validation {record['validation_error']:.2f} %" if "validation_error" in record else ""
                    print(f"step {step} of {steps}: cost {record['cost']:.3f}{error}", flush=True)

        yield say


@contextmanager
def _on_device(name: str | None) -> Iterator[None]:
    if name is None:
        yield
        return
    import jax

    try:
        device = jax.devices(str(name))[0]
    except RuntimeError as error:
        present = ", ".join(sorted({device.platform for device in jax.devices()}))
        raise InputError(f"There is no device {name!r} here; give one of {present}, or None.") from error
    with jax.default_device(device):
        yield


# Fits may overlap in several threads: the last to end gives back what the first found.
_pinning = threading.Lock()
_fits_on_cores = 0
_cores_before: list[int] = []


@contextmanager
def _on_cores(n_jobs: int | None) -> Iterator[None]:
    """Keep all threads of this process to so many cores meanwhile: XLA has no other switch once it has begun."""
    if n_jobs is not None and not (_whole(n_jobs) and (n_jobs > 0 or -cores_here() <= n_jobs < 0)):
        raise InputError(f"n_jobs is {n_jobs!r}; give a number of cores, None or -1 for all.")
    if n_jobs is None or n_jobs == -1 or not hasattr(os, "sched_setaffinity"):
        yield
        return
    global _fits_on_cores, _cores_before
    with _pinning:
        if not _fits_on_cores:
            _cores_before = sorted(os.sched_getaffinity(0))
        _fits_on_cores += 1
        _keep_to(_cores_before[: n_jobs if n_jobs > 0 else len(_cores_before) + 1 + n_jobs])
    try:
        yield
    finally:
        with _pinning:
            _fits_on_cores -= 1
            if not _fits_on_cores:
                _keep_to(_cores_before)


def _keep_to(cores: Sequence[int]) -> None:
    for thread in Path("/proc/self/task").iterdir():
        try:
            os.sched_setaffinity(int(thread.name), cores)
        except ProcessLookupError:  # it has ended
            continue


def _whole(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def _finite(value: Any) -> bool:
    return isinstance(value, int | float | np.number) and math.isfinite(value)


def _plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.ndarray | np.number) else value


def _as_json(value: Any) -> dict[str, Any]:
    """A parameter as it is kept in a file: what JSON cannot say (a class, a generator) is not."""
    value = value.id if hasattr(value, "combinator") else _plain(value)
    kind = "value"
    if isinstance(value, dict):  # whose keys JSON would turn into text
        kind, value = "pairs", [[_plain(key), _plain(held)] for key, held in value.items()]
    try:
        return {kind: json.loads(json.dumps(value))}
    except TypeError:
        return {"shown": repr(value)}

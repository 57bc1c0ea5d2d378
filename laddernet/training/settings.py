"""Make a complete :class:`Config` from a user's settings: add defaults and check every value."""

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any, Literal, TypeVar

import numpy as np

from laddernet import checks
from laddernet.data import Dataset, TrainingRows, split
from laddernet.errors import InputError
from laddernet.kernels.products import PRECISIONS
from laddernet.machine import has_bfloat16_units
from laddernet.network.ladder import PAPER_HIDDEN
from laddernet.network.models import AnyModel, Model, find
from laddernet.training.config import Config
from laddernet.training.tuned import lookup

# Noise (at the input and above it) and λ(0), λ(1), λ(≥2) of Rasmus et al. (2015), by number of labels. Their 0.2 for
# 1000 labels is the noise of the layers above the input (results/README.md).
_PUBLISHED: dict[int, tuple[tuple[float, float], tuple[float, ...]]] = {
    100: ((0.3, 0.3), (1000.0, 10.0, 0.1)),
    1000: ((0.3, 0.2), (2000.0, 20.0, 0.1)),
    60000: ((0.3, 0.3), (1000.0, 1.0, 0.01)),
}
_INPUT_ONLY, _INPUT_NOISE = {100: 5000.0, 1000: 2000.0, 60000: 2000.0}, 0.3
_BASELINE_NOISE = (0.5, 0.5)
_ETA = 0.1
Value = TypeVar("Value")
_MOST = 10**12  # labelled or validation rows; `split` checks against the rows of the data set
# λ(0) where the published value raises the error. Without lateral connections the top layer would have to encode the
# whole image: on digits, 100 labels, 237 validation rows, seeds 0 to 2, 60 epochs, λ(0) = 0, 1, 10, 100, 1000 end at
# 7.7, 7.6, 11.1, 40.1, 90.9 % validation error.
_MEASURED = {"no-lateral": 1.0}


@dataclass(frozen=True)
class Recipe:
    """The training schedule: epochs, learning rate and batch sizes."""

    epochs: int
    decay: Fraction  # the last share of the epochs, over which the learning rate falls to zero
    learning_rate: float
    batch_size: int
    labelled_batch_size: int = 100
    weight_decay: float = 0.0
    copies: int = 1  # of each unlabelled row in a step, in pairs with opposite noise


# "quick": results/README.md has its search and its cost. "small" is for a few thousand rows.
RECIPES = {
    "paper": Recipe(150, decay=Fraction(1, 3), learning_rate=0.002, batch_size=100),
    "quick": Recipe(
        30,
        decay=Fraction(7, 10),
        learning_rate=0.02,
        batch_size=200,
        labelled_batch_size=400,
        weight_decay=0.05,
        copies=4,
    ),
    "small": Recipe(60, decay=Fraction(7, 10), learning_rate=0.02, batch_size=200, weight_decay=0.05),
}


def recipe_named(name: str) -> Recipe:
    """Return the recipe of this name."""
    if not isinstance(name, str) or name not in RECIPES:
        raise InputError(f"There is no recipe {name!r}; give one of {', '.join(RECIPES)}.")
    return RECIPES[name]


def configure(
    dataset: Dataset | TrainingRows,
    *,
    labels: int | Literal["all"] = 100,
    model: AnyModel = "vanilla",
    hidden: Sequence[int] | None = None,
    noise: float | Sequence[float] | None = None,
    recon_weights: float | Sequence[float] | None = None,
    eta: float | None = None,
    recipe: str = "paper",
    epochs: int | None = None,
    decay_epochs: int | None = None,
    learning_rate: float | None = None,
    batch_size: int | None = None,
    labelled_batch_size: int | None = None,
    weight_decay: float | None = None,
    copies: int | None = None,
    precision: str = "float32",
    validation: int | None = None,
    seed: int = 0,
    tuned: bool | str | os.PathLike[str] = True,
) -> Config:
    """Make the configuration of a run: check every setting, and replace None by a default.

    Defaults of noise, λ, η and learning rate are the ``tuned`` values for a data set of this name and shape, this model
    and number of labels; those of η and learning rate only if they were tuned with this recipe. If there are none,
    noise, λ and η are the published values for the nearest number of labels. All other defaults are the recipe's.

    Parameters
    ----------
    dataset
        The data, as `load` returns it.
    labels
        Number of labelled rows, or "all" rows that have a label.
    model
        The model, in any form that `find` accepts.
    hidden
        Sizes of the hidden layers. None: the paper's for 784 columns or more, else (256, 128, 64).
    noise
        Standard deviation of the noise: one value, two (input, all layers above), or one for each layer from 0 to L.
    recon_weights
        λ, the weights of the reconstruction costs: one value, three (λ(0), λ(1), λ(≥2)), or one for each layer.
    eta
        Standard deviation of the initial weights of MLP and AMLP combinators.
    recipe
        The training schedule: "paper", "quick" or "small".
    epochs, decay_epochs
        Number of epochs, and of the last epochs over which the learning rate falls to zero.
    learning_rate, weight_decay
        Learning rate and weight decay. A step subtracts ``learning_rate * weight_decay`` of the weights.
    batch_size, labelled_batch_size
        Unlabelled and labelled rows of a step.
    copies
        Copies of each unlabelled row in a step, in pairs with opposite noise.
    precision
        Type of the operands of matrix products, "float32" or "bfloat16"; everything else is float32.
    validation
        Number of validation rows. None: a sixth of the training rows with a label, or 0 if the labels need those rows.
    seed
        Fixes the split of the rows, the initial values, the noise and the order.
    tuned
        True: use the tuned values of the package. A path: use those of a file. False: use none.

    Returns
    -------
    Config
        The complete configuration.

    Raises
    ------
    InputError
        If a setting is invalid, or the data set has too few rows.

    Examples
    --------
    >>> from laddernet.data import load
    >>> config = configure(load("digits"), labels=100, hidden=[32], noise=0.3, tuned=False)
    >>> config.noise, config.recon_weights
    ((0.3, 0.3, 0.3), (1000.0, 10.0, 0.1))
    """
    found = find(model)
    if find(found.id, found.source) != found:
        advice = "give one that `laddernet models` lists, or a combinator of your own"
        raise InputError(f"This is not the {found.id!r} that its name stands for, by which a run keeps it; {advice}.")
    n_labelled = dataset.n_labelled
    labels = n_labelled if isinstance(labels, str) and labels == "all" else labels
    labels = checks.integer("labels", labels, most=_MOST)
    if validation is None:  # a sixth, as the paper's 10,000 of 60,000, unless the labels need those rows
        validation = n_labelled // 6 if labels <= n_labelled - n_labelled // 6 else 0
    validation = checks.integer("validation", validation, least=0, most=_MOST)
    hidden = checks.sizes("hidden", _or(hidden, PAPER_HIDDEN if dataset.n_features >= 784 else (256, 128, 64)))
    followed = recipe_named(recipe)
    chosen = {**published(found, labels), "learning_rate": followed.learning_rate}
    if not isinstance(tuned, bool | str | os.PathLike):
        raise InputError(f"tuned must be True, False or the name of a file, got {checks.shown(tuned)}.")
    if tuned is not False:
        shape = dataset.n_features, dataset.n_classes
        chosen |= lookup(dataset.name, labels, found.id, recipe, None if tuned is True else tuned, shape=shape)
    layers = len(hidden) + 2
    noise = by_layer("noise", _or(noise, chosen["noise"]), layers, short=2)
    recon_weights = by_layer("recon_weights", _or(recon_weights, chosen["recon_weights"]), layers, short=3)
    eta = checks.number("eta", _or(eta, chosen["eta"]), above=0)
    learning_rate = checks.number("learning_rate", _or(learning_rate, chosen["learning_rate"]), above=0)
    epochs = checks.integer("epochs", _or(epochs, followed.epochs), most=checks.MOST_EPOCHS)
    decay_epochs = _or(decay_epochs, int(epochs * followed.decay))
    decay_epochs = checks.integer("decay_epochs", decay_epochs, least=0, most=epochs)
    batch_size = checks.integer("batch_size", _or(batch_size, followed.batch_size), most=checks.MOST_ROWS)
    labelled_batch_size = _or(labelled_batch_size, followed.labelled_batch_size)
    labelled_batch_size = checks.integer("labelled_batch_size", labelled_batch_size, most=checks.MOST_ROWS)
    weight_decay = checks.number("weight_decay", _or(weight_decay, followed.weight_decay))
    copies = checks.integer("copies", _or(copies, followed.copies), most=checks.MOST_COPIES)
    rows = copies * min(batch_size, len(dataset.x_train))
    if rows > checks.MOST_ROWS:
        limit = f"at most {checks.MOST_ROWS} rows in a step"
        raise InputError(f"copies times batch_size must be {limit}, got {copies} times {batch_size}.")
    weights = sum(a * b for a, b in pairwise((dataset.n_features, *hidden, dataset.n_classes)))
    if weights > checks.MOST_WEIGHTS:
        raise InputError(f"hidden must make at most {checks.MOST_WEIGHTS} weights, got {weights}; give smaller sizes.")
    seed = checks.integer("seed", seed, least=0, most=checks.MOST_SEED)
    # Refuse an impossible split here, before a run creates its folder.
    split(dataset.y_train, labels, validation, n_classes=dataset.n_classes, rng=np.random.default_rng(seed))
    return Config(
        data=dataset.name,
        labels=labels,
        validation=validation,
        model=found.id,
        hidden=hidden,
        noise=noise,
        recon_weights=recon_weights,
        eta=eta,
        epochs=epochs,
        decay_epochs=decay_epochs,
        learning_rate=learning_rate,
        batch_size=batch_size,
        labelled_batch_size=labelled_batch_size,
        seed=seed,
        weight_decay=weight_decay,
        copies=copies,
        source=found.source,
        precision=checks.choice("precision", precision, PRECISIONS),
        content=dataset.content,
    )


def precision_notice(precision: str) -> str | None:
    """Return a notice if this processor has no bfloat16 units, else None."""
    if precision != "bfloat16" or has_bfloat16_units():
        return None
    return "This processor has no bfloat16 units: it gives the results of bfloat16, but no faster than float32."


def _or(value: Value | None, default: Value) -> Value:
    return default if value is None else value


def published(model: Model, labels: int) -> dict[str, Any]:
    """Return the published values for the nearest number of labels, the defaults where there are no tuned values.

    >>> published(find("first-recons"), 90)
    {'noise': 0.3, 'recon_weights': [5000.0], 'eta': 0.1}
    """
    nearest = min(_PUBLISHED, key=lambda n: abs(math.log(n / max(labels, 1))))
    noise, recon_weights = _PUBLISHED[nearest]
    if model.combinator is None:
        noise = _BASELINE_NOISE
    elif model.id in _MEASURED:
        recon_weights = (_MEASURED[model.id],)
    elif model.reconstruction == "input":
        noise, recon_weights = (_INPUT_NOISE, _INPUT_NOISE), (_INPUT_ONLY[nearest],)
    return {
        "noise": noise[0] if noise[0] == noise[1] else list(noise),
        "recon_weights": list(recon_weights),
        "eta": _ETA,
    }


def by_layer(name: str, values: float | Sequence[float], layers: int, short: int) -> tuple[float, ...]:
    """Expand one value, ``short`` values or one per layer to one value per layer; the last value is repeated.

    >>> by_layer("noise", (0.5, 0.1), 4, short=2)
    (0.5, 0.1, 0.1, 0.1)
    """
    given = checks.numbers(name, values)
    if len(given) not in {1, short, layers} or len(given) > layers:
        counts = f"1, {short} or {layers}" if short < layers else f"1 or {layers}"
        raise InputError(f"{name} has {len(given)} values; give {counts} (layers 0 to {layers - 1}).")
    return (*given, *[given[-1]] * (layers - len(given)))

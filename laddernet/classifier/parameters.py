"""The parameters of a fit, checked, and the training programs that they ask for."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from laddernet import checks
from laddernet.classifier.defaults import Defaults
from laddernet.classifier.scaling import SCALINGS
from laddernet.errors import InputError
from laddernet.kernels.products import PRECISIONS
from laddernet.machine import cores
from laddernet.network.models import AnyModel, find
from laddernet.training.program import Program
from laddernet.training.rows import gathered_steps
from laddernet.training.settings import by_layer

_DECAY = 0.7  # the share of the steps, the last, over which the learning rate falls to zero


@dataclass(frozen=True)
class Parameters:
    """The parameters of :class:`~laddernet.LadderClassifier` that a fit depends on, as the user gave them."""

    model: AnyModel
    hidden: Sequence[int] | None
    noise: float | Sequence[float] | None
    recon_weights: float | Sequence[float] | None
    eta: float
    epochs: int | None
    max_steps: int | None
    batch_size: int
    learning_rate: float
    weight_decay: float | None
    label_smoothing: float | None
    n_networks: int | None
    linear_share: float | None
    class_weight: Mapping[Any, float] | str | None
    early_stopping: bool
    validation_fraction: float
    n_iter_no_change: int
    scale: str
    random_state: Any
    verbose: bool
    device: str | None
    n_jobs: int | None
    precision: str


@dataclass(frozen=True)
class Plan:
    """The networks to train."""

    programs: list[Program]
    shares: list[float]  # the weight of each network's logits in the prediction
    label_smoothing: float


def check_scale(scale: Any) -> str:
    """Check the parameter ``scale``, which is needed before the others can be planned with."""
    if not isinstance(scale, str) or scale not in SCALINGS:
        raise InputError(f"scale is {checks.shown(scale)}; give one of {', '.join(map(repr, SCALINGS))}.")
    return scale


def plan(given: Parameters, shape: tuple[int, int], classes: int, defaults: Defaults) -> Plan:
    """Check every parameter, and plan the networks; a parameter that is None gets its data-dependent default."""
    rows, columns = shape
    chosen = asdict(defaults)
    chosen |= {name: getattr(given, name) for name in chosen if getattr(given, name) is not None}
    hidden = checks.sizes("hidden", chosen["hidden"])
    if given.epochs is not None and given.max_steps is not None:
        raise InputError("Both epochs and max_steps are given; give one of them.")
    most = {"epochs": checks.MOST_EPOCHS, "max_steps": 10**9, "batch_size": checks.MOST_ROWS, "n_networks": 10_000}
    for name in (*most, "n_iter_no_change"):
        # These two have no default to take the place of None.
        if getattr(given, name) is not None or name in ("batch_size", "n_iter_no_change"):
            checks.integer(name, getattr(given, name), most=most.get(name))
    for name in ("learning_rate", "eta"):
        chosen[name] = checks.number(name, getattr(given, name), above=0)
    chosen["weight_decay"] = checks.number("weight_decay", chosen["weight_decay"])
    for name in ("label_smoothing", "linear_share"):
        chosen[name] = checks.number(name, chosen[name], below=1)
    checks.number("validation_fraction", given.validation_fraction, above=0, below=1)
    checks.flag("early_stopping", given.early_stopping)
    if not isinstance(given.verbose, int | np.bool_):
        raise InputError(f"verbose must be True, False or an integer, got {checks.shown(given.verbose)}.")
    if given.n_jobs is not None and not (_whole(given.n_jobs) and (given.n_jobs > 0 or -cores() <= given.n_jobs < 0)):
        raise InputError(f"n_jobs is {given.n_jobs!r}; give a number of cores, None or -1 for all.")
    layers = len(hidden) + 2
    passes = None if given.epochs is None else given.epochs * math.ceil(rows / given.batch_size)
    steps = passes or chosen["max_steps"]
    program = Program(
        # The paper normalises the labelled rows by themselves. With one or two labels per class their statistics differ
        # from those of the rows to be classified, so here they are normalised together with the unlabelled ones.
        model=replace(find(given.model), joint=True),
        sizes=(columns, *map(int, hidden), classes),
        noise=by_layer("noise", chosen["noise"], layers, short=2),
        recon_weights=by_layer("recon_weights", chosen["recon_weights"], layers, short=3),
        eta=chosen["eta"],
        steps=steps,
        chunk=gathered_steps((given.batch_size, given.batch_size), columns),
        learning_rate=chosen["learning_rate"],
        decay_steps=_DECAY * steps,
        weight_decay=chosen["weight_decay"],
        batch_size=given.batch_size,
        labelled_batch_size=given.batch_size,
        precision=checks.choice("precision", given.precision, PRECISIONS),
    )
    networks, share = int(chosen["n_networks"]), chosen["linear_share"]
    programs, shares = [program] * networks, [(1 - share) / networks] * networks
    if share:
        linear = replace(
            program,
            sizes=(program.sizes[0], program.sizes[-1]),
            noise=(program.noise[0], program.noise[-1]),
            recon_weights=(0.0, 0.0),
        )
        programs, shares = [*programs, linear], [*shares, share]
    return Plan(programs, shares, chosen["label_smoothing"])


def _whole(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)

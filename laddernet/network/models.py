"""The twenty models of the paper, as data: the combinator, noise and reconstruction of each."""

import difflib
import importlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

import jax

from laddernet.errors import InputError
from laddernet.network import combinators as c
from laddernet.network.combinators import Combinator
from laddernet.network.sources import digest, execute

Where = Literal["nowhere", "input", "everywhere"]


@dataclass(frozen=True)
class Model:
    """A model of the paper's Table 1, or one with a combinator of the user.

    Parameters
    ----------
    id
        Its name on the command line, in configurations and files.
    paper_name
        Its name in the paper.
    family
        Its place in the paper's tree of models, from the root down.
    description
        One line for lists of models.
    combinator
        Makes the combinator of a layer (a subclass of :class:`Combinator`, or a function with the same parameters).
        None for a model without a decoder, which learns from labelled rows only.
    noise
        The layers with Gaussian noise: "nowhere", "input" or "everywhere".
    reconstruction
        The layers with a reconstruction cost: "nowhere" (if and only if there is no combinator), "input" or
        "everywhere".
    eta_matters
        Whether the combinator draws its initial weights from N(0, η²).
    joint
        Whether noisy labelled and unlabelled rows are normalised together. In the paper they are not.
    source
        Digest of the code of a user's combinator; None for those of laddernet.

    Raises
    ------
    InputError
        If there is a combinator without reconstruction, or reconstruction without a combinator.

    Examples
    --------
    >>> find("first-noise").noise
    'input'
    """

    id: str
    paper_name: str
    family: tuple[str, ...]
    description: str
    combinator: Callable[..., Combinator] | None = c.Vanilla
    noise: Where = "everywhere"
    reconstruction: Where = "everywhere"
    eta_matters: bool = False
    joint: bool = False
    source: str | None = None

    def __post_init__(self) -> None:
        if (self.combinator is None) != (self.reconstruction == "nowhere"):
            raise InputError(
                f"The model {self.id!r} has {'no' if self.combinator is None else 'a'} combinator and reconstructs "
                f"{self.reconstruction}; without one it must be nowhere, with one somewhere."
            )

    def __str__(self) -> str:
        return self.id


_VANILLA = ("Vanilla",)
_NOISE = (*_VANILLA, "Removal of a component", "Noise variants")
_TERMS = (*_VANILLA, "Removal of a component", "Vanilla combinator variants")
_INITIAL = (*_VANILLA, "Replacement of a component", "Vanilla combinator initialisation")
_MLP = (*_VANILLA, "Replacement of a component", "MLP combinators")
_GAUSS = (*_VANILLA, "Replacement of a component", "Gaussian combinators")
_BASELINE = ("Baseline models",)


def _mlp(kind: type[c.MLP], *hidden: int) -> Model:
    name = kind.__name__
    sizes = ",".join(map(str, hidden))
    shown = "[u, z̃, u⊙z̃]" if kind is c.AMLP else "[u, z̃]"
    return Model(
        id="-".join([name.lower(), *map(str, hidden)]),
        paper_name=f"{name} [{sizes}]",
        family=_MLP,
        description=f"combinator: an MLP of {shown} for each unit, hidden layers of {sizes}",
        combinator=partial(kind, hidden=hidden),
        eta_matters=True,
    )


MODELS: dict[str, Model] = {
    model.id: model
    for model in (
        Model(
            "baseline",
            "Baseline",
            _BASELINE,
            "feed-forward network: no noise, no decoder, labelled rows only",
            combinator=None,
            noise="nowhere",
            reconstruction="nowhere",
        ),
        Model(
            "baseline-noise",
            "Baseline+noise",
            _BASELINE,
            "baseline with Gaussian noise at the input and every layer",
            combinator=None,
            reconstruction="nowhere",
        ),
        Model("vanilla", "Vanilla", _VANILLA, "the Ladder Network of Rasmus et al. (2015)"),
        Model("first-noise", "FirstNoise", _NOISE, "noise at the input only", noise="input"),
        Model(
            "first-recons",
            "FirstRecons",
            _NOISE,
            "reconstruction cost at the input only",
            reconstruction="input",
        ),
        Model(
            "first-noise-recons",
            "FirstN&R",
            _NOISE,
            "noise and reconstruction cost at the input only",
            noise="input",
            reconstruction="input",
        ),
        Model(
            "no-lateral",
            "NoLateral",
            _NOISE,
            "FirstN&R without lateral connections: a denoising autoencoder with a classifier on top",
            combinator=c.NoLateral,
            noise="input",
            reconstruction="input",
        ),
        Model(
            "rand-init",
            "RandInit",
            _INITIAL,
            "combinator parameters start at random, N(0, 0.2²)",
            combinator=c.RandInit,
        ),
        Model(
            "rev-init",
            "RevInit",
            _INITIAL,
            "combinator starts from u instead of z̃",
            combinator=c.RevInit,
        ),
        Model("no-sig", "NoSig", _TERMS, "combinator without the sigmoid path", combinator=c.NoSig),
        Model("no-mult", "NoMult", _TERMS, "combinator without the products z̃⊙u", combinator=c.NoMult),
        Model("linear", "Linear", _TERMS, "combinator b + wu⊙u + wz⊙z̃", combinator=c.Linear),
        Model(
            "gaussian",
            "Gaussian",
            _GAUSS,
            "combinator ν(u)⊙z̃ + (1−ν(u))⊙μ(u)",
            combinator=c.Gaussian,
        ),
        Model(
            "gated-gauss",
            "GatedGauss",
            _GAUSS,
            "Gaussian with 0 < ν(u) < 1",
            combinator=c.GatedGauss,
        ),
        *(_mlp(kind, *hidden) for kind in (c.MLP, c.AMLP) for hidden in ((4,), (2, 2), (2, 2, 2))),
    )
}

"""The twenty models of the paper by id, in the order of `laddernet models`."""

AnyModel = str | Model | type[Combinator]

# The user's combinators by name and digest, and the latest of each name under None. A class that was made in a notebook
# or a function, which no import can find, is found here.
_OWN: dict[tuple[str, str | None], Model] = {}


def find(model: AnyModel, source: str | None = None) -> Model:
    """Find a model.

    Parameters
    ----------
    model
        The id of a model of the paper, a subclass of :class:`Combinator`, or the name of one as ``module:Class`` or
        ``file.py:Class``. A model is returned as it is.
    source
        Digest that the code of a user's combinator must have, whether it is loaded now or was loaded before.

    Returns
    -------
    Model
        The model. With a user's combinator, noise and reconstruction are everywhere, as in vanilla.

    Raises
    ------
    InputError
        If there is no such model, the combinator does not work, or its code has another digest.

    Examples
    --------
    >>> find("amlp-2-2-2").paper_name
    'AMLP [2,2,2]'
    >>> find(c.Linear).id
    'laddernet.network.combinators:Linear'
    >>> find("vanila")
    Traceback (most recent call last):
    ...
    laddernet.errors.InputError: There is no model 'vanila'; did you mean 'vanilla'? `laddernet models` lists them all.
    """
    if isinstance(model, Model):
        return model
    if isinstance(model, type):
        return _of_class(model, f"{model.__module__}:{model.__qualname__}")
    if not isinstance(model, str):
        raise InputError(f"The model is {model!r}; give a model's id, file.py:Class, or a class.")
    if model in MODELS:
        return MODELS[model]
    if ":" in model:
        if source is not None and (model, source) in _OWN:
            return _OWN[model, source]
        found = _of_class(_import(model), model)
        if source not in (None, found.source):
            advice = "restore its source, or configure the run again with its present source"
            raise InputError(f"The combinator {model!r} has changed since this run was configured; {advice}.")
        return found
    near = difflib.get_close_matches(model.lower(), MODELS, n=1, cutoff=0.4)
    hint = f"did you mean {near[0]!r}? " if near else ""
    raise InputError(f"There is no model {model!r}; {hint}`laddernet models` lists them all.")


def _of_class(kind: object, name: str) -> Model:
    if not (isinstance(kind, type) and issubclass(kind, Combinator)):
        raise InputError(f"{name!r} is not a combinator; it must be a subclass of laddernet.Combinator.")
    source = digest(kind)
    held = _OWN.get((name, source))
    if held is None or held.combinator is not kind:
        held = _checked(kind, name, source)
    _OWN[name, None] = _OWN[name, source] = held
    return held


def _checked(kind: type[Combinator], name: str, source: str | None) -> Model:
    rows = jax.ShapeDtypeStruct((3, 2), float)  # type: ignore[no-untyped-call]

    def combine(eta: jax.Array, z_tilde: jax.Array, u: jax.Array) -> jax.Array:
        return kind(2, key=jax.random.key(0), eta=eta)(z_tilde, u)

    try:
        traced, z_hat = jax.make_jaxpr(combine, return_shape=True)(0.1, rows, rows)
    except Exception as error:  # the user's code may raise any exception
        raise InputError(f"The combinator {name!r} does not work: {_one_line(error)}") from error
    if getattr(z_hat, "shape", None) != rows.shape:
        raise InputError(f"The combinator {name!r} must return one array of the shape of z_tilde and u.")
    jaxpr = traced.jaxpr
    eta_matters = any(used is jaxpr.invars[0] for step in jaxpr.eqns for used in step.invars)
    summary = (kind.__doc__ or "a combinator of your own").strip().splitlines()[0]
    return Model(name, kind.__name__, _VANILLA, summary, combinator=kind, eta_matters=eta_matters, source=source)


def _import(name: str) -> object:
    """Import the class named ``module:Class`` or ``file.py:Class``, which runs the code that the user named."""
    place, _, attribute = name.rpartition(":")
    try:
        module = execute(Path(place)) if place.endswith(".py") else importlib.import_module(place)
        return getattr(module, attribute)
    except Exception as error:  # the user's code may raise any exception
        if (name, None) in _OWN and not place.endswith(".py"):
            return _OWN[name, None].combinator
        raise InputError(
            f"Cannot take the combinator {name!r} ({_one_line(error)}); name it file.py:Class or module:Class."
        ) from error


def _one_line(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"

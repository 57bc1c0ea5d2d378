"""Search spaces: one for each model, as data that a user can change."""

import math
import sys
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, replace
from importlib import resources
from pathlib import Path
from typing import Any

import tomli_w
from optuna.distributions import FloatDistribution

from laddernet.errors import InputError
from laddernet.files import from_toml, read_small
from laddernet.network.models import Model, find
from laddernet.training.tuned import Settings

Values = dict[str, float]  # by hyperparameter
_LAMBDAS = ("lambda_0", "lambda_1", "lambda_2")


@dataclass(frozen=True)
class Range:
    """The range of one hyperparameter."""

    low: float
    high: float
    log: bool = False
    zero: bool = False
    grid: tuple[float, ...] = ()
    optional: bool = False

    @property
    def floor(self) -> float:
        """The lower end of Optuna's scale: below ``low`` if zero is allowed, so that a tenth of the scale is zero."""
        return self.low * (self.low / self.high) ** (1 / 9) if self.zero else self.low

    def value(self, drawn: float) -> float:
        """Return the value of a point on Optuna's scale, rounded to three digits.

        >>> Range(0.01, 10, log=True, zero=True).value(0.009), Range(0.01, 10, log=True).value(0.123456)
        (0.0, 0.123)
        """
        return 0.0 if self.zero and drawn < self.low else float(f"{drawn:.3g}")

    def drawn(self, value: float) -> float:
        """Return the point on Optuna's scale of a value."""
        return self.floor if self.zero and value == 0 else value

    def holds(self, value: float) -> bool:
        """Return whether a value is in the range."""
        return self.low <= value <= self.high or (self.zero and value == 0)


@dataclass(frozen=True)
class Space:
    """The ranges that are searched for one model, and its fixed values."""

    ranges: dict[str, Range]
    fixed: Values

    def distributions(self) -> dict[str, FloatDistribution]:
        """Return the space as Optuna's distributions."""
        return {name: FloatDistribution(r.floor, r.high, log=r.log) for name, r in self.ranges.items()}

    def grid(self) -> dict[str, list[float]]:
        """Return the points of a grid search."""
        for name, r in self.ranges.items():
            if not r.grid:
                raise InputError(f"{name} has no grid; give it one in the file of --space, or use --sampler random.")
        return {name: [r.drawn(value) for value in r.grid] for name, r in self.ranges.items()}

    def values(self, drawn: Mapping[str, float]) -> Values:
        """Return the values of points on Optuna's scale, with the fixed values."""
        return {**{name: r.value(drawn[name]) for name, r in self.ranges.items()}, **self.fixed}

    def drawn(self, values: Mapping[str, float]) -> dict[str, float] | None:
        """Return the points on Optuna's scale of these values, or None if one is out of range."""
        if not all(r.holds(values[name]) for name, r in self.ranges.items()):
            return None
        return {name: r.drawn(values[name]) for name, r in self.ranges.items()}


def as_settings(values: Values) -> Settings:
    """Return values of a search as settings of a run.

    >>> as_settings({"noise": 0.3, "lambda_0": 100.0, "lambda_1": 1.0, "lambda_2": 0.0, "eta": 0.1})
    {'noise': 0.3, 'recon_weights': [100.0, 1.0, 0.0], 'eta': 0.1}
    """
    settings: Settings = {}
    if "noise" in values:
        settings["noise"] = [values["noise"], values["noise_hidden"]] if "noise_hidden" in values else values["noise"]
    weights = [values[name] for name in _LAMBDAS if name in values]
    if weights:
        settings["recon_weights"] = weights
    return {**settings, **{name: values[name] for name in ("eta", "learning_rate") if name in values}}


def as_values(settings: Settings) -> Values:
    """Reverse `as_settings`, for settings with one or two values of noise and one or three of λ.

    >>> as_values({"noise": 0.3, "recon_weights": [5000.0]})
    {'noise': 0.3, 'noise_hidden': 0.3, 'lambda_0': 5000.0, 'lambda_1': 5000.0, 'lambda_2': 5000.0}
    """
    noise, weights = (
        value if isinstance(value, list) else [value] for value in (settings["noise"], settings["recon_weights"])
    )
    values = {"noise": noise[0], "noise_hidden": noise[-1]}
    values |= {name: weights[min(l, len(weights) - 1)] for l, name in enumerate(_LAMBDAS)}
    return values | {name: settings[name] for name in ("eta", "learning_rate") if name in settings}


def parameters(model: Model) -> list[str]:
    """Return the hyperparameters of a model.

    >>> parameters(find("first-noise-recons"))
    ['noise', 'lambda_0', 'learning_rate']
    """
    has = {
        "noise": model.noise != "nowhere",
        "noise_hidden": model.noise == "everywhere",
        "lambda_0": model.reconstruction != "nowhere",
        "lambda_1": model.reconstruction == "everywhere",
        "lambda_2": model.reconstruction == "everywhere",
        "eta": model.eta_matters,
        "learning_rate": True,
    }
    return [name for name, does in has.items() if does]


# --- The files -------------------------------------------------------------------------------------------------------

_BUILT_IN = "spaces.toml"
_ALL = parameters(Model("", "", (), "", eta_matters=True))

Tables = dict[str, dict[str, Any]]  # by model or "default", and by hyperparameter


class Spaces:
    """The spaces of all models: those that ship with the package, with the changes of a user's file.

    >>> list(Spaces().of("linear").ranges)
    ['noise', 'lambda_0', 'lambda_1', 'lambda_2']
    >>> list(Spaces().of("baseline").ranges)
    ['learning_rate']
    """

    def __init__(self, file: Path | None = None) -> None:
        text = resources.files("laddernet.tune").joinpath(_BUILT_IN).read_text("utf-8")
        self._tables = [(_BUILT_IN, _tables(text, _BUILT_IN))]
        if file is not None:
            self._tables.append((str(file), _tables(read_small(file).decode(errors="replace"), str(file))))

    def of(self, model: str, also: Collection[str] = ()) -> Space:
        """Return the space of a model, with the optional hyperparameters in ``also``."""
        found = self._all(model)
        for name in also:
            if name not in _ALL:
                raise InputError(f"--also has {name!r}; give some of {', '.join(_ALL)}, separated by commas.")
        ranges = {n: r for n, r in found.items() if isinstance(r, Range) and (not r.optional or n in also)}
        return Space(ranges, {name: value for name, value in found.items() if isinstance(value, float)})

    def to_toml(self, model: str) -> str:
        """Return the space as a file that can be changed and given to --space."""
        found = {name: _fields(v) if isinstance(v, Range) else v for name, v in self._all(model).items()}
        return tomli_w.dumps({model: found})

    def _all(self, model: str) -> dict[str, Range | float]:
        has = parameters(find(model))
        found: dict[str, Range | float] = {}
        for file, tables in self._tables:
            for table in ("default", model):
                for name, value in tables.get(table, {}).items():
                    if name in has:
                        found[name] = _changed(found.get(name), value, f"{name} of [{table}] in {file}")
                    elif table == model:
                        raise InputError(f"[{model}] in {file} has {name}, which {model} does not have; remove it.")
        return {name: found[name] for name in has if name in found}


def _fields(r: Range) -> dict[str, Any]:
    return {name: value for name, value in asdict(r).items() if value != ()}  # an empty grid is not valid in a file


def _tables(text: str, file: str) -> Tables:
    try:
        tables = from_toml(text)
    except ValueError as error:
        raise InputError(f"{file} is not TOML ({error}); `laddernet tune --show-space` prints an example.") from error
    for model, table in tables.items():
        if not isinstance(table, dict):
            raise InputError(f"{file} has {model!r} outside of a table; write [default] or [MODEL] before it.")
        if model != "default":
            find(model)
        for name in table:
            if name not in _ALL:
                raise InputError(f"{file} has {name!r} in [{model}]; give some of {', '.join(_ALL)}.")
    return tables


def _changed(before: Range | float | None, value: Any, where: str) -> Range | float:
    """Return a range with some of its fields changed, or a fixed value."""
    is_positive = where.startswith(("eta", "learning_rate"))
    if _is_number(value):
        if value < 0 or (value == 0 and is_positive):
            least = "above 0" if is_positive else "of 0 or more"
            raise InputError(f"{where} must be a number {least}, got {value:g}.")
        return float(value)
    if not isinstance(value, dict) or not all(name in _FIELDS and _FIELDS[name](v) for name, v in value.items()):
        advice = "{ low = 0.1, high = 1.0, log = true, zero = false, grid = [0.1, 1.0], optional = false }"
        raise InputError(f"{where} is {value!r}; write a number, or some of {advice}.")
    fields = {**(asdict(before) if isinstance(before, Range) else {}), **value}
    if not {"low", "high"} <= set(fields):
        raise InputError(f"{where} lacks low or high; give both.")
    r = Range(**{**fields, "grid": tuple(map(float, fields.get("grid", ())))})
    if "grid" not in value:  # the points of the earlier grid that are in this range
        r = replace(r, grid=tuple(point for point in r.grid if r.holds(point)))
    if not (0 <= r.low < r.high and math.isfinite(r.high)):
        raise InputError(f"{where} ranges from {r.low:g} to {r.high:g}; low must be 0 or more, and below high.")
    if (r.log or is_positive) and r.low == 0:
        raise InputError(f"{where} begins at 0; low must be above 0.")
    if r.zero and not r.log:
        raise InputError(f"{where} has zero without log; write low = 0 instead of zero = true.")
    if not all(r.holds(point) for point in r.grid):
        raise InputError(f"{where} has a grid outside its range; keep it within {r.low:g} and {r.high:g}.")
    return r


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and abs(value) <= sys.float_info.max


def _is_bool(value: Any) -> bool:
    return isinstance(value, bool)


def _are_numbers(value: Any) -> bool:
    return isinstance(value, list) and len(value) > 0 and all(map(_is_number, value))


_FIELDS = {
    "low": _is_number,
    "high": _is_number,
    "log": _is_bool,
    "zero": _is_bool,
    "grid": _are_numbers,
    "optional": _is_bool,
}

"""The content of a classifier's file: parameters as JSON, classes, scaling and arrays, checked as they are read."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from laddernet.checks import is_finite
from laddernet.classifier.labels import is_missing
from laddernet.errors import InputError
from laddernet.inference.network import Scaling, encoder_arrays

_MOST_CLASS_BYTES = 1 << 30  # limit for the classes of a file in memory


def restored_parameters(held: Mapping[str, Any], known: Sequence[str]) -> dict[str, Any]:
    """Return the parameters that `as_json` has written, without those that it could not hold or that are unknown."""
    parameters = {name: as_held["value"] for name, as_held in held.items() if "value" in as_held}
    parameters |= {name: dict(as_held["pairs"]) for name, as_held in held.items() if "pairs" in as_held}
    return {name: value for name, value in parameters.items() if name in known}


def restored_scaling(arrays: Mapping[str, np.ndarray], about: Mapping[str, Any]) -> Scaling:
    """Return the scaling in a file; refuse arrays that are not finite, not of floats, or not of one for each column."""
    if broken := [name for name, array in arrays.items() if not np.isfinite(array).all()]:
        raise InputError(f"The model's {broken[0]} holds NaN or infinity; save the model anew.")
    bound = about.get("bound")  # None before format 2
    if bound is not None and not (is_finite(bound) and bound > 0):
        raise InputError("The model's bound is not a number above 0; save the model anew.")
    scaling, columns = Scaling(arrays["scaling.shift"], arrays["scaling.factor"], bound), about["n_features_in"]
    shapes = {scaling.shift.shape, scaling.factor.shape}
    if type(columns) is not int or shapes != {(columns,)}:
        raise ValueError(f"it has {str(columns)[:80]} columns, and its scaling the shapes {sorted(shapes)}")
    if scaling.factor.dtype.kind != "f":  # the precision of the scaled rows
        raise ValueError(f"its scaling has factors of the type {scaling.factor.dtype}")
    return scaling


def restored_classes(held: Mapping[str, Any]) -> np.ndarray:
    """Return the classes in a file, and refuse a type that would take too much memory."""
    values, dtype = held["values"], np.dtype(held["dtype"])
    if dtype.kind not in "biufU" or dtype.itemsize * len(values) > _MOST_CLASS_BYTES:
        raise InputError(f"The model declares {len(values):,} classes of the type {dtype}; save the model anew.")
    return np.array(values, dtype=dtype)


def check_shapes(networks: Sequence[Mapping[str, np.ndarray]], columns: int, top: int) -> None:
    """Refuse networks of a file whose shapes do not match its columns, or that have not one logit per class."""
    for network in networks:
        below = columns
        for l, (W, gamma, beta) in enumerate(zip(*encoder_arrays(network), strict=True)):
            others = (gamma, beta, *(network[f"statistics.{name}.{l}"] for name in ("mu", "sigma")))
            if W.shape[:1] != (below,) or any(W.shape[1:] != other.shape for other in others):
                raise ValueError(f"the shapes in layer {l + 1} do not fit")
            below = W.shape[1]
        if below != top:
            raise ValueError(f"it has {top} classes and {below} logits")


def arrays_below(arrays: Mapping[str, np.ndarray], prefix: str) -> dict[str, np.ndarray]:
    """Return the arrays whose names start with a prefix, by the rest of the name."""
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def _plain(value: Any) -> Any:
    """Convert NumPy's types to Python's, and missing values to None."""
    if isinstance(value, list | tuple):
        return [_plain(held) for held in value]
    if is_missing(value):
        return None
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value


def as_json(value: Any) -> dict[str, Any]:
    """Return a parameter as JSON for a file; of a class or a generator, which JSON cannot hold, only its repr."""
    value = value.id if hasattr(value, "combinator") else _plain(value)
    kind = "value"
    if isinstance(value, dict):  # JSON would convert its keys to text
        kind, value = "pairs", [[_plain(key), _plain(held)] for key, held in value.items()]
    try:
        return {kind: json.loads(json.dumps(value))}
    except TypeError:
        return {"shown": repr(value)}

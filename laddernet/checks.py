"""Checks of the type, finiteness and range of settings; each error is one sentence."""

import operator
import sys
from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np

from laddernet.errors import InputError

Choice = TypeVar("Choice")

MOST_EPOCHS = 10**6
MOST_ROWS = 10**6  # of a step
MOST_COPIES = 1000
MOST_UNITS = 10**5  # of a layer
MOST_LAYERS = 100
MOST_WEIGHTS = 10**9  # of a network's encoder
MOST_SEED = 2**32 - 1
_LARGEST = float(np.finfo(np.float32).max)  # of the numbers that the network computes with


def integer(name: str, value: Any, least: int = 1, most: int | None = None) -> int:
    """Return an integer of Python or NumPy from ``least`` to ``most``; refuse bools and floats.

    >>> integer("epochs", 2.5)
    Traceback (most recent call last):
    laddernet.errors.InputError: epochs must be an integer of 1 or more, got 2.5.
    """
    found = _index(value)
    if found is None or found < least or (most is not None and found > most):
        limits = f"of {least} or more" if most is None else f"from {least} to {most}"
        raise InputError(f"{name} must be an integer {limits}, got {shown(value)}.")
    return found


def choice(name: str, value: Any, among: Sequence[Choice]) -> Choice:
    """Return a value that is one of ``among``; refuse others.

    >>> choice("precision", "float16", ["float32", "bfloat16"])
    Traceback (most recent call last):
    laddernet.errors.InputError: precision must be 'float32' or 'bfloat16', got 'float16'.
    """
    for known in among:
        if isinstance(value, type(known)) and value == known:
            return known
    raise InputError(f"{name} must be {' or '.join(map(repr, among))}, got {shown(value)}.")


def sizes(name: str, values: Any) -> tuple[int, ...]:
    """Return the sizes of one or more layers; a single size needs no list.

    >>> sizes("hidden", [32.5])
    Traceback (most recent call last):
    laddernet.errors.InputError: hidden must be one or more positive integers, got [32.5].
    """
    given = _listed(values)
    found = [_index(value) for value in given]
    if not found or any(size is None or size < 1 for size in found):
        raise InputError(f"{name} must be one or more positive integers, got {shown(values)}.")
    whole = tuple(size for size in found if size is not None)
    if len(whole) > MOST_LAYERS or max(whole) > MOST_UNITS:
        limits = f"at most {MOST_LAYERS} integers of at most {MOST_UNITS}"
        raise InputError(f"{name} must be {limits}, got {shown(values)}.")
    return whole


def number(name: str, value: Any, *, above: float | None = None, below: float | None = None) -> float:
    """Return a finite number of Python or NumPy: 0 or more, or more than ``above``; less than ``below``.

    >>> number("eta", "0.1", above=0)
    Traceback (most recent call last):
    laddernet.errors.InputError: eta must be a finite number above 0, got '0.1'.
    """
    least = "above 0" if above is not None else "of 0 or more"
    is_real = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool | np.bool_)
    if not (is_real and (value > above if above is not None else value >= 0) and value <= _LARGEST):
        raise InputError(f"{name} must be a finite number {least}, got {shown(value)}.")
    if below is not None and not value < below:
        raise InputError(f"{name} must be a finite number {least} and below {below:g}, got {shown(value)}.")
    return float(value)


def numbers(name: str, values: Any) -> list[float]:
    """Return one or more finite numbers, 0 or more; a single number needs no list."""
    try:
        return [float(number(name, value)) for value in _listed(values)]
    except InputError:
        raise InputError(f"{name} must be finite numbers of 0 or more, got {shown(values)}.") from None


def flag(name: str, value: Any) -> bool:
    """Return a bool of Python or NumPy as a bool; refuse other values.

    >>> flag("warm_start", "no")
    Traceback (most recent call last):
    laddernet.errors.InputError: warm_start must be True or False, got 'no'.
    """
    if not isinstance(value, bool | np.bool_):
        raise InputError(f"{name} must be True or False, got {shown(value)}.")
    return bool(value)


def is_finite(value: Any) -> bool:
    """Return whether a value read from a file is a finite number within the range of a float.

    >>> is_finite(0.5), is_finite(10**400), is_finite(float("nan")), is_finite("1")
    (True, False, False, False)
    """
    return isinstance(value, int | float) and abs(value) <= sys.float_info.max


def shown(value: Any) -> str:
    """Return a short text for a value, for an error message."""
    try:
        text = repr(value.tolist() if isinstance(value, np.ndarray | np.generic) else value)
    except ValueError:  # an integer with more digits than Python prints
        text = "an integer of thousands of digits"
    text = " ".join(text.split())
    return text if len(text) <= 80 else f"{text[:77]}..."


def _index(value: Any) -> int | None:
    if isinstance(value, bool | np.bool_):
        return None
    try:
        return operator.index(value)
    except TypeError:
        return None


def _listed(values: Any) -> Sequence[Any]:
    if isinstance(values, np.ndarray):
        return list(np.atleast_1d(values))
    if isinstance(values, Sequence) and not isinstance(values, str | bytes):
        return values
    return [values]

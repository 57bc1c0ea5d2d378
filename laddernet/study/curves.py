"""Learning curves, thinned to the resolution of a screen."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from laddernet.checks import is_finite

_POINTS = 80  # per curve: enough for a screen, few enough for hundreds of runs in one file


def points(history: Sequence[Mapping[str, Any]], quantity: str) -> dict[int, float]:
    """Return values by epoch, to four digits, thinned evenly; the first and the last stay."""
    known = [(record["epoch"], record[quantity]) for record in history if is_finite(record.get(quantity))]
    step = max(1.0, (len(known) - 1) / (_POINTS - 1))
    kept = [known[round(place * step)] for place in range(min(len(known), _POINTS))]
    return {epoch: short(value) for epoch, value in kept}


def thinned(history: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the records of a run with thinned curves; thinning them again changes nothing.

    >>> thinned([{"epoch": 1, "cost": 2.34567}, {"epoch": 2, "cost": 1.0}])
    [{'epoch': 1, 'cost': 2.346}, {'epoch': 2, 'cost': 1}]
    """
    curves = {name: points(history, name) for name in quantities(history)}
    epochs = sorted({epoch for kept in curves.values() for epoch in kept})
    return [
        {"epoch": epoch, **{name: kept[epoch] for name, kept in curves.items() if epoch in kept}} for epoch in epochs
    ]


def quantities(history: Iterable[Mapping[str, Any]]) -> dict[str, None]:
    """Return the names of all recorded quantities, in order."""
    return dict.fromkeys(name for record in history for name in record if name != "epoch")


def short(value: float) -> float:
    """Round to four significant digits, without the ".0" of a whole number.

    >>> short(0.123456), short(5.0)
    (0.1235, 5)
    """
    rounded = float(f"{value:.4g}")
    return int(rounded) if rounded.is_integer() and abs(rounded) < 1e15 else rounded

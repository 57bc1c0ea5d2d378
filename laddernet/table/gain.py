"""The gain by a round of labels: the estimate of an earlier model beside that of the new one."""

from pathlib import Path

from laddernet.errors import InputError
from laddernet.table.estimate import Estimate
from laddernet.table.model import TableModel


def earlier_estimate(target: str, *paths: Path) -> Estimate | None:
    """Return the estimate of the first of these files that is a model with this target; None if there is none."""
    for path in paths:
        try:
            model = TableModel.load(path)
        except InputError:  # no file, or one of another kind
            continue
        if model.target == target:
            return model.estimate
    return None


def gain(before: Estimate | None, now: Estimate | None) -> str:
    """Compare two estimates, and call them different only if their intervals do not overlap.

    >>> fifth, tenth, none = [Estimate(3, 60, 90, wrong, 0.0, 50.0) for wrong in (18, 9, 0)]
    >>> gain(fifth, tenth)
    'The earlier model: 20.0 % (13.3–28.2 %, 90 labelled rows); now 10.0 % (5.3–16.8 %, 90): no clear difference.'
    >>> gain(fifth, none)
    'The earlier model: 20.0 % (13.3–28.2 %, 90 labelled rows); now 0.0 % (0.0–3.3 %, 90): the error has fallen.'
    """
    if now is None:
        return ""
    if before is None:
        return "There is no estimate of an earlier model, so the gain by the new labels is unknown."
    (low, high), (low_now, high_now) = before.interval, now.interval
    then = f"{before.error:.1f} % ({low:.1f}–{high:.1f} %, {before.judged:,} labelled rows)"
    result = "no clear difference"
    if high_now < low:
        result = "the error has fallen"
    elif high < low_now:
        result = "the error has risen"
    present = f"{now.error:.1f} % ({low_now:.1f}–{high_now:.1f} %, {now.judged:,})"
    return f"The earlier model: {then}; now {present}: {result}."

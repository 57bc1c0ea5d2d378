"""The lines of results.jsonl: one for each fit of the few-labels benchmark, kept as soon as it is done."""

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from laddernet.files import reading, write_atomic, writing


class Fit(NamedTuple):
    """A method on a set with a number of labels per class, which a draw chooses."""

    set: str
    labels: int  # of each class
    draw: int
    method: str


class Result(NamedTuple):
    """The figures of a fit on the test rows. Lines from before 2026-11-18 hold only error and seconds."""

    error: float  # in per cent
    seconds: float  # processor time of the fit
    balanced_error: float | None = None  # in per cent: the mean over classes
    log_loss: float | None = None
    ece: float | None = None  # expected calibration error, in per cent
    confidence: float | None = None  # mean probability of the predicted class, in per cent


Results = dict[Fit, Result]


def keep(path: Path, fit: Fit, result: Result) -> None:
    """Append a line that a crash of the machine leaves there."""
    line = _line(fit, result)
    with writing(path), path.open("ab+") as file:
        # A line that a kill cut in two must not run into this one.
        if file.tell() and (file.seek(-1, os.SEEK_END), file.read(1))[1] != b"\n":
            line = "\n" + line
        file.write(line.encode())
        file.flush()
        os.fsync(file.fileno())


def kept(path: Path) -> Results:
    """Return all lines of a file but one cut in two; of two for the same fit, the later."""
    results: Results = {}
    if not path.exists():
        return results
    with reading(path):
        lines = path.read_text("utf-8", "replace").splitlines()
    for line in lines:
        try:
            found = json.loads(line)
            fit = Fit(*(found[key] for key in Fit._fields))
            results[fit] = Result(**{key: found[key] for key in Result._fields if key in found})
        except (ValueError, KeyError, TypeError):
            continue
    return results


def forget(path: Path, methods: Iterable[str], sets: Iterable[str]) -> None:
    """Take the lines of these methods on these sets out of a file, to measure them anew."""
    results, dropped = kept(path), {(name, method) for name in sets for method in methods}
    left = {fit: result for fit, result in results.items() if (fit.set, fit.method) not in dropped}
    if len(left) < len(results):
        write_atomic(path, "".join(_line(fit, result) for fit, result in left.items()).encode())


def _line(fit: Fit, result: Result) -> str:
    measured = {key: value for key, value in result._asdict().items() if value is not None}
    return json.dumps({**fit._asdict(), **measured}) + "\n"

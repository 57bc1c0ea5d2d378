"""The finished runs of a study as one text file, for another machine or for version control.

The file has one line of JSON for each run, in a fixed order, so that ``git diff`` shows the runs that were added and
two files merge line by line. A line holds the configuration, the fingerprint, the revision of the training program, the
result, the environment and the learning curves as the report's page shows them, with a SHA-256 of all that.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from laddernet.checks import is_finite
from laddernet.errors import InputError
from laddernet.files import content_of, from_json, write_atomic
from laddernet.study.curves import thinned
from laddernet.study.store import Run
from laddernet.training.config import REVISION, Config

Json = dict[str, Any]

_PARTS = ("config", "environment", "fingerprint", "history", "result", "revision")


def export_runs(path: Path, runs: Iterable[Run], revisions: Mapping[str, int]) -> int:
    """Write finished runs to a file and return the number of runs in it.

    Runs that the file holds already stay in it, so that exports of several machines to one file add up.

    Parameters
    ----------
    path
        The file. One that is damaged is refused, not overwritten.
    runs
        Finished runs with their histories.
    revisions
        The revision of the training program that computed each run, by fingerprint.
    """
    held: dict[str, Json] = {}
    if path.exists():
        for number, line in _lines(path):
            try:
                kept = _content(line)
            except InputError as error:
                raise InputError(f"Line {number} of {path}: {error}; repair that line or name another file.") from None
            held[kept["fingerprint"]] = kept
    for run in runs:
        held[run.fingerprint] = {
            "config": run.config,
            "environment": run.environment,
            "fingerprint": run.fingerprint,
            "history": _columns(thinned(run.history or [])),
            "result": run.result,
            "revision": revisions[run.fingerprint],
        }
    lines = [json.dumps({**run, "sha256": _digest(run)}) + "\n" for run in sorted(held.values(), key=_order)]
    write_atomic(path, "".join(lines).encode())
    return len(lines)


def read_runs(path: Path) -> tuple[dict[str, Json], list[str]]:
    """Read an exported file; return its runs by fingerprint, and a sentence for each line that is refused.

    A line is refused if it is damaged, if its fingerprint is not that of its configuration, or if another revision of
    the training program computed it. A run that is in the file twice counts once.
    """
    found: dict[str, Json] = {}
    refused: list[str] = []
    for number, line in _lines(path):
        try:
            run = _checked(_content(line))
            before = found.setdefault(run["fingerprint"], run)
            if before["result"]["test_error"] != run["result"]["test_error"]:
                raise InputError("an earlier line holds the same run with another test error")
        except InputError as error:
            refused.append(f"Line {number} of {path} is not imported: {error}.")
    return found, refused


def _lines(path: Path) -> Iterator[tuple[int, bytes]]:
    return ((number, line) for number, line in enumerate(content_of(path).splitlines(), start=1) if line.strip())


def _digest(run: Json) -> str:
    return hashlib.sha256(json.dumps(run, sort_keys=True, allow_nan=False).encode()).hexdigest()


def _order(run: Json) -> tuple[Any, ...]:
    config = run["config"]
    return config["data"], config["labels"], config["model"], config["seed"], run["fingerprint"]


def _content(line: bytes) -> Json:
    """Return the parts of a line; refuse it if its SHA-256 is wrong."""
    try:
        run = from_json(line)
        digest = run.pop("sha256")
        intact = tuple(sorted(run)) == _PARTS and _digest(run) == digest
        if intact:
            _order(run)
    except (ValueError, KeyError, TypeError, AttributeError):
        intact = False
    if not intact:
        raise InputError("it is damaged (not JSON, or its SHA-256 is not that of its content)")
    return dict(run)


def _checked(run: Json) -> Json:
    """Return a run with its history as records; refuse a run that this revision would not compute."""
    if run["revision"] != REVISION:
        raise InputError(f"revision {run['revision']} of the training program computed it, and this is {REVISION}")
    try:
        same = Config.from_json(run["config"]).fingerprint == run["fingerprint"] == run["result"]["fingerprint"]
        error = float(run["result"]["test_error"])
        history = _records(run["history"])
    except (ValueError, KeyError, TypeError, AttributeError) as problem:
        raise InputError(f"it does not hold a finished run ({problem})") from None
    if not same:
        raise InputError("its fingerprint is not that of its configuration")
    if not (0 <= error <= 100 and isinstance(run["environment"], dict)):
        raise InputError(f"its test error of {error} or its environment is not that of a run")
    return {**run, "history": history}


def _columns(history: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Return a list for each quantity, with None for epochs that did not measure it.

    >>> _columns([{"epoch": 1, "cost": 2.5}, {"epoch": 2, "cost": 2, "test_error": 9}])
    {'epoch': [1, 2], 'cost': [2.5, 2], 'test_error': [None, 9]}
    """
    names = dict.fromkeys(name for record in history for name in record)
    return {name: [record.get(name) for record in history] for name in names}


def _records(columns: Mapping[str, Sequence[Any]]) -> list[Json]:
    """Reverse `_columns`.

    >>> _records({"epoch": [1, 2], "test_error": [None, 9]})
    [{'epoch': 1}, {'epoch': 2, 'test_error': 9}]
    """
    "".join(columns).encode()  # a ValueError for half a character, which no file could hold
    for name, values in columns.items():
        if not all(value is None or is_finite(value) for value in values):
            raise ValueError(f"the history of {name} is not of numbers")
    rows = zip(*columns.values(), strict=True)
    return [{name: v for name, v in zip(columns, row, strict=True) if v is not None} for row in rows]

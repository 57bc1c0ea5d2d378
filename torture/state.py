"""The content of a folder in which commands ran, and how it differs from another."""

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import safetensors.numpy

from torture.common import contents, digest, without_seconds

State = dict[str, Any]


def state(folder: Path) -> State:
    """Read a folder's content, without times and dates; databases are read as rows."""
    found: State = {}
    for name, content in contents(folder).items():
        if (
            name.startswith("torture")
            or ".gone/" in name
            or name.endswith((".db-wal", ".db-shm", ".log", ".db-journal"))
        ):
            continue
        found[name] = _meaning(folder / name, content)
    return found


def _meaning(path: Path, content: bytes) -> Any:
    if path.name.endswith(".tmp"):
        return None
    if path.name == "command.txt":  # the options of the repetition may differ
        return None
    if path.name == "study.json":
        return json.dumps(json.loads(content)["runs"])
    if path.suffix == ".db":
        return _rows(path)
    if path.name == "result.json":
        return json.dumps(without_seconds(json.loads(content)))
    if path.suffix in (".html", ".svg"):
        return content.rstrip().endswith((b"</html>", b"</svg>"))
    if path.name == "model.safetensors":
        return digest({name: array.tobytes() for name, array in safetensors.numpy.load(content).items()})
    return content


def _rows(path: Path) -> State:
    with closing(sqlite3.connect(path)) as file:
        tables = [row[0] for row in file.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return rows(file.execute, tables)


def rows(execute: Callable[[str], Any], tables: list[str]) -> State:
    """Read the records of a store: each run and trial."""
    found: State = {}
    if "laddernet_runs" not in tables:
        return found
    # A run that is not done has no end, whatever its state.
    for fingerprint, result, history in execute(
        "SELECT fingerprint, result, history FROM laddernet_runs WHERE status = 'done'"
    ):
        found[f"run {fingerprint[:12]}"] = json.dumps([without_seconds(_parsed(result)), _parsed(history)])
    if "trials" in tables:
        for number, status in execute("SELECT number, state FROM trials"):
            found[f"trial {number}"] = status if status == "COMPLETE" else None
        for number, name, value in execute(
            "SELECT number, param_name, param_value FROM trials JOIN trial_params USING (trial_id)"
        ):
            found[f"trial {number} {name}"] = value
    return found


def _parsed(value: Any) -> Any:
    return json.loads(value) if isinstance(value, str) else value


def difference(now: State, wanted: State, ignored: str | None = None) -> str | None:
    """Return a difference from the wanted end; remains of unfinished files do not count."""
    for name, value in wanted.items():
        if (ignored and name.startswith(ignored + "/")) or value is None:
            continue
        if name not in now:
            return f"{name} is missing"
        if now[name] != value:
            if isinstance(value, dict):
                keys = [key for key in {**value, **now[name]} if value.get(key) != now[name].get(key)]
                return f"{name} differs in {', '.join(keys[:3])}"
            return f"{name} differs"
    return None

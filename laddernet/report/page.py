"""The study as one HTML file that needs no network: the table, the spread, the curves, the networks, the runs.

All that a user may have named travels as JSON in which no markup can be, and the page's script shows it as text. A
Content-Security-Policy lets nothing run but that script, and nothing be fetched.
"""

import base64
import hashlib
import html
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib import resources
from string import Template
from typing import Any

from laddernet.network.models import MODELS
from laddernet.report.pictures import Denoised, Surface
from laddernet.report.tables import REFERENCE, Cell, Table
from laddernet.study.curves import points, quantities

OWN_GROUP = "Your own"


@dataclass(frozen=True)
class RunData:
    """One run, whatever became of it."""

    fingerprint: str
    model: str
    labels: int
    seed: int
    status: str
    error: float | None = None  # of the test rows, in per cent
    seconds: float | None = None
    config: Mapping[str, Any] = field(default_factory=dict)
    environment: Mapping[str, Any] = field(default_factory=dict)
    history: Sequence[Mapping[str, Any]] = ()  # a record for each epoch; what it did not measure is absent
    message: str | None = None  # why it failed


@dataclass(frozen=True)
class Pictures:
    """What one run of a cell has learned."""

    fingerprint: str
    surfaces: Sequence[Surface] = ()
    denoised: Sequence[Denoised] = ()


@dataclass(frozen=True)
class PageData:
    """All that the page shows, as plain values."""

    title: str
    data: str
    created: str
    command: str
    table: Table
    runs: Sequence[RunData] = ()
    pictures: Sequence[Pictures] = ()


def page(study: PageData) -> str:
    """One self-contained HTML document."""
    script, style = asset("page.js"), asset("page.css")
    return Template(asset("page.html")).substitute(
        policy=f"default-src 'none'; script-src {allowed(script)}; style-src {allowed(style)}; img-src data:; "
        "base-uri 'none'; form-action 'none'",
        title=html.escape(study.title.encode(errors="replace").decode()),
        style=style,
        study=_json(_study(study)),
        curves=_json(_curves(study.runs)),
        pictures=_json([asdict(pictures) for pictures in study.pictures]),
        script=script,
    )


def asset(name: str) -> str:
    """The text of one of the page's parts."""
    return resources.files("laddernet.report").joinpath("assets", name).read_text("utf-8")


def allowed(text: str) -> str:
    """The name by which a Content-Security-Policy allows an inline script or style."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _json(value: Any) -> str:
    """JSON for inside a script element: nothing in it can end the element, nor is anything but ASCII.

    >>> print(_json({"</script>": math.nan}))
    {"\\u003c/script\\u003e":null}
    """
    text = json.dumps(_finite(value), separators=(",", ":"), allow_nan=False)
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _finite(value: Any) -> Any:
    """The same with None for NaN and infinity, which JSON does not have."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): _finite(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(inner) for inner in value]
    return value


# --- The study and its runs -------------------------------------------------------------------------------------


def _study(study: PageData) -> dict[str, Any]:
    environments = _Distinct()
    configs = _Distinct()
    runs = [
        {
            **{key: getattr(run, key) for key in ("fingerprint", "model", "labels", "seed", "status", "message")},
            "error": run.error,
            "seconds": run.seconds,
            # Without its seed and model a configuration is that of many runs.
            "config": configs.place({k: v for k, v in run.config.items() if k not in ("seed", "model")}),
            "environment": environments.place(run.environment),
        }
        for run in study.runs
    ]
    return {
        **{key: getattr(study, key) for key in ("title", "data", "created", "command")},
        "labels": study.table.labels,
        "reference": REFERENCE,
        "models": [
            {"id": row.model, **_about(row.model), "cells": [_cell(cell) for cell in row.cells]}
            for row in study.table.rows
        ],
        "spearman": [asdict(rank) for rank in study.table.spearman],
        "remarks": study.table.remarks,
        "runs": runs,
        "configs": configs.values,
        "environments": environments.values,
    }


def _cell(cell: Cell) -> dict[str, Any]:
    return {**asdict(cell), "difference": cell.difference, "within": cell.within_two_se}


def _about(model: str) -> dict[str, str]:
    """
    >>> _about("linear")["group"]
    'Vanilla combinator variants'
    """
    if model in MODELS:
        return {"group": MODELS[model].family[-1], "description": MODELS[model].description}
    return {"group": OWN_GROUP, "description": "a combinator of your own"}


class _Distinct:
    """Values held once, however often they are used."""

    def __init__(self) -> None:
        self.values: list[Any] = []
        self._places: dict[str, int] = {}

    def place(self, value: Any) -> int:
        text = json.dumps(_finite(value), sort_keys=True)
        if text not in self._places:
            self._places[text] = len(self.values)
            self.values.append(value)
        return self._places[text]


# --- Curves -----------------------------------------------------------------------------------------------------


def _curves(runs: Iterable[RunData]) -> dict[str, Any]:
    """For each run and quantity, where its list of epochs is and its values."""
    axes = _Distinct()
    curves = []
    for run in runs:
        curves.append({name: _curve(run.history, name, axes) for name in quantities(run.history)})
    return {"axes": axes.values, "runs": curves}


def _curve(history: Sequence[Mapping[str, Any]], quantity: str, axes: _Distinct) -> list[Any]:
    """
    >>> _curve([{"epoch": 1, "cost": 2.34567}, {"epoch": 2}], "cost", _Distinct())
    [0, [2.346]]
    """
    kept = points(history, quantity)
    return [axes.place(list(kept)), list(kept.values())]

"""The page of a study: its table, the spread over seeds, learning curves, what the networks learned, the runs."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from laddernet.network.models import MODELS
from laddernet.report.document import document
from laddernet.report.pictures import Denoised, Surface
from laddernet.report.tables import REFERENCE, Cell, Table
from laddernet.study.curves import points, quantities

OWN_GROUP = "Your own"
_VIEWS = ("models", "table", "spread", "curves", "surfaces", "networks", "runs")
_SCRIPTS = [f"{name}.js" for name in ("elements", "charts", *_VIEWS, "study")]


@dataclass(frozen=True)
class RunData:
    """One run in any state."""

    fingerprint: str
    model: str
    labels: int
    seed: int
    status: str
    error: float | None = None  # of the test rows, in per cent
    seconds: float | None = None
    config: Mapping[str, Any] = field(default_factory=dict)
    environment: Mapping[str, Any] = field(default_factory=dict)
    history: Sequence[Mapping[str, Any]] = ()  # a record for each epoch, with the quantities it measured
    message: str | None = None  # why it failed


@dataclass(frozen=True)
class Pictures:
    """The pictures of one run of a cell."""

    fingerprint: str
    surfaces: Sequence[Surface] = ()
    denoised: Sequence[Denoised] = ()


@dataclass(frozen=True)
class PageData:
    """The content of the page, as plain values."""

    title: str
    data: str
    created: str
    command: str
    table: Table
    runs: Sequence[RunData] = ()
    pictures: Sequence[Pictures] = ()


def page(study: PageData) -> str:
    """Make one self-contained HTML document."""
    data = {
        "study": _study(study),
        "curves": _curves(study.runs),
        "pictures": [asdict(pictures) for pictures in study.pictures],
    }
    return document("study.html", _SCRIPTS, data, title=study.title)


# --- The study and its runs -------------------------------------------------------------------------------------


def _study(study: PageData) -> dict[str, Any]:
    environments = _Distinct()
    configs = _Distinct()
    runs = [
        {
            **{key: getattr(run, key) for key in ("fingerprint", "model", "labels", "seed", "status", "message")},
            "error": run.error,
            "seconds": run.seconds,
            # Many runs have the same configuration but for seed and model.
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
            {
                "id": row.model,
                "untuned": row.model in study.table.untuned,
                **_about(row.model),
                "cells": [_cell(cell) for cell in row.cells],
            }
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
    """Return the group and the description of a model.

    >>> _about("linear")["group"]
    'Vanilla combinator variants'
    """
    if model in MODELS:
        return {"group": MODELS[model].family[-1], "description": MODELS[model].description}
    return {"group": OWN_GROUP, "description": "a combinator of your own"}


class _Distinct:
    """A list of values without duplicates."""

    def __init__(self) -> None:
        self.values: list[Any] = []
        self._places: dict[str, int] = {}

    def place(self, value: Any) -> int:
        text = json.dumps(value, sort_keys=True)
        if text not in self._places:
            self._places[text] = len(self.values)
            self.values.append(value)
        return self._places[text]


# --- Curves -----------------------------------------------------------------------------------------------------


def _curves(runs: Iterable[RunData]) -> dict[str, Any]:
    """Return for each run and quantity the place of its list of epochs, and its values."""
    axes = _Distinct()
    curves = []
    for run in runs:
        curves.append({name: _curve(run.history, name, axes) for name in quantities(run.history)})
    return {"axes": axes.values, "runs": curves}


def _curve(history: Sequence[Mapping[str, Any]], quantity: str, axes: _Distinct) -> list[Any]:
    """Thin one curve to the points of a screen.

    >>> _curve([{"epoch": 1, "cost": 2.34567}, {"epoch": 2}], "cost", _Distinct())
    [0, [2.346]]
    """
    kept = points(history, quantity)
    return [axes.place(list(kept)), list(kept.values())]

"""The page of a study: its table, the spread over seeds, learning curves, the learned combinators, the runs."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from laddernet.network.models import MODELS
from laddernet.report.conclusions import EXPLANATION, conclusions, summary
from laddernet.report.document import document
from laddernet.report.findings import findings
from laddernet.report.numbers import is_shown, value
from laddernet.report.pictures import Denoised, Samples, Surface
from laddernet.report.tables import REFERENCE, Cell, Table
from laddernet.report.writers import COST_HEADS, comparison_parts, cost_rows, counts, notes, to_paper
from laddernet.study.curves import points, quantities

OWN_GROUP = "Your own"
_VIEWS = ("models", "table", "forest", "spread", "conclusions", "curves", "surfaces", "networks", "runs")
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
    samples: Samples | None = None  # of a data set of images


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
        "conclusions": _conclusions(study.table),
        "curves": _curves(study.runs),
        "pictures": [asdict(pictures) for pictures in study.pictures],
    }
    return document("study.html", _SCRIPTS, data, title=study.title)


# --- The study and its runs -------------------------------------------------------------------------------------


def _study(study: PageData) -> dict[str, Any]:
    environments = _Distinct()
    configs = _Distinct()
    shown = ("fingerprint", "model", "labels", "seed", "status", "message", "error", "seconds")
    runs = [
        {
            **{name: getattr(run, name) for name in shown},
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
        "findings": findings(study.table),
        "notes": notes(study.table),
        "runs": runs,
        "configs": configs.values,
        "environments": environments.values,
    }


def _cell(cell: Cell) -> dict[str, Any]:
    """Return the numbers that are drawn or sorted by, and the texts that are shown."""
    numbers = ("n", "wanted", "failed", "aer", "paper_aer", "paper_se", "best", "leading")
    to_best, to_reference = (
        test and {"difference": test.difference, "parts": comparison_parts(test)}
        for test in (cell.to_best, cell.to_reference)
    )
    return {
        **{name: getattr(cell, name) for name in numbers},
        "se": cell.se if is_shown(cell.se) else None,
        "text": value(cell.aer, cell.se),
        "counts": counts(cell),
        "paper": None if cell.paper_aer is None else value(cell.paper_aer, cell.paper_se),
        "to_paper": None if cell.difference is None else to_paper(cell),
        "tests": {"best": to_best, REFERENCE: to_reference},
    }


def _about(model: str) -> dict[str, str]:
    """Return the group and the description of a model.

    >>> _about("linear")["group"]
    'Vanilla combinator variants'
    """
    if model in MODELS:
        return {"group": MODELS[model].family[-1], "description": MODELS[model].description}
    return {"group": OWN_GROUP, "description": "a combinator of your own"}


def _conclusions(table: Table) -> dict[str, Any]:
    """Return the texts of the paper's conclusions, and of the cost."""
    found = conclusions(table)
    labels = [count for count in table.labels if any(count in one.findings for one in found)]
    cells = [[one.findings.get(count) for count in labels] for one in found]
    return {
        "explanation": EXPLANATION,
        "summary": summary(found),
        "labels": labels,
        "rows": [
            {
                "statement": one.claim.statement,
                "test": one.claim.test,
                "cells": [each and {"holds": each.holds, "evidence": each.evidence} for each in row],
            }
            for one, row in zip(found, cells, strict=True)
        ],
        "cost": {"heads": COST_HEADS, "rows": cost_rows(table.cost)},
    }


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
    curves = [{name: _curve(run.history, name, axes) for name in quantities(run.history)} for run in runs]
    return {"axes": axes.values, "runs": curves}


def _curve(history: Sequence[Mapping[str, Any]], quantity: str, axes: _Distinct) -> list[Any]:
    """Thin one curve to the points of a screen.

    >>> _curve([{"epoch": 1, "cost": 2.34567}, {"epoch": 2}], "cost", _Distinct())
    [0, [2.346]]
    """
    kept = points(history, quantity)
    return [axes.place(list(kept)), list(kept.values())]

"""The page of searches: their tables, and for each its history, parallel coordinates and slices."""

from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

from laddernet.report.document import document
from laddernet.report.tune import BEST, compute, error
from laddernet.tune.outcome import Outcome, Tried

_SCRIPTS = [f"{name}.js" for name in ("elements", "charts", "tune")]


def page(found: Sequence[Outcome]) -> str:
    """Make one self-contained HTML document."""
    return document(
        "tune.html",
        _SCRIPTS,
        {"searches": [_charts(outcome, place) for place, outcome in enumerate(found)]},
        title="Hyperparameters found",
        created=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        searches=[_tables(outcome, place) for place, outcome in enumerate(found)],
        trials=sum(len(outcome.trials) for outcome in found),
        saved=sum(outcome.draws_saved for outcome in found),
        draws=sum(outcome.draws for outcome in found),
    )


def _tables(outcome: Outcome, place: int) -> dict[str, Any]:
    """The text of one search."""
    names = list(outcome.space.ranges)

    def values(trial: Tried) -> list[str]:
        return [f"{trial.values[name]:g}" if name in trial.values else "" for name in names]

    return {
        "id": _id(place),
        "name": outcome.name,
        "model": outcome.about["model"],
        "command": outcome.about["command"],
        "compute": compute(outcome),
        "cells": [
            outcome.about["data"],
            outcome.about["labels"],
            error(outcome.best),
            error(outcome.untuned),
            len(outcome.trials),
            outcome.count("pruned"),
            outcome.count("failed"),
            outcome.draws,
            outcome.draws_saved,
        ],
        "names": names,
        "best": [[trial.number, error(trial), *values(trial)] for trial in outcome.ranked[:BEST]],
        "all": [[trial.number, trial.state, error(trial), *values(trial)] for trial in outcome.trials],
        "untuned": outcome.untuned is not None,
        "shares": [(name, outcome.importances.get(name)) for name in names],
        "failed": [trial for trial in outcome.trials if trial.state == "failed"],
    }


def _charts(outcome: Outcome, place: int) -> dict[str, Any]:
    """The numbers of one search's charts: trials that have an error, as complete or pruned."""
    ranges = outcome.space.ranges
    return {
        "id": _id(place),
        "parameters": [{"name": name, "floor": r.floor, **asdict(r)} for name, r in ranges.items()],
        "trials": [
            {
                "number": trial.number,
                "state": trial.state,
                "mean": trial.mean,
                "values": [trial.values[name] for name in ranges],
            }
            for trial in outcome.trials
            if trial.errors and trial.state in ("complete", "pruned")
        ],
        "untuned": outcome.untuned.mean if outcome.untuned else None,
    }


def _id(place: int) -> str:
    return f"search-{place}"

"""The results of a search as plain values, for the terminal, the page and the file of tuned values."""

import math
import statistics
import warnings
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import optuna
from optuna.trial import TrialState

from laddernet.training.tuned import Entry
from laddernet.tune.search import ATTRIBUTE
from laddernet.tune.space import Range, Space

_STATES = {TrialState.COMPLETE: "complete", TrialState.PRUNED: "pruned", TrialState.FAIL: "failed"}
STATES = ("complete", "pruned", "failed", "open")


@dataclass(frozen=True)
class Tried:
    """One trial."""

    number: int
    state: str
    values: dict[str, float]  # of each hyperparameter
    settings: dict[str, Any]  # the same, as the settings of a run
    errors: list[float]  # validation error in per cent of each draw that was trained
    reason: str | None = None  # why it failed

    @property
    def mean(self) -> float:
        """The mean over the draws."""
        return statistics.fmean(self.errors)

    @property
    def spread(self) -> float:
        """The standard deviation over the draws."""
        return statistics.stdev(self.errors) if len(self.errors) > 1 else 0.0


@dataclass(frozen=True)
class Slice:
    """The trials whose value of one hyperparameter lies in one part of its range."""

    low: float
    high: float
    means: list[float]


@dataclass(frozen=True)
class Outcome:
    """A search with its trials."""

    name: str
    about: dict[str, Any]  # its plan and its command
    trials: list[Tried]
    importances: dict[str, float]
    date: str  # of its last trial

    @property
    def space(self) -> Space:
        """The space that was searched."""
        held = self.about["space"]
        ranges = {name: Range(**{**r, "grid": tuple(r["grid"])}) for name, r in held["ranges"].items()}
        return Space(ranges, held["fixed"])

    @property
    def ranked(self) -> list[Tried]:
        """The trials with all draws, the best first."""
        complete = [trial for trial in self.trials if trial.state == "complete"]
        return sorted(complete, key=lambda trial: (trial.mean, trial.number))

    @property
    def best(self) -> Tried | None:
        """The best of the trials with all draws."""
        return next(iter(self.ranked), None)

    @property
    def untuned(self) -> Tried | None:
        """The trial of the values that are used without a search, if it has all draws."""
        first = next((trial for trial in self.trials if trial.number == 0), None)
        return first if first and first.state == "complete" and self.about["starts_untuned"] else None

    @property
    def chosen(self) -> Tried:
        """The best trial; or the untuned values, if the best trial is better by at most one standard error.

        The standard error is that of the differences, draw by draw. The best of many trials is partly luck.
        """
        best, untuned = self.ranked[0], self.untuned
        if untuned is None or len(best.errors) < 2:
            return best
        ahead = [before - after for before, after in zip(untuned.errors, best.errors, strict=True)]
        standard_error = statistics.stdev(ahead) / math.sqrt(len(ahead))
        return best if statistics.fmean(ahead) > standard_error else untuned

    def count(self, state: str) -> int:
        """Return the number of trials in a state."""
        return sum(trial.state == state for trial in self.trials)

    @property
    def draws(self) -> int:
        """The number of draws of all trials that have ended."""
        return sum(len(trial.errors) for trial in self.trials if trial.state != "open")

    @property
    def draws_saved(self) -> int:
        """The number of draws that pruning has saved."""
        return sum(self.about["draws"] - len(trial.errors) for trial in self.trials if trial.state == "pruned")

    def slices(self, name: str) -> list[Slice]:
        """Return the trials by the value of a hyperparameter: zero, if it is allowed, then five equal parts."""
        r = self.space.ranges[name]
        ends = (np.geomspace if r.log else np.linspace)(r.low, r.high, 6).tolist()
        tried = [(trial.values[name], trial.mean) for trial in self.trials if trial.errors and trial.state != "open"]
        places = [bisect_right(ends[1:-1], value) if value > 0 or not r.zero else -1 for value, _ in tried]
        slices = [
            Slice(low, high, [mean for (_, mean), at in zip(tried, places, strict=True) if at == place])
            for place, (low, high) in enumerate(pairwise(ends))
        ]
        if not r.zero:
            return slices
        return [Slice(0.0, 0.0, [mean for value, mean in tried if value == 0]), *slices]

    def entry(self) -> Entry:
        """Return the chosen values with their origin."""
        best, config = self.chosen, self.about["config"]
        origin = {
            "searched": True,
            "validation_error": round(best.mean, 4),
            "validation_spread": round(best.spread, 4),
            **({"untuned_validation_error": round(self.untuned.mean, 4)} if self.untuned else {}),
            **({"kept_untuned": True} if best is self.untuned else {}),
            "sampler": self.about["sampler"],
            "seed": self.about["seed"],
            "trials": len(self.trials),
            "pruned": self.count("pruned"),
            "failed": self.count("failed"),
            "draws": self.about["draws"],
            "recipe": self.about["recipe"],
            "epochs": config["epochs"],
            "validation_rows": config["validation"],
            "hidden": config["hidden"],
            "batch_size": config["batch_size"],
            "labelled_batch_size": config["labelled_batch_size"],
            "copies": config.get("copies", 1),  # missing in searches of earlier versions
            **({"precision": config["precision"]} if "precision" in config else {}),
            **({"revision": self.about["revision"]} if "revision" in self.about else {}),
            "date": self.date,
            "command": self.about["command"],
        }
        return Entry(best.settings, origin)


def outcomes(storage: optuna.storages.BaseStorage) -> list[Outcome]:
    """Return all searches in a database, in the order in which they were begun."""
    names = sorted(optuna.get_all_study_names(storage), key=storage.get_study_id_from_name)
    studies = [optuna.load_study(study_name=name, storage=storage) for name in names]
    return [_outcome(study) for study in studies if ATTRIBUTE in study.user_attrs]


def newest(found: Sequence[Outcome]) -> dict[tuple[int, str], Outcome]:
    """Return, by number of labels and model, the search that was begun last and has a trial with all draws."""
    return {(outcome.about["labels"], outcome.about["model"]): outcome for outcome in found if outcome.ranked}


def _outcome(study: optuna.Study) -> Outcome:
    about = study.user_attrs[ATTRIBUTE]
    frozen = [trial for trial in study.get_trials() if trial.state != TrialState.WAITING]
    first = frozen[0].system_attrs if frozen else {}
    shape = {"shape": tuple(map(int, about["shape"]))} if "shape" in about else {}  # missing in older searches
    found = Outcome(study.study_name, {**about, **shape, "starts_untuned": "fixed_params" in first}, [], {}, "")
    space = found.space
    trials = [
        Tried(
            trial.number,
            _STATES.get(trial.state, "open"),
            space.values(trial.params) if set(space.ranges) <= set(trial.params) else {},
            trial.user_attrs.get("settings", {}),
            trial.user_attrs.get("errors", []),
            trial.user_attrs.get("reason"),
        )
        for trial in frozen
    ]
    ended = [trial.datetime_complete for trial in frozen if trial.datetime_complete]
    importances: dict[str, float] = {}
    if sum(trial.state == "complete" for trial in trials) > 1:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about the small number of trials
            importances = optuna.importance.get_param_importances(study)
    return replace(found, trials=trials, importances=importances, date=max(ended).date().isoformat() if ended else "")

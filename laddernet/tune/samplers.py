"""The samplers of a search: the same trial has the same values in every process, also after a kill."""

import zlib
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import optuna
from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler, GridSampler, RandomSampler, TPESampler
from optuna.trial import FrozenTrial

from laddernet.tune.space import Space

SAMPLERS = ("tpe", "random", "grid")


def sampler_of(kind: str, space: Space, seed: int) -> BaseSampler:
    """Return one of `SAMPLERS`, whose values depend on the seed, the trial's number and the trials before it."""
    return _ByNumber(partial(_sampler, kind, space, seed))


class _ByNumber(BaseSampler):
    """Draws a trial's values from the seed, its number and the trials before it, the same in every process."""

    def __init__(self, make: Callable[[int, str], BaseSampler]) -> None:
        self._make = make
        self._sampler = make(0, "")

    def before_trial(self, study: optuna.Study, trial: FrozenTrial) -> None:
        self._sampler = self._make(trial.number, "")
        self._sampler.before_trial(study, trial)

    def infer_relative_search_space(self, study: optuna.Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        return self._sampler.infer_relative_search_space(study, trial)

    def sample_relative(
        self, study: optuna.Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        return self._sampler.sample_relative(study, trial, search_space)

    def sample_independent(
        self, study: optuna.Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        # Each has a seed of its own, so it does not matter which were drawn before a process was killed.
        sampler = self._make(trial.number, param_name)
        return sampler.sample_independent(study, trial, param_name, param_distribution)


def _sampler(kind: str, space: Space, seed: int, number: int, name: str) -> BaseSampler:
    if kind == "grid":
        return GridSampler(space.grid(), seed=seed)  # takes points by number, in an order that depends on the seed
    own = int(np.random.SeedSequence([seed, number, zlib.crc32(name.encode())]).generate_state(1)[0])
    return RandomSampler(seed=own) if kind == "random" else TPESampler(seed=own)

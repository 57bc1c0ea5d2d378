"""The samplers of a search: the same trial has the same values in every process, also after a kill."""

import zlib
from typing import Any

import numpy as np
import optuna
from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler, GridSampler, RandomSampler, TPESampler
from optuna.trial import FrozenTrial

from laddernet.tune.space import Space

SAMPLERS = ("tpe", "random", "grid")


class ByNumber(BaseSampler):
    """One of `SAMPLERS`, which draws a trial's values from the seed, its number and the trials before it."""

    def __init__(self, kind: str, space: Space, seed: int) -> None:
        self._kind, self._space, self._seed = kind, space, seed
        self._sampler = self._of_trial(0)

    def _of_trial(self, number: int, name: str = "") -> BaseSampler:
        """Return Optuna's sampler for a trial, or for one of its hyperparameters."""
        if self._kind == "grid":  # takes points by number, in an order that depends on the seed
            return GridSampler(self._space.grid(), seed=self._seed)
        own = int(np.random.SeedSequence([self._seed, number, zlib.crc32(name.encode())]).generate_state(1)[0])
        return RandomSampler(seed=own) if self._kind == "random" else TPESampler(seed=own)

    def before_trial(self, study: optuna.Study, trial: FrozenTrial) -> None:
        self._sampler = self._of_trial(trial.number)
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
        sampler = self._of_trial(trial.number, param_name)
        return sampler.sample_independent(study, trial, param_name, param_distribution)

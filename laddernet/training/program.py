"""A training program: all that decides how one network is trained, except its rows and its random keys.

`SCHEDULE`, `OPTIMISER` and `TERMS` are those of all runs and of all fits of LadderClassifier
(docs/how-to/extending.md).
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import optax
from jaxtyping import Float

from laddernet.kernels.products import Precision, adam
from laddernet.network.models import Model
from laddernet.training.config import Config
from laddernet.training.step import CostTerm

# From the initial learning rate, the number of steps, and how many of them, the last, are for decay.
MakeSchedule = Callable[[float, int, float], optax.Schedule]


def linear_decay(learning_rate: float, steps: int, decay_steps: float) -> optax.Schedule:
    """Keep the learning rate constant, then let it fall linearly to zero over the last ``decay_steps`` steps.

    Parameters
    ----------
    learning_rate
        The learning rate of the first step.
    steps
        The number of steps.
    decay_steps
        The number of steps, the last, over which the rate falls. It need not be whole.

    Returns
    -------
    optax.Schedule
        The learning rate as a function of the number of steps taken before.

    Examples
    --------
    >>> schedule = linear_decay(1.0, 10, 4)
    >>> [float(schedule(step)) for step in (0, 6, 7, 9, 10)]
    [1.0, 1.0, 0.75, 0.25, 0.0]
    """
    if not decay_steps:
        return optax.constant_schedule(learning_rate)
    # In NumPy, to the bit what XLA computes of Optax's linear schedule: for that JAX compiles eleven small programs.
    rate, one = np.float32(learning_rate), np.float32(1)

    def schedule(step: Any) -> Any:
        fallen = np.clip(np.asarray(step) - (steps - decay_steps), 0, decay_steps).astype(np.float32)
        return rate * (one - fallen * (one / np.float32(decay_steps)))

    return schedule


SCHEDULE: MakeSchedule = linear_decay
# An Optax transformation from gradients to a direction, such as `optax.scale_by_lion()`. A step subtracts the direction
# times the learning rate. Only Adam has native kernels.
OPTIMISER: optax.GradientTransformation = adam
# Further costs, each with its name: they are added to the total, and recorded by name.
TERMS: tuple[tuple[str, CostTerm], ...] = ()


@dataclass(frozen=True)
class Program:
    """How one network is trained.

    Parameters
    ----------
    model, sizes
        The model, and the number of units of layers 0 to L.
    noise, recon_weights
        Standard deviation of the noise, and λ, of layers 0 to L.
    eta
        Standard deviation of the initial weights of MLP combinators.
    steps, chunk
        The number of steps, and how many of them one call of the compiled program computes.
    learning_rate, decay_steps
        The initial learning rate, and the number of steps, the last, over which it falls.
    weight_decay
        Share of W and V that a step subtracts, as a multiple of its learning rate.
    batch_size, labelled_batch_size
        Unlabelled and labelled rows of a step.
    copies
        Noisy copies of each unlabelled row in a step.
    precision
        Of the operands of matrix products.
    counts
        What a record counts: epochs, each of one chunk, or steps.
    schedule, optimiser, terms
        The learning-rate schedule, the optimiser and further cost terms: see `SCHEDULE`, `OPTIMISER` and `TERMS`.
    """

    model: Model
    sizes: tuple[int, ...]
    noise: tuple[float, ...]
    recon_weights: tuple[float, ...]
    eta: float
    steps: int
    chunk: int
    learning_rate: float
    decay_steps: float
    weight_decay: float
    batch_size: int
    labelled_batch_size: int
    copies: int = 1
    precision: Precision = "float32"
    counts: Literal["epoch", "step"] = "step"
    schedule: MakeSchedule = field(default_factory=lambda: SCHEDULE)
    optimiser: optax.GradientTransformation = field(default_factory=lambda: OPTIMISER)
    terms: tuple[tuple[str, CostTerm], ...] = field(default_factory=lambda: TERMS)

    @property
    def chunks(self) -> int:
        """The number of chunks. The last one may go beyond the last step, with a learning rate of zero."""
        return -(-self.steps // self.chunk)

    @property
    def batches(self) -> tuple[int, int]:
        """Labelled and unlabelled rows of a step."""
        return self.labelled_batch_size, self.batch_size

    def rates(self, chunk: int) -> Float[np.ndarray, " steps"]:
        """Return the learning rate of each step of a chunk."""
        taken = np.arange(chunk * self.chunk, (chunk + 1) * self.chunk)
        schedule = self.schedule(self.learning_rate, self.steps, self.decay_steps)
        # The type is given: Optax leaves that of a constant schedule open, which would compile a further program.
        rates = np.broadcast_to(np.asarray(schedule(taken), np.float32), taken.shape)
        return np.where(taken < self.steps, rates, np.float32(0))

    def hyperparameters(self) -> list[np.ndarray]:
        """Return noise, λ and weight decay as arguments of the compiled program, which does not depend on them."""
        return [np.asarray(value, np.float32) for value in (self.noise, self.recon_weights, self.weight_decay)]


def steps_per_epoch(config: Config, n_unlabelled: int) -> int:
    """Return the number of minibatches that make one pass over the unlabelled rows."""
    return -(-n_unlabelled // min(config.batch_size, n_unlabelled))


def program_of(config: Config, model: Model, n_features: int, n_classes: int, n_unlabelled: int) -> Program:
    """Return the program of a run: a chunk is an epoch."""
    steps = steps_per_epoch(config, n_unlabelled)
    return Program(
        model=model,
        sizes=(n_features, *config.hidden, n_classes),
        noise=config.noise,
        recon_weights=config.recon_weights,
        eta=config.eta,
        steps=config.epochs * steps,
        chunk=steps,
        learning_rate=config.learning_rate,
        decay_steps=config.decay_epochs * steps,
        weight_decay=config.weight_decay,
        batch_size=min(config.batch_size, n_unlabelled),
        labelled_batch_size=config.labelled_batch_size,
        copies=config.copies,
        precision=config.precision,
        counts="epoch",
    )

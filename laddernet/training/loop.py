"""One training run: the schedule, the epochs, evaluation, checkpoint and resume.

A run is a function of its :class:`Config` and its data alone. Each epoch derives its keys from the seed and its
own number, so a run that is resumed from the end of any epoch goes on exactly as it would have.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Int

from laddernet import checks
from laddernet.data import TrainingData, check_finite
from laddernet.errors import DivergedError, InputError
from laddernet.inference.network import Network, Scaling, fold
from laddernet.kernels import native
from laddernet.machine import return_free_memory
from laddernet.network.ladder import Ladder, Statistics, statistics
from laddernet.network.models import find
from laddernet.training import checkpoint
from laddernet.training.config import Config, Record
from laddernet.training.programs import wait_for
from laddernet.training.step import initial_state, ladder_of, run_epoch


@dataclass(frozen=True)
class Trained:
    """What a run leaves: the network, its normalisation for prediction, and a record for each epoch."""

    ladder: Ladder
    statistics: Statistics
    history: list[Record]

    @cached_property
    def network(self) -> Network:
        """The clean path with these statistics folded in, for rows in NumPy: a row's result is its own affair."""
        layers, known = self.ladder.encoder, self.statistics
        parts = [[getattr(layer, name) for layer in layers] for name in ("W", "gamma", "beta")]
        unscaled = Scaling(shift=np.zeros(1), factor=np.ones(1, layers[0].W.dtype))
        return fold(unscaled, *([np.asarray(array) for array in part] for part in (*parts, known.mu, known.sigma)))

    def predict(self, x: Float[np.ndarray, "rows features"]) -> Int[np.ndarray, " rows"]:
        """The most probable class of each row."""
        classes: np.ndarray = self.network.logits(np.asarray(x)).argmax(axis=1)
        return classes

    def error(self, x: Float[np.ndarray, "rows features"], y: Int[np.ndarray, " rows"]) -> float:
        """The share of rows that are classified wrongly, in per cent."""
        return 100 * float(np.mean(self.predict(x) != np.asarray(y)))  # NumPy's y: JAX's mean would be a float32


def train(
    config: Config,
    data: TrainingData,
    *,
    monitor: tuple[np.ndarray, np.ndarray] | None = None,
    evaluate_every: int = 1,
    folder: Path | None = None,
    checkpoint_every: float = 60.0,
    before_checkpoint: Callable[[], None] = lambda: None,
    on_resume: Callable[[list[Record]], None] = lambda history: None,
    on_epoch: Callable[[Record], None] = lambda record: None,
    on_checkpoint: Callable[[], None] = lambda: None,
    on_notice: Callable[[str], None] = lambda sentence: None,
) -> Trained:
    """Train to the end, from the newest whole checkpoint in ``folder`` if there is one.

    ``monitor`` are test rows whose error is recorded beside the validation error and decides nothing; both are
    measured every ``evaluate_every`` epochs and after the last. ``checkpoint_every`` is in seconds.
    ``before_checkpoint`` may raise an error instead of one being written. ``on_resume`` is given the records of the
    epochs that a checkpoint holds, ``on_epoch`` each new one, ``on_notice`` why a checkpoint could not be used;
    ``on_checkpoint`` is called when one was written.
    """
    checks.integer("evaluate_every", evaluate_every)
    checks.number("checkpoint_every", checkpoint_every)
    check_finite(data.x_unlabelled, "the training rows")
    model = find(config.model, config.source)
    if model.source != config.source:
        advice = "make it with laddernet.configure"
        raise InputError(f"The configuration lacks the digest of the source of {config.model!r}; {advice}.")
    sizes = (data.x_unlabelled.shape[1], *config.hidden, data.n_classes)
    init_key, order_key, noise_key = jax.random.split(jax.random.key(config.seed), 3)
    state = initial_state(init_key, config.eta, model, sizes)
    epoch = 0
    history: list[Record] = []
    if folder is not None:
        epoch, state, history, refused = checkpoint.load(folder, state, fingerprint=config.fingerprint)
        for sentence in refused:
            on_notice(f"{sentence} Going on from epoch {epoch} instead.")
        on_resume(history)

    rows = (jnp.asarray(data.x_labelled), jnp.asarray(data.y_labelled), jnp.asarray(data.x_unlabelled))
    batches = (config.labelled_batch_size, min(config.batch_size, len(rows[2])))
    steps = steps_per_epoch(config, len(rows[2]))
    hyper = [jnp.asarray(value, jnp.float32) for value in (config.noise, config.recon_weights, config.weight_decay)]
    schedule = learning_rate_schedule(config, steps)
    watched: dict[str, tuple[np.ndarray, np.ndarray]] = {}
    if len(data.y_validation):
        watched["validation_error"] = (data.x_validation, data.y_validation)
    if monitor is not None:
        watched["test_error"] = monitor
    # A model without a decoder learns from labelled rows only, and so does its normalisation.
    x_seen = rows[2] if model.combinator else rows[0]

    return_free_memory()
    resumed = epoch
    saved = time.monotonic()
    while epoch < config.epochs:
        # With its type spelt out: Optax leaves that of a constant schedule open, which would compile anew.
        rates = jnp.asarray(schedule(jnp.arange(epoch * steps, (epoch + 1) * steps)), jnp.float32)
        starts = [divmod(epoch * steps * batch, len(x)) for batch, x in zip(batches, rows[::2], strict=True)]
        keys = (order_key, jax.random.fold_in(noise_key, epoch))
        arguments = (state, rows, keys, starts, rates, *hyper, batches, config.copies, config.precision)
        state, costs, finite = native.call(run_epoch, *arguments)
        wait_for(costs)
        if epoch == resumed:
            return_free_memory()
        epoch += 1
        means = mean_costs(np.asarray(costs), bool(finite), epoch=epoch)
        record = {"epoch": epoch, "learning_rate": float(rates[-1]), **means}
        if watched and (epoch % evaluate_every == 0 or epoch == config.epochs):
            ladder = ladder_of(state)
            now = Trained(ladder, native.call(_statistics, ladder, x_seen), history)
            record |= {name: now.error(x, y) for name, (x, y) in watched.items()}
        history.append(record)
        due = time.monotonic() - saved >= checkpoint_every or epoch == config.epochs
        if folder is not None and due:
            before_checkpoint()
            checkpoint.save(folder, epoch, state, fingerprint=config.fingerprint, history=history)
            on_checkpoint()
            saved = time.monotonic()
        on_epoch(record)
    ladder = ladder_of(state)
    return Trained(ladder, native.call(_statistics, ladder, x_seen), history)


def on_device(data: TrainingData) -> TrainingData:
    """The same data in the device's memory: a caller that keeps only this does not hold the rows twice."""
    values = {field.name: getattr(data, field.name) for field in fields(data)}
    arrays: dict[str, Any] = {name: jnp.asarray(v) for name, v in values.items() if isinstance(v, np.ndarray)}
    return replace(data, **arrays)


def steps_per_epoch(config: Config, n_unlabelled: int) -> int:
    """How many minibatches make one pass over the unlabelled rows."""
    return -(-n_unlabelled // min(config.batch_size, n_unlabelled))


def learning_rate_schedule(config: Config, steps: int) -> optax.Schedule:
    """Constant, then linear to zero over the last epochs; ``steps`` is the number of steps of an epoch."""
    constant = (config.epochs - config.decay_epochs) * steps
    falling = optax.linear_schedule(config.learning_rate, 0.0, config.decay_epochs * steps)
    return optax.join_schedules([optax.constant_schedule(config.learning_rate), falling], [constant])


@jax.jit
def _statistics(ladder: Ladder, x: Float[Array, "rows features"]) -> Statistics:
    return statistics(ladder.encoder, x)


def mean_costs(
    costs: Float[np.ndarray, "steps costs"], finite: bool, *, epoch: int | None = None, before: int = 0
) -> Record:
    """The means over some steps, by name, or an error that names what first became NaN or infinite.

    The steps are those of an epoch, or come after so many others.
    """
    names = ["cost", "cross_entropy", *(f"reconstruction_{l}" for l in range(costs.shape[1] - 2))]
    bad = np.argwhere(~np.isfinite(costs))
    if len(bad):
        step = bad[0, 0]
        parts = names[1:]  # the total is bad only because one of its parts is
        first = next((n for n, value in zip(parts, costs[step, 1:], strict=True) if not np.isfinite(value)), "cost")
        where = f"step {before + step + 1}" if epoch is None else f"epoch {epoch}, step {step + 1}"
        raise DivergedError(
            f"In {where}, {first} became {costs[step, names.index(first)]}; "
            "a smaller learning rate, less noise or smaller reconstruction weights would keep it finite."
        )
    if not finite:
        where = f"step {before + len(costs)}" if epoch is None else f"epoch {epoch}"
        raise DivergedError(
            f"At the end of {where} the weights are no longer finite; a smaller learning rate would keep them so."
        )
    return dict(zip(names, costs.astype(np.float64).mean(axis=0).tolist(), strict=True))

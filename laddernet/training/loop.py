"""The training loop, and a run: its epochs, evaluation, checkpoints and resumption.

A run is a function of its :class:`Config` and its data alone. Each epoch derives its keys from the seed and its
own number, so a run that is resumed from the end of any epoch goes on exactly as it would have.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int, PRNGKeyArray

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
from laddernet.training.program import Program, program_of
from laddernet.training.programs import wait_for
from laddernet.training.rows import Chunk, device_chunks
from laddernet.training.step import Costs, State, initial_state, ladder_of, pack, run_steps


@dataclass(frozen=True)
class Trained:
    """A trained network.

    Parameters
    ----------
    ladder
        The weights.
    statistics
        Mean and standard deviation of each layer, which normalise in prediction.
    history
        A record for each epoch: learning rate, costs and errors by name.
    """

    ladder: Ladder
    statistics: Statistics
    history: list[Record]

    @cached_property
    def network(self) -> Network:
        """The clean path with the statistics folded in, in NumPy: the result of a row depends on no other row."""
        layers, known = self.ladder.encoder, self.statistics
        parts = [[getattr(layer, name) for layer in layers] for name in ("W", "gamma", "beta")]
        unscaled = Scaling(shift=np.zeros(1), factor=np.ones(1, layers[0].W.dtype))
        return fold(unscaled, *([np.asarray(array) for array in part] for part in (*parts, known.mu, known.sigma)))

    def predict(self, x: Float[np.ndarray, "rows features"]) -> Int[np.ndarray, " rows"]:
        """Return the most probable class of each row.

        Parameters
        ----------
        x
            The rows, scaled as in training.

        Returns
        -------
        ndarray of shape (rows,)
            Numbers of the classes, from 0.
        """
        classes: np.ndarray = self.network.logits(np.asarray(x)).argmax(axis=1)
        return classes

    def error(self, x: Float[np.ndarray, "rows features"], y: Int[np.ndarray, " rows"]) -> float:
        """Return the percentage of rows that are misclassified.

        Parameters
        ----------
        x
            The rows, scaled as in training.
        y
            The number of the class of each row.

        Returns
        -------
        float
            The error in per cent.
        """
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
    """Train a network to the end, from the newest whole checkpoint in ``folder`` if there is one.

    Parameters
    ----------
    config
        The configuration, made by `configure`.
    data
        The rows, made by `training_data`.
    monitor
        Test rows and their classes. Their error is recorded beside the validation error and decides nothing.
    evaluate_every
        Measure errors every so many epochs, and after the last.
    folder
        Where checkpoints are kept; None: nowhere.
    checkpoint_every
        Seconds between checkpoints. There is one after the last epoch, too.
    before_checkpoint
        Called before a checkpoint is written. It may raise an error to prevent that.
    on_resume
        Called with the records of the epochs that a checkpoint holds.
    on_epoch
        Called with the record of each new epoch.
    on_checkpoint
        Called when a checkpoint was written.
    on_notice
        Called with the reason why a checkpoint could not be used.

    Returns
    -------
    Trained
        The network, with its history.

    Raises
    ------
    InputError
        If an argument is not valid, the rows are not finite, or no checkpoint of several can be used.
    DivergedError
        If a cost or a weight becomes NaN or infinite.

    Examples
    --------
    >>> from laddernet import configure, load, training_data
    >>> digits = load("digits")
    >>> config = configure(digits, labels=100, hidden=[8], epochs=1)
    >>> trained = train(config, training_data(digits, config.labels, config.validation, config.seed))
    >>> [record["epoch"] for record in trained.history]
    [1]
    """
    checks.integer("evaluate_every", evaluate_every)
    checks.number("checkpoint_every", checkpoint_every)
    check_finite(data.x_unlabelled, "the training rows")
    model = find(config.model, config.source)
    if model.source != config.source:
        advice = "make it with laddernet.configure"
        raise InputError(f"The configuration lacks the digest of the source of {config.model!r}; {advice}.")
    program = program_of(config, model, data.x_unlabelled.shape[1], data.n_classes, len(data.x_unlabelled))
    init_key, order_key, noise_key = jax.random.split(jax.random.key(config.seed), 3)
    state = first_state(program, init_key)
    epoch = 0
    history: list[Record] = []
    if folder is not None:
        epoch, state, history, refused = checkpoint.load(folder, state, fingerprint=config.fingerprint)
        for sentence in refused:
            on_notice(f"{sentence} Going on from epoch {epoch} instead.")
        on_resume(history)

    rows = (jnp.asarray(data.x_labelled), jnp.asarray(data.y_labelled), jnp.asarray(data.x_unlabelled))
    watched: dict[str, tuple[np.ndarray, np.ndarray]] = {}
    if len(data.y_validation):
        watched["validation_error"] = (data.x_validation, data.y_validation)
    if monitor is not None:
        watched["test_error"] = monitor
    # A model without a decoder learns from labelled rows only, and so does its normalisation.
    x_seen = rows[2] if model.combinator else rows[0]

    return_free_memory()
    saved = time.monotonic()
    chunks = device_chunks(program, rows, order_key, noise_key, first=epoch)
    epochs = train_chunks(program, state, chunks, first=epoch)
    for record, state in epochs:
        epoch = record["epoch"]
        if watched and (epoch % evaluate_every == 0 or epoch == config.epochs):
            ladder = ladder_of(state)
            now = Trained(ladder, native.call(statistics, ladder.encoder, x_seen), history)
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
    return Trained(ladder, native.call(statistics, ladder.encoder, x_seen), history)


def on_device(data: TrainingData) -> TrainingData:
    """Return the data in the device's memory: a caller that keeps only this does not hold the rows twice."""
    arrays: dict[str, Any] = {name: jnp.asarray(v) for name, v in vars(data).items() if isinstance(v, np.ndarray)}
    return replace(data, **arrays)


def first_state(program: Program, key: PRNGKeyArray, start: Ladder | None = None) -> State:
    """Return the state before the first step: random weights, or those of a network that was trained before."""
    state: State = initial_state(key, program.eta, program.model, program.sizes, program.optimiser)
    return state if start is None else (pack(start), state[1])


def train_chunks(
    program: Program, state: State, chunks: Iterable[Chunk], *, first: int = 0
) -> Iterator[tuple[Record, State]]:
    """Train on chunk after chunk. This is the only training loop; evaluation and checkpoints are its callers'.

    Parameters
    ----------
    program
        How the network is trained.
    state
        The state before the first of the chunks. Its memory is reused.
    chunks
        The rows and keys. A chunk is asked for while the one before is computed.
    first
        The number of the first chunk, if others were computed before.

    Yields
    ------
    tuple
        After each chunk, its record (what `Program.counts` says, the last learning rate, the mean of each cost) and
        the state, which is valid until the next chunk is asked for.

    Raises
    ------
    DivergedError
        If a cost or the state is not finite.
    """
    upcoming = iter(chunks)
    chunk = next(upcoming, None)
    fixed = (*program.hyperparameters(), program.copies, program.precision, program.optimiser, program.terms)
    number = first
    while chunk is not None:
        rates = program.rates(number)
        state, costs, finite = native.call(run_steps, state, *chunk, rates, *fixed)
        chunk = next(upcoming, None)
        wait_for(costs.values)
        if number == first:
            return_free_memory()
        before = number * program.chunk
        taken = min(program.chunk, program.steps - before)
        number += 1
        means = mean_costs(program, Costs(costs.names, np.asarray(costs.values)[:taken]), bool(finite), before)
        counted = number if program.counts == "epoch" else before + taken
        yield {program.counts: counted, "learning_rate": float(rates[taken - 1]), **means}, state


def mean_costs(program: Program, costs: Costs, finite: bool, before: int) -> Record:
    """Return the mean of each cost over some steps, ``before`` of which there were others.

    Raises
    ------
    DivergedError
        If a cost or, as ``finite`` says, the state is NaN or infinite; it names the step and the first such cost.
    """
    bad = np.argwhere(~np.isfinite(costs.values))
    if len(bad):
        step = bad[0, 0]
        at_step = dict(zip(costs.names, costs.values[step], strict=True))
        parts = [name for name in costs.names if name != "cost"]  # the total is bad only because one of its parts is
        first = next((name for name in parts if not np.isfinite(at_step[name])), "cost")
        raise DivergedError(
            f"In {_place(program, before + step)}, {first} became {at_step[first]}; "
            "a smaller learning rate, less noise or smaller reconstruction weights would keep it finite."
        )
    if not finite:
        raise DivergedError(
            f"After {_place(program, before + len(costs.values) - 1)}, the weights are no longer finite; "
            "a smaller learning rate would keep them so."
        )
    means = costs.values.astype(np.float64).mean(axis=0)
    return dict(zip(costs.names, means.tolist(), strict=True))


def _place(program: Program, step: int) -> str:
    """Name a step of all, counted from zero, for the user."""
    epoch, of_epoch = divmod(step, program.chunk)
    return f"epoch {epoch + 1}, step {of_epoch + 1}" if program.counts == "epoch" else f"step {step + 1}"

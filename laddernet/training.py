"""One training run: the schedule, the compiled epoch, evaluation, checkpoint and resume.

A run is a function of its :class:`Config` and its data alone. Each epoch derives its keys from the seed and its
own number, so a run that is resumed from the end of any epoch goes on exactly as it would have.
"""

import hashlib
import json
import math
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.experimental.compilation_cache import compilation_cache
from jaxtyping import Array, Float, Int, PRNGKeyArray

from laddernet import checkpoint, checks
from laddernet.data import TrainingData, check_finite
from laddernet.errors import DivergedError, InputError
from laddernet.files import private_cache_folder
from laddernet.kernels import native
from laddernet.kernels.products import Precision, Step, Weights, adam, descend, moved
from laddernet.ladder import (
    DecoderLayer,
    EncoderLayer,
    Ladder,
    Statistics,
    draw_noise,
    forward,
    statistics,
)
from laddernet.machine import keep_xla_to_quota, return_free_memory, xla_threads
from laddernet.models import Model, find
from laddernet.network import Network, Scaling, fold
from laddernet.noise import permutations

# What the fingerprint of a configuration begins with: raised when the same configuration computes something else.
REVISION = 10

Record = dict[str, Any]


@dataclass(frozen=True)
class Config:
    """All that decides what a run computes. Build it with :func:`laddernet.settings.configure`."""

    data: str
    labels: int
    validation: int
    model: str
    hidden: tuple[int, ...]
    noise: tuple[float, ...]  # standard deviation at layers 0 to L
    recon_weights: tuple[float, ...]  # λ of layers 0 to L
    eta: float
    epochs: int
    decay_epochs: int  # how many of them, the last, let the learning rate fall to zero
    learning_rate: float
    batch_size: int  # unlabelled rows of a step
    labelled_batch_size: int  # if there are fewer, a labelled row comes several times, each with its own noise
    seed: int
    weight_decay: float = 0.0  # share of W and V that a step takes away, as a multiple of its learning rate
    copies: int = 1  # of each unlabelled row in a step, in pairs with opposite noise
    source: str | None = None  # the digest of the code of a combinator of the user's own (laddernet.sources)
    precision: Precision = "float32"  # of the operands of matrix products

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> "Config":
        """The configuration that JSON holds, where tuples have become lists."""
        settings: dict[str, Any] = {key: tuple(v) if isinstance(v, list) else v for key, v in values.items()}
        return cls(**settings)

    @property
    def fingerprint(self) -> str:
        """A name for what is computed: the same for the same configuration, different for any other."""
        return self.fingerprint_at(REVISION)

    def fingerprint_at(self, revision: int) -> str:
        """Return the fingerprint that this configuration has, or had, in a revision of the training program."""
        values = asdict(self)
        for name, usual in (("source", None), ("precision", "float32")):  # runs keep the names from before these fields
            if values[name] == usual:
                del values[name]
        text = json.dumps([revision, values], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()


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


# --- The compiled programs ------------------------------------------------------------------------------------


class Packed(eqx.Module):
    """A network with its large arrays in their places, all others in one vector: few, long passes for Adam."""

    large: Ladder
    small: Float[Array | np.ndarray, " small"]
    sizes: tuple[int, ...] = eqx.field(static=True)  # of the network's layers
    shapes: tuple[tuple[int, ...], ...] = eqx.field(static=True)  # of the small arrays
    structure: jax.tree_util.PyTreeDef = eqx.field(static=True)  # of a network that has none but them


State = tuple[Packed, optax.OptState]
_LARGE = 2**15  # elements of a matrix that has its own place

# Without the first, XLA copies every weight matrix at each step, lest an update overwrite what is still to be read.
# The second lets it reorder sums; NaN and infinity stay what they are. Measured in results/performance.md.
_COMPILER_OPTIONS = {"xla_cpu_copy_insertion_use_region_analysis": True, "xla_cpu_enable_fast_math": True}


# Compiled to be run once.
@partial(jax.jit, static_argnames=("model", "sizes"), compiler_options={"xla_backend_optimization_level": 0})
def initial_state(key: PRNGKeyArray, eta: float, model: Model, sizes: tuple[int, ...]) -> State:
    packed = pack(Ladder(model, sizes, key=key, eta=eta))
    return packed, adam.init(packed)


@partial(
    jax.jit,
    static_argnames=("batches", "copies", "precision"),
    donate_argnames="state",
    compiler_options=_COMPILER_OPTIONS,
)
def run_epoch(
    state: State,
    rows: tuple[Float[Array, "labelled features"], Int[Array, " labelled"], Float[Array, "unlabelled features"]],
    keys: tuple[PRNGKeyArray, PRNGKeyArray],
    starts: Sequence[tuple[int, int]] | None,
    rates: Float[Array, " steps"],
    noise_std: Float[Array, " layers"],
    recon_weights: Float[Array, " layers"],
    weight_decay: Float[Array, ""],
    batches: tuple[int, int],
    copies: int = 1,
    precision: Precision = "float32",
) -> tuple[State, Float[Array, "steps costs"], Array]:
    """All steps of one epoch. What may differ between epochs, seeds or settings is an argument, not a constant.

    ``starts`` says where in its stream of shuffled passes each group of rows goes on; None: the rows are taken as they
    come, each once.
    """
    model, sizes = state[0].large.model, state[0].sizes
    x_labelled, y_labelled, x_unlabelled = rows
    order_key, noise_key = keys
    counts = [len(rates) * batch for batch in batches]
    if starts is None:
        order = [jnp.arange(count) for count in counts]
    else:
        streams = enumerate(zip((len(x_labelled), len(x_unlabelled)), counts, starts, strict=True))
        order = [row_stream(jax.random.fold_in(order_key, g), n, count, *start) for g, (n, count, start) in streams]
    order = [taken.reshape(-1, batch) for taken, batch in zip(order, batches, strict=True)]

    def step(state: tuple[Packed, Any], inputs: Any) -> tuple[tuple[Packed, Any], Float[Array, " costs"]]:
        weights, (count, mu, nu) = state
        i, j, key, rate = inputs
        with jax.named_scope("noise"):
            drawn_rows = batches[0] + -(-copies // 2) * batches[1]  # copies come in pairs that mirror each other
            noise = draw_noise(model, sizes, drawn_rows, key=key, wanted=jnp.any(noise_std > 0))
            labelled = [None if n is None else n[: batches[0]] for n in noise]
            unlabelled = [None if n is None else mirrored(n[batches[0] :], copies * batches[1]) for n in noise]

        def cost(large: Ladder, small: Float[Array, " small"]) -> tuple[Array, Array]:
            done = forward(
                _in_precision(unpack(replace(weights, large=large, small=small)), precision),
                x_labelled[i],
                y_labelled[i],
                x_unlabelled[j],
                (labelled, unlabelled),
                noise_std,
                recon_weights,
                copies,
            )
            return done.total, jnp.stack([done.total, done.cross_entropy, *done.reconstruction])

        this = Step((count + 1).astype(rate.dtype), rate, weight_decay)
        large, of_large, gradient, costs = descend(
            cost, weights.large, (mu.large, nu.large), weights.small, this, precision
        )
        this = replace(this, decay=weight_decay * decaying)
        small, of_small = moved(jnp.asarray(weights.small), (mu.small, nu.small), gradient, this)
        moments = (replace(mu, large=l, small=s) for mu, l, s in zip((mu, nu), of_large, of_small, strict=True))
        return (replace(weights, large=large, small=small), optax.ScaleByAdamState(count + 1, *moments)), costs

    decaying = _decaying(state[0])
    step_keys = jax.random.split(noise_key, len(rates))
    state, costs = jax.lax.scan(step, state, (*order, step_keys, rates))
    finite = jnp.all(jnp.stack([jnp.all(jnp.isfinite(w)) for w in jax.tree.leaves(state)]))
    return state, costs, finite


def mirrored(noise: Float[Array, "drawn units"], rows: int) -> Float[Array, "rows units"]:
    """So many rows of noise: those that were drawn, then their negatives.

    Of a pair of noisy copies what is odd in the noise cancels, so that the four of two pairs give a gradient about as
    precise as five independent ones (benchmarks/gradient_noise.py).
    """
    return noise if len(noise) == rows else jnp.concatenate([noise, -noise])[:rows]


def pack(ladder: Ladder) -> Packed:
    is_matrix = _matrices(ladder)
    is_large = jax.tree.map(lambda leaf, matrix: matrix and leaf.size >= _LARGE, ladder, is_matrix)
    large, small = eqx.partition(ladder, is_large)
    leaves, structure = jax.tree.flatten(small)
    flat = jnp.concatenate([leaf.ravel() for leaf in leaves])
    return Packed(large, flat, ladder.sizes, tuple(leaf.shape for leaf in leaves), structure)


def unpack(packed: Packed) -> Ladder:
    lengths = [math.prod(shape) for shape in packed.shapes]
    if isinstance(packed.small, np.ndarray):
        parts: Sequence[Any] = np.split(packed.small, np.cumsum(lengths[:-1]))
    else:
        parts = jax.lax.split(packed.small, lengths)  # one operation, where a slice for each would take long to trace
    leaves = [part.reshape(shape) for part, shape in zip(parts, packed.shapes, strict=True)]
    small = jax.tree.unflatten(packed.structure, leaves)
    ladder: Ladder = eqx.combine(packed.large, small, is_leaf=_is_weights)
    return ladder


def ladder_of(state: State) -> Ladder:
    """The network of a state, taken apart by the host: it would take a fifth of an epoch's kernels to do that."""
    packed = state[0]
    return unpack(replace(packed, small=np.array(packed.small)))


def _in_precision(ladder: Ladder, precision: Precision) -> Ladder:
    """The same with every W and V that is a plain array as one whose products have this precision."""
    if precision == "float32":
        return ladder
    is_matrix = _matrices(jax.tree.map(lambda _: 0, ladder, is_leaf=_is_weights))
    wrapped: Ladder = jax.tree.map(
        lambda leaf, matrix: Weights(leaf, precision) if matrix and isinstance(leaf, Array) else leaf,
        ladder,
        is_matrix,
        is_leaf=_is_weights,
    )
    return wrapped


def _is_weights(node: Any) -> bool:
    return isinstance(node, Weights)


def _matrices(ladder: Ladder) -> Ladder:
    """True in the place of each W and V, False in that of every other array."""

    def marked(layer: EncoderLayer | DecoderLayer) -> EncoderLayer | DecoderLayer:
        others: EncoderLayer | DecoderLayer = jax.tree.map(lambda _: False, layer)
        matrix = "W" if isinstance(layer, EncoderLayer) else "V"
        return replace(others, **{matrix: jax.tree.map(lambda _: True, getattr(layer, matrix))})

    marks: Ladder = jax.tree.map(marked, ladder, is_leaf=lambda node: isinstance(node, EncoderLayer | DecoderLayer))
    return marks


def _decaying(packed: Packed) -> Float[np.ndarray, " small"]:
    """One for each element of the small vector that is of a W or V, zero for every other."""
    lengths = [math.prod(shape) for shape in packed.shapes]
    of_matrices = jax.tree.leaves(_matrices(jax.tree.unflatten(packed.structure, lengths)))
    return np.repeat(np.asarray(of_matrices, packed.small.dtype), lengths)


def row_stream(key: PRNGKeyArray, n: int, count: int, first_pass: int, offset: int) -> Int[Array, " count"]:
    """``count`` row numbers out of an endless stream of shuffled passes over ``n`` rows.

    The stream is entered ``offset`` rows into pass ``first_pass``; every row comes once in each pass.

    >>> [int(row) for row in jnp.sort(row_stream(jax.random.key(0), 4, 8, 0, 0))]
    [0, 0, 1, 1, 2, 2, 3, 3]
    """
    passes = count // n if count % n == 0 else (count + n - 2) // n + 1
    order = permutations(key, jnp.uint32(first_pass) + jnp.arange(passes, dtype=jnp.uint32), n)
    return jax.lax.dynamic_slice_in_dim(order.reshape(-1), offset, count)


@jax.jit
def _statistics(ladder: Ladder, x: Float[Array, "rows features"]) -> Statistics:
    return statistics(ladder.encoder, x)


# --- Around them ----------------------------------------------------------------------------------------------


def keep_compiled_programs() -> None:
    """Switch on JAX's persistent cache for this process: a program that was compiled once on this machine is loaded.

    A cache that the user chose, in the environment or in JAX's configuration, stays. To be called before JAX is first
    used.
    """
    keep_xla_to_quota()
    _set_cache(_folder_of_programs())


_keeping = threading.Lock()
_blocks_keeping = 0
_kept_in: str | None = None


@contextmanager
def compiled_programs_kept() -> Iterator[None]:
    """Switch on the same cache inside the block only: then the user's own programs are not kept.

    JAX has one cache for all threads. Blocks may overlap in several of them; the last to end switches it off.
    """
    global _blocks_keeping, _kept_in
    with _keeping:
        if not _blocks_keeping:
            _kept_in = _folder_of_programs()
            _set_cache(_kept_in)
        _blocks_keeping += 1
    try:
        yield
    finally:
        with _keeping:
            _blocks_keeping -= 1
            if not _blocks_keeping and _kept_in is not None and _cache_folder() == _kept_in:
                jax.config.update("jax_compilation_cache_dir", None)  # type: ignore[no-untyped-call]
                compilation_cache.reset_cache()


def _cache_folder() -> str | None:
    folder: str | None = jax.config.jax_compilation_cache_dir  # type: ignore[attr-defined]
    return folder


def _set_cache(folder: str | None) -> None:
    if folder is not None:
        jax.config.update("jax_compilation_cache_dir", folder)  # type: ignore[no-untyped-call]


def _folder_of_programs() -> str | None:
    """Return the folder to keep programs in; None if the user chose one or none, or if it cannot be written to.

    A program is compiled for a number of threads, which JAX leaves out of its key in the cache: each number has its own
    folder.
    """
    enabled: bool = jax.config.jax_enable_compilation_cache  # type: ignore[attr-defined]
    private = private_cache_folder("xla") if enabled and _cache_folder() is None else None
    if private is None:
        return None
    folder = private / f"{xla_threads()}-cores"
    with suppress(OSError):
        folder.mkdir(exist_ok=True)
    return str(folder) if os.access(folder, os.W_OK) else None


def wait_for(array: Any) -> None:
    """Wait for a computation without keeping Ctrl-C from being heard."""
    while not array.is_ready():
        time.sleep(0.002)


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

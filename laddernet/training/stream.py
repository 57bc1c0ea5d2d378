"""Training on rows that stay where they are: a few steps at a time, each chunk of rows gathered by the host.

What is compiled depends on the columns, the classes and the network, not on the number of rows, so that fits of
different tables of one shape share it. While a chunk is being computed the next one is gathered.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import jax
import numpy as np

from laddernet.inference.network import Rows, Scaling, dense
from laddernet.kernels import native
from laddernet.kernels.products import Precision
from laddernet.machine import return_free_memory
from laddernet.network.ladder import Ladder
from laddernet.network.models import Model
from laddernet.training.config import Record
from laddernet.training.loop import mean_costs
from laddernet.training.programs import wait_for
from laddernet.training.step import initial_state, ladder_of, pack, run_epoch

_CHUNK, _CHUNK_CELLS = 32, 2**25  # steps, and cells of their rows, that are gathered at a time
_CELLS = 2**24  # a table of no more is scaled once; its rows are brought many times


@dataclass(frozen=True)
class Job:
    """What is to be trained, and how."""

    model: Model
    sizes: tuple[int, ...]
    noise: tuple[float, ...]
    recon_weights: tuple[float, ...]
    eta: float
    learning_rate: float
    weight_decay: float
    decay: float  # the share of the steps, the last, over which the learning rate falls to zero
    steps: int
    batch_size: int  # unlabelled rows of a step
    labelled_batch_size: int
    label_smoothing: float = 0.0  # how often a label is taken for any class
    precision: Precision = "float32"

    @property
    def chunk(self) -> int:
        """How many steps are computed at a time: 32, or fewer if their rows are very wide."""
        cells = (self.batch_size + self.labelled_batch_size) * self.sizes[0]
        return min(_CHUNK, max(1, _CHUNK_CELLS // cells))


@dataclass(frozen=True)
class Table:
    """The rows to learn from."""

    x: Rows
    scaling: Scaling
    labelled: np.ndarray  # numbers of rows
    codes: np.ndarray  # their classes
    probabilities: np.ndarray | None = None  # how often each is drawn, if not equally often

    def bring(self, rows: np.ndarray) -> np.ndarray:
        brought: np.ndarray = self.scaling(dense(self.x[rows])) if self._scaled is None else self._scaled[rows]
        return brought

    @cached_property
    def _scaled(self) -> np.ndarray | None:
        return self.scaling(self.x) if isinstance(self.x, np.ndarray) and self.x.size <= _CELLS else None


def train(
    job: Job,
    table: Table,
    seed: int,
    *,
    start: Ladder | None = None,
    on_chunk: Callable[[Record, Callable[[], Ladder]], bool] = lambda record, now: False,
) -> Ladder:
    """Train to the last step, or until ``on_chunk``, which hears the record of each chunk, says that it is enough.

    ``on_chunk`` also gets what makes the network as it is then; once it has returned, that is no longer to be had.
    """
    # What is small is made by NumPy, keys included: each little program of JAX's own has to be compiled, and together
    # they took half a second of the first fit.
    rng = np.random.default_rng(seed)
    chunks = -(-job.steps // job.chunk)
    init_key, *keys = map(jax.random.wrap_key_data, rng.integers(2**32, size=(1 + chunks, 2), dtype=np.uint32))
    state = initial_state(init_key, job.eta, job.model, job.sizes)
    if start is not None:
        state = (pack(start), state[1])
    hyper = [np.asarray(value, np.float32) for value in (job.noise, job.recon_weights, job.weight_decay)]
    batches = (job.labelled_batch_size, job.batch_size)
    gathered = _gather(job, table, rng)
    rows = next(gathered)
    for chunk, key in enumerate(keys):
        rates = _rates(job, chunk)
        # The first key would be for an order, and is not used.
        arguments = (state, rows, (key, key), None, rates, *hyper, batches, 1, job.precision)
        state, costs, finite = native.call(run_epoch, *arguments)
        if chunk + 1 < chunks:
            rows = next(gathered)
        wait_for(costs)
        if not chunk:
            return_free_memory()
        before = chunk * job.chunk
        taken = min(job.chunk, job.steps - before)
        means = mean_costs(np.asarray(costs)[:taken], bool(finite), before=before)
        record = {"step": before + taken, "learning_rate": float(rates[taken - 1]), **means}
        if on_chunk(record, partial(ladder_of, state)):
            break
    return ladder_of(state)


def template(job: Job) -> Ladder:
    """The shapes of the network that a job trains."""
    shapes: Ladder = jax.eval_shape(lambda: Ladder(job.model, job.sizes, key=jax.random.key(0)))
    return shapes


def _rates(job: Job, chunk: int) -> np.ndarray:
    """The learning rate of each step of a chunk: constant, then linear to zero, and zero beyond the end."""
    left = 1 - (chunk * job.chunk + np.arange(job.chunk)) / job.steps
    rates: np.ndarray = np.asarray(np.clip(left / job.decay, 0, 1) * job.learning_rate, np.float32)
    return rates


def _gather(job: Job, table: Table, rng: np.random.Generator) -> Iterator[Any]:
    """Chunk after chunk: labelled rows, their classes, unlabelled rows."""
    unlabelled = _passes(table.x.shape[0], rng)
    labelled = _passes(len(table.labelled), rng)
    while True:
        if table.probabilities is None:
            drawn = labelled(job.chunk * job.labelled_batch_size)
        else:
            drawn = rng.choice(len(table.labelled), job.chunk * job.labelled_batch_size, p=table.probabilities)
        x_labelled = table.bring(table.labelled[drawn])
        codes = table.codes[drawn]
        if job.label_smoothing:
            # In the mean over steps that is label smoothing, and the compiled program need not know.
            other = rng.integers(job.sizes[-1], size=len(codes), dtype=codes.dtype)
            codes = np.where(rng.random(len(codes)) < job.label_smoothing, other, codes)
        x_unlabelled = table.bring(unlabelled(job.chunk * job.batch_size))
        yield x_labelled, codes, x_unlabelled


def _passes(n: int, rng: np.random.Generator) -> Callable[[int], np.ndarray]:
    """Takes the next so many out of an endless stream of shuffled passes over ``n`` rows."""
    left = np.zeros(0, int)

    def take(count: int) -> np.ndarray:
        nonlocal left
        while len(left) < count:
            left = np.concatenate([left, rng.permutation(n)])
        taken, left = left[:count], left[count:]
        return taken

    return take

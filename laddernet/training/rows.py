"""The rows of each step: the stream of row numbers, and chunks with rows on the device or gathered by the host.

A chunk holds what one call of the compiled program reads. Chunks are made while the one before is computed.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Array, Int, PRNGKeyArray

from laddernet.inference.network import Rows, Scaling, blocks, dense
from laddernet.kernels.noise import permutations
from laddernet.training.program import Program

_STEPS, CHUNK_CELLS = 32, 2**25  # steps of a gathered chunk, and the most cells of their rows
_SCALED_CELLS = 2**24  # a table of no more cells is scaled once, a larger one chunk by chunk
_BLOCK_CELLS = 2**20  # cells of a larger table that are made dense and scaled at a time


AnyArray = Array | np.ndarray


class Chunk(NamedTuple):
    """What one call of the compiled program reads besides the state."""

    rows: tuple[AnyArray, AnyArray, AnyArray]  # labelled ones, their classes, unlabelled ones
    order: list[Int[np.ndarray, "steps batch"]]  # the numbers of the labelled and the unlabelled rows of each step
    key: PRNGKeyArray  # of the noise


class Stream:
    """An endless stream of shuffled passes over ``n`` rows: every row comes once in each pass.

    Parameters
    ----------
    n
        The number of rows.
    shuffled
        Returns a shuffle of the rows for each of some passes, given their numbers.
    start
        How many row numbers were taken before.

    Examples
    --------
    >>> stream = Stream(3, lambda passes: [np.array([2, 0, 1]) for _ in passes], start=1)
    >>> stream.take(4).tolist(), stream.take(2).tolist()
    ([0, 1, 2, 0], [1, 2])
    """

    def __init__(self, n: int, shuffled: Callable[[np.ndarray], Iterable[np.ndarray]], start: int = 0) -> None:
        self._n, self._shuffled = n, shuffled
        self._pass, self._skipped = divmod(start, n)
        self._left = np.zeros(0, np.int32)

    def take(self, count: int) -> Int[np.ndarray, " count"]:
        """Return the next row numbers."""
        missing = self._skipped + count - len(self._left)
        if missing > 0:
            passes = self._pass + np.arange(-(-missing // self._n))
            self._left = np.concatenate([self._left, *self._shuffled(passes)])[self._skipped :]
            self._pass, self._skipped = self._pass + len(passes), 0
        taken, self._left = self._left[:count], self._left[count:]
        return taken


def counted_passes(key: PRNGKeyArray, n: int) -> Callable[[np.ndarray], np.ndarray]:
    """Return what shuffles ``n`` rows by the key and the number of the pass alone, so that a run can be resumed."""
    return lambda passes: permutations(key, passes.astype(np.uint32), n)


def drawn_passes(rng: np.random.Generator, n: int) -> Callable[[np.ndarray], list[np.ndarray]]:
    """Return what shuffles ``n`` rows by NumPy's generator, which needs no sort: tables may have millions of rows."""
    return lambda passes: [rng.permutation(n) for _ in passes]


def device_chunks(
    program: Program, rows: tuple[Array, Array, Array], order_key: PRNGKeyArray, noise_key: PRNGKeyArray, first: int = 0
) -> Iterator[Chunk]:
    """Give the chunks from number ``first`` on, of rows that are on the device: only their order differs."""
    keys = [jax.random.fold_in(order_key, group) for group in range(2)]
    counts = [program.chunk * batch for batch in program.batches]
    streams = [
        Stream(len(x), counted_passes(key, len(x)), start=first * count)
        for x, key, count in zip(rows[::2], keys, counts, strict=True)
    ]
    for number in range(first, program.chunks):
        order = [stream.take(count).reshape(program.chunk, -1) for stream, count in zip(streams, counts, strict=True)]
        yield Chunk(rows, order, jax.random.fold_in(noise_key, number))


@dataclass(frozen=True)
class Table:
    """A table that the host gathers rows from.

    What is compiled depends on the columns, the classes and the network, not on the number of rows, so that fits of
    different tables of one shape share it.
    """

    x: Rows
    scaling: Scaling
    labelled: np.ndarray  # numbers of rows
    codes: np.ndarray  # their classes
    probabilities: np.ndarray | None = None  # with which each labelled row is drawn; None: all come equally often
    label_smoothing: float = 0.0  # probability with which a label is replaced by a random class

    def bring(self, rows: np.ndarray) -> np.ndarray:
        """Return some rows, dense and scaled."""
        brought: np.ndarray
        if self._scaled is not None:
            brought = self._scaled[rows]
            return brought
        columns = self.x.shape[1]
        brought = np.empty((len(rows), columns), self.scaling.factor.dtype)
        for block in blocks(len(rows), max(1, _BLOCK_CELLS // columns)):
            brought[block] = self.scaling(dense(self.x[rows[block]]))
        return brought

    @cached_property
    def _scaled(self) -> np.ndarray | None:
        return self.scaling(self.x) if isinstance(self.x, np.ndarray) and self.x.size <= _SCALED_CELLS else None

    def chunks(self, program: Program, noise_keys: Iterable[PRNGKeyArray], rng: np.random.Generator) -> Iterator[Chunk]:
        """Give a chunk for each of the keys."""
        counts = [program.chunk * batch for batch in program.batches]
        order = [np.arange(count, dtype=np.int32).reshape(program.chunk, -1) for count in counts]
        labelled: Callable[[int], np.ndarray]
        labelled, unlabelled = (Stream(n, drawn_passes(rng, n)).take for n in (len(self.labelled), self.x.shape[0]))
        if self.probabilities is not None:
            p = self.probabilities
            labelled = lambda count: rng.choice(len(self.labelled), count, p=p)  # noqa: E731
        for key in noise_keys:
            drawn = labelled(counts[0])
            x_labelled = self.bring(self.labelled[drawn])
            codes = self._smoothed(self.codes[drawn], program.sizes[-1], rng)
            yield Chunk((x_labelled, codes, self.bring(unlabelled(counts[1]))), order, key)

    def _smoothed(self, codes: np.ndarray, classes: int, rng: np.random.Generator) -> np.ndarray:
        """Replace some labels by random classes: in the mean over steps that is label smoothing."""
        if not self.label_smoothing:
            return codes
        other = rng.integers(classes, size=len(codes), dtype=codes.dtype)
        return np.where(rng.random(len(codes)) < self.label_smoothing, other, codes)


def gathered_steps(batches: tuple[int, int], columns: int) -> int:
    """Return how many steps of a table make a chunk: 32, or fewer if their rows are very wide.

    >>> [gathered_steps((100, 100), columns) for columns in (4, 784, 20_000, 10**6)]
    [32, 32, 8, 1]
    """
    return min(_STEPS, max(1, CHUNK_CELLS // (sum(batches) * columns)))


def random_keys(rng: np.random.Generator, count: int) -> Iterator[PRNGKeyArray]:
    """Draw keys with NumPy: the small programs that JAX compiles to split a key took half a second of the first fit."""
    return map(jax.random.wrap_key_data, rng.integers(2**32, size=(count, 2), dtype=np.uint32))

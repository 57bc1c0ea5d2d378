"""A fit of LadderClassifier: its networks are trained side by side.

Only a fit needs JAX: prediction and files do without.
"""

import math
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import numpy as np
from sklearn.model_selection import train_test_split
from sklearn.utils import check_random_state, compute_class_weight

from laddernet.classifier.confidence import linear_accuracy, sharpness
from laddernet.classifier.defaults import defaults, distance_apart
from laddernet.classifier.display import progress_of
from laddernet.classifier.labels import UNLABELLED
from laddernet.classifier.parameters import Parameters, check_scale, plan
from laddernet.classifier.scaling import find_scaling
from laddernet.errors import InputError
from laddernet.inference.network import Rows, Scaling, folded, join
from laddernet.kernels import native
from laddernet.machine import cores, on_cores
from laddernet.network.ladder import Ladder, statistics
from laddernet.training.checkpoint import from_named_arrays, named_arrays
from laddernet.training.config import Record
from laddernet.training.loop import first_state, train_chunks
from laddernet.training.program import Program
from laddernet.training.programs import compiled_programs_kept
from laddernet.training.rows import CHUNK_CELLS, Table, random_keys
from laddernet.training.settings import precision_notice
from laddernet.training.step import ladder_of

_STATISTICS_ROWS = 10_000  # the normalisation for prediction is measured on at most this many rows
_ACCURACY_ROWS, _CONFIDENCE_ROWS = 500, 1000  # the most rows that `sharpness` is found with: labelled, and of all


@dataclass(frozen=True)
class Earlier:
    """The result of an earlier fit, for ``warm_start``."""

    classes: np.ndarray
    how: str  # of `SCALINGS`
    scaling: Scaling
    networks: list[dict[str, np.ndarray]]


@dataclass(frozen=True)
class Learned:
    """The result of a fit."""

    how: str  # of `SCALINGS`
    scaling: Scaling
    networks: list[dict[str, np.ndarray]]  # arrays by name, statistics among them
    shares: list[float]  # the weight of each network's logits in the prediction; above 1 in total if sharpened
    history: list[dict[str, Any]]
    steps: int
    noise: tuple[float, ...]
    recon_weights: tuple[float, ...]


def learn(given: Parameters, x: Rows, classes: np.ndarray, codes: np.ndarray, earlier: Earlier | None) -> Learned:
    """Train the networks that the parameters ask for.

    Parameters
    ----------
    given
        The parameters; they are checked here.
    x, codes
        The rows, and the number of each row's class, or `UNLABELLED`.
    classes
        The classes, in the order of their numbers.
    earlier
        The networks to continue training, if any.

    Returns
    -------
    Learned
        The networks, and how they were trained.

    Raises
    ------
    InputError
        If a parameter is not valid, or the earlier networks do not fit.
    DivergedError
        If a cost becomes NaN or infinite.
    """
    labelled = np.flatnonzero(codes != UNLABELLED)
    how, scaling = find_scaling(x, check_scale(given.scale))
    if earlier is not None:  # its networks were trained on rows scaled so
        if len(earlier.scaling.factor) != x.shape[1]:
            had = len(earlier.scaling.factor)
            raise InputError(f"The last fit had {had} columns, X has {x.shape[1]}; with warm_start=True give the same.")
        how, scaling = earlier.how, earlier.scaling
    apart = distance_apart(x, scaling)
    planned = plan(
        given, x.shape, len(classes), defaults(how, x.shape[0], len(labelled) / len(classes), len(classes), apart)
    )
    programs = planned.programs
    if notice := precision_notice(given.precision):
        warnings.warn(notice, RuntimeWarning, stacklevel=3)
    seeds = [int(seed) for seed in check_random_state(given.random_state).randint(2**31, size=len(programs))]
    starts = [None] * len(programs) if earlier is None else _starts(earlier, classes, programs)
    labelled, held_out = _held_out(given, len(classes), labelled, codes, seeds[0])
    probabilities = _probabilities(given.class_weight, classes, codes[labelled])
    table = Table(x, scaling, labelled, codes[labelled], probabilities, planned.label_smoothing)
    seen = _seen(table, programs[0], np.random.default_rng(seeds[0]))
    steps = [program.steps for program in programs]
    with (
        compiled_programs_kept(),
        _on_device(given.device),
        on_cores(given.n_jobs),
        progress_of(given.verbose, steps) as show,
    ):
        watches = [
            _Watch(given.n_iter_no_change, table, seen, held_out, codes[held_out], partial(show, number))
            for number in range(len(programs))
        ]
        ladders = _trained(programs, table, seeds, starts, [watch.after_chunk for watch in watches])
        networks = [
            watch.best or _parameters(ladder, table, seen) for watch, ladder in zip(watches, ladders, strict=True)
        ]
        shares = planned.shares
        if given.label_smoothing is None and planned.label_smoothing:
            shares = _sharpened(shares, networks, table, seeds[0])
    return Learned(
        how,
        scaling,
        networks,
        shares,
        history=[{"network": number, **record} for number, watch in enumerate(watches) for record in watch.history],
        steps=sum(watch.history[-1]["step"] for watch in watches),
        noise=programs[0].noise,
        recon_weights=programs[0].recon_weights,
    )


def _starts(earlier: Earlier, classes: np.ndarray, programs: Sequence[Program]) -> list[Ladder]:
    """Return the networks of an earlier fit, if this one can continue it."""
    if not np.array_equal(earlier.classes, classes):
        raise InputError(
            f"The last fit was for the classes {earlier.classes.tolist()}, this one is for "
            f"{classes.tolist()}; with warm_start=True they must be the same."
        )
    if len(earlier.networks) != len(programs):
        raise InputError(
            f"The last fit trained {len(earlier.networks)} networks, this one is to train {len(programs)}; with "
            "warm_start=True n_networks must be the same, and linear_share above 0 in both or in neither."
        )
    learned = [
        {name: array for name, array in arrays.items() if not name.startswith("statistics.")}
        for arrays in earlier.networks
    ]
    return [
        from_named_arrays(_template(program), arrays, "The last fit")
        for program, arrays in zip(programs, learned, strict=True)
    ]


def _template(program: Program) -> Ladder:
    """Return the shapes of the network that a program trains."""
    shapes: Ladder = jax.eval_shape(lambda: Ladder(program.model, program.sizes, key=jax.random.key(0)))
    return shapes


def _held_out(
    given: Parameters, classes: int, labelled: np.ndarray, codes: np.ndarray, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the labelled rows to learn from, and those that decide when to stop."""
    if not given.early_stopping:
        return labelled, labelled[:0]
    fewest = np.bincount(codes[labelled]).min()
    if fewest < 5 or len(labelled) * given.validation_fraction < classes:
        warnings.warn("There are too few labels to hold any out: early_stopping is off.", stacklevel=5)
        return labelled, labelled[:0]
    if math.ceil(len(labelled) * given.validation_fraction) > len(labelled) - classes:
        left = "so few labels to learn from that some class would have none"
        raise InputError(f"validation_fraction is {given.validation_fraction!r}, which leaves {left}; give less.")
    learn, held_out = train_test_split(
        labelled, test_size=given.validation_fraction, stratify=codes[labelled], random_state=seed
    )
    return np.sort(learn), np.sort(held_out)


def _probabilities(
    class_weight: Mapping[Any, float] | str | None, classes: np.ndarray, codes: np.ndarray
) -> np.ndarray | None:
    """Return the probability with which each labelled row is drawn; None if classes have no weights."""
    if class_weight is None:
        return None
    weights = compute_class_weight(class_weight, classes=classes, y=classes[codes])
    share: np.ndarray = weights[codes]
    if not (np.isfinite(share).all() and (share >= 0).all() and share.sum() > 0):
        raise InputError(f"class_weight is {class_weight!r}; weights must be finite, not below 0, not all 0.")
    share /= share.sum()
    return share


# --- Training ---------------------------------------------------------------------------------------------------


def _trained(
    programs: Sequence[Program],
    table: Table,
    seeds: Sequence[int],
    starts: Sequence[Ladder | None],
    after_chunk: Sequence[Callable[[Record, Callable[[], Ladder]], bool]],
) -> list[Ladder]:
    """Train each network in a thread, as many at a time as there are cores.

    Their operations are too small to be divided among cores, and no network depends on another. The first of a kind
    compiles its program; the others of that kind wait until it has. One program is compiled at a time: that takes more
    memory than all else.
    """
    device = jax.config.jax_default_device  # type: ignore[attr-defined]  # a setting of this thread only
    compiled = {program: threading.Event() for program in programs}
    compiling = threading.Lock()
    stopped = threading.Event()

    def learn(number: int) -> Ladder:
        program = programs[number]
        first = programs.index(program) == number
        if first:
            compiling.acquire()
        else:
            compiled[program].wait()

        def has_compiled() -> None:
            if first and not compiled[program].is_set():
                compiled[program].set()
                compiling.release()

        try:
            with jax.default_device(device):
                rng = np.random.default_rng(seeds[number])
                keys = random_keys(rng, 1 + program.chunks)
                state = first_state(program, next(keys), starts[number])
                chunks = train_chunks(program, state, table.chunks(program, keys, rng))
                for record, state in chunks:
                    has_compiled()
                    if after_chunk[number](record, partial(ladder_of, state)) or stopped.is_set():
                        break
                return ladder_of(state)
        except BaseException:
            stopped.set()
            raise
        finally:
            has_compiled()

    with ThreadPoolExecutor(cores()) as pool:
        try:
            # One of each kind first.
            order = sorted(range(len(programs)), key=lambda number: programs.index(programs[number]) < number)
            ladders = dict(zip(order, pool.map(learn, order), strict=True))
        except BaseException:  # also Ctrl-C, which reaches only this thread
            stopped.set()
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return [ladders[number] for number in range(len(programs))]


def _seen(table: Table, program: Program, rng: np.random.Generator) -> np.ndarray:
    """Return the rows whose statistics normalise in prediction: as in a step, half labelled ones, half of all.

    The labelled rows of a step are normalised together with the others. Where classes have other shares among the
    labels than among the rows, statistics of all rows alone would differ from those of training. There are no more
    cells than in a chunk of training, but at least the rows of a step.
    """
    count, columns = table.x.shape
    n = min(count, _STATISTICS_ROWS // 2, max(program.batch_size, CHUNK_CELLS // (2 * columns)))
    if table.probabilities is None:
        labelled = np.resize(rng.permutation(table.labelled), n)  # repeated, or cut, in random order
    else:
        labelled = rng.choice(table.labelled, n, p=table.probabilities)
    if program.model.combinator is None:  # then only labelled rows are learned from
        return labelled
    return np.concatenate([labelled, rng.choice(count, n, replace=False)])


def _parameters(ladder: Ladder, table: Table, seen: np.ndarray) -> dict[str, np.ndarray]:
    """Return a network's arrays by name, with the statistics of its clean path over some of the rows."""
    known = native.call(statistics, ladder.encoder, table.bring(seen))
    arrays = named_arrays(ladder) | named_arrays({"statistics": known})
    return {name: array.copy() for name, array in arrays.items()}  # the memory of the state is reused


def _sharpened(
    shares: Sequence[float], networks: Sequence[dict[str, np.ndarray]], table: Table, seed: int
) -> list[float]:
    """Return the shares multiplied by the `sharpness` that makes up for the label smoothing."""
    rng = np.random.default_rng(seed)
    labelled = np.sort(rng.permutation(len(table.labelled))[:_ACCURACY_ROWS])
    rows = np.sort(rng.permutation(table.x.shape[0])[:_CONFIDENCE_ROWS])
    accuracy = linear_accuracy(table.bring(table.labelled[labelled]), table.codes[labelled], seed)
    joined = join([folded(network, table.scaling) for network in networks], shares)
    factor = sharpness(joined.logits(table.x[rows]), accuracy, len(labelled))
    return [factor * share for share in shares]


class _Watch:
    """Keeps the records and, with held-out rows, the best network so far."""

    def __init__(
        self,
        patience: int,
        table: Table,
        seen: np.ndarray,
        held_out: np.ndarray,
        codes: np.ndarray,
        show: Callable[[Record], None],
    ) -> None:
        self.history: list[Record] = []
        self.best: dict[str, np.ndarray] | None = None
        self._patience, self._show = patience, show
        self._table, self._seen, self._held_out, self._codes = table, seen, held_out, codes
        self._lowest, self._since = math.inf, 0

    def after_chunk(self, record: Record, network: Callable[[], Ladder]) -> bool:
        """Keep a record, and return whether training is to stop; ``network`` returns the network as it is."""
        self.history.append(record)
        if len(self._held_out):
            parameters = _parameters(network(), self._table, self._seen)
            logits = folded(parameters, self._table.scaling).logits(self._table.x[self._held_out])
            error = record["validation_error"] = 100 * float(np.mean(logits.argmax(axis=1) != self._codes))
            self._since += 1
            if error <= self._lowest:  # of equal ones the last, which was trained for longer
                self._since = 0 if error < self._lowest else self._since
                self._lowest, self.best = error, parameters
        self._show(record)
        return self._since >= self._patience


# --- Around it ----------------------------------------------------------------------------------------------------


@contextmanager
def _on_device(name: str | None) -> Iterator[None]:
    """Compute on a device of this kind; None: the one that JAX prefers.

    XLA is started here, before `on_cores`: it starts a thread for each core that it is allowed at that moment.
    """
    if name is None:
        jax.devices()
        yield
        return
    try:
        device = jax.devices(str(name))[0]
    except RuntimeError as error:
        present = ", ".join(sorted({device.platform for device in jax.devices()}))
        raise InputError(f"There is no device {name!r} here; give one of {present}, or None.") from error
    with jax.default_device(device):
        yield

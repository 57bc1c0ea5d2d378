"""A fit of LadderClassifier: which networks suit a table, and their training, side by side.

Here alone the classifier needs JAX: prediction and files do without.
"""

import math
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import jax
import numpy as np
from rich.console import Console
from sklearn.model_selection import train_test_split
from sklearn.utils import check_random_state, compute_class_weight

from laddernet import checks
from laddernet.classifier.defaults import defaults, distance_apart
from laddernet.classifier.labels import UNLABELLED
from laddernet.classifier.scaling import SCALINGS, find_scaling
from laddernet.errors import InputError
from laddernet.inference.network import Rows, Scaling, encoder_arrays, folded, statistics
from laddernet.kernels.products import PRECISIONS
from laddernet.machine import cores, on_cores
from laddernet.network.ladder import Ladder
from laddernet.network.models import AnyModel, find
from laddernet.progress import progress_shown
from laddernet.training.checkpoint import from_named_arrays, named_arrays
from laddernet.training.programs import compiled_programs_kept
from laddernet.training.settings import by_layer, precision_notice
from laddernet.training.stream import Job, Table, template, train

_DECAY = 0.7  # the share of the steps, the last, over which the learning rate falls to zero
_STATISTICS_ROWS = 10_000  # the normalisation for prediction is measured on so many rows at most


@dataclass(frozen=True)
class Parameters:
    """The parameters of :class:`~laddernet.LadderClassifier` that a fit depends on, as the user gave them."""

    model: AnyModel
    hidden: Sequence[int] | None
    noise: float | Sequence[float] | None
    recon_weights: float | Sequence[float] | None
    eta: float
    epochs: int | None
    max_steps: int | None
    batch_size: int
    learning_rate: float
    weight_decay: float | None
    label_smoothing: float | None
    n_networks: int | None
    linear_share: float | None
    class_weight: Mapping[Any, float] | str | None
    early_stopping: bool
    validation_fraction: float
    n_iter_no_change: int
    scale: str
    random_state: Any
    verbose: bool
    device: str | None
    n_jobs: int | None
    precision: str


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
    shares: list[float]  # of each in what they decide
    history: list[dict[str, Any]]
    steps: int
    noise: tuple[float, ...]
    recon_weights: tuple[float, ...]


def learn(of: Parameters, x: Rows, classes: np.ndarray, codes: np.ndarray, earlier: Earlier | None) -> Learned:
    """Train the networks that the parameters ask for.

    Parameters
    ----------
    of
        The parameters; they are checked here.
    x, codes
        The rows, and the number of each row's class, or `UNLABELLED`.
    classes
        The classes, in the order of their numbers.
    earlier
        The networks to continue training, if any.
    """
    labelled = np.flatnonzero(codes != UNLABELLED)
    if not isinstance(of.scale, str) or of.scale not in SCALINGS:
        raise InputError(f"scale is {checks.shown(of.scale)}; give one of {', '.join(map(repr, SCALINGS))}.")
    how, scaling = find_scaling(x, of.scale)
    if earlier is not None and len(earlier.scaling.factor) != x.shape[1]:
        had = len(earlier.scaling.factor)
        raise InputError(f"The last fit had {had} columns, X has {x.shape[1]}; with warm_start=True give the same.")
    if earlier is not None:  # its networks were trained on rows scaled so
        how, scaling = earlier.how, earlier.scaling
    suiting = defaults(how, x.shape[0], len(labelled) / len(classes), len(classes), distance_apart(x, scaling))
    jobs, shares = _jobs(of, x.shape, len(classes), asdict(suiting))
    if notice := precision_notice(of.precision):
        warnings.warn(notice, RuntimeWarning, stacklevel=3)
    seeds = [int(seed) for seed in check_random_state(of.random_state).randint(2**31, size=len(jobs))]
    starts = [None] * len(jobs) if earlier is None else _starts(earlier, classes, jobs)
    labelled, held_out = _held_out(of, len(classes), labelled, codes, seeds[0])
    table = Table(x, scaling, labelled, codes[labelled], _probabilities(of.class_weight, classes, codes[labelled]))
    seen = _seen(table, jobs[0], np.random.default_rng(seeds[0]))
    with compiled_programs_kept(), _on_device(of.device), on_cores(of.n_jobs), _shown(of.verbose, jobs) as shown:
        watches = [
            _Watch(of.n_iter_no_change, table, seen, held_out, codes[held_out], partial(shown, number))
            for number in range(len(jobs))
        ]
        ladders = _trained(jobs, table, seeds, starts, [watch.hear for watch in watches])
        networks = [
            watch.best or _parameters(ladder, table, seen) for watch, ladder in zip(watches, ladders, strict=True)
        ]
    return Learned(
        how,
        scaling,
        networks,
        shares,
        history=[{"network": number, **record} for number, watch in enumerate(watches) for record in watch.history],
        steps=sum(watch.history[-1]["step"] for watch in watches),
        noise=jobs[0].noise,
        recon_weights=jobs[0].recon_weights,
    )


def _jobs(
    of: Parameters, shape: tuple[int, int], classes: int, suiting: dict[str, Any]
) -> tuple[list[Job], list[float]]:
    """Return the networks to train, and the weight of each in the prediction.

    Every parameter is checked. One that is None gets its data-dependent default, ``suiting``.
    """
    rows, columns = shape
    given = {name: getattr(of, name) for name in suiting}
    chosen = suiting | {name: value for name, value in given.items() if value is not None}
    hidden = checks.sizes("hidden", chosen["hidden"])
    if of.epochs is not None and of.max_steps is not None:
        raise InputError("Both epochs and max_steps are given; give one of them.")
    most = {"epochs": checks.MOST_EPOCHS, "max_steps": 10**9, "batch_size": checks.MOST_ROWS, "n_networks": 10_000}
    for name in (*most, "n_iter_no_change"):
        if getattr(of, name) is not None or name in ("batch_size", "n_iter_no_change"):  # which have no other default
            checks.integer(name, getattr(of, name), most=most.get(name))
    for name in ("learning_rate", "eta"):
        chosen[name] = checks.number(name, getattr(of, name), above=0)
    chosen["weight_decay"] = checks.number("weight_decay", chosen["weight_decay"])
    for name in ("label_smoothing", "linear_share"):
        chosen[name] = checks.number(name, chosen[name], below=1)
    checks.number("validation_fraction", of.validation_fraction, above=0, below=1)
    checks.flag("early_stopping", of.early_stopping)
    if not isinstance(of.verbose, int | np.bool_):
        raise InputError(f"verbose must be True, False or an integer, got {checks.shown(of.verbose)}.")
    if of.n_jobs is not None and not (_whole(of.n_jobs) and (of.n_jobs > 0 or -cores() <= of.n_jobs < 0)):
        raise InputError(f"n_jobs is {of.n_jobs!r}; give a number of cores, None or -1 for all.")
    layers = len(hidden) + 2
    passes = None if of.epochs is None else of.epochs * math.ceil(rows / of.batch_size)
    job = Job(
        # The paper normalises the labelled rows by themselves. With a label or two a class that says little about
        # the rows to be classified, so here they are normalised together with the unlabelled ones.
        model=replace(find(of.model), joint=True),
        sizes=(columns, *map(int, hidden), classes),
        noise=by_layer("noise", chosen["noise"], layers, short=2),
        recon_weights=by_layer("recon_weights", chosen["recon_weights"], layers, short=3),
        eta=chosen["eta"],
        learning_rate=chosen["learning_rate"],
        weight_decay=chosen["weight_decay"],
        decay=_DECAY,
        steps=passes or chosen["max_steps"],
        batch_size=of.batch_size,
        labelled_batch_size=of.batch_size,
        label_smoothing=chosen["label_smoothing"],
        precision=checks.choice("precision", of.precision, PRECISIONS),
    )
    networks, share = int(chosen["n_networks"]), chosen["linear_share"]
    jobs, shares = [job] * networks, [(1 - share) / networks] * networks
    if share:
        linear = replace(
            job,
            sizes=(job.sizes[0], job.sizes[-1]),
            noise=(job.noise[0], job.noise[-1]),
            recon_weights=(0.0, 0.0),
        )
        jobs, shares = [*jobs, linear], [*shares, share]
    return jobs, shares


def _starts(earlier: Earlier, classes: np.ndarray, jobs: Sequence[Job]) -> list[Ladder]:
    """Return the networks of an earlier fit, if this one can continue it."""
    if not np.array_equal(earlier.classes, classes):
        raise InputError(
            f"The last fit was for the classes {earlier.classes.tolist()}, this one is for "
            f"{classes.tolist()}; with warm_start=True they must be the same."
        )
    if len(earlier.networks) != len(jobs):
        raise InputError(
            f"The last fit trained {len(earlier.networks)} networks, this one is to train {len(jobs)}; with "
            "warm_start=True n_networks must be the same, and linear_share above 0 in both or in neither."
        )
    learned = [
        {name: array for name, array in arrays.items() if not name.startswith("statistics.")}
        for arrays in earlier.networks
    ]
    return [from_named_arrays(template(job), arrays, "The last fit") for job, arrays in zip(jobs, learned, strict=True)]


def _held_out(
    of: Parameters, classes: int, labelled: np.ndarray, codes: np.ndarray, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """The labelled rows to learn from, and those by which to stop."""
    if not of.early_stopping:
        return labelled, labelled[:0]
    fewest = np.bincount(codes[labelled]).min()
    if fewest < 5 or len(labelled) * of.validation_fraction < classes:
        warnings.warn("There are too few labels to hold any out: early_stopping is off.", stacklevel=5)
        return labelled, labelled[:0]
    if math.ceil(len(labelled) * of.validation_fraction) > len(labelled) - classes:
        left = "so few labels to learn from that some class would have none"
        raise InputError(f"validation_fraction is {of.validation_fraction!r}, which leaves {left}; give less.")
    learn, held_out = train_test_split(
        labelled, test_size=of.validation_fraction, stratify=codes[labelled], random_state=seed
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


# --- What is learned ----------------------------------------------------------------------------------------------


def _trained(
    jobs: Sequence[Job],
    table: Table,
    seeds: Sequence[int],
    starts: Sequence[Ladder | None],
    hear: Sequence[Callable[[dict[str, Any], Callable[[], Any]], bool]],
) -> list[Ladder]:
    """Train each network in a thread, as many at a time as there are cores.

    Their operations are too small to be divided among cores, and no network depends on how another is getting on. The
    first of a kind compiles its program; the others of that kind wait until it has. One program is compiled at a time:
    that takes more memory than all else.
    """
    device = jax.config.jax_default_device  # type: ignore[attr-defined]  # a setting of this thread only
    compiled = {job: threading.Event() for job in jobs}
    compiling = threading.Lock()
    stopped = threading.Event()

    def learn(number: int) -> Ladder:
        job = jobs[number]
        first = jobs.index(job) == number
        if first:
            compiling.acquire()
        else:
            compiled[job].wait()

        def has_compiled() -> None:
            if first and not compiled[job].is_set():
                compiled[job].set()
                compiling.release()

        def on_chunk(record: dict[str, Any], now: Callable[[], Any]) -> bool:
            has_compiled()
            return hear[number](record, now) or stopped.is_set()

        try:
            with jax.default_device(device):
                return train(job, table, seeds[number], start=starts[number], on_chunk=on_chunk)
        except BaseException:
            stopped.set()
            raise
        finally:
            has_compiled()

    with ThreadPoolExecutor(cores()) as pool:
        try:
            # One of each kind first.
            order = sorted(range(len(jobs)), key=lambda number: jobs.index(jobs[number]) < number)
            ladders = dict(zip(order, pool.map(learn, order), strict=True))
        except BaseException:  # also Ctrl-C, which reaches only this thread
            stopped.set()
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    return [ladders[number] for number in range(len(jobs))]


def _seen(table: Table, job: Job, rng: np.random.Generator) -> np.ndarray:
    """The rows over which networks are to be normalised: as in a step, half labelled ones, half of all.

    The labelled rows of a step are normalised together with the others. Where classes have other shares among the
    labels than among the rows, statistics of all rows alone would be of something that the networks have never seen.
    """
    n = min(table.x.shape[0], _STATISTICS_ROWS // 2)
    if table.probabilities is None:
        labelled = np.resize(rng.permutation(table.labelled), n)  # repeated, or cut: in an order that says nothing
    else:
        labelled = rng.choice(table.labelled, n, p=table.probabilities)
    if job.model.combinator is None:  # then only labelled rows teach
        return labelled
    return np.concatenate([labelled, rng.choice(table.x.shape[0], n, replace=False)])


def _parameters(ladder: Ladder, table: Table, seen: np.ndarray) -> dict[str, np.ndarray]:
    """A network's arrays by name, and the statistics that its clean path has over some of the rows."""
    arrays = {name: array.copy() for name, array in named_arrays(ladder).items()}
    mu, sigma = statistics(table.bring, seen, *encoder_arrays(arrays))
    known = {"mu": mu, "sigma": sigma}
    return arrays | {f"statistics.{name}.{l}": a for name, all_l in known.items() for l, a in enumerate(all_l)}


class _Watch:
    """Hears each chunk: keeps the records and, with rows held out, the best network so far."""

    def __init__(
        self,
        patience: int,
        table: Table,
        seen: np.ndarray,
        held_out: np.ndarray,
        codes: np.ndarray,
        tell: Callable[[dict[str, Any]], None],
    ) -> None:
        self.history: list[dict[str, Any]] = []
        self.best: dict[str, np.ndarray] | None = None
        self._patience, self._tell = patience, tell
        self._table, self._seen, self._held_out, self._codes = table, seen, held_out, codes
        self._lowest, self._since = math.inf, 0

    def hear(self, record: dict[str, Any], now: Callable[[], Any]) -> bool:
        self.history.append(record)
        if len(self._held_out):
            parameters = _parameters(now(), self._table, self._seen)
            logits = folded(parameters, self._table.scaling).logits(self._table.x[self._held_out])
            error = record["validation_error"] = 100 * float(np.mean(logits.argmax(axis=1) != self._codes))
            self._since += 1
            if error <= self._lowest:  # of equals the last, which has learned for longer
                self._since = 0 if error < self._lowest else self._since
                self._lowest, self.best = error, parameters
        self._tell(record)
        return self._since >= self._patience


# --- Around it ----------------------------------------------------------------------------------------------------


@contextmanager
def _shown(verbose: bool, jobs: Sequence[Job]) -> Iterator[Callable[[int, dict[str, Any]], None]]:
    """What tells of a network's record, by its number: on a terminal a live line, else some ten plain ones."""
    console = Console(stderr=True)
    steps = sum(job.steps for job in jobs)
    taken = [0] * len(jobs)
    telling = threading.Lock()  # networks are trained in several threads

    def of_all(number: int, record: dict[str, Any]) -> dict[str, Any]:
        taken[number] = record["step"]
        return {**record, "step": sum(taken)}

    if not verbose:
        yield lambda number, record: None
    elif console.is_terminal:
        with progress_shown("step", steps, 1, console) as shown:

            def show(number: int, record: dict[str, Any]) -> None:
                with telling:
                    shown(of_all(number, record))

            yield show
    else:
        said = 0

        def say(number: int, record: dict[str, Any]) -> None:
            nonlocal said
            with telling:
                step = of_all(number, record)["step"]
                if step * 10 // steps > said:
                    said = step * 10 // steps
                    error = f", validation {record['validation_error']:.2f} %" if "validation_error" in record else ""
                    print(f"step {step} of {steps}: cost {record['cost']:.3f}{error}", flush=True)

        yield say


@contextmanager
def _on_device(name: str | None) -> Iterator[None]:
    """Compute on a device of this kind. None: what JAX prefers.

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


def _whole(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)

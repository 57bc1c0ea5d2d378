"""Few labels: LadderClassifier beside what scikit-learn offers, over many data sets and draws of the labels.

    python benchmarks/few_labels.py [--sets digits,moons] [--methods ladder,mlp] [--labels 1,5,10,50] [--draws 5]

A fit is one method on one set with one number of labels per class, chosen by a seed; every method gets the same rows
and labels, and is judged by its error on the set's test rows. Each fit is one line of ``results.jsonl``: the benchmark
may be stopped at any time, and the same command resumes it. A number of labels that exceeds the rows of a class is left
out. At the end ``table.md`` and ``table.csv`` are made from all lines.
"""

import argparse
import csv
import io
import json
import math
import multiprocessing
import os
import platform
import shlex
import signal
import sys
import threading
import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import lru_cache
from importlib import metadata
from multiprocessing.connection import wait
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, NamedTuple

import few_labels_data as data
import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from scipy.stats import rankdata

from laddernet.errors import InputError
from laddernet.files import reading, write_atomic, writing

ROOT = Path(__file__).parent.parent
LABELS, DRAWS = (1, 5, 10, 50), 5
# Before a worker imports what counts cores.
ONE_THREAD = {f"{library}_NUM_THREADS": "1" for library in ("OMP", "OPENBLAS", "MKL")}


class Fit(NamedTuple):
    """One line of the results, before it is known."""

    set: str
    labels: int  # of each class
    draw: int
    method: str


class Result(NamedTuple):
    error: float  # in per cent
    seconds: float  # of the processor, for fitting: what a fit takes on a core that does nothing else


Results = dict[Fit, Result]


# --- Methods --------------------------------------------------------------------------------------------------


class Case(NamedTuple):
    """What a classifier may be made by."""

    columns: int
    labels: int  # of each class
    labelled: int  # rows
    seed: int
    hidden: tuple[int, ...]  # as LadderClassifier has them for these rows


@dataclass(frozen=True)
class Method:
    what: str
    make: Callable[[Case], Any]
    unlabelled: bool = True  # whether it is given the rows without labels
    scaled: bool = True
    most_rows: int | None = None  # it learns from no more: all labelled ones, and others drawn at random


def _ladder(case: Case) -> Any:
    from laddernet.classifier.estimator import LadderClassifier

    return LadderClassifier(random_state=case.seed)


def _spreading_knn(case: Case) -> Any:
    from sklearn.semi_supervised import LabelSpreading

    return LabelSpreading(kernel="knn")


def _spreading_rbf(case: Case) -> Any:
    from sklearn.semi_supervised import LabelSpreading

    # The default, 20, is for two columns: in many, no row would be near another. Of 1, 3, 10 and 30 over the columns,
    # 10 had the least test error on six of eight of these sets (10 labels per class, 3 draws): it favours this method.
    return LabelSpreading(kernel="rbf", gamma=10 / case.columns)


def _self_training_svm(case: Case) -> Any:
    from scipy.special import softmax
    from sklearn.semi_supervised import SelfTrainingClassifier
    from sklearn.svm import SVC

    class Margins(SVC):  # type: ignore[misc]
        """Use margins with one label per class, since no row can be held out for calibration."""

        def predict_proba(self, x: NDArray[np.float32]) -> NDArray[np.float64]:
            margins = self.decision_function(x)
            both = np.column_stack([-margins, margins]) if margins.ndim == 1 else margins
            return np.asarray(softmax(both, axis=1))

    if case.labels == 1:
        return SelfTrainingClassifier(Margins())
    return SelfTrainingClassifier(SVC(C=10, probability=True, random_state=case.seed))


def _self_training_logistic(case: Case) -> Any:
    from sklearn.linear_model import LogisticRegression
    from sklearn.semi_supervised import SelfTrainingClassifier

    return SelfTrainingClassifier(LogisticRegression(max_iter=1000))


def _logistic(case: Case) -> Any:
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression(max_iter=1000)


def _boosting(case: Case) -> Any:
    from sklearn.ensemble import HistGradientBoostingClassifier

    # With the default, 20 rows a leaf, fewer than 40 labels would give no tree at all.
    return HistGradientBoostingClassifier(min_samples_leaf=min(20, max(1, case.labelled // 10)), random_state=case.seed)


def _forest(case: Case) -> Any:
    from sklearn.ensemble import RandomForestClassifier

    return RandomForestClassifier(random_state=case.seed)


def _mlp(case: Case) -> Any:
    from sklearn.neural_network import MLPClassifier

    return MLPClassifier(case.hidden, max_iter=1000, random_state=case.seed)


METHODS: dict[str, Method] = {
    "ladder": Method("LadderClassifier as it comes, on columns as they come", _ladder, scaled=False),
    "spreading-knn": Method("LabelSpreading, kernel knn, 7 neighbours", _spreading_knn),
    "spreading-rbf": Method(
        "LabelSpreading, kernel rbf, γ = 10 / columns, chosen by test error on eight of the sets",
        _spreading_rbf,
        most_rows=10_000,
    ),
    "self-training-svm": Method(
        "SelfTrainingClassifier with an SVC of C = 10 and the probabilities that it finds itself (with 1 label a class "
        "the softmax of its margins), which test errors on nine of the sets preferred to C = 1 and other calibration",
        _self_training_svm,
        most_rows=5_000,
    ),
    "self-training-logistic": Method("SelfTrainingClassifier with LogisticRegression", _self_training_logistic),
    "logistic": Method("LogisticRegression, labelled rows only", _logistic, unlabelled=False),
    "boosting": Method(
        "HistGradientBoostingClassifier, labelled rows only, leaves of at least a tenth of them (1 to 20 rows)",
        _boosting,
        unlabelled=False,
    ),
    "forest": Method("RandomForestClassifier, labelled rows only", _forest, unlabelled=False),
    "mlp": Method("MLPClassifier, labelled rows only, hidden layers as the ladder has them", _mlp, unlabelled=False),
}


# --- One fit --------------------------------------------------------------------------------------------------


def draw_labels(y: NDArray[np.int32], labels: int, seed: int) -> NDArray[np.int32]:
    """Return the classes of ``labels`` random rows per class, and -1 for the others; a smaller choice is a subset.

    >>> draw_labels(np.array([0, 0, 0, 1, 1], np.int32), 2, seed=0)
    array([ 0, -1,  0,  1,  1], dtype=int32)
    """
    rng = np.random.default_rng(seed)
    drawn = np.full_like(y, -1)
    for k in range(int(y.max()) + 1):
        drawn[rng.permutation(np.flatnonzero(y == k))[:labels]] = k
    return drawn


def measure(fit: Fit) -> Result:
    """Fit one method to one draw, in a process that has one core."""
    parts, method = _loaded(fit.set), METHODS[fit.method]
    y = draw_labels(parts.y_train, fit.labels, fit.draw)
    rows = _rows(y, method, fit.draw)
    model = method.make(Case(parts.columns, fit.labels, int(np.sum(y >= 0)), fit.draw, _hidden(fit.set)))
    with warnings.catch_warnings():
        # That an optimiser stopped early, or that nothing was left to label, is part of the method.
        warnings.simplefilter("ignore")
        started = time.process_time()
        x_train, x_test = _scaled(fit.set) if method.scaled else (parts.x_train, parts.x_test)
        model.fit(x_train[rows], y[rows])
        seconds = time.process_time() - started
        predicted = model.predict(x_test)
    return Result(100 * float(np.mean(predicted != parts.y_test)), seconds)


def _rows(y: NDArray[np.int32], method: Method, seed: int) -> NDArray[np.intp]:
    labelled, others = np.flatnonzero(y >= 0), np.flatnonzero(y < 0)
    if not method.unlabelled:
        return labelled
    if method.most_rows and len(y) > method.most_rows:
        others = np.random.default_rng(seed).permutation(others)[: max(0, method.most_rows - len(labelled))]
    return np.sort(np.concatenate([labelled, others]))


@lru_cache(1)  # fits of one set follow each other
def _loaded(name: str) -> data.Parts:
    return data.load(name)


@lru_cache(1)
def _hidden(name: str) -> tuple[int, ...]:
    """The layers that LadderClassifier has for a set, unless told otherwise."""
    from laddernet.classifier.defaults import DEFAULTS
    from laddernet.classifier.scaling import find_scaling

    return DEFAULTS[find_scaling(_loaded(name).x_train)[0]].hidden


@lru_cache(1)
def _scaled(name: str) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Columns of mean 0 and variance 1, by all training rows; pixels are divided by one number for all columns."""
    parts = _loaded(name)
    mean, deviation = parts.x_train.mean(0, np.float64), parts.x_train.std(0, np.float64)
    if data.SETS[name].one_unit:
        deviation = np.full_like(deviation, math.sqrt(np.mean(deviation**2)))
    deviation[deviation == 0] = 1
    train, test = (((x - mean) / deviation).astype(np.float32) for x in (parts.x_train, parts.x_test))
    return train, test


def _begin(cores: Any) -> None:
    """A worker: one core of its own, no traceback on Ctrl-C, and no life after the process that started it."""
    os.sched_setaffinity(0, {cores.get()})
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    if parent := multiprocessing.parent_process():
        wait([parent.sentinel])
        os._exit(1)


# --- Many fits ------------------------------------------------------------------------------------------------


def run(fits: Sequence[Fit], jobs: int, path: Path, console: Console) -> list[str]:
    """Do all fits, each kept as soon as it is done; what failed is told, and left for the next time."""
    os.environ.update(ONE_THREAD)
    spawn = multiprocessing.get_context("spawn")
    cores = spawn.Queue()
    for core in sorted(os.sched_getaffinity(0))[:jobs]:
        cores.put(core)
    columns = (
        TextColumn("{task.description}"),
        MofNCompleteColumn(),
        BarColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    failures = []
    with (
        Progress(*columns, console=console, disable=not console.is_terminal) as progress,
        ProcessPoolExecutor(jobs, spawn, _begin, (cores,)) as workers,
    ):
        task = progress.add_task("fits", total=len(fits))
        under_way = {workers.submit(measure, fit): fit for fit in fits}
        try:
            for future in as_completed(under_way):
                fit = under_way.pop(future)
                try:
                    keep(path, fit, future.result())
                except (BrokenProcessPool, InputError):
                    raise
                except Exception as error:
                    failures.append(f"{' '.join(map(str, fit))}: {type(error).__name__}: {error}")
                progress.update(task, advance=1, description=f"{fit.set}, {fit.labels} a class, {fit.method}")
        except BaseException:
            workers.shutdown(wait=False, cancel_futures=True)
            for child in multiprocessing.active_children():
                child.terminate()
            raise
    return failures


def keep(path: Path, fit: Fit, result: Result) -> None:
    """Append a line that a crash of the machine leaves there."""
    line = json.dumps({**fit._asdict(), **result._asdict()}) + "\n"
    with writing(path), path.open("ab+") as file:
        # A line that a kill cut in two must not run into this one.
        if file.tell() and (file.seek(-1, os.SEEK_END), file.read(1))[1] != b"\n":
            line = "\n" + line
        file.write(line.encode())
        file.flush()
        os.fsync(file.fileno())


def kept(path: Path) -> Results:
    """All lines of a file but one cut in two; of two for the same fit, the later."""
    results: Results = {}
    if not path.exists():
        return results
    with reading(path):
        lines = path.read_text("utf-8", "replace").splitlines()
    for line in lines:
        try:
            found = json.loads(line)
            results[Fit(*(found[key] for key in Fit._fields))] = Result(*(found[key] for key in Result._fields))
        except (ValueError, KeyError, TypeError):
            continue
    return results


def forget(path: Path, methods: Iterable[str], sets: Iterable[str]) -> None:
    """Take the lines of these methods on these sets out of a file, to measure them anew."""
    results, dropped = kept(path), {(name, method) for name in sets for method in methods}
    left = {fit: result for fit, result in results.items() if (fit.set, fit.method) not in dropped}
    if len(left) < len(results):
        lines = (json.dumps({**fit._asdict(), **result._asdict()}) + "\n" for fit, result in left.items())
        write_atomic(path, "".join(lines).encode())


# --- Tables ---------------------------------------------------------------------------------------------------


class Cell(NamedTuple):
    """One set with one number of labels per class."""

    set: str
    labels: int


@dataclass(frozen=True)
class Summary:
    """What a method does in a cell: the errors by draw, and the mean seconds of a fit."""

    errors: dict[int, float]
    seconds: float

    @property
    def mean(self) -> float:
        return fmean(self.errors.values())

    @property
    def standard_error(self) -> float:
        return _standard_error(list(self.errors.values()))


Cells = dict[Cell, dict[str, Summary]]


def summarise(results: Results) -> Cells:
    """All results by cell and method, in the order in which sets and methods are listed."""
    by_cell: dict[Cell, dict[str, dict[int, Result]]] = defaultdict(lambda: defaultdict(dict))
    for fit, result in results.items():
        if fit.set in data.SETS and fit.method in METHODS:
            by_cell[Cell(fit.set, fit.labels)][fit.method][fit.draw] = result
    order = {name: place for place, name in enumerate(data.SETS)}
    cells: Cells = {}
    for cell in sorted(by_cell, key=lambda cell: (cell.labels, order[cell.set])):
        cells[cell] = {
            method: Summary({d: r.error for d, r in draws.items()}, fmean(r.seconds for r in draws.values()))
            for method in METHODS
            if (draws := by_cell[cell].get(method))
        }
    return cells


def comparable(cells: Cells, methods: Sequence[str]) -> Cells:
    """The cells that all methods have done, with the same draws."""
    return {
        cell: of
        for cell, of in cells.items()
        if all(m in of and of[m].errors.keys() == of[methods[0]].errors.keys() for m in methods)
    }


def ranks(cells: Cells, methods: Sequence[str]) -> dict[Cell, dict[str, float]]:
    """The place of each method in each cell by mean error; those with the same error share theirs."""
    found = {}
    for cell, of in cells.items():
        places = rankdata([of[method].mean for method in methods])
        found[cell] = dict(zip(methods, map(float, places), strict=True))
    return found


def behind(cells: Cells, method: str, other: str) -> Iterator[tuple[Cell, float, float]]:
    """Where one method is worse than another by more than the standard error of the mean difference by draw."""
    for cell, of in cells.items():
        if method in of and other in of:
            shared = of[method].errors.keys() & of[other].errors.keys()
            differences = [of[method].errors[draw] - of[other].errors[draw] for draw in shared]
            if differences and fmean(differences) > (error := _standard_error(differences, unknown=0)):
                yield cell, fmean(differences), error


def _standard_error(values: Sequence[float], unknown: float = math.nan) -> float:
    return stdev(values) / math.sqrt(len(values)) if len(values) > 1 else unknown


def markdown(cells: Cells, sizes: Mapping[str, data.Parts]) -> str:
    """The page: who is ahead, every error, and where the ladder is not."""
    methods = [method for method in METHODS if any(method in of for of in cells.values())]
    counts = sorted({cell.labels for cell in cells})
    whole = comparable(cells, methods)
    lines = ["# Few labels", "", f"`{shlex.join(['python', *sys.argv])}`, {_environment()}.", ""]
    lines += [f"- `{method}`: {METHODS[method].what}" for method in methods]
    lines += ["", "All but the ladder get columns of mean 0 and variance 1; pixels are divided by one number for all."]
    lines += ["", *_rank_lines(cells, whole, methods, counts)]
    for labels in counts:
        lines += ["", f"## {labels} label{'s' * (labels > 1)} a class", ""]
        lines += ["Test error in per cent, mean ± standard error of the draws; the best in bold.", ""]
        lines += _rows_of([["", *methods], *_error_rows(cells, labels, methods, sizes)])
    if cut := [m for m in methods if any(_was_cut(METHODS[m], parts) for parts in sizes.values())]:
        limits = ", ".join(f"`{method}` {METHODS[method].most_rows:,}" for method in cut)
        lines += ["", f"\\* The method was given a part of the rows, all labelled ones among them: {limits}."]
    lines += _loss_lines(cells, whole, methods)
    lines += ["", "## The sets", "", "At most 20,000 training rows and 10,000 test rows of each are used.", ""]
    head = ["", "rows", "columns", "classes", "training rows", "test rows", "from"]
    lines += _rows_of([head, *(size_row(name, sizes[name]) for name in sizes)])
    return "\n".join(lines) + "\n"


def _rank_lines(cells: Cells, whole: Cells, methods: Sequence[str], counts: Sequence[int]) -> list[str]:
    if not whole:
        return ["No cell is done by all these methods with the same draws: there are no ranks yet."]
    places = ranks(whole, methods)
    rows = [["", "mean rank", *(f"{n} a class" for n in counts), "best in", "mean CPU seconds of a fit"]]
    for method in sorted(methods, key=lambda method: fmean(of[method] for of in places.values())):
        row = [f"`{method}`", f"{fmean(of[method] for of in places.values()):.2f}"]
        for labels in counts:
            at = [of[method] for cell, of in places.items() if cell.labels == labels]
            row.append(f"{fmean(at):.2f}" if at else "")
        best = sum(of[method] == min(of.values()) for of in places.values())
        rows.append([*row, f"{best}", f"{fmean(of[method].seconds for of in whole.values()):.2f}"])
    about = f"Ranks by mean error over the {len(whole)} cells, of {len(cells)}, that all these methods have done."
    return [about, "", *_rows_of(rows)]


def _error_rows(
    cells: Cells, labels: int, methods: Sequence[str], sizes: Mapping[str, data.Parts]
) -> Iterator[list[str]]:
    for cell, of in cells.items():
        if cell.labels != labels:
            continue
        best = min(summary.mean for summary in of.values())
        row = [cell.set]
        for method in methods:
            text = ""
            if summary := of.get(method):
                text = f"{summary.mean:.1f}"
                text = f"**{text}**" if summary.mean == best else text
                text += f" ± {summary.standard_error:.1f}" if len(summary.errors) > 1 else ""
                text += r" \*" if _was_cut(METHODS[method], sizes[cell.set]) else ""
            row.append(text)
        yield row


def _was_cut(method: Method, parts: data.Parts) -> bool:
    return method.most_rows is not None and len(parts.y_train) > method.most_rows


def _loss_lines(cells: Cells, whole: Cells, methods: Sequence[str]) -> list[str]:
    if "ladder" not in methods:
        return []
    lines = ["", "## Where the ladder is worse than the label-only MLP", ""]
    lines += ["By more than one standard error of the mean difference between the two, draw by draw:", ""]
    worse = list(behind(cells, "ladder", "mlp"))
    lines += [f"- {_name(cell)}: by {by:.2f} ± {error:.2f}" for cell, by, error in worse] or ["Nowhere."]
    lines += ["", "## Where the ladder is not best", ""]
    beaten = []
    for cell, of in whole.items():
        best = min(methods, key=lambda method: of[method].mean)
        if of["ladder"].mean > of[best].mean:
            beaten.append(f"- {_name(cell)}: {of['ladder'].mean:.1f}, `{best}` {of[best].mean:.1f}")
    return [*lines, f"In {len(beaten)} of {len(whole)} cells.", "", *beaten]


def _name(cell: Cell) -> str:
    return f"{cell.set}, {cell.labels} a class"


def _rows_of(rows: Sequence[Sequence[str]]) -> list[str]:
    head, *rest = (f"| {' | '.join(row)} |" for row in rows)
    return [head, f"|{'---|' * len(rows[0])}", *rest]


def size_row(name: str, parts: data.Parts) -> list[str]:
    sizes = (parts.rows, parts.columns, parts.classes, len(parts.y_train), len(parts.y_test))
    return [name, *(f"{n:,}" for n in sizes), data.SETS[name].where]


def _environment() -> str:
    versions = ", ".join(f"{name} {metadata.version(name)}" for name in ("laddernet", "scikit-learn", "jax", "numpy"))
    return f"Python {platform.python_version()}, {versions}, one core for each fit"


def table(cells: Cells) -> str:
    """The same as CSV: a row for each method in each cell."""
    methods = [method for method in METHODS if any(method in of for of in cells.values())]
    places = ranks(comparable(cells, methods), methods)
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(["set", "labels", "method", "draws", "error", "standard_error", "rank", "seconds"])
    for cell, of in cells.items():
        for method, s in of.items():
            error = f"{s.standard_error:.4f}" if len(s.errors) > 1 else ""
            rank = places.get(cell, {}).get(method, "")
            writer.writerow([*cell, method, len(s.errors), f"{s.mean:.4f}", error, rank, f"{s.seconds:.3f}"])
    return buffer.getvalue()


# --- The command ----------------------------------------------------------------------------------------------


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--methods", default=",".join(METHODS), help="of %(default)s, which are all")
    parser.add_argument("--sets", default=",".join(data.SETS), metavar="SETS", help="of those that --list shows")
    parser.add_argument("--labels", default=",".join(map(str, LABELS)), help="a class [default: %(default)s]")
    parser.add_argument("--draws", default=str(DRAWS), help="of the labels [default: %(default)s]")
    parser.add_argument("--jobs", default="1", help="processes, each on a core of its own [default: %(default)s]")
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "few-labels", help="folder of what comes out")
    parser.add_argument(
        "--forget", default="", metavar="METHODS", help="first drop what is kept of these methods on the sets"
    )
    parser.add_argument("--list", action="store_true", help="show the sets, and do nothing else")
    return parser.parse_args()


def names(text: str, known: Iterable[str], what: str) -> list[str]:
    """A list with commas, all of it known."""
    chosen = list(dict.fromkeys(filter(None, (name.strip() for name in text.split(",")))))
    if unknown := [name for name in chosen if name not in known]:
        raise InputError(f"{', '.join(unknown)}: no such {what}; there are {', '.join(known)}.")
    if not chosen:
        raise InputError(f"No {what} is named; there are {', '.join(known)}.")
    return chosen


def number(text: str, what: str) -> int:
    if not text.strip().isdecimal() or int(text) < 1:
        raise InputError(f"{what} is {text!r}; it must be a whole number of at least 1.")
    return int(text)


def available(chosen: Iterable[str], console: Console) -> dict[str, data.Parts]:
    """The sets that can be had, prepared; for those that cannot, a sentence says what they lack."""
    found = {}
    told = set()
    for name in chosen:
        try:
            with console.status(f"preparing {name}"):
                found[name] = data.load(name)
        except InputError as error:
            if str(error) not in told:
                console.print(f"Without {name} and its like: {error}", highlight=False, soft_wrap=True)
            told.add(str(error))
    return found


def plan(sizes: Mapping[str, data.Parts], labels: Sequence[int], draws: int, methods: Sequence[str]) -> list[Fit]:
    """All fits, but those of a count of labels that a class has not rows for."""
    return [
        Fit(name, n, draw, method)
        for name, parts in sizes.items()
        for n in labels
        if np.bincount(parts.y_train).min() >= n
        for draw in range(draws)
        for method in methods
    ]


def benchmark(asked: argparse.Namespace, console: Console) -> int:
    chosen = names(asked.sets, data.SETS, "set")
    methods = names(asked.methods, METHODS, "method")
    labels = [number(n, "A count of --labels") for n in asked.labels.split(",")]
    draws, jobs = number(asked.draws, "--draws"), number(asked.jobs, "--jobs")
    if jobs > (cores := len(os.sched_getaffinity(0))):
        raise InputError(f"--jobs is {jobs}; each has a core of its own, and this process may use {cores}.")
    dropped = names(asked.forget, METHODS, "method") if asked.forget else []
    sizes = available(chosen, console)
    if asked.list:
        rows = [["", "rows", "columns", "classes", "training rows", "test rows", "from"]]
        print("\n".join(_rows_of(rows + [size_row(name, parts) for name, parts in sizes.items()])))
        return 0
    path = asked.out / "results.jsonl"
    with writing(asked.out):
        asked.out.mkdir(parents=True, exist_ok=True)
    forget(path, dropped, chosen)
    done = kept(path)
    todo = [fit for fit in plan(sizes, labels, draws, methods) if fit not in done]
    failures = run(todo, jobs, path, console)
    cells = summarise(kept(path))
    if cells:
        # The file may hold sets that were not asked for this time.
        sizes |= available({cell.set for cell in cells} - sizes.keys(), console)
        cells = {cell: of for cell, of in cells.items() if cell.set in sizes}
        shown = {name: sizes[name] for name in data.SETS if name in {cell.set for cell in cells}}
        write_atomic(asked.out / "table.md", markdown(cells, shown).encode())
        write_atomic(asked.out / "table.csv", table(cells).encode())
        print(f"{len(todo) - len(failures)} fits done now, {len(done)} before: {asked.out / 'table.md'}")
    for failure in failures:
        print(f"Failed: {failure}", file=sys.stderr)
    return 1 if failures else 0


def main() -> int:
    console = Console(stderr=True)
    try:
        return benchmark(arguments(), console)
    except InputError as error:
        print(error, file=sys.stderr)
        return 2
    except BrokenProcessPool:
        print("A process was killed, perhaps for want of memory; the same command goes on from here.", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("Stopped; the same command goes on from here.", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())

"""Few labels: LadderClassifier beside other methods, over many data sets and draws of the labels.

    python benchmarks/few_labels.py [--half report] [--sets digits,moons] [--methods ladder,mlp] [--labels 3,10]

A fit is one method on one set with one number of labels per class, chosen by a seed; every method gets the same rows
and labels, and is measured on the set's test rows. Each fit is one line of ``results.jsonl``: the benchmark may be
stopped at any time, and the same command resumes it. A number of labels that exceeds the rows of a class is left out.
At the end ``table.md`` and ``table.csv`` are made from all lines.

The sets are in two halves (`few_labels_halves`). Choices, such as a default of LadderClassifier, are made by the
half "choose"; reported figures come from the half "report", which is not used for any choice.
"""

import argparse
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

import few_labels_data as data
import few_labels_halves as halves
import numpy as np
from few_labels_comparison import summarise
from few_labels_methods import METHODS, check_installed, measure
from few_labels_page import SIZES, markdown, rows_of, size_row, table
from few_labels_results import Fit, forget, keep, kept
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from laddernet.errors import InputError
from laddernet.files import write_atomic, writing

ROOT = Path(__file__).parent.parent
LABELS, DRAWS = (1, 5, 10, 50), 5
# Set before a worker imports libraries that count cores.
ONE_THREAD = {f"{library}_NUM_THREADS": "1" for library in ("OMP", "OPENBLAS", "MKL")}


def _begin(cores: Any) -> None:
    """Prepare a worker: it has one core, prints no traceback on Ctrl-C, and ends with the process that started it."""
    os.sched_setaffinity(0, {cores.get()})
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    if parent := multiprocessing.parent_process():
        wait([parent.sentinel])
        os._exit(1)


def run(fits: Sequence[Fit], jobs: int, path: Path, console: Console) -> list[str]:
    """Do all fits, and keep each as soon as it is done; return a line for each that failed and must be done again."""
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


# --- The command ----------------------------------------------------------------------------------------------


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--methods", default=",".join(METHODS), help="of %(default)s, which are all")
    parser.add_argument("--half", choices=[*halves.HALVES, "both"], default="both", help="of the sets [default: both]")
    parser.add_argument("--sets", default=",".join(data.SETS), metavar="SETS", help="of those that --list shows")
    parser.add_argument("--labels", default=",".join(map(str, LABELS)), help="a class [default: %(default)s]")
    parser.add_argument("--draws", default=str(DRAWS), help="of the labels [default: %(default)s]")
    parser.add_argument("--jobs", default="1", help="processes, each on a core of its own [default: %(default)s]")
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "few-labels", help="folder of the results")
    parser.add_argument(
        "--forget", default="", metavar="METHODS", help="first delete the kept results of these methods on the sets"
    )
    parser.add_argument(
        "--against", default="blend", choices=METHODS, metavar="METHOD", help="tests compare with it [%(default)s]"
    )
    parser.add_argument("--page", action="store_true", help="fit nothing; make the tables from the kept results")
    parser.add_argument("--list", action="store_true", help="show the sets, and do nothing else")
    return parser.parse_args()


def names(text: str, known: Iterable[str], what: str) -> list[str]:
    """Parse a list with commas; refuse unknown names."""
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
    """Prepare the sets that can be loaded; print the reason for the others, each reason once."""
    found = {}
    printed = set()
    for name in chosen:
        try:
            with console.status(f"preparing {name}"):
                found[name] = data.load(name)
        except InputError as error:
            if str(error) not in printed:
                console.print(f"Without {name} and similar sets: {error}", highlight=False, soft_wrap=True)
            printed.add(str(error))
    return found


def plan(sizes: Mapping[str, data.Parts], labels: Sequence[int], draws: int, methods: Sequence[str]) -> list[Fit]:
    """Return all fits, but those of a number of labels that exceeds the rows of a class."""
    return [
        Fit(name, n, draw, method)
        for name, parts in sizes.items()
        for n in labels
        if np.bincount(parts.y_train).min() >= n
        for draw in range(draws)
        for method in methods
    ]


def benchmark(asked: argparse.Namespace, console: Console) -> int:
    chosen = [name for name in names(asked.sets, data.SETS, "set") if asked.half in (halves.half(name), "both")]
    methods = names(asked.methods, METHODS, "method")
    labels = [number(n, "A count of --labels") for n in asked.labels.split(",")]
    draws, jobs = number(asked.draws, "--draws"), number(asked.jobs, "--jobs")
    if jobs > (cores := len(os.sched_getaffinity(0))):
        raise InputError(f"--jobs is {jobs}; each has a core of its own, and this process may use {cores}.")
    dropped = names(asked.forget, METHODS, "method") if asked.forget else []
    sizes = available(chosen, console)
    if asked.list:
        print("\n".join(rows_of([SIZES, *(size_row(name, parts) for name, parts in sizes.items())])))
        return 0
    check_installed([] if asked.page else methods)
    path = asked.out / "results.jsonl"
    with writing(asked.out):
        asked.out.mkdir(parents=True, exist_ok=True)
    forget(path, dropped, chosen)
    done = kept(path)
    todo = [fit for fit in plan(sizes, labels, draws, methods) if fit not in done and not asked.page]
    failures = run(todo, jobs, path, console) if todo else []
    cells = summarise(kept(path))
    if cells:
        # The file may hold sets that were not asked for this time.
        sizes |= available({cell.set for cell in cells} - sizes.keys(), console)
        cells = {cell: of for cell, of in cells.items() if cell.set in sizes}
        shown = {name: sizes[name] for name in data.SETS if name in {cell.set for cell in cells}}
        write_atomic(asked.out / "table.md", markdown(cells, shown, asked.against).encode())
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
        print("A process was killed, perhaps for lack of memory; the same command goes on from here.", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("Stopped; the same command goes on from here.", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())

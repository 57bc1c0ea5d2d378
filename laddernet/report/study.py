"""The report of a study: the table in the terminal and in files, and the page."""

import csv
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from itertools import count
from pathlib import Path

import jax
from rich.console import Console

from laddernet.data import Dataset, load
from laddernet.errors import InputError
from laddernet.files import content_of, write_atomic, writing
from laddernet.machine import cores
from laddernet.report import writers
from laddernet.report.page import PageData, Pictures, RunData, page
from laddernet.report.pictures import combinator_surfaces, denoising, samples
from laddernet.report.status import Status
from laddernet.report.tables import Table
from laddernet.study.plan import Key, Plan, cell, read_plan
from laddernet.study.store import Run, Store
from laddernet.text import say, visible
from laddernet.training.config import Config
from laddernet.training.run import default_folder, load_run


def write_report(folder: Path, store: Store, out: Console, *, html: bool) -> int:
    """Print the table and write its files, with ``html`` the page too; return the number of failed runs."""
    plan = read_plan(folder)
    status = Status.of(store, plan.configs, plan.revisions, plan.untuned, history=html)
    table = status.table()
    written = {
        "table.md": writers.to_markdown(table),
        "table.csv": writers.to_csv(table),
        "table.tex": writers.to_latex(table),
    }
    if html:
        written["report.html"] = page(_page_data(folder, status, table, plan))
    _keep_fuller(folder, list(written), status.count("done"))
    for name, text in written.items():
        write_atomic(folder / name, text.encode())
    out.print(writers.to_rich(table))
    out.print(visible(f"Written to {folder}: {', '.join(written)}"), highlight=False, markup=False, soft_wrap=True)
    for failure in status.failures():
        say(failure)
    return status.count("failed")


def _keep_fuller(folder: Path, names: list[str], finished: int) -> None:
    """Rename the files that would be replaced, if the table there has more finished runs than the new one."""
    old = folder / "table.csv"
    if not old.exists():
        return
    content = content_of(old)
    try:
        before = writers.finished_runs(content.decode())
    except (ValueError, KeyError, TypeError, csv.Error):
        before = None  # another program's file, or a damaged one
    if before is not None and before <= finished:
        return
    places = (f"previous-{number}" if number > 1 else "previous" for number in count(1))
    place = next(place for place in places if not any((folder / _named(name, place)).exists() for name in names))
    with writing(folder):
        for name in names:
            if (folder / name).exists():
                (folder / name).rename(folder / _named(name, place))
    held = "cannot be read" if before is None else f"has {before} finished runs, the new one {finished}"
    kept = f"the old files are kept as table.{place}.*"
    say(f"The table in {folder} {held}; {kept}, if that is unexpected, check --store.")


def _named(name: str, place: str) -> str:
    """Insert a word before a file name's suffix.

    >>> _named("table.md", "previous")
    'table.previous.md'
    """
    stem, _, suffix = name.partition(".")
    return f"{stem}.{place}.{suffix}"


def _page_data(folder: Path, status: Status, table: Table, plan: Plan) -> PageData:
    cells: dict[Key, list[Run]] = {}
    for run in status.runs:
        config = status.configs[run.fingerprint]
        if run.status == "done" and (folder / default_folder(config)).exists():
            cells.setdefault(cell(config), []).append(run)
    dataset = _data_of(folder, plan) if cells else None  # imported runs have no folder, and need no data

    def of_cell(runs: list[Run]) -> Pictures | None:
        """Make the pictures of the first run, in the order of seeds, whose folder can be read."""
        if dataset is None:
            return None
        found = (_pictures(folder, run, status.configs[run.fingerprint], dataset) for run in runs)
        return next((pictures for pictures in found if pictures is not None), None)

    with ThreadPoolExecutor(cores()) as pool:  # most of the time is compiling, which releases the interpreter
        pictures = [found for found in pool.map(of_cell, cells.values()) if found is not None]
    return PageData(
        title=f"Ladder Networks on {table.data}",
        data=table.data,
        created=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        command=plan.command,
        table=table,
        runs=[_run_data(run, status.configs[run.fingerprint]) for run in status.runs],
        pictures=pictures,
    )


def _data_of(folder: Path, plan: Plan) -> Dataset | None:
    """Load the data of a study; None, with a notice, if a user's file is no longer there or has changed."""
    config = next(iter(plan.configs.values()))
    if config.content is None:
        return load(config.data)
    if plan.data is None:  # the runs are imported
        return None
    file = folder / plan.data
    try:
        dataset = load(file)
        if dataset.content != config.content:
            raise InputError(f"{file} has changed since the study.")
    except InputError as error:
        say(f"The page has no pictures of the networks: {error}")
        return None
    return dataset


def _run_data(run: Run, config: Config) -> RunData:
    result = run.result or {}
    return RunData(
        run.fingerprint,
        config.model,
        config.labels,
        config.seed,
        run.status,
        error=result.get("test_error"),
        seconds=result.get("seconds"),
        config=run.config,
        environment=run.environment or {},
        history=run.history or (),
        message=run.error,
    )


def _pictures(folder: Path, run: Run, config: Config, dataset: Dataset) -> Pictures | None:
    """Make the pictures of a run if its folder is on this machine and its network has a decoder."""
    try:
        _, trained = load_run(folder / default_folder(config))
    except InputError:
        return None
    ladder, shape, key = trained.ladder, dataset.image_shape, jax.random.key(config.seed)
    if not ladder.decoder:
        return None
    return Pictures(
        run.fingerprint,
        combinator_surfaces(ladder),
        denoising(ladder, dataset.x_test[:100], config.noise, key=key, image_shape=shape),
        None if shape is None else samples(ladder, dataset.x_train, config.noise, config.recon_weights, shape),
    )

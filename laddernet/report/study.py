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
from laddernet.files import reading, write_atomic, writing
from laddernet.machine import cores
from laddernet.report import writers
from laddernet.report.page import PageData, Pictures, RunData, page
from laddernet.report.pictures import combinator_surfaces, denoising
from laddernet.report.status import Status
from laddernet.report.tables import Table
from laddernet.study.plan import Key, cell, read_plan
from laddernet.study.store import Run, Store
from laddernet.text import say, visible
from laddernet.training.config import Config
from laddernet.training.run import default_folder, load_run


def write_report(folder: Path, store: Store, out: Console, *, html: bool) -> int:
    """Print the table and write its files, with ``html`` the page too; return the number of failed runs."""
    configs, _, command, revisions = read_plan(folder)
    status = Status.of(store, configs, revisions, history=html)
    table = status.table()
    written = {
        "table.md": writers.to_markdown(table),
        "table.csv": writers.to_csv(table),
        "table.tex": writers.to_latex(table),
    }
    if html:
        written["report.html"] = page(_page_data(folder, status, table, command))
    _keep_fuller(folder, list(written), status.count("done"))
    for name, text in written.items():
        write_atomic(folder / name, text.encode())
    out.print(writers.to_rich(table))
    out.print(visible(f"Written to {folder}: {', '.join(written)}"), highlight=False, markup=False, soft_wrap=True)
    for run in status.runs:
        if run.status == "failed":
            config = configs[run.fingerprint]
            say(f"failed: {config.model}, {config.labels} labels, seed {config.seed}: {run.error}")
    return status.count("failed")


def _keep_fuller(folder: Path, names: list[str], finished: int) -> None:
    """Rename the files that would be replaced, if the table there has more finished runs than the new one."""
    old = folder / "table.csv"
    if not old.exists():
        return
    with reading(old):
        content = old.read_bytes()
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


def _page_data(folder: Path, status: Status, table: Table, command: str) -> PageData:
    cells: dict[Key, list[Run]] = {}
    for run in status.runs:
        config = status.configs[run.fingerprint]
        if run.status == "done" and (folder / default_folder(config)).exists():
            cells.setdefault(cell(config), []).append(run)
    dataset = load(table.data) if cells else None  # imported runs have no folder, and need no data

    def of_cell(runs: list[Run]) -> Pictures | None:
        """Make the pictures of the first run, in the order of seeds, whose folder can be read."""
        assert dataset is not None
        found = (_pictures(folder, run, status.configs[run.fingerprint], dataset) for run in runs)
        return next((pictures for pictures in found if pictures is not None), None)

    with ThreadPoolExecutor(cores()) as pool:  # most of the time is compiling, which releases the interpreter
        pictures = [found for found in pool.map(of_cell, cells.values()) if found is not None]
    return PageData(
        title=f"Ladder Networks on {table.data}",
        data=table.data,
        created=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        command=command,
        table=table,
        runs=[_run_data(run, status.configs[run.fingerprint]) for run in status.runs],
        pictures=pictures,
    )


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
    if not trained.ladder.decoder:
        return None
    return Pictures(
        run.fingerprint,
        combinator_surfaces(trained.ladder),
        denoising(
            trained.ladder,
            dataset.x_test[:100],
            config.noise,
            key=jax.random.key(config.seed),
            image_shape=dataset.image_shape,
        ),
    )

"""What a study comes to: the table in the terminal and in files, and the page."""

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
from laddernet.report import tables
from laddernet.report.page import PageData, Pictures, RunData, page
from laddernet.report.pictures import combinator_surfaces, denoising
from laddernet.report.status import Status
from laddernet.report.tables import finished_runs
from laddernet.study.plan import Key, cell, read_plan
from laddernet.study.store import Run, Store
from laddernet.text import say, visible
from laddernet.training.config import Config
from laddernet.training.run import default_folder, load_run


def write_report(folder: Path, store: Store, out: Console, *, html: bool) -> int:
    """Print the table and write it as files, the page too if asked for; return how many runs failed."""
    configs, _, command, revisions = read_plan(folder)
    status = Status.of(store, configs, revisions, history=html)
    table = status.table()
    written = {
        "table.md": tables.to_markdown(table),
        "table.csv": tables.to_csv(table),
        "table.tex": tables.to_latex(table),
    }
    if html:
        written["report.html"] = page(_page_data(folder, status, table, command))
    _keep_fuller(folder, list(written), status.count("done"))
    for name, text in written.items():
        write_atomic(folder / name, text.encode())
    out.print(tables.to_rich(table))
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
        before = finished_runs(content.decode())
    except (ValueError, KeyError, TypeError, csv.Error):
        before = None  # it is not ours, or damaged
    if before is not None and before <= finished:
        return
    places = (f"previous-{number}" if number > 1 else "previous" for number in count(1))
    place = next(place for place in places if not any((folder / _named(name, place)).exists() for name in names))
    with writing(folder):
        for name in names:
            if (folder / name).exists():
                (folder / name).rename(folder / _named(name, place))
    held = "cannot be read" if before is None else f"has {before} finished runs, the new one {finished}"
    advice = "if that is not as it should be, check --store"
    say(f"The table in {folder} {held}; the old files are kept as table.{place}.*, {advice}.")


def _named(name: str, place: str) -> str:
    """
    >>> _named("table.md", "previous")
    'table.previous.md'
    """
    stem, _, suffix = name.partition(".")
    return f"{stem}.{place}.{suffix}"


def _page_data(folder: Path, status: Status, table: tables.Table, command: str) -> PageData:
    dataset = load(table.data)
    cells: dict[Key, list[Run]] = {}
    for run in status.runs:
        if run.status == "done":
            cells.setdefault(cell(status.configs[run.fingerprint]), []).append(run)

    def of_cell(runs: list[Run]) -> Pictures | None:
        """Those of the first run, in the order of seeds, whose weights are at hand."""
        found = (_pictures(folder, run, status.configs[run.fingerprint], dataset) for run in runs)
        return next((pictures for pictures in found if pictures is not None), None)

    with ThreadPoolExecutor(cores()) as pool:  # most of it is compiling, which lets other threads go on
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
    """What a run learned, if its folder is on this machine and it has a decoder."""
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

"""The commands ``laddernet study`` and ``laddernet report``."""

import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console, RenderableType
from rich.live import Live

from laddernet.cli import runs
from laddernet.cli.options import names_in, stoppable
from laddernet.errors import AbsentError, InputError
from laddernet.files import writing
from laddernet.text import say, show

if TYPE_CHECKING:
    from laddernet.report.status import Status
    from laddernet.study.plan import Preset
    from laddernet.study.store import Store

_out = Console()
_err = Console(stderr=True)


def study(
    what: Annotated[
        str, typer.Argument(help="A preset (demo, mnist-100, paper), or 'status', 'export' or 'import'.")
    ] = "demo",
    paths: Annotated[
        list[Path] | None,
        typer.Argument(help="For 'export': a study's folder and a file; for 'import': a file and a study's folder."),
    ] = None,
    models: Annotated[str | None, typer.Option(help="Models, as in vanilla,linear,my.py:Mine. [default: all]")] = None,
    labels: Annotated[
        str | None, typer.Option(help="Numbers of labels, as in 100,1000,all. [default: the preset's]")
    ] = None,
    seeds: Annotated[int | None, typer.Option(help="Number of seeds, from 1 on. [default: the preset's]")] = None,
    recipe: Annotated[str | None, typer.Option(help=runs.RECIPE)] = None,
    epochs: Annotated[int | None, typer.Option(help="Passes over the unlabelled rows.")] = None,
    data_name: Annotated[str | None, typer.Option("--data", help=runs.DATA)] = None,
    target: runs.Target = None,
    test_share: runs.TestShare = None,
    split: runs.Split = None,
    unlabeled: runs.Unlabeled = None,
    hidden: runs.Hidden = None,
    batch_size: runs.BatchSize = None,
    labelled_batch_size: runs.LabelledBatchSize = None,
    copies: runs.Copies = None,
    precision: runs.Precision = "float32",
    validation: Annotated[int, typer.Option(help="Training rows held out, for the learning curves only.")] = 0,
    tuned: runs.Tuned = None,
    out_folder: Annotated[
        Path | None, typer.Option("--out", help="The study's folder. [default: study-PRESET]")
    ] = None,
    store_name: runs.StoreName = None,
    jobs: runs.Jobs = None,
    executor_name: runs.ExecutorName = "local",
    address: runs.Address = None,
    cpus_per_run: runs.CpusPerRun = None,
    gpus_per_run: runs.GpusPerRun = None,
    storage_name: runs.StorageName = None,
    checkpoint_every: runs.CheckpointEvery = 60.0,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the plan and stop.")] = False,
    retry_failed: Annotated[bool, typer.Option("--retry-failed", help="Run failed runs again.")] = False,
) -> None:
    """Train every model with every number of labels and several seeds, and print the table.

    The same command again runs only what is missing. `laddernet study status --out DIR` shows the progress from another
    terminal. `laddernet study export DIR FILE` writes all finished runs to one text file, and `laddernet study import
    FILE DIR` adds them to another study, which then goes on from there.
    """
    runs.require_study()
    command = ["laddernet", *sys.argv[1:]]
    if what in ("export", "import"):
        if paths is None or len(paths) != 2 or out_folder is not None:
            needed = "a study's folder and a file" if what == "export" else "a file and a study's folder"
            raise InputError(f"laddernet study {what} takes {needed}.")
        act = _export if what == "export" else _import
        act(paths[0], paths[1], store_name)
        return
    if paths:
        raise InputError(f"laddernet study {what} takes no {str(paths[0])!r}; name the study's folder with --out.")
    if what == "status":
        _show_status(out_folder, store_name)
        return
    from laddernet import checks
    from laddernet.machine import cores
    from laddernet.report.status import Status, estimate
    from laddernet.report.study import write_report
    from laddernet.study.addresses import has_no_password, without_passwords
    from laddernet.study.driver import drive
    from laddernet.study.plan import keep_plan, plan, preset
    from laddernet.study.store import Store
    from laddernet.training.settings import precision_notice
    from laddernet.training.tuned import choice, untuned

    checks.number("--checkpoint-every", checkpoint_every)
    asked = _asked(preset(what), models, labels, seeds, recipe, epochs, data_name)
    folder = out_folder or Path(f"study-{what}")
    dataset, file = runs.load_data(asked.data, target, test_share, split, unlabeled)
    configs = plan(
        dataset,
        asked,
        hidden=runs.layer_sizes(hidden),
        batch_size=batch_size,
        labelled_batch_size=labelled_batch_size,
        copies=copies,
        precision=precision,
        validation=validation,
        tuned=choice(tuned),
    )

    if notice := precision_notice(precision):
        say(notice)
    executor = runs.choose_executor(
        executor_name,
        folder,
        jobs=jobs,
        address=address,
        cpus=cpus_per_run,
        gpus=gpus_per_run,
        storage=storage_name,
        dry_run=dry_run,
    )
    shown_store = store_name or str(folder / "study.db")
    if dry_run:
        try:
            with closing(Store.open(shown_store, create=False)) as held:
                status = Status.of(held, configs)
        except AbsentError:
            status = Status(configs, [])
    else:
        with writing(folder):
            folder.mkdir(parents=True, exist_ok=True)
        store = Store.open(shown_store)
        if retry_failed:
            store.retry_failed(list(configs))
        status = Status.of(store, configs)
    first = next(iter(configs.values()))
    network = (dataset.n_features, *first.hidden, dataset.n_classes)
    cores_each = cpus_per_run or 1 if executor_name == "ray" else cores() / executor.slots
    seconds = estimate(status, network, len(dataset.x_train), executor.slots, cores_each)
    _show_plan(replace(asked, data=dataset.name), status, seconds, executor.slots, folder)
    if dry_run:
        executor.close()
        return

    public = store_name if store_name and has_no_password(store_name) else None  # no password goes into a file
    hidden_command = without_passwords(command, store_name)
    file = runs.workers_file(dataset, file, folder)
    tuning = _as_options(
        data=asked.data,
        target=target,
        test_share=test_share,
        split=split,
        unlabeled=unlabeled,
        recipe=asked.recipe,
        epochs=asked.epochs,
        hidden=hidden,
        batch_size=batch_size,
        labelled_batch_size=labelled_batch_size,
        copies=copies,
        precision=precision,
        write=f"tuned-{dataset.name}.toml",
    )
    without = untuned(configs, (dataset.n_features, dataset.n_classes), choice(tuned))
    left = keep_plan(
        folder,
        configs,
        store=public,
        command=shlex.join(hidden_command),
        data=None if file is None else file.name if file.parent == folder.resolve() else str(file),
        untuned=dict.fromkeys(without, tuning),
    )
    if replaced := sum(run.status == "done" for run in store.runs(left)):
        why = "their cells are now computed with other settings, data or code"
        say(f"{replaced} finished runs leave the table: {why}; they stay in {store.name}.")
    stopped = f"Stopped; {folder} keeps what is done and the checkpoints. To go on: {shlex.join(hidden_command)}"
    with stoppable(stopped), _shown(lambda: Status.of(store, configs).shown(slots=executor.slots)) as on_change:
        drive(
            store,
            configs,
            executor,
            folder,
            command=hidden_command,
            checkpoint_every=checkpoint_every,
            on_change=on_change,
            data=file,
        )
    failed = write_report(folder, store, _out, html=True)
    store.close()
    if failed:
        raise typer.Exit(1)


def report(
    folder: Annotated[Path, typer.Option("--out", help="The study's folder.")],
    store_name: runs.StoreName = None,
    html: Annotated[bool, typer.Option("--html", help="Also write the page report.html.")] = False,
) -> None:
    """Print a study's table beside the paper's; write it as Markdown, CSV and LaTeX, and as a page."""
    runs.require_study()
    from laddernet.report.study import write_report

    with closing(_open(folder, store_name)) as store:
        write_report(folder, store, _out, html=html)


def _asked(
    what: "Preset",
    models: str | None,
    labels: str | None,
    seeds: int | None,
    recipe: str | None,
    epochs: int | None,
    data: str | None,
) -> "Preset":
    """Return the preset with the changes of the options."""
    from laddernet.network.models import find
    from laddernet.training.settings import recipe_named

    if models is not None:  # as CSV: the name of a file may have a comma, in quotes
        what = replace(what, models=tuple(find(name).id for name in names_in(models) or [models]))
    if recipe is not None:
        what = replace(what, recipe=recipe, epochs=recipe_named(recipe).epochs)
    if labels is not None:
        what = replace(what, labels=tuple(map(runs.label_count, labels.split(","))))
    if data is not None:
        what = replace(what, data=data)
    return replace(
        what,
        seeds=what.seeds if seeds is None else seeds,
        epochs=what.epochs if epochs is None else epochs,
    )


def _as_options(**values: object) -> str:
    """Write options of a command, without those that are None.

    >>> _as_options(data="my wine.csv", test_share=0.2, split=None)
    "--data 'my wine.csv' --test-share 0.2"
    """
    given = ((f"--{name.replace('_', '-')}", str(value)) for name, value in values.items() if value is not None)
    return shlex.join(word for option in given for word in option)


def _show_plan(asked: "Preset", status: "Status", seconds: float, slots: int, folder: Path) -> None:
    from laddernet.report.status import duration

    total, done, failures = len(status.configs), status.count("done"), status.count("failed")
    counts = ", ".join(map(str, asked.labels))
    show(f"{asked.data}: {len(asked.models)} models × {counts} labels × {asked.seeds} seeds = {total} runs in {folder}")
    failed = f", {failures} failed" if failures else ""
    left = "nothing left to run"
    if done + failures < total:
        left = f"about {duration(seconds)} for the rest, {slots} at a time"
    print(f"{done} done{failed}; {left}", flush=True)


def _open(folder: Path, store_name: str | None) -> "Store":
    from laddernet.study.plan import read_plan
    from laddernet.study.store import Store

    named = read_plan(folder).store
    return Store.open(store_name or named or folder / "study.db", create=False)


def _show_status(folder: Path | None, store_name: str | None) -> None:
    from laddernet.report.status import Status
    from laddernet.study.plan import read_plan

    if folder is None:
        raise InputError("--out is missing; name the study's folder.")
    with closing(_open(folder, store_name)) as store:
        held = read_plan(folder)
        _out.print(Status.of(store, held.configs, held.revisions, held.untuned).shown())


def _export(folder: Path, file: Path, store_name: str | None) -> None:
    from laddernet.report.status import Status
    from laddernet.study.exchange import export_runs
    from laddernet.study.plan import read_plan

    plan = read_plan(folder)
    with closing(_open(folder, store_name)) as store:
        finished = [run for run in Status.of(store, plan.configs, history=True).runs if run.status == "done"]
    count = export_runs(file, finished, plan.revisions)
    show(f"{len(finished)} finished runs of {folder}; {file} holds {count} runs.")


def _import(file: Path, folder: Path, store_name: str | None) -> None:
    from laddernet.study.addresses import has_no_password
    from laddernet.study.exchange import read_runs
    from laddernet.study.plan import extend_plan, read_plan
    from laddernet.study.store import Store
    from laddernet.training.config import Config

    found, refused = read_runs(file)
    for sentence in refused:
        say(sentence)
    if found:
        with writing(folder):
            folder.mkdir(parents=True, exist_ok=True)
        configs = {fingerprint: Config.from_json(run["config"]) for fingerprint, run in found.items()}
        command = shlex.join(["laddernet", "study", "import", str(file), str(folder)])
        public = store_name if store_name and has_no_password(store_name) else None
        left_out = extend_plan(folder, configs, store=public, command=command)
        with closing(Store.open(store_name or read_plan(folder).store or folder / "study.db")) as store:
            new = store.add_finished(found)
        show(
            f"{file} holds {_count(len(found))}; {_count(len(new))} {'is' if len(new) == 1 else 'are'} new in {folder}."
        )
        if left_out:
            advice = "the command of a study that uses those settings puts them into its table"
            say(f"{_count(len(left_out))} have other settings than the cells of this study's table; {advice}.")
    if refused:
        raise typer.Exit(1)


def _count(count: int) -> str:
    return "1 run" if count == 1 else f"{count} runs"


@contextmanager
def _shown(view: Callable[[], RenderableType]) -> Iterator[Callable[[], None]]:
    """Show a live view on a terminal, nothing elsewhere; the yielded function updates it."""
    if not _err.is_terminal:
        yield lambda: None
        return
    with Live(console=_err, refresh_per_second=2, transient=True) as live:
        yield lambda: live.update(view())

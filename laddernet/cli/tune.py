"""The command ``laddernet tune``."""

import shlex
import sys
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from laddernet.cli import runs
from laddernet.cli.options import stoppable
from laddernet.errors import InputError
from laddernet.files import write_atomic, writing
from laddernet.text import say, show, visible

if TYPE_CHECKING:
    from optuna.trial import FrozenTrial

    from laddernet.tune.search import Search

_out = Console()


def tune(
    what: Annotated[
        list[str] | None, typer.Argument(help="Models, or 'all'; or 'report' and the models to show in full.")
    ] = None,
    data_name: runs.DataName = "digits",
    target: runs.Target = None,
    test_share: runs.TestShare = None,
    split: runs.Split = None,
    unlabeled: runs.Unlabeled = None,
    labels: runs.Labels = "100",
    sampler: Annotated[str, typer.Option(help="How values are chosen: tpe, random or grid.")] = "tpe",
    trials: Annotated[
        int | None, typer.Option(help="Number of trials for each model. [default: 50, or the whole grid]")
    ] = None,
    draws: Annotated[int, typer.Option(help="Label draws over which the error of a trial is averaged.")] = 3,
    recipe: runs.Recipe = "paper",
    epochs: Annotated[int, typer.Option(help="Passes over the unlabelled rows.")] = 50,
    validation: Annotated[
        int | None, typer.Option(help="Training rows held out, on which the error is measured. [default: a sixth]")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the sampler.")] = 0,
    prune: Annotated[bool, typer.Option(help="End a trial early if its first draws are bad.")] = True,
    space_file: Annotated[Path | None, typer.Option("--space", help="TOML file that changes the search space.")] = None,
    also: Annotated[str, typer.Option(help="Optional hyperparameters to search: noise_hidden,learning_rate.")] = "",
    show_space: Annotated[bool, typer.Option("--show-space", help="Print the search space as TOML, and stop.")] = False,
    hidden: runs.Hidden = None,
    batch_size: runs.BatchSize = None,
    labelled_batch_size: runs.LabelledBatchSize = None,
    copies: runs.Copies = None,
    precision: runs.Precision = "float32",
    checkpoint_every: runs.CheckpointEvery = 60.0,
    out_folder: Annotated[
        Path | None, typer.Option("--out", help="The folder of the searches. [default: tune-DATA]")
    ] = None,
    store_name: runs.StoreName = None,
    jobs: runs.Jobs = None,
    executor_name: runs.ExecutorName = "local",
    address: runs.Address = None,
    cpus_per_run: runs.CpusPerRun = None,
    gpus_per_run: runs.GpusPerRun = None,
    storage_name: runs.StorageName = None,
    write: Annotated[
        Path | None, typer.Option(help="Write the best values to this TOML file, for --tuned of train and study.")
    ] = None,
) -> None:
    """Search for the noise, λ, η and learning rate of a model, on validation rows.

    The same command again goes on where it stopped. `laddernet tune report --out DIR` shows the results.
    """
    runs.require_study()
    from laddernet import checks
    from laddernet.data import is_file
    from laddernet.network.models import MODELS, find
    from laddernet.study.addresses import without_passwords
    from laddernet.study.driver import drive
    from laddernet.study.store import Store
    from laddernet.training.settings import precision_notice
    from laddernet.tune.search import Search, check_search, more, open_storage
    from laddernet.tune.space import Spaces

    command = ["laddernet", *sys.argv[1:]]
    if not what:
        raise InputError("No model is named; name the models to tune, as in `laddernet tune vanilla`, or 'all'.")
    folder = out_folder or Path(f"tune-{Path(data_name).stem if is_file(data_name) else data_name}")
    if what[0] == "report":
        _report(folder, store_name, [find(model).id for model in what[1:]], write)
        return
    models = list(MODELS) if what == ["all"] else [find(model).id for model in dict.fromkeys(what)]
    spaces = Spaces(space_file)
    if show_space:
        print("\n".join(spaces.to_toml(model) for model in models), end="")
        return
    check_search(sampler, trials, draws, seed)
    checks.number("--checkpoint-every", checkpoint_every)
    hidden_command = without_passwords(command, store_name)
    dataset, file = runs.load_data(data_name, target, test_share, split, unlabeled)
    rows = dataset.training_rows()
    chosen = {model: spaces.of(model, [name.strip() for name in also.split(",") if name.strip()]) for model in models}
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    file = runs.workers_file(dataset, file, folder)
    del dataset  # from here on without test rows
    executor = runs.choose_executor(
        executor_name, folder, jobs=jobs, address=address, cpus=cpus_per_run, gpus=gpus_per_run, storage=storage_name
    )
    store = Store.open(store_name or folder / "tune.db")
    storage = open_storage(store)
    searches = [
        Search(
            rows,
            store,
            storage,
            chosen[model],
            model=model,
            labels=runs.label_count(labels),
            sampler=sampler,
            trials=trials,
            draws=draws,
            seed=seed,
            prune=prune,
            command=shlex.join(hidden_command),
            on_end=_show_end,
            recipe=recipe,
            epochs=epochs,
            validation=validation,
            hidden=runs.layer_sizes(hidden),
            batch_size=batch_size,
            labelled_batch_size=labelled_batch_size,
            copies=copies,
            precision=precision,
        )
        for model in models
    ]
    if notice := precision_notice(precision):
        say(notice)
    most = sum(search.limit for search in searches)
    size = f"{len(models)} models, {most} trials of {draws} draws of {epochs} epochs"
    show(f"{rows.name}, {labels} labels: {size} in {folder}", flush=True)
    with stoppable(f"Stopped; {folder} keeps all trials. To go on: {shlex.join(hidden_command)}"):
        drive(
            store,
            {},
            executor,
            folder / "draws",
            command=hidden_command,
            checkpoint_every=checkpoint_every,
            more=partial(more, store, searches),
            test=False,
            data=file,
        )
    _report(folder, store_name, models if len(models) == 1 else [], write)
    without = [search.plan.model for search in searches if search.best() is None]
    storage.engine.dispose()
    store.close()
    if without:
        raise typer.Exit(1)


def _show_end(search: "Search", trial: "FrozenTrial") -> None:
    """Print a line about a trial that has ended."""
    errors = trial.user_attrs.get("errors", [])
    mean = f"{sum(errors) / len(errors):.2f} %" if errors else "no error"
    ended = {"PRUNED": f", pruned after {len(errors)} of {search.plan.draws} draws", "FAIL": ", failed"}
    reason = f": {trial.user_attrs['reason']}" if "reason" in trial.user_attrs else ""
    values = ", ".join(f"{name} {value:g}" for name, value in search.values(trial).items())
    best = search.best()
    shown = f"; best {best:.2f} %" if best is not None else ""
    place = f"{search.plan.model} {trial.number + 1}/{search.limit}"
    show(f"{place}: {mean}{ended.get(trial.state.name, '')}{reason} ({values}){shown}".replace("\n", " "), flush=True)


def _report(folder: Path, store_name: str | None, models: list[str], write: Path | None) -> None:
    from laddernet.report.tune import details, summary, write_tuned
    from laddernet.report.tune_page import page
    from laddernet.study.store import Store
    from laddernet.tune.outcome import outcomes
    from laddernet.tune.search import open_storage, understood

    if store_name is None and not (folder / "tune.db").exists():
        raise InputError(f"{folder} holds no search; name the --out of a search, or its --store.")
    with closing(Store.open(store_name or folder / "tune.db", create=False)) as store:
        storage = open_storage(store, create=False)
        with understood(store):  # before anything is written
            found = outcomes(storage)
            shown_page = page(found).encode()
            shown = [summary(found)]
            shown += [details(one) for one in found if len(found) == 1 or one.about["model"] in models]
        storage.engine.dispose()
    if not found:
        raise InputError(f"There is no search in {store.name}; name the --out of a search, or its --store.")
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    write_atomic(folder / "tune.html", shown_page)
    for part in shown:
        _out.print(part)
    written = [str(folder / "tune.html")]
    if write is not None:
        keys = write_tuned(found, write)
        written.append(f"{write} ({len(keys)} {'entry' if len(keys) == 1 else 'entries'})")
    _out.print(visible(f"Written: {', '.join(written)}"), highlight=False, markup=False, soft_wrap=True)

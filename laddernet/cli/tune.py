"""The command ``laddernet tune``."""

import shlex
import sys
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import typer
from optuna.trial import FrozenTrial
from rich.console import Console

from laddernet import checks
from laddernet.cli.options import stoppable, whole_numbers
from laddernet.cli.study import choose_executor
from laddernet.data import load
from laddernet.errors import InputError
from laddernet.files import write_atomic, writing
from laddernet.network.models import MODELS, find
from laddernet.report.tune import details, summary, write_tuned
from laddernet.report.tune_page import page
from laddernet.study.addresses import without_passwords
from laddernet.study.driver import drive
from laddernet.study.store import Store
from laddernet.text import say, show, visible
from laddernet.training.settings import COPIES, LABELLED_BATCH, PRECISION, RECIPE, precision_notice
from laddernet.tune.outcome import outcomes
from laddernet.tune.search import SAMPLERS, Search, check_search, more, open_storage, understood
from laddernet.tune.space import Spaces

_out = Console()

_STORE = (
    "Where trials are recorded: a file, or a postgresql:// address that several processes share. [default: in --out]"
)


def tune(
    what: Annotated[
        list[str] | None, typer.Argument(help="Models, or 'all'; or 'report', and models to be shown in full.")
    ] = None,
    data_name: Annotated[str, typer.Option("--data", help="Data set: digits or mnist.")] = "digits",
    labels: Annotated[str, typer.Option(help="How many training rows are labelled, or 'all'.")] = "100",
    sampler: Annotated[str, typer.Option(help=f"How values are chosen: {', '.join(SAMPLERS)}.")] = "tpe",
    trials: Annotated[
        int | None, typer.Option(help="Trials for each model, in all. [default: 50, or the whole grid]")
    ] = None,
    draws: Annotated[int, typer.Option(help="Label draws that a trial's error is averaged over.")] = 3,
    recipe: Annotated[str, typer.Option(help=RECIPE)] = "paper",
    epochs: Annotated[int, typer.Option(help="Passes over the unlabelled rows.")] = 50,
    validation: Annotated[
        int | None, typer.Option(help="Training rows held out, on which the error is measured. [default: a sixth]")
    ] = None,
    seed: Annotated[int, typer.Option(help="Decides which values are tried.")] = 0,
    prune: Annotated[bool, typer.Option(help="End a trial early if its first draws are bad.")] = True,
    space_file: Annotated[
        Path | None, typer.Option("--space", help="A TOML file that changes what is searched.")
    ] = None,
    also: Annotated[str, typer.Option(help="Search these too: noise_hidden,learning_rate.")] = "",
    show_space: Annotated[
        bool, typer.Option("--show-space", help="Print what is searched, as TOML, and stop.")
    ] = False,
    hidden: Annotated[str | None, typer.Option(help="Hidden sizes. [default: the paper's for mnist]")] = None,
    batch_size: Annotated[int | None, typer.Option(help="Unlabelled rows of a step. [default: recipe's]")] = None,
    labelled_batch_size: Annotated[int | None, typer.Option(help=LABELLED_BATCH)] = None,
    copies: Annotated[int | None, typer.Option(help=COPIES)] = None,
    precision: Annotated[str, typer.Option(help=PRECISION)] = "float32",
    out_folder: Annotated[Path | None, typer.Option("--out", help="The searches' folder. [default: tune-DATA]")] = None,
    store_name: Annotated[str | None, typer.Option("--store", help=_STORE)] = None,
    jobs: Annotated[int | None, typer.Option(help="Draws at a time, sharing the cores. [default: one a core]")] = None,
    executor_name: Annotated[
        str, typer.Option("--executor", help="Where to train: local, or a ray cluster.")
    ] = "local",
    address: Annotated[str | None, typer.Option(help="With ray: the cluster, as host:port. [default: found]")] = None,
    cpus_per_run: Annotated[int | None, typer.Option(help="With ray: the cores of a draw. [default: 1]")] = None,
    gpus_per_run: Annotated[
        float | None, typer.Option(help="With ray: GPUs of a draw, as in 0.25. [default: 0]")
    ] = None,
    storage_name: Annotated[
        str | None, typer.Option("--storage", help="With ray: a shared folder or fsspec address. [default: --out]")
    ] = None,
    checkpoint_every: Annotated[float, typer.Option(min=0, help="Seconds from one checkpoint to the next.")] = 60.0,
    write: Annotated[
        Path | None,
        typer.Option(help="Put the best values into this TOML file, which `--tuned` of train and study reads."),
    ] = None,
) -> None:
    """Search for the noise, λ, η and learning rate that suit a model, on validation rows.

    The same command again goes on where it was. `laddernet tune report --out DIR` shows what was found.
    """
    command = ["laddernet", *sys.argv[1:]]
    if not what:
        raise InputError("Name the models to tune, as in `laddernet tune vanilla`, or 'all'.")
    folder = out_folder or Path(f"tune-{data_name}")
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
    rows = load(data_name).training_rows()  # from here on there are no test rows
    chosen = {model: spaces.of(model, [name.strip() for name in also.split(",") if name.strip()]) for model in models}
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
    executor = choose_executor(
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
            labels=_labels(labels),
            sampler=sampler,
            trials=trials,
            draws=draws,
            seed=seed,
            prune=prune,
            command=shlex.join(hidden_command),
            on_end=_say_end,
            recipe=recipe,
            epochs=epochs,
            validation=validation,
            hidden=None if hidden is None else whole_numbers("hidden", hidden),
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
    show(f"{data_name}, {labels} labels: {size} in {folder}", flush=True)
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
        )
    _report(folder, store_name, models if len(models) == 1 else [], write)
    without = [search.plan.model for search in searches if search.best() is None]
    storage.engine.dispose()
    store.close()
    if without:
        raise typer.Exit(1)


def _say_end(search: Search, trial: FrozenTrial) -> None:
    """One line for a trial that has ended."""
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
    if store_name is None and not (folder / "tune.db").exists():
        raise InputError(f"{folder} holds no search; name the --out of a search, or its --store.")
    with closing(Store.open(store_name or folder / "tune.db", create=False)) as store:
        storage = open_storage(store, create=False)
        with understood(store):  # all that is to be shown, before anything is written
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


def _labels(text: str) -> int | Literal["all"]:
    if text == "all":
        return "all"
    numbers = whole_numbers("labels", text)
    if len(numbers) > 1:
        raise InputError(f"--labels is {text!r}; a search is for one number of labels.")
    return numbers[0]

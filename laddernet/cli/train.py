"""The commands ``laddernet models``, ``laddernet data`` and ``laddernet train``."""

import json
import shlex
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from laddernet.cli import runs
from laddernet.cli.options import stoppable
from laddernet.data import fetch, known, load, training_data
from laddernet.errors import InputError
from laddernet.text import say, show, visible

out = Console()
err = Console(stderr=True)


def models(
    as_json: Annotated[bool, typer.Option("--json", help="Print a list of objects.")] = False,
) -> None:
    """List the twenty models, as the paper's tree."""
    from laddernet.network.ladder import paper_parameters
    from laddernet.network.models import MODELS

    counts = {model.id: paper_parameters(model) for model in MODELS.values()}
    if as_json:
        rows = [
            {
                "id": model.id,
                "paper_name": model.paper_name,
                "family": model.family,
                "description": model.description,
                "noise": model.noise,
                "reconstruction": model.reconstruction,
                "parameters": counts[model.id],
            }
            for model in MODELS.values()
        ]
        print(json.dumps(rows, indent=2, ensure_ascii=False))
        return
    tree = Tree("Models, each with its number of parameters in the paper's network", guide_style="dim")
    branches: dict[tuple[str, ...], Tree] = {(): tree}
    for model in sorted(MODELS.values(), key=lambda model: len(model.family) != 1):  # a family's head first
        for depth in range(1, len(model.family) + 1):
            family = model.family[:depth]
            if family not in branches:
                branches[family] = branches[family[:-1]].add(Text(family[-1], "dim"))
        count = f"{counts[model.id]:,}"
        branches[model.family].add(Text.assemble((model.id, "bold"), f"  {model.description}  ", (count, "dim")))
    out.print(tree, highlight=False)


def data(
    name: Annotated[str | None, typer.Argument(help="The data set to fetch; without it, all are listed.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the list as JSON.")] = False,
) -> None:
    """List the known data sets and where they are kept, or fetch one."""
    if name is not None:
        folder = fetch(name)
        show(f"{name}: {folder or 'ships with scikit-learn, nothing to fetch'}")
        return
    sets = known()
    if as_json:
        print(json.dumps([asdict(info) for info in sets], indent=2))
        return
    table = Table("data set", "rows (train + test)", "columns", "classes", "kept in", box=None)
    for info in sets:
        where = info.where if info.cached else f"{info.where} (not fetched: laddernet data {info.name})"
        table.add_row(
            info.name,
            f"{info.n_train:,} + {info.n_test:,}",
            str(info.n_features),
            str(info.n_classes),
            Text(visible(where)),
        )
    out.print(table)


def train(
    data_name: runs.DataName = "digits",
    labels: runs.Labels = "100",
    model: Annotated[str, typer.Option(help="Model id, or file.py:Class for a combinator of your own.")] = "vanilla",
    seed: Annotated[int, typer.Option(help="Seed of initial values, noise, batches and the choice of labels.")] = 0,
    recipe: runs.Recipe = "paper",
    epochs: Annotated[int | None, typer.Option(help="Passes over the unlabelled rows. [default: the recipe's]")] = None,
    decay_epochs: Annotated[
        int | None, typer.Option(help="Last epochs, in which the learning rate falls to 0. [default: the recipe's]")
    ] = None,
    noise: Annotated[
        str | None,
        typer.Option(help="Standard deviation of the noise: one, 'input,hidden', or one per layer. [default: tuned]"),
    ] = None,
    recon_weights: Annotated[
        str | None,
        typer.Option(help="Reconstruction weights λ: one, 'λ0,λ1,λ≥2', or one per layer. [default: tuned]"),
    ] = None,
    eta: Annotated[
        float | None,
        typer.Option(help="Standard deviation η of the initial weights of MLP and AMLP. [default: tuned]"),
    ] = None,
    hidden: runs.Hidden = None,
    learning_rate: Annotated[
        float | None, typer.Option(help="Adam's learning rate. [default: tuned, or the recipe's]")
    ] = None,
    tuned: runs.Tuned = None,
    batch_size: runs.BatchSize = None,
    labelled_batch_size: runs.LabelledBatchSize = None,
    weight_decay: Annotated[
        float | None, typer.Option(help="AdamW's weight decay, for the weight matrices. [default: the recipe's]")
    ] = None,
    copies: runs.Copies = None,
    precision: runs.Precision = "float32",
    validation: Annotated[
        int | None,
        typer.Option(help="Training rows held out for validation. [default: a sixth, 0 if all are labelled]"),
    ] = None,
    out_folder: Annotated[
        Path | None, typer.Option("--out", help="The run's folder. [default: a new name in runs/]")
    ] = None,
    evaluate_every: Annotated[int, typer.Option(min=1, help="Epochs between evaluations.")] = 1,
    track_test: Annotated[
        bool, typer.Option("--track-test", help="Record the test error at each evaluation; it affects nothing.")
    ] = False,
    checkpoint_every: runs.CheckpointEvery = 60.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Train one model; the same command again resumes it."""
    from laddernet import checks
    from laddernet.progress import progress_shown
    from laddernet.training.loop import on_device, steps_per_epoch
    from laddernet.training.programs import keep_compiled_programs
    from laddernet.training.run import default_folder, run
    from laddernet.training.settings import configure, precision_notice
    from laddernet.training.tuned import choice

    checks.number("--checkpoint-every", checkpoint_every)
    keep_compiled_programs()
    command = ["laddernet", *sys.argv[1:]]
    dataset = load(data_name)
    config = configure(
        dataset,
        labels=runs.label_count(labels),
        model=model,
        seed=seed,
        validation=validation,
        hidden=runs.layer_sizes(hidden),
        precision=precision,
        recipe=recipe,
        epochs=epochs,
        decay_epochs=decay_epochs,
        noise=_numbers("noise", noise),
        recon_weights=_numbers("recon-weights", recon_weights),
        eta=eta,
        learning_rate=learning_rate,
        tuned=choice(tuned),
        batch_size=batch_size,
        labelled_batch_size=labelled_batch_size,
        copies=copies,
        weight_decay=weight_decay,
    )
    if notice := precision_notice(precision):
        say(notice)
    folder = out_folder or default_folder(config)
    data = on_device(training_data(dataset, config.labels, config.validation, config.seed))
    test = (dataset.x_test, dataset.y_test)
    del dataset  # its training rows are on the device now
    stopped = f"Stopped; {folder} keeps the run up to its last checkpoint. To go on: {shlex.join(command)}"
    steps = steps_per_epoch(config, len(data.x_unlabelled))
    with stoppable(stopped), progress_shown("epoch", config.epochs, steps, err) as shown:
        result = run(
            config,
            data,
            test,
            folder,
            command=command,
            track_test=track_test,
            evaluate_every=evaluate_every,
            checkpoint_every=checkpoint_every,
            on_epoch=shown,
            on_notice=say,
        )
    if as_json:
        print(json.dumps({"folder": str(folder), **result}))
    else:
        show(f"test error {result['test_error']:.2f} %   ({folder})")


def _numbers(name: str, text: str | None) -> list[float] | None:
    try:
        return None if text is None else [float(part) for part in text.split(",")]
    except ValueError:
        raise InputError(f"--{name} must be numbers separated by commas, as in 0.3,0.2, got {text!r}.") from None

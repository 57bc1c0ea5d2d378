"""The command ``laddernet train``."""

import json
import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from laddernet import checks
from laddernet.cli.options import stoppable, whole_number, whole_numbers
from laddernet.data import load, training_data
from laddernet.errors import InputError
from laddernet.progress import progress_shown
from laddernet.text import say, show
from laddernet.training.loop import on_device
from laddernet.training.program import steps_per_epoch
from laddernet.training.programs import keep_compiled_programs
from laddernet.training.run import default_folder, run
from laddernet.training.settings import COPIES, LABELLED_BATCH, PRECISION, RECIPE, TUNED, configure, precision_notice
from laddernet.training.tuned import choice

err = Console(stderr=True)


def train(
    data_name: Annotated[str, typer.Option("--data", help="Data set: digits or mnist.")] = "digits",
    labels: Annotated[str, typer.Option(help="How many training rows are labelled, or 'all'.")] = "100",
    model: Annotated[
        str, typer.Option(help="A model's id, or file.py:Class for a combinator of your own.")
    ] = "vanilla",
    seed: Annotated[int, typer.Option(help="Fixes initial values, noise, order and which rows are labelled.")] = 0,
    recipe: Annotated[str, typer.Option(help=RECIPE)] = "paper",
    epochs: Annotated[int | None, typer.Option(help="Passes over the unlabelled rows. [default: recipe's]")] = None,
    decay_epochs: Annotated[
        int | None, typer.Option(help="Last epochs, with the learning rate falling to 0. [default: recipe's]")
    ] = None,
    noise: Annotated[
        str | None, typer.Option(help="Noise std: one value, 'input,hidden', or one a layer. [default: tuned]")
    ] = None,
    recon_weights: Annotated[
        str | None, typer.Option(help="λ: one value, 'λ0,λ1,λ≥2', or one a layer. [default: tuned]")
    ] = None,
    eta: Annotated[
        float | None, typer.Option(help="Std of the initial weights of MLP and AMLP combinators. [default: tuned]")
    ] = None,
    hidden: Annotated[
        str | None, typer.Option(help="Hidden sizes, as in 1000,500,250. [default: the paper's for mnist]")
    ] = None,
    learning_rate: Annotated[
        float | None, typer.Option(help="Adam's learning rate. [default: tuned, or the recipe's]")
    ] = None,
    tuned: Annotated[str | None, typer.Option(help=TUNED)] = None,
    batch_size: Annotated[int | None, typer.Option(help="Unlabelled rows of a step. [default: recipe's]")] = None,
    labelled_batch_size: Annotated[int | None, typer.Option(help=LABELLED_BATCH)] = None,
    weight_decay: Annotated[
        float | None, typer.Option(help="AdamW's, of the weight matrices. [default: recipe's]")
    ] = None,
    copies: Annotated[int | None, typer.Option(help=COPIES)] = None,
    precision: Annotated[str, typer.Option(help=PRECISION)] = "float32",
    validation: Annotated[
        int | None,
        typer.Option(help="Training rows held out for validation. [default: a sixth, 0 if all are labelled]"),
    ] = None,
    out_folder: Annotated[
        Path | None, typer.Option("--out", help="The run's folder. [default: a name of its own in runs/]")
    ] = None,
    evaluate_every: Annotated[int, typer.Option(min=1, help="Epochs from one evaluation to the next.")] = 1,
    track_test: Annotated[
        bool, typer.Option("--track-test", help="Record the test error by epoch too; it decides nothing.")
    ] = False,
    checkpoint_every: Annotated[float, typer.Option(min=0, help="Seconds from one checkpoint to the next.")] = 60.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Train one model; the same command again resumes it."""

    checks.number("--checkpoint-every", checkpoint_every)
    keep_compiled_programs()
    command = ["laddernet", *sys.argv[1:]]
    dataset = load(data_name)
    config = configure(
        dataset,
        labels="all" if labels == "all" else whole_number("labels", labels),
        model=model,
        hidden=None if hidden is None else whole_numbers("hidden", hidden),
        noise=_numbers("noise", noise),
        recon_weights=_numbers("recon-weights", recon_weights),
        eta=eta,
        recipe=recipe,
        epochs=epochs,
        decay_epochs=decay_epochs,
        learning_rate=learning_rate,
        batch_size=batch_size,
        labelled_batch_size=labelled_batch_size,
        weight_decay=weight_decay,
        copies=copies,
        precision=precision,
        validation=validation,
        seed=seed,
        tuned=choice(tuned),
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
        raise InputError(f"--{name} is {text!r}; give numbers with commas between, as in 0.3,0.2.") from None

"""The command ``laddernet train``."""

import json
import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from laddernet.cli import runs
from laddernet.cli.options import stoppable
from laddernet.data import training_data
from laddernet.errors import InputError
from laddernet.text import say, show

err = Console(stderr=True)


def train(
    data_name: runs.DataName = "digits",
    target: runs.Target = None,
    test_share: runs.TestShare = None,
    split: runs.Split = None,
    unlabeled: runs.Unlabeled = None,
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
    from laddernet.training.loop import on_device
    from laddernet.training.program import steps_per_epoch
    from laddernet.training.programs import keep_compiled_programs
    from laddernet.training.run import default_folder, run
    from laddernet.training.settings import configure, precision_notice
    from laddernet.training.tuned import choice

    checks.number("--checkpoint-every", checkpoint_every)
    keep_compiled_programs()
    command = ["laddernet", *sys.argv[1:]]
    dataset, _ = runs.load_data(data_name, target, test_share, split, unlabeled)
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

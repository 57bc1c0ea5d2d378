"""Options that `train`, `study` and `tune` share, and the choice of data and executor.

The modules of these commands import JAX, Optuna and SQLAlchemy within functions, so that `--help` does not load them.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from laddernet.cli.options import whole_number, whole_numbers
from laddernet.errors import InputError, packages
from laddernet.text import say

if TYPE_CHECKING:
    from laddernet.data import Dataset
    from laddernet.study.executors import Executor

DATA = "Data set: digits, mnist, fashion-mnist, or a file of your own in NPZ, CSV or Parquet."
RECIPE = (
    "Training recipe: 'paper' (150 epochs, the published schedule), 'quick' (30 epochs, several noise draws per row) "
    "or 'small' (60 epochs, for about a thousand rows)."
)
_STORE = "Store: a file, or a postgresql:// address that several drivers share. [default: in --out]"
_STORAGE = "With ray: a folder that all nodes share, or an fsspec address, for the files of runs. [default: --out]"
_TUNED = (
    "Source of noise, λ, η and learning rate: a file written by `tune`, or 'none' for the published values. "
    "[default: the values that ship]"
)
_PRECISION = "Precision of matrix products: float32, or bfloat16, which is faster on processors with units for it."

# Of a network and its training. The default is given where the option is used.
DataName = Annotated[str, typer.Option("--data", help=DATA)]
Target = Annotated[
    str | None, typer.Option(help="With a table as --data: the column of the classes, empty where unlabelled.")
]
TestShare = Annotated[
    float | None, typer.Option(help="With a table: the share of the labelled rows that are test rows, as in 0.2.")
]
Split = Annotated[str | None, typer.Option(help="With a table: a column with 'train' or 'test' in each row.")]
Unlabeled = Annotated[
    str | None, typer.Option(help="With a table: a value that marks unlabelled rows, besides empty cells.")
]
Labels = Annotated[str, typer.Option(help="Number of labelled training rows, or 'all'.")]
Recipe = Annotated[str, typer.Option(help=RECIPE)]
Hidden = Annotated[
    str | None, typer.Option(help="Sizes of the hidden layers, as in 1000,500,250. [default: the paper's for mnist]")
]
BatchSize = Annotated[int | None, typer.Option(help="Unlabelled rows per step. [default: the recipe's]")]
LabelledBatchSize = Annotated[
    int | None, typer.Option(help="Labelled rows per step; repeated if there are fewer. [default: the recipe's]")
]
Copies = Annotated[
    int | None,
    typer.Option(help="Copies of each unlabelled row in a step, in pairs with opposite noise. [default: the recipe's]"),
]
Precision = Annotated[str, typer.Option(help=_PRECISION)]
Tuned = Annotated[str | None, typer.Option(help=_TUNED)]
CheckpointEvery = Annotated[float, typer.Option(min=0, help="Seconds between checkpoints.")]

# Of the place where runs are trained and recorded.
StoreName = Annotated[str | None, typer.Option("--store", help=_STORE)]
Jobs = Annotated[int | None, typer.Option(help="Parallel runs, which share the cores. [default: one per core]")]
ExecutorName = Annotated[str, typer.Option("--executor", help="Where to train: local, or ray for a cluster.")]
Address = Annotated[
    str | None, typer.Option(help="With ray: the cluster, as host:port. [default: the cluster of this machine]")
]
CpusPerRun = Annotated[int | None, typer.Option(help="With ray: cores per run. [default: 1]")]
GpusPerRun = Annotated[float | None, typer.Option(help="With ray: GPUs per run, as in 0.25. [default: 0]")]
StorageName = Annotated[str | None, typer.Option("--storage", help=_STORAGE)]


def require_study() -> None:
    """Refuse at once to study or to search where the packages for it are missing."""
    with packages("This command"):
        import sqlalchemy  # noqa: F401


def label_count(text: str) -> int | Literal["all"]:
    """Parse a number of labels.

    >>> label_count("100"), label_count("all")
    (100, 'all')
    """
    return "all" if text.strip() == "all" else whole_number("labels", text)


def layer_sizes(text: str | None) -> tuple[int, ...] | None:
    """Parse the option --hidden.

    >>> layer_sizes("1000,500")
    (1000, 500)
    """
    return None if text is None else whole_numbers("hidden", text)


def load_data(
    name: str, target: str | None, test_share: float | None, split: str | None, unlabeled: str | None
) -> "tuple[Dataset, Path | None]":
    """Load what --data names; return it with the file from which other processes can load it, if it is a user's NPZ."""
    from laddernet.data import is_file, load, own

    of_table = {"target": target, "test-share": test_share, "split": split, "unlabeled": unlabeled}
    is_named = not is_file(name)
    if is_named or (test_share is None and split is None and own.is_npz(Path(name))):
        for option in (option for option, value in of_table.items() if value is not None):
            raise InputError(f"--{option} is for a table, and {name} has its own training and test rows; leave it out.")
        return load(name), None if is_named else Path(name).resolve()
    from laddernet.table.read import open_table
    from laddernet.table.research import research_data

    table = open_table(name)
    dataset, notices = research_data(table, target, test_share=test_share, split=split, unlabeled=unlabeled)
    for notice in notices:
        say(notice)
    return dataset, None


def workers_file(dataset: "Dataset", file: Path | None, folder: Path) -> Path | None:
    """Return the file from which other processes load a user's data: a table is saved in ``folder`` for them."""
    from laddernet.data import own

    if file is None and dataset.content is not None:
        file = folder.resolve() / f"data-{dataset.content[:8]}.npz"
        own.save(dataset, file)
    return file


def choose_executor(
    name: str,
    folder: Path,
    *,
    jobs: int | None,
    address: str | None,
    cpus: int | None,
    gpus: float | None,
    storage: str | None,
    dry_run: bool = False,
) -> "Executor":
    """Return the executor of this name for a study or search in ``folder``; Ray's is connected to the cluster."""
    from laddernet import checks
    from laddernet.machine import cores
    from laddernet.study.executors import LocalExecutor
    from laddernet.study.ray_executor import RayExecutor

    if jobs is not None:
        checks.integer("--jobs", jobs, most=10_000)
    if name == "ray":
        cpus = 1 if cpus is None else cpus
        return RayExecutor(folder, address, jobs=jobs, cpus=cpus, gpus=gpus or 0, storage=storage, dry_run=dry_run)
    if name != "local":
        raise InputError(f"There is no executor {name!r}; give local or ray.")
    for option, value in {"address": address, "cpus-per-run": cpus, "gpus-per-run": gpus, "storage": storage}.items():
        if value is not None:
            raise InputError(f"--{option} is for Ray; give --executor ray with it.")
    return LocalExecutor(jobs or cores(), folder / "workers.log")

"""The command ``sample``: rows that a trained network generates."""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from laddernet.cli import runs
from laddernet.cli.options import names_in, stoppable
from laddernet.errors import InputError
from laddernet.text import show

if TYPE_CHECKING:
    import numpy as np

    from laddernet.data import Dataset
    from laddernet.network.samples import Sampler

err = Console(stderr=True)

_METHODS = ("ancestral", "walkback")
_STARTS = ("ancestral", "noise", "test")
_COLUMNS = 16  # of a picture of chains
_PIXELS = 28  # smaller images are enlarged to about this height

_CLASS_HELP = (
    "Class, or several with commas between them; walkback keeps to it in every step. [default: all; none kept]"
)
_DATA_HELP = "The data of the run, if it is a file of your own; for a table with the options that `train` had."
_START_HELP = (
    "First rows of walkback: ancestral, noise, test (test rows of the class), or an .npz file with an array X. "
    "[default: ancestral]"
)


def sample(
    run: Annotated[Path, typer.Argument(help="The folder of a finished run, as `laddernet train` writes it.")],
    out: Annotated[Path, typer.Option(help="The file: .png if rows are images, or .npz with the arrays X and y.")],
    classes: Annotated[str | None, typer.Option("--class", help=_CLASS_HELP)] = None,
    count: Annotated[int, typer.Option(min=1, help="Samples of each class.")] = 16,
    method: Annotated[str, typer.Option(help="ancestral, or walkback for chains of noisy steps.")] = "ancestral",
    steps: Annotated[int, typer.Option(min=1, help="Steps of a chain.")] = 15,
    start: Annotated[str | None, typer.Option(help=_START_HELP)] = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of all draws.")] = 0,
    data: Annotated[str | None, typer.Option(help=_DATA_HELP)] = None,
    target: runs.Target = None,
    test_share: runs.TestShare = None,
    split: runs.Split = None,
    unlabeled: runs.Unlabeled = None,
) -> None:
    """Generate rows with a trained network.

    A picture has a line for each class or, with walkback, for each chain, its steps from left to right.
    """
    import numpy as np

    from laddernet import checks
    from laddernet.files import whole_file
    from laddernet.training.samples import load_sampler

    checks.choice("--method", method, _METHODS)
    checks.integer("--count", count, most=checks.MOST_ROWS)
    checks.integer("--seed", seed, least=0, most=checks.MOST_SEED)
    if start is not None and method != "walkback":
        raise InputError("--start is for chains; give --method walkback with it.")
    of_table = {"target": target, "test-share": test_share, "split": split, "unlabeled": unlabeled}
    for option in (option for option, value in of_table.items() if value is not None and data is None):
        raise InputError(f"--{option} is for a table; give the table as --data with it.")
    if out.suffix not in (".png", ".npz"):
        raise InputError(f"--out must end in .png or .npz, got {out}.")
    with stoppable("Stopped; nothing was written."), err.status("sampling"):
        given = None if data is None else runs.load_data(data, target, test_share, split, unlabeled)[0]
        sampler, dataset = load_sampler(run, given)
        if out.suffix == ".png" and dataset.image_shape is None:
            raise InputError(f"The rows of {dataset.name} are not images; give --out a name that ends in .npz.")
        numbers = _numbers(classes, dataset)
        sampler.check_size(count * len(numbers))
        arrays: dict[str, np.ndarray] = {}
        if method == "ancestral":
            y: np.ndarray | None = np.repeat(numbers, count)
            arrays["X"] = sampler.ancestral(np.repeat(numbers, count), seed=seed).astype(np.float32)
        else:
            first, y = _first_rows(start or "ancestral", numbers, count, sampler, dataset, seed)
            kept = None if classes is None else y
            arrays["chain"] = sampler.walkback(first, steps, seed=seed, classes=kept).astype(np.float32)
            arrays["X"] = arrays["chain"][-1]
        if not np.isfinite(arrays["X"]).all():
            raise InputError(f"The network in {run} computes numbers that are not finite; choose another run.")
        if y is not None:
            arrays["y"] = np.array(dataset.classes)[y]
        with whole_file(out) as file:
            if out.suffix == ".npz":
                np.savez(file, **arrays)  # type: ignore[arg-type]  # its other parameter is not given
            else:
                file.write(_png(arrays, len(numbers), dataset))
    show(f"{len(arrays['X']):,} samples written to {out}")


def _numbers(classes: str | None, dataset: "Dataset") -> list[int]:
    """Return the numbers of the named classes; without names, of all."""
    names = list(dataset.classes) if classes is None else names_in(classes)
    unknown = next((name for name in names or [""] if name not in dataset.classes), None)
    if unknown is not None:
        listed = ", ".join(dataset.classes[:20]) + (" and others" if len(dataset.classes) > 20 else "")
        raise InputError(f"{dataset.name} has no class {unknown!r}; its classes are {listed}.")
    return [dataset.classes.index(name) for name in names]


# --- First rows -------------------------------------------------------------------------------------------------


def _first_rows(
    start: str, numbers: list[int], count: int, sampler: "Sampler", dataset: "Dataset", seed: int
) -> tuple["np.ndarray", "np.ndarray | None"]:
    """Return the first rows of chains and the class of each; None for rows of a file, unless there is one class."""
    import numpy as np

    y = np.repeat(numbers, count)
    rng = np.random.default_rng(seed)
    if start == "ancestral":
        return sampler.ancestral(y, seed=seed), y
    if start == "noise":
        return rng.random((len(y), dataset.n_features), np.float32), y
    if start == "test":
        rows = []
        for number in numbers:
            of_class = rng.permutation(np.flatnonzero(dataset.y_test == number))[:count]
            if len(of_class) < count:
                has = f"class {dataset.classes[number]} has {len(of_class)} test rows"
                raise InputError(f"--count is {count}, but {has}; give no more.")
            rows.append(dataset.x_test[of_class])
        return np.concatenate(rows), y
    if not start.endswith(".npz"):
        raise InputError(f"--start must be {', '.join(_STARTS)} or an .npz file, got {start!r}.")
    x = _read(Path(start), dataset)
    return x, np.repeat(numbers, len(x)) if len(numbers) == 1 else None


def _read(path: Path, dataset: "Dataset") -> "np.ndarray":
    """Read the array X of an NPZ file."""
    import numpy as np

    from laddernet import checks
    from laddernet.data import check_finite
    from laddernet.files import require_regular
    from laddernet.table.read_npz import open_npz

    require_regular(path)
    table = open_npz(path)
    if table.positional != dataset.n_features:
        raise InputError(f"X in {path} has {table.positional} columns; it must have {dataset.n_features}.")
    parts: list[np.ndarray] = []
    for part in table.parts(table.columns[: table.positional]):
        try:
            parts.append(part.to_numpy(np.float32))
        except (ValueError, TypeError):
            raise InputError(f"X in {path} holds values that are not numbers; give numbers.") from None
        if sum(map(len, parts)) > checks.MOST_ROWS:
            raise InputError(f"X in {path} has more than {checks.MOST_ROWS:,} rows; give fewer.")
    if not parts:
        raise InputError(f"X in {path} has no rows; give one or more.")
    x = np.concatenate(parts)
    check_finite(x, f"X in {path}")
    return x


# --- Output -----------------------------------------------------------------------------------------------------


def _png(arrays: "dict[str, np.ndarray]", classes: int, dataset: "Dataset") -> bytes:
    """Draw samples with a line for each class, those of one class in a square, chains with a line for each."""
    import numpy as np

    from laddernet.report.png import in_grid, png

    assert dataset.image_shape is not None
    rows = arrays["X"]
    if "chain" in arrays:
        chain = arrays["chain"]
        shown = np.unique(np.linspace(0, len(chain) - 1, _COLUMNS).round().astype(int))
        rows, columns = chain[shown].swapaxes(0, 1).reshape(-1, rows.shape[1]), len(shown)
    else:
        columns = len(rows) // classes if classes > 1 else math.ceil(len(rows) ** 0.5)
    times = max(1, _PIXELS // min(dataset.image_shape))
    return png(np.kron(in_grid(rows, dataset.image_shape, columns), np.ones((times, times), np.uint8)))

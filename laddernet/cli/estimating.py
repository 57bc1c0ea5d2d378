"""The estimate that ``fit`` makes and prints, and that ``inspect`` shows again.

Packages are imported when a command runs, so that ``--help`` and shell completion are fast.
"""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table as Lines
from rich.text import Text

from laddernet.errors import InputError
from laddernet.text import say, show, visible

if TYPE_CHECKING:
    from laddernet.classifier.estimator import LadderClassifier
    from laddernet.classifier.held_out import HeldOut
    from laddernet.table.estimate import Estimate
    from laddernet.table.rows import Rows

_out = Console()

_PATIENCE = 600.0  # seconds that an estimate may take if it was not asked for
_SHOWN = 30  # classes that are listed
_MATRIX = 10  # classes of a matrix in the terminal

Method = Annotated[
    str,
    typer.Option(
        help="auto, blend, ladder, logistic, self-training, forest, extra-trees or boosting."  # fish wants one line
    ),
]
Confusion = Annotated[
    Path | None, typer.Option("--confusion", help="A picture of the confusion matrix, as .svg, .png or .pdf.")
]
Calibration = Annotated[
    Path | None, typer.Option("--calibration", help="A picture of confidence and error, as .svg, .png or .pdf.")
]


def check_method(method: str) -> str:
    """Refuse an unknown method."""
    from laddernet.classifier.few_labels import CHOICES

    if method not in CHOICES:
        raise InputError(f"There is no method {method!r}; give one of {', '.join(CHOICES)}.")
    return method


def check_pictures(*paths: Path | None) -> None:
    """Refuse a picture that cannot be written, before the work that would be lost."""
    from laddernet.classifier.curve import check_picture
    from laddernet.table.write import check_writable

    for path in paths:
        if path is not None:
            check_picture(path)
            check_writable(path)


def called(method: str, model: str, members: Iterable[str] | None = None) -> str:
    """Name the method that is trained; the Ladder Network itself is called vanilla only beside its variants.

    ``members`` are those of the blend, if not today's.
    """
    from laddernet.classifier.members import BLEND, LADDER, METHODS, members_of

    network = "Ladder Network" if model == "vanilla" else f"model {model}"
    if method == BLEND:
        titles = METHODS | {LADDER: f"the {network}"}
        *first, last = (titles[name] for name in members or members_of(method))
        return f"a blend of {', '.join(first)} and {last}"
    if method == LADDER:
        return "a Ladder Network" if model == "vanilla" else f"the model {model}"
    return METHODS[method]


def no_estimate(rows: "Rows", seconds: float, asked: bool | None) -> str | None:
    """Return why there is no estimate, "" if none was asked for, None if there is one."""
    from laddernet.classifier.held_out import folds_of

    folds, repeats = folds_of(rows.codes)
    if asked is False:
        return ""
    if not folds:
        return "No estimate: no class has two labels; it needs two or more of a class."
    trainings = folds * repeats + 2
    if asked is None and trainings * seconds > _PATIENCE:
        return f"No estimate: it would take about {trainings * seconds / 60:.0f} minutes; --estimate makes it."
    return None


def held_out(rows: "Rows", ladder: "LadderClassifier", seed: int, told: Callable[[str], None]) -> "HeldOut":
    """Cross-validate all methods on the same folds."""
    from laddernet.classifier.held_out import cross_validate, folds_of
    from laddernet.classifier.members import MEMBERS

    folds, repeats = folds_of(rows.codes)
    total = folds * repeats * len(MEMBERS)
    fits = iter(range(1, total + 1))
    return cross_validate(
        MEMBERS,
        rows.X,
        rows.codes,
        folds=folds,
        repeats=repeats,
        ladder=ladder,
        seed=seed,
        on_fit=lambda name: told(f"Comparing methods, {next(fits)}/{total}: {MEMBERS[name]}"),
    )


def print_estimate(estimate: "Estimate", classes: list[str]) -> None:
    """Print the estimate in words, the errors of all methods and of each class, and the confusion matrix."""
    for sentence in estimate.sentences():
        show(sentence)
    _print_methods(estimate)
    if estimate.confusion:
        _print_classes(estimate, classes)


def save_pictures(
    estimate: "Estimate | None", classes: list[str], confusion: Path | None, calibration: Path | None
) -> Iterator[Path]:
    """Write the pictures that were asked for, and yield their paths; print the reason if one cannot be drawn."""
    from laddernet.classifier.curve import save_picture
    from laddernet.report.estimate import plot_calibration, plot_confusion

    for path in filter(None, (confusion, calibration)):
        try:
            if estimate is None:
                raise InputError("the model has no estimate; fit it with --estimate.")
            figure = plot_confusion(estimate, classes) if path is confusion else plot_calibration(estimate)
        except InputError as error:  # the model itself is as good without it
            say(f"{path} was not written: {error}")
            continue
        save_picture(figure, path)
        yield path


def _print_methods(estimate: "Estimate") -> None:
    """Print the errors of all methods on the same held-out rows, the lowest first."""
    from laddernet.classifier.members import METHODS
    from laddernet.table.estimate import counted, interval

    if not estimate.methods or len(estimate.methods) < 2:
        return
    lines = Lines("on the same folds", box=None)
    for heading in ("wrong", "error", "90 % interval"):
        lines.add_column(heading, justify="right")
    for name, wrong in sorted(estimate.methods.items(), key=lambda held: held[1]):
        low, high = interval(wrong, estimate.judged)
        title = METHODS.get(name, name).removeprefix("the ").removeprefix("a ")
        style = "bold" if name == estimate.method else ""
        cells = (title, counted(wrong), f"{100 * wrong / estimate.judged:.1f} %", f"{low:.1f}–{high:.1f} %")
        lines.add_row(*(Text(cell, style) for cell in cells))
    _out.print(lines, highlight=False)
    show(estimate.advice)


def _print_classes(estimate: "Estimate", classes: list[str]) -> None:
    """Print the errors by class, with the confusion matrix of few classes or the most frequent confusions of many."""
    from laddernet.table.estimate import counted

    few = len(classes) <= _MATRIX
    lines = Lines("class", box=None)
    for heading in ("held out", "wrong", "90 % interval"):
        lines.add_column(heading, justify="right")
    for name in classes if few else ():
        lines.add_column(Text(visible(name)), justify="right", no_wrap=True, max_width=12)
    matrix = estimate.matrix(len(classes))
    for code, about in enumerate(estimate.by_class(classes)[:_SHOWN]):
        counts = [counted(rows) if rows else "·" for rows in matrix[code]] if few else []
        low, high = about["interval"] or (0.0, 100.0)
        known = [counted(about["wrong"]), f"{low:.0f}–{high:.0f} %"] if about["judged"] else ["–", "–"]
        lines.add_row(Text(visible(about["class"])), f"{about['judged']:,}", *known, *counts)
    _out.print(lines, highlight=False)
    if few:
        return
    if len(classes) > _SHOWN:
        print(f"and {len(classes) - _SHOWN:,} more classes")
    wrong = [held for held in estimate.confusion if held[0] != held[1]]
    for truth, predicted, rows in sorted(wrong, key=lambda held: -held[2])[:_MATRIX]:
        show(f"{counted(rows)} of {classes[truth]} taken for {classes[predicted]}")

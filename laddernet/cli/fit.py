"""The commands that train on a table: ``fit`` and ``curve``.

What trains is imported when a command runs, so that ``--help`` and shell completion are fast.
"""

import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from laddernet.cli.estimating import (
    Calibration,
    Confusion,
    Method,
    called,
    check_method,
    check_pictures,
    held_out,
    no_estimate,
    print_estimate,
    save_pictures,
)
from laddernet.cli.options import names_in, print_json, stoppable, whole_numbers
from laddernet.cli.runs import layer_sizes
from laddernet.cli.table_options import (
    Also,
    Category,
    Delimiter,
    Drop,
    Encoding,
    Epochs,
    Hidden,
    Json,
    Labels,
    MaxSteps,
    ModelId,
    Networks,
    Target,
    TrainingTable,
    Unlabeled,
    Use,
)
from laddernet.errors import InputError
from laddernet.text import show, visible

if TYPE_CHECKING:
    from laddernet.classifier.curve import Point
    from laddernet.classifier.estimator import LadderClassifier
    from laddernet.table.rows import Rows
    from laddernet.table.table import Table

_err = Console(stderr=True)

_SHOWN = 30  # classes that are listed


def fit(
    data: TrainingTable,
    target: Target = None,
    unlabeled: Unlabeled = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="The model's file. [default: DATA's name with .safetensors]")
    ] = None,
    also: Also = None,
    labels: Labels = None,
    drop: Drop = "",
    use: Use = "",
    category: Category = "",
    method: Method = "auto",
    model: ModelId = "vanilla",
    hidden: Hidden = None,
    networks: Networks = None,
    epochs: Epochs = None,
    max_steps: MaxSteps = None,
    seed: Annotated[
        int, typer.Option(min=0, max=2**32 - 1, help="Seed of initial values, noise, order and folds.")
    ] = 0,
    estimate: Annotated[
        bool | None,
        typer.Option(
            help="Compare methods by cross-validation, and estimate the error. [default: if it takes under ten minutes]"
        ),
    ] = None,
    confusion: Confusion = None,
    calibration: Calibration = None,
    delimiter: Delimiter = None,
    encoding: Encoding = None,
    as_json: Json = False,
) -> None:
    """Train a classifier on a table in which some rows have a label."""
    check_method(method)
    check_pictures(confusion, calibration)
    table, others, files = _opened("fit", data, also, labels, delimiter, encoding)
    path = out or data.with_suffix(".safetensors")
    _check_out(path, data, *(also or ()), *(labels or ()))
    if out is None:
        _spare_foreign(path)
    ladder = _network(model, hidden, networks, epochs, max_steps, seed)
    from sklearn.base import clone

    from laddernet.classifier.few_labels import AUTO, FewLabelClassifier
    from laddernet.classifier.members import BLEND
    from laddernet.table.estimate import estimate as estimated
    from laddernet.table.gain import earlier_estimate, gain
    from laddernet.table.model import TableModel

    def fitted(rows: "Rows", method: str) -> TableModel:
        shown = clone(ladder).set_params(verbose=_err.is_terminal)
        return TableModel.of(rows, FewLabelClassifier(method, ladder=shown, random_state=seed).fit(rows.X, rows.codes))

    tell = _quiet if as_json else show
    used = BLEND if method == AUTO else method
    with stoppable("Stopped; nothing was saved."):
        rows = _rows(table, target, others, files, unlabeled, drop=drop, use=use, category=category)
        if not as_json:
            _print_rows(table.name, rows)
        before = earlier_estimate(rows.target, path, data.with_suffix(".safetensors")) if files else None
        started = time.monotonic()
        trained = fitted(rows, used)
        seconds = time.monotonic() - started
        trained.save(path)
    tell(f"Trained {called(used, model)} for {seconds:.0f} s; saved to {path}", flush=True)
    reason = no_estimate(rows, seconds, estimate)
    if reason is None:
        with stoppable(f"Stopped; {path} is saved, without an estimate."), _err.status("Comparing methods") as status:
            held = held_out(rows, ladder, seed, status.update)
            if method == AUTO and (chosen := held.choice()) != used:
                used, trained = chosen, fitted(rows, chosen)
                tell(f"Trained {called(used, model)} too, which is clearly better than the blend; saved to {path}")
            status.update("Estimating the error with half of the labels")
            found = estimated(held, used, rows.X, rows.codes, ladder=ladder, seed=seed)
            trained = replace(trained, estimate=found)
            trained.save(path)
    if not as_json and trained.estimate:
        print_estimate(trained.estimate, list(rows.classes))
    elif reason:
        tell(reason)
    if files and (gained := gain(before, trained.estimate)):
        tell(gained)
    drawn = [*save_pictures(trained.estimate, list(rows.classes), confusion, calibration)]
    for picture in drawn:
        tell(f"saved to {picture}")
    if as_json:
        about: dict[str, Any] = {"notices": rows.notices, "no_estimate": reason or None, "seconds": seconds}
        about |= {"rounds": [asdict(each) for each in rows.rounds], "earlier_estimate": before and before.about()}
        about |= {"method": used}
        judged = trained.estimate and trained.estimate.about(rows.classes)
        print_json({"model": str(path), **_about(rows), **about, "estimate": judged, "pictures": [*map(str, drawn)]})


def curve(
    data: TrainingTable,
    target: Target = None,
    unlabeled: Unlabeled = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="A picture of the curve: a name that ends in .svg, .png or .pdf.")
    ] = None,
    counts: Annotated[
        str | None, typer.Option(help="Labels per class, as in 1,5,20. [default: 1,2,5,10 … up to all]")
    ] = None,
    repeats: Annotated[
        int, typer.Option(min=2, max=1000, help="Random draws of labels for each count; each is a training.")
    ] = 5,
    also: Also = None,
    labels: Labels = None,
    drop: Drop = "",
    use: Use = "",
    category: Category = "",
    model: ModelId = "vanilla",
    hidden: Hidden = None,
    networks: Networks = None,
    epochs: Epochs = None,
    max_steps: MaxSteps = None,
    seed: Annotated[int, typer.Option(min=0, max=2**31, help="Seed of draws, initial values, noise and order.")] = 0,
    delimiter: Delimiter = None,
    encoding: Encoding = None,
    as_json: Json = False,
) -> None:
    """Measure how the error falls with the number of labels."""
    table, others, files = _opened("curve", data, also, labels, delimiter, encoding)
    from laddernet.classifier.curve import (
        check_picture,
        folds_possible,
        forecast,
        label_curve,
        plot_label_curve,
        save_picture,
    )

    if out is not None:
        check_picture(out)
        _check_out(out, data, *(also or ()), *(labels or ()))
    classifier = _network(model, hidden, networks, epochs, max_steps, seed)
    asked = None if counts is None else whole_numbers("counts", counts)
    heads = iter([True])  # the heading is printed above the first point

    def on_point(point: "Point") -> None:
        if not as_json:
            _print_point(point, repeats, model, first=next(heads, False))

    with stoppable("Stopped; no picture was written." if out else "Stopped."):
        rows = _rows(table, target, others, files, unlabeled, drop=drop, use=use, category=category)
        if not as_json:
            _print_rows(table.name, rows)
        if not folds_possible(rows.codes):
            raise InputError(f"{_single(rows)}; give two or more of each class, for training and testing.")
        with _err.status("Training") as status:
            points = label_curve(
                classifier,
                rows.X,
                rows.codes,
                counts=asked,
                repeats=repeats,
                seed=seed,
                on_fit=lambda number, total: status.update(f"Training, {number}/{total}"),
                on_point=on_point,
            )
        if out is not None:
            save_picture(plot_label_curve(points, title=data.name), out)
    if as_json:
        found = {"points": [_point(point) for point in points], "forecast": forecast(points)}
        print_json({**_about(rows), "notices": rows.notices, **found, "picture": None if out is None else str(out)})
        return
    if any("(" in point.shown(alone) for point in points for alone in (False, True)):
        print("In brackets: the 90 % interval, where all draws gave the same error.")
    print(forecast(points))
    if out is not None:
        show(f"saved to {out}")


# --- Input ------------------------------------------------------------------------------------------------------


def _opened(
    command: str,
    data: Path,
    also: list[Path] | None,
    labels: list[Path] | None,
    delimiter: str | None,
    encoding: str | None,
) -> tuple["Table", list["Table"], list["Table"]]:
    """Open the table, those of --also, and those of --labels."""
    if "-" in map(str, [data, *(also or ()), *(labels or ())]):
        raise InputError(f"`{command}` reads its table more than once; give a file instead of standard input.")
    from laddernet.table.read import open_table
    from laddernet.table.rounds import open_labels

    table, *others = [open_table(path, delimiter=delimiter, encoding=encoding) for path in (data, *(also or ()))]
    return table, others, [open_labels(path, delimiter=delimiter, encoding=encoding) for path in labels or ()]


def _network(
    model: str, hidden: str | None, networks: int | None, epochs: int | None, max_steps: int | None, seed: int
) -> "LadderClassifier":
    """Make the Ladder Network of the options. This imports JAX, which commands that only predict do not need."""
    from laddernet.classifier.estimator import LadderClassifier
    from laddernet.network.models import find
    from laddernet.training.programs import keep_compiled_programs

    find(model)  # refuses an unknown one
    keep_compiled_programs()
    sizes = layer_sizes(hidden)
    return LadderClassifier(
        model, hidden=sizes, n_networks=networks, epochs=epochs, max_steps=max_steps, random_state=seed
    )


def _check_out(out: Path, *inputs: Path) -> None:
    """Refuse to write where nothing can be written, or over a table that is read."""
    from laddernet.table.write import check_writable, spare

    spare(out, *inputs)
    check_writable(out)


def _spare_foreign(path: Path) -> None:
    """Refuse to replace a file that the user did not name, unless an earlier `fit` saved it."""
    from laddernet.inference import modelfile

    if not path.exists():
        return
    try:
        modelfile.read(path, "table")
    except InputError as error:
        advice = "name the model's file with --out, which replaces any file"
        raise InputError(f"{path} exists and is not a whole model that `fit` saved; {advice}.") from error


def _rows(
    table: "Table",
    target: str | None,
    also: Sequence["Table"],
    labels: Sequence["Table"],
    unlabeled: str | None,
    **columns: str,
) -> "Rows":
    """Read the rows to train on; ``columns`` are lists of names, by option."""
    from laddernet.table.rows import read_rows

    with _err.status("Reading"):
        named = {option: names_in(names) for option, names in columns.items()}
        return read_rows(table, target, also=also, labels=labels, unlabeled=unlabeled, **named)


# --- Output -----------------------------------------------------------------------------------------------------


def _quiet(line: str, *, flush: bool = False) -> None:
    """Print nothing."""


def _about(rows: "Rows") -> dict[str, Any]:
    """Describe the rows in values for JSON."""
    columns = [{"name": column.name, "kind": column.kind} for column in rows.columns]
    return {"rows": len(rows.codes), "labels": rows.labels, "columns": columns, "dropped": rows.dropped}


def _point(point: "Point") -> dict[str, Any]:
    """Describe a point of the label curve in values for JSON."""
    about: dict[str, Any] = {"per_class": point.per_class, "labels": point.labels, "judged": point.judged}
    for name, alone in (("error", False), ("logistic_regression", True)):
        mean, doubt = point.summary(alone)
        about[name] = {"mean": mean, "standard_error": doubt, "limits": list(point.limits(alone))}
    return about


def _print_rows(table: str, rows: "Rows") -> None:
    """Print the labels of each class, the columns that are not used, and the notices."""
    from laddernet.table.table import listed

    labelled = sum(rows.labels.values())
    used = "1 column is" if len(rows.columns) == 1 else f"{len(rows.columns):,} columns are"
    show(f"{table}: {len(rows.codes):,} rows, {labelled:,} of them labelled; {used} used")
    width = max(len(visible(name)) for name in [*rows.labels][:_SHOWN])
    for name, count in [*rows.labels.items()][:_SHOWN]:
        print(f"  {visible(name):{width}}  {count:>9,}  {count / labelled:4.0%}")
    if len(rows.labels) > _SHOWN:
        print(f"  and {len(rows.labels) - _SHOWN:,} more classes")
    reasons: dict[str, list[str]] = {}
    for name, reason in rows.dropped.items():
        reasons.setdefault(reason, []).append(name)
    for reason, names in reasons.items():
        show(f"Not used: {listed(names)} ({reason})")
    for line in [*(each.sentence() for each in rows.rounds), *rows.notices]:
        show(line)
    sys.stdout.flush()


def _print_point(point: "Point", repeats: int, model: str, *, first: bool) -> None:
    """Print a line of the label curve, the first below a heading."""
    name = "Ladder Network" if model == "vanilla" else model
    width = max(len(name), 14)
    if first:
        print(f"Error on {point.judged:,} held-out labelled rows, mean ± standard error of {repeats} random draws,")
        print("beside logistic regression, which is trained on the labelled rows only:")
        print(f"labels per class   labels  {name:>{width}}  logistic regression")
    shown, alone = point.shown(), point.shown(alone=True)
    print(f"{point.per_class:16,}  {point.labels:7,}  {shown:>{width}}  {alone:>19}", flush=True)


def _single(rows: "Rows") -> str:
    """Name the classes with a single label."""
    from laddernet.table.table import listed

    names = [name for name, count in rows.labels.items() if count == 1]
    return f"{listed(names)} {'has' if len(names) == 1 else 'have'} one label"

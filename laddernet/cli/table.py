"""The commands for a table of one's own: ``fit``, ``predict``, ``inspect``, ``suggest`` and ``curve``."""

import json
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd
import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table as Lines
from rich.text import Text

from laddernet.classifier.curve import (
    Point,
    check_picture,
    folds_possible,
    forecast,
    label_curve,
    plot_label_curve,
    save_picture,
)
from laddernet.classifier.estimator import LadderClassifier
from laddernet.cli.options import names_in, stoppable, whole_numbers
from laddernet.errors import InputError
from laddernet.files import sha256
from laddernet.inference import modelfile
from laddernet.table.columns import decoded, values_of
from laddernet.table.model import Estimate, Rows, TableModel, describe, estimate, read_rows
from laddernet.table.read import Table, listed, open_table
from laddernet.table.suggest import suggest as suggested
from laddernet.table.write import check_writable, csv_writer
from laddernet.text import say, show, visible, visible_json

_out = Console()
_err = Console(stderr=True)

_PATIENCE = 600.0  # seconds that an estimate may take if nobody asked for it
_SHOWN = 30  # classes that are listed

# What several commands share.
ModelFile = Annotated[Path, typer.Argument(help="A model that `laddernet fit` saved.")]
OutFile = Annotated[Path, typer.Option("--out", help="The CSV file to write; '-' is standard output.")]
Keep = Annotated[str, typer.Option(help="Columns to copy, as in id,name.")]
Raw = Annotated[
    bool, typer.Option("--raw", help="Write cells as they are; otherwise a ' stands before what looks like a formula.")
]
Delimiter = Annotated[
    str | None, typer.Option(help="What stands between the cells of a CSV file. [default: found out]")
]
Encoding = Annotated[str | None, typer.Option(help="Of a CSV file. [default: utf-8, or what its first bytes say]")]
Target = Annotated[
    str | None, typer.Option(help="The column of the classes, empty where unlabelled. [default for NPZ: y]")
]
Unlabeled = Annotated[
    str | None,
    typer.Option(help="What marks a row without a label, besides an empty cell. [default: -1 for NPZ, nothing else]"),
]
Also = Annotated[list[Path] | None, typer.Option(help="More rows, without labels; may be repeated.")]
Drop = Annotated[str, typer.Option(help="Columns to leave out, as in id,name.")]
Use = Annotated[str, typer.Option(help="Columns to use although they look like identifiers.")]
Category = Annotated[str, typer.Option(help="Columns that are categories although they look like numbers.")]
ModelId = Annotated[str, typer.Option(help="A model's id; `laddernet models` lists them.")]
Hidden = Annotated[str | None, typer.Option(help="Hidden sizes. [default: 64,32, or 256,128 for columns like pixels]")]
Networks = Annotated[
    int | None, typer.Option(min=1, help="How many networks decide. [default: 4, or 1 for columns like pixels]")
]
Epochs = Annotated[int | None, typer.Option(min=1, help="Passes over the rows, instead of --max-steps.")]
MaxSteps = Annotated[
    int | None,
    typer.Option(min=1, help="Steps of training. [default: one a row, 300 to 1000, or 5000 for pixels]"),
]


def fit(
    data: Annotated[Path, typer.Argument(help="A table: CSV, Parquet, or NPZ with arrays X and y.")],
    target: Target = None,
    unlabeled: Unlabeled = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="The model's file. [default: DATA's name with .safetensors]")
    ] = None,
    also: Also = None,
    drop: Drop = "",
    use: Use = "",
    category: Category = "",
    model: ModelId = "vanilla",
    hidden: Hidden = None,
    networks: Networks = None,
    epochs: Epochs = None,
    max_steps: MaxSteps = None,
    seed: Annotated[int, typer.Option(min=0, max=2**32 - 1, help="Fixes initial values, noise, order and folds.")] = 0,
    estimate: Annotated[
        bool | None,
        typer.Option(help="Estimate the error by cross-validation. [default: if it takes less than ten minutes]"),
    ] = None,
    delimiter: Delimiter = None,
    encoding: Encoding = None,
) -> None:
    """Learn a table's classes from rows with and without labels."""
    _refuse_stdin("fit", data)
    table = open_table(data, delimiter=delimiter, encoding=encoding)
    others = [open_table(other, delimiter=delimiter, encoding=encoding) for other in also or ()]
    path = out or data.with_suffix(".safetensors")
    _spare(path, data, *(also or ()))
    check_writable(path)
    if out is None:
        _spare_foreign(path)
    _prepare(model)
    settings = _settings(hidden, networks, epochs, max_steps, seed)

    def make(verbose: bool = False) -> LadderClassifier:
        return LadderClassifier(model, verbose=verbose, **settings)

    with stoppable("Stopped; nothing was saved."):
        rows = _rows(table, target, others, unlabeled, drop=drop, use=use, category=category)
        started = time.monotonic()
        trained = TableModel.of(rows, make(verbose=_err.is_terminal).fit(rows.X, rows.codes))
        seconds = time.monotonic() - started
        trained.save(path)
    show(f"Trained {model} for {seconds:.0f} s; saved to {path}", flush=True)
    with stoppable(f"Stopped; {path} is saved, without an estimate."):
        found = _estimated(rows, make, seed, seconds, estimate)
        if found is not None:
            replace(trained, estimate=found).save(path)


def predict(
    model: ModelFile,
    data: Annotated[Path, typer.Argument(help="A table: CSV, Parquet or NPZ; '-' is CSV on standard input.")],
    out: OutFile = Path("-"),
    proba: Annotated[bool, typer.Option("--proba", help="Add the probability of each class.")] = False,
    keep: Keep = "",
    raw: Raw = False,
    delimiter: Delimiter = None,
    encoding: Encoding = None,
) -> None:
    """Write the class of each row, and how sure the model is of it; however large the table is."""
    _spare(out, model, data)
    trained = TableModel.load(model)
    table = open_table(data, delimiter=delimiter, encoding=encoding)
    copied = names_in(keep)
    _check(trained, table, copied)
    added = ["class", "confidence", *(f"p({name})" for name in trained.classes if proba)]
    unread: Counter[str] = Counter()
    count = 0
    with stoppable(f"Stopped; {out} is as it was."), csv_writer(out, raw=raw) as writer:
        writer.writerow(_header([], copied, added))
        for part in trained.parts(table, copied):
            p = trained.classifier.predict_proba(trained.features(part, unread))
            best = p.argmax(axis=1)
            columns: list[Any] = [_cells(part[name]) for name in copied]
            columns += [np.array(trained.classes, object)[best].tolist(), _rounded(p.max(axis=1))]
            columns += [_rounded(column) for column in p.T] if proba else []
            writer.writerows(zip(*columns, strict=True))
            count += len(part)
    for name, cells in (+unread).items():
        say(f"{name}: {cells:,} cells were not understood and count as missing.")
    if str(out) != "-":
        show(f"{count:,} rows; saved to {out}")


def suggest(
    model: ModelFile,
    data: Annotated[Path, typer.Argument(help="A table with unlabelled rows: CSV, Parquet or NPZ.")],
    target: Annotated[
        str | None, typer.Option(help="The column of the classes; rows with a class are passed over. [default: fit's]")
    ] = None,
    unlabeled: Annotated[
        str | None, typer.Option(help="What marks a row without a label, besides an empty cell. [default: fit's]")
    ] = None,
    count: Annotated[int, typer.Option(min=1, max=1000, help="How many rows to suggest, up to 1000.")] = 20,
    out: OutFile = Path("-"),
    keep: Keep = "",
    raw: Raw = False,
    delimiter: Delimiter = None,
    encoding: Encoding = None,
) -> None:
    """Rank the unlabelled rows by how much a label of each would teach."""
    _spare(out, model, data)
    trained = TableModel.load(model)
    table = open_table(data, delimiter=delimiter, encoding=encoding)
    copied = names_in(keep)
    _check(trained, table, copied + ([] if target is None else [target]))
    if target is None and trained.target in table.columns:
        target = trained.target
    with stoppable("Stopped; nothing was written."), csv_writer(out, raw=raw) as writer:
        found = suggested(trained, table, target=target, unlabeled=unlabeled, count=count, keep=copied)
        if not found.total:
            advice = "give one with rows"
            if target:
                advice = (
                    f"leave {target!r} empty where a label is wanted, or name the mark of such rows with --unlabeled"
                )
            raise InputError(f"{table.name} has no unlabelled row; {advice}.")
        writer.writerow(_header(["rank", "row"], copied, ["class", "confidence", "use"]))
        rows = zip(
            range(1, len(found.use) + 1),
            found.frame.index,
            *(_cells(found.frame[name]) for name in copied),
            found.classes,
            _rounded(found.confidence),
            _rounded(found.use),
            strict=True,
        )
        writer.writerows(rows)
    if str(out) != "-":
        show(f"{len(found.use):,} of {found.total:,} unlabelled rows; saved to {out}")


def curve(
    data: Annotated[Path, typer.Argument(help="A table: CSV, Parquet, or NPZ with arrays X and y.")],
    target: Target = None,
    unlabeled: Unlabeled = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="A picture of it: a name that ends in .svg, .png or .pdf.")
    ] = None,
    counts: Annotated[
        str | None, typer.Option(help="Labels a class, as in 1,5,20. [default: 1,2,5,10 … up to all]")
    ] = None,
    repeats: Annotated[
        int, typer.Option(min=2, max=1000, help="Draws of labels, and trainings, for each of the counts.")
    ] = 5,
    also: Also = None,
    drop: Drop = "",
    use: Use = "",
    category: Category = "",
    model: ModelId = "vanilla",
    hidden: Hidden = None,
    networks: Networks = None,
    epochs: Epochs = None,
    max_steps: MaxSteps = None,
    seed: Annotated[int, typer.Option(min=0, max=2**31, help="Fixes the draws, initial values, noise and order.")] = 0,
    delimiter: Delimiter = None,
    encoding: Encoding = None,
) -> None:
    """Measure how the error falls with the number of labels."""
    _refuse_stdin("curve", data)
    table = open_table(data, delimiter=delimiter, encoding=encoding)
    others = [open_table(other, delimiter=delimiter, encoding=encoding) for other in also or ()]
    if out is not None:
        check_picture(out)
        _spare(out, data, *(also or ()))
        check_writable(out)
    _prepare(model)
    asked = None if counts is None else whole_numbers("counts", counts)
    classifier = LadderClassifier(model, **_settings(hidden, networks, epochs, max_steps, seed))
    with stoppable("Stopped; no picture was written." if out else "Stopped."):
        rows = _rows(table, target, others, unlabeled, drop=drop, use=use, category=category)
        if not folds_possible(rows.codes):
            raise InputError(f"{_single(rows)}; give two or more of each class, to learn and to judge by.")
        heads = iter([True])  # stand above the first point alone
        with _shown("Training") as told:
            points = label_curve(
                classifier,
                rows.X,
                rows.codes,
                counts=asked,
                repeats=repeats,
                seed=seed,
                on_fit=lambda number, total: told(f"Training, {number}/{total}"),
                on_point=lambda point: _print_point(point, repeats, model, first=next(heads, False)),
            )
        if any("(" in point.shown(alone) for point in points for alone in (False, True)):
            print("In brackets: the 90 % interval, where all draws gave the same error.")
        print(forecast(points))
        if out is not None:
            save_picture(plot_label_curve(points, title=data.name), out)
            show(f"saved to {out}")


def inspect(
    model: ModelFile,
    as_json: Annotated[bool, typer.Option("--json", help="Print one object.")] = False,
) -> None:
    """Show what a model was learned from, what it does with each column, and how good it is expected to be."""
    with modelfile.understood(model):
        about = describe(TableModel.load(model)) | {"sha256": sha256(model)}
    if as_json:
        print(visible_json(json.dumps(about, indent=2, ensure_ascii=False)))
        return
    network = about["network"]
    sizes = network["sizes"]
    several = f"{network['networks']} of " if network["networks"] > 1 else ""
    linear = f" and one of {sizes[0]}-{sizes[-1]}" if network["linear_share"] else ""
    facts = Lines(box=None, show_header=False)
    for name, value in (
        ("model", f"{network['model']}, saved by laddernet {about['version']}"),
        ("network", f"{several}{'-'.join(map(str, sizes))}{linear}, {network['parameters']:,} parameters"),
        ("training", ", ".join(f"{key} {value}" for key, value in network["settings"].items())),
        ("rows", f"{about['rows']:,}, of which {sum(about['labels'].values()):,} labelled"),
        ("estimate", " ".join(about["estimate"]["sentences"]) if about["estimate"] else "none was made"),
        ("sha256", about["sha256"]),
    ):
        facts.add_row(Text(name, "dim"), Text(visible(value)))
    classes = Lines(escape(visible(f"class ({about['target']})")), "labels", box=None)
    for name, count in about["labels"].items():
        classes.add_row(Text(visible(name)), f"{count:,}")
    columns = Lines("column", "kind", "what is done with it", box=None)
    for column in about["columns"]:
        columns.add_row(Text(visible(column["name"])), column["kind"], Text(visible(column["does"])))
    for name, reason in about["dropped"].items():
        columns.add_row(Text(visible(name)), Text("not used", "dim"), Text(visible(reason), "dim"))
    for part in (facts, "", classes, "", columns):
        _out.print(part, highlight=False)


# --- What they share --------------------------------------------------------------------------------------------


def _prepare(model: str) -> None:
    """Load what trains, JAX above all, which commands that only predict do without."""
    from laddernet.network.models import find
    from laddernet.training.programs import keep_compiled_programs

    find(model)  # refuse what is unknown before anything is read
    keep_compiled_programs()


def _rows(table: Table, target: str | None, also: Sequence[Table], unlabeled: str | None, **columns: str) -> Rows:
    """Read what is to be learned from, and print what it is; ``columns`` are names by what is to be done with them."""
    with _shown("Reading"):
        named = {what: names_in(names) for what, names in columns.items()}
        rows = read_rows(table, target, also=also, unlabeled=unlabeled, **named)
    _print_rows(table.name, rows)
    return rows


def _print_rows(table: str, rows: Rows) -> None:
    labelled = sum(rows.labels.values())
    used = "1 column is" if len(rows.columns) == 1 else f"{len(rows.columns):,} columns are"
    show(f"{table}: {len(rows.codes):,} rows, {labelled:,} of them labelled; {used} used")
    width = max(len(visible(name)) for name in [*rows.labels][:_SHOWN])
    for name, count in [*rows.labels.items()][:_SHOWN]:
        print(f"  {visible(name):{width}}  {count:>9,}  {count / labelled:4.0%}")
    if len(rows.labels) > _SHOWN:
        print(f"  and {len(rows.labels) - _SHOWN:,} classes more")
    reasons: dict[str, list[str]] = {}
    for name, reason in rows.dropped.items():
        reasons.setdefault(reason, []).append(name)
    for reason, names in reasons.items():
        show(f"Not used: {_listed(names)} ({reason})")
    for notice in rows.notices:
        show(notice)
    sys.stdout.flush()


def _estimated(rows: Rows, make: Any, seed: int, seconds: float, asked: bool | None) -> Estimate | None:
    folds = folds_possible(rows.codes)
    if asked is False:
        return None
    if not folds:
        print(f"No estimate: {_single(rows)}; with two or more of each class there would be one.")
        return None
    if asked is None and 2 * folds * seconds > _PATIENCE:
        minutes = 2 * folds * seconds / 60
        print(f"No estimate: it would take some {minutes:.0f} minutes; with --estimate it is made.")
        return None
    with _shown("Estimating the error") as told:
        fits = iter(range(1, 2 * folds + 1))
        found = estimate(
            make, rows.X, rows.codes, seed=seed, on_fit=lambda: told(f"Estimating the error, {next(fits)}/{2 * folds}")
        )
    for sentence in found.sentences():
        print(sentence)
    return found


def _single(rows: Rows) -> str:
    names = [name for name, count in rows.labels.items() if count == 1]
    return f"{_listed(names)} {'has' if len(names) == 1 else 'have'} one label"


def _print_point(point: Point, repeats: int, model: str, *, first: bool) -> None:
    width = max(len(model), 14)
    if first:
        print(
            f"Error on {point.judged:,} labelled rows that are not in the training, mean of {repeats} draws of labels,"
        )
        print("beside logistic regression, which learns from the labelled rows alone:")
        print(f"labels a class     labels  {model:>{width}}  labels alone")
    print(
        f"{point.per_class:14,}  {point.labels:9,}  {point.shown():>{width}}  {point.shown(alone=True):>12}",
        flush=True,
    )


def _refuse_stdin(command: str, data: Path) -> None:
    if str(data) == "-":
        raise InputError(f"`{command}` reads its table more than once; give a file instead of standard input.")


def _settings(
    hidden: str | None, networks: int | None, epochs: int | None, max_steps: int | None, seed: int
) -> dict[str, Any]:
    """What the options say about the classifier."""
    settings: dict[str, Any] = {
        "n_networks": networks,
        "epochs": epochs,
        "max_steps": max_steps,
        "random_state": seed,
    }
    if hidden is not None:
        settings["hidden"] = whole_numbers("hidden", hidden)
    return settings


def _spare(out: Path, *inputs: Path) -> None:
    for path in inputs:
        if out.exists() and path.exists() and out.samefile(path):
            raise InputError(f"--out is {path}, which is read from; name another file.")


def _spare_foreign(path: Path) -> None:
    """Refuse to replace what nobody named, unless it is a model that an earlier `fit` left there."""
    if not path.exists():
        return
    try:
        modelfile.read(path, "table")
    except InputError as error:
        advice = "name the model's file with --out, which replaces whatever it names"
        raise InputError(f"{path} exists and is not a whole model that `fit` saved; {advice}.") from error


def _check(model: TableModel, table: Table, more: Sequence[str]) -> None:
    """Refuse a table that lacks columns, and say which ones it has for nothing."""
    table.require(more)
    extra = [name for name in model.check(table) if name not in more]
    if extra:
        say(f"{table.name}: {_listed(extra)} not known to the model, and not used.")


def _header(before: list[str], copied: list[str], after: list[str]) -> list[str]:
    """Names of columns, no two alike: a copied one may be called what a new one is called."""
    return [*before, *(f"{name} (given)" if name in {*before, *after} else name for name in copied), *after]


def _cells(column: Any) -> list[Any]:
    """A column as it was given; nothing where nothing was."""
    return [
        None if value is pd.NaT or (isinstance(value, float) and value != value) else _plain(value)
        for value in values_of(column)
    ]


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return decoded(value)
    if isinstance(value, np.floating):  # str, for a float32 has fewer digits than Python's numbers
        return str(value)
    return value.tolist() if isinstance(value, np.ndarray) else value


def _rounded(values: Any) -> list[float]:
    return [round(float(value), 6) for value in values]


def _listed(names: Sequence[str]) -> str:
    return listed(names)


@contextmanager
def _shown(what: str) -> Iterator[Any]:
    """A sign of life on a terminal, nothing elsewhere; what is yielded changes its words."""
    if not _err.is_terminal:
        yield lambda words: None
        return
    with _err.status(Text(what)) as status:
        yield lambda words: status.update(Text(words))

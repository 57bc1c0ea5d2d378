"""The commands that describe models: ``inspect`` and ``compare``. They need no JAX.

Packages are imported when a command runs, so that ``--help`` and shell completion are fast.
"""

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table as Lines
from rich.text import Text

from laddernet.cli.estimating import Calibration, Confusion, called, check_pictures, print_estimate, save_pictures
from laddernet.cli.options import print_json, stoppable
from laddernet.cli.table_options import Delimiter, Encoding, Json, ModelFile, ModelTarget, ModelUnlabeled
from laddernet.text import show, visible

_out = Console()

_SHOWN = 10  # pairs of classes that `compare` lists


def compare(
    first: Annotated[Path, typer.Argument(help="A model that `laddernet fit` saved.")],
    second: Annotated[Path, typer.Argument(help="Another model of the same classes.")],
    data: Annotated[Path, typer.Argument(help="A table: CSV, Parquet or NPZ; '-' is CSV on standard input.")],
    target: ModelTarget = None,
    unlabeled: ModelUnlabeled = None,
    as_json: Json = False,
    delimiter: Delimiter = None,
    encoding: Encoding = None,
) -> None:
    """Compare two models on one table: the rows on which they agree and, if rows have a label, the errors of both.

    Use rows that neither model was trained on: on its training rows a model has a lower error.
    """
    from laddernet.table.compare import compare as compared
    from laddernet.table.model import TableModel
    from laddernet.table.read import open_table

    models = [TableModel.load(first), TableModel.load(second)]
    table = open_table(data, delimiter=delimiter, encoding=encoding)
    if target is None and models[0].target == models[1].target and models[0].target in table.columns:
        target = models[0].target
    table.require([] if target is None else [target])
    for model in models:
        model.check(table)
    with stoppable("Stopped."):
        found = compared(models, table, target=target, unlabeled=unlabeled)
    if as_json:
        print_json({"first": str(first), "second": str(second), "target": target} | found.about())
        return
    for sentence in found.sentences([str(first), str(second)]):
        show(sentence)
    if found.changes:
        changes = Lines(escape(visible(str(first))), escape(visible(str(second))), "rows", box=None)
        for (a, b), rows in found.changes.most_common(_SHOWN):
            changes.add_row(Text(visible(a)), Text(visible(b)), f"{rows:,}")
        _out.print(changes, highlight=False)
        if len(found.changes) > _SHOWN:
            print(f"and {len(found.changes) - _SHOWN:,} more pairs of classes")


def inspect(
    model: ModelFile, confusion: Confusion = None, calibration: Calibration = None, as_json: Json = False
) -> None:
    """Show a model's training data, the inputs that each column becomes, and its expected error."""
    from laddernet.files import sha256
    from laddernet.inference import modelfile
    from laddernet.table.describe import describe
    from laddernet.table.model import TableModel

    check_pictures(confusion, calibration)
    with modelfile.understood(model):
        held = TableModel.load(model)
        about = describe(held) | {"sha256": sha256(model)}
    drawn = [*save_pictures(held.estimate, list(held.classes), confusion, calibration)]
    if as_json:
        print_json(about | {"pictures": [*map(str, drawn)]})
        return
    facts = Lines(box=None, show_header=False)
    for name, value in (
        ("model", f"{_called(about)}, saved by laddernet {about['version']}"),
        *_network(about["network"]),
        ("rows", f"{about['rows']:,}, of which {sum(about['labels'].values()):,} labelled"),
        *([] if held.estimate else [("estimate", "none was made")]),
        ("sha256", about["sha256"]),
    ):
        facts.add_row(Text(name, "dim"), Text(visible(value)))
    classes = Lines(escape(visible(f"class ({about['target']})")), "labels", box=None)
    for name, count in about["labels"].items():
        classes.add_row(Text(visible(name)), f"{count:,}")
    columns = Lines("column", "kind", "inputs", box=None)
    for column in about["columns"]:
        columns.add_row(Text(visible(column["name"])), column["kind"], Text(visible(column["does"])))
    for name, reason in about["dropped"].items():
        columns.add_row(Text(visible(name)), Text("not used", "dim"), Text(visible(reason), "dim"))
    for part in (facts, "", classes, "", columns):
        _out.print(part, highlight=False)
    if held.estimate:
        print()
        print_estimate(held.estimate, list(held.classes))
    for picture in drawn:
        show(f"saved to {picture}")


def _called(about: dict[str, Any]) -> str:
    """Name the method of a model; the paper's Ladder Network is its model vanilla."""
    from laddernet.classifier.members import LADDER

    model = about["network"]["model"] if about["network"] else "vanilla"
    if about["method"] == LADDER:
        return "Ladder Network (vanilla)" if model == "vanilla" else model
    return called(about["method"], model, about["members"])


def _network(network: dict[str, Any] | None) -> list[tuple[str, str]]:
    """Describe the Ladder Network, if there is one."""
    if network is None:
        return []
    sizes = network["sizes"]
    several = f"{network['networks']} of " if network["networks"] > 1 else ""
    linear = f" and one of {sizes[0]}-{sizes[-1]}" if network["linear_share"] else ""
    return [
        ("network", f"{several}{'-'.join(map(str, sizes))}{linear}, {network['parameters']:,} parameters"),
        ("training", ", ".join(f"{key} {value}" for key, value in network["settings"].items())),
    ]

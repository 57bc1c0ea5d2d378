"""The command ``laddernet export``. It needs no JAX.

Packages are imported when it runs, so that ``--help`` and shell completion are fast.
"""

from pathlib import Path
from typing import Annotated

import typer

from laddernet.cli.options import print_json
from laddernet.cli.table_options import Json, ModelFile
from laddernet.text import show


def export(
    model: ModelFile,
    out: Annotated[Path, typer.Argument(help="The ONNX file to write.")],
    numbers: Annotated[
        bool, typer.Option("--numbers", help="Take columns of numbers as float64 instead of text, NaN where missing.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Write a model in the ONNX format, with the preparation of the columns inside."""
    from laddernet.table.model import TableModel
    from laddernet.table.write import check_writable, spare

    spare(out, model)
    check_writable(out)
    trained = TableModel.load(model)
    trained.to_onnx(out, numbers=numbers)
    if as_json:
        about = {"target": trained.target, "classes": trained.classes, "version": trained.version}
        print_json({"model": str(model), "out": str(out), "columns": [c.name for c in trained.columns], **about})
    else:
        show(f"{len(trained.columns):,} columns in, {len(trained.classes):,} classes out; saved to {out}")

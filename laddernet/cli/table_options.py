"""Options that several commands for tables share. Nothing heavy is imported here, so that ``--help`` is fast."""

from pathlib import Path
from typing import Annotated

import typer

ModelFile = Annotated[Path, typer.Argument(help="A model that `laddernet fit` saved.")]
TrainingTable = Annotated[Path, typer.Argument(help="A table: CSV, Parquet, or NPZ with arrays X and y.")]
OutFile = Annotated[Path, typer.Option("--out", help="The file to write; '-' is standard output.")]
Keep = Annotated[
    str | None, typer.Option(help="Columns to copy, as in id,name. [default: the identifiers that `fit` found]")
]
KeepCells = Annotated[str | None, typer.Option("--keep", help="Columns to copy, as in id,name. [default: all]")]
Labels = Annotated[
    list[Path] | None,
    typer.Option(help="A file that `suggest` or `label` wrote, with labels filled in; may be repeated."),
]
Raw = Annotated[
    bool, typer.Option("--raw", help="Write text unchanged; otherwise a ' precedes what looks like a formula.")
]
JsonLines = Annotated[bool, typer.Option("--json", help="Write an object for each row, instead of CSV.")]
Json = Annotated[bool, typer.Option("--json", help="Print one object, and nothing else.")]
Delimiter = Annotated[str | None, typer.Option(help="The delimiter of a CSV file. [default: detected]")]
Encoding = Annotated[
    str | None, typer.Option(help="The encoding of a CSV file. [default: by its first bytes, or utf-8]")
]
Target = Annotated[
    str | None, typer.Option(help="The column of the classes, empty where unlabelled. [default for NPZ: y]")
]
ModelTarget = Annotated[str | None, typer.Option("--target", help="The column of the classes. [default: the model's]")]
Unlabeled = Annotated[
    str | None,
    typer.Option(help="A value that marks unlabelled rows, besides empty cells. [default: -1 for NPZ, else none]"),
]
ModelUnlabeled = Annotated[
    str | None,
    typer.Option("--unlabeled", help="A value that marks unlabelled rows, besides empty cells. [default: the model's]"),
]
Also = Annotated[list[Path] | None, typer.Option(help="A table with more rows, without labels; may be repeated.")]
Drop = Annotated[str, typer.Option(help="Columns to leave out, as in id,name.")]
Use = Annotated[str, typer.Option(help="Columns to use although they look like identifiers.")]
Category = Annotated[str, typer.Option(help="Columns that are categories although they look like numbers.")]
ModelId = Annotated[str, typer.Option(help="A model's id; `laddernet models` lists them.")]
Hidden = Annotated[
    str | None, typer.Option(help="Sizes of the hidden layers. [default: 64,32, or 256,128 for columns like pixels]")
]
Networks = Annotated[
    int | None, typer.Option(min=1, help="The number of networks. [default: 4, or 1 for columns like pixels]")
]
Epochs = Annotated[int | None, typer.Option(min=1, help="Passes over the rows, instead of --max-steps.")]
MaxSteps = Annotated[
    int | None,
    typer.Option(min=1, help="Training steps of each network. [default: one per row, 300 to 1000; pixels: 5000]"),
]

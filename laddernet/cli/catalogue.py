"""The commands that list what there is: ``models`` and ``data``.

JAX takes most of a second to import, and `laddernet.network` needs it. So ``models`` reads models.json, which
``python -m laddernet.cli.catalogue`` writes and a test compares with `laddernet.network`.
"""

import json
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from laddernet.text import show, visible

out = Console()

_FILE = "models.json"


def models(
    as_json: Annotated[bool, typer.Option("--json", help="Print a list of objects.")] = False,
) -> None:
    """List the twenty models, as the paper's tree."""
    listed = json.loads(files("laddernet.cli").joinpath(_FILE).read_text("utf-8"))
    if as_json:
        print(json.dumps(listed, indent=2, ensure_ascii=False))
        return
    tree = Tree("Models, each with its number of parameters in the paper's network", guide_style="dim")
    branches: dict[tuple[str, ...], Tree] = {(): tree}
    for model in sorted(listed, key=lambda model: len(model["family"]) != 1):  # the head of a family first
        family = tuple(model["family"])
        for depth in range(1, len(family) + 1):
            if family[:depth] not in branches:
                branches[family[:depth]] = branches[family[: depth - 1]].add(Text(family[depth - 1], "dim"))
        count = f"{model['parameters']:,}"
        branches[family].add(Text.assemble((model["id"], "bold"), f"  {model['description']}  ", (count, "dim")))
    out.print(tree, highlight=False)


def data(
    name: Annotated[str | None, typer.Argument(help="The data set to fetch; without it, all are listed.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print a list of objects.")] = False,
) -> None:
    """List the data sets and where they are stored, or fetch one."""
    from dataclasses import asdict

    from laddernet.data import fetch, known

    if name is not None:
        folder = fetch(name)
        if not as_json:
            show(f"{name}: {folder or 'ships with scikit-learn, nothing to fetch'}")
            return
    sets = [info for info in known() if name in (None, info.name)]
    if as_json:
        print(json.dumps([asdict(info) for info in sets], indent=2))
        return
    table = Table("data set", "rows (train + test)", "columns", "classes", "stored in", box=None)
    for info in sets:
        where = info.where if info.cached else f"{info.where} (not fetched: laddernet data {info.name})"
        table.add_row(
            info.name,
            f"{info.n_train:,} + {info.n_test:,}",
            str(info.n_features),
            str(info.n_classes),
            Text(visible(where)),
        )
    out.print(table)


def describe_models() -> list[dict[str, Any]]:
    """Describe every model in values for JSON; this needs JAX."""
    from laddernet.network.ladder import paper_parameters
    from laddernet.network.models import MODELS

    return [
        {
            "id": model.id,
            "paper_name": model.paper_name,
            "family": list(model.family),
            "description": model.description,
            "noise": model.noise,
            "reconstruction": model.reconstruction,
            "parameters": paper_parameters(model),
        }
        for model in MODELS.values()
    ]


if __name__ == "__main__":
    content = json.dumps(describe_models(), indent=2, ensure_ascii=False) + "\n"
    Path(__file__).with_name(_FILE).write_text(content, "utf-8")

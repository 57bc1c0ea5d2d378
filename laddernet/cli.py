"""The command line's door: which command is in which module. Each is loaded when it is called."""

import ast
import io
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module, metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from laddernet.errors import DivergedError, InputError
from laddernet.options import say

_COMMANDS = {
    "laddernet.table.cli": ["fit", "predict", "inspect", "suggest", "curve"],
    "laddernet.commands": ["models", "data", "train"],
    "laddernet.study.cli": ["study", "report"],
    "laddernet.tune.cli": ["tune"],
}


class _Commands(TyperGroup):
    """Lists the commands by what their modules' texts say, and imports only that of the one that is called.

    What they need between them (JAX, scikit-learn, pandas, Optuna, SQLAlchemy) takes seconds to import.
    """

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = {
            name: TyperCommand(name, help=text)
            for module, names in _COMMANDS.items()
            for name, text in _docstrings(module, names).items()
        }

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, listed, rest = super().resolve_command(ctx, args)
        if name is None or listed is None:
            return name, listed, rest
        module = next(module for module, names in _COMMANDS.items() if name in names)
        # As Rich's own markup, help texts would lose what stands in brackets: their defaults.
        alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode="markdown")
        alone.command(name)(getattr(import_module(module), name))
        return name, typer.main.get_command(alone), rest


def _docstrings(module: str, functions: Sequence[str]) -> dict[str, str]:
    """What functions of a module say of themselves, without running it."""
    spec = find_spec(module)
    assert spec is not None
    assert spec.origin is not None
    tree = ast.parse(Path(spec.origin).read_text("utf-8"))
    found = {node.name: ast.get_docstring(node) or "" for node in tree.body if isinstance(node, ast.FunctionDef)}
    return {name: found[name] for name in functions}


app = typer.Typer(cls=_Commands, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)


def main() -> None:
    """Run the command line; what a user did wrong is one sentence and exit code 2."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal that does not know "±" shows "?"
            stream.reconfigure(errors="replace")
    warnings.formatwarning = lambda message, *_, **__: f"laddernet: {message}\n"  # one sentence, as all else
    try:
        with _printed():
            app()
    except InputError as error:
        say(f"laddernet: {error}")
        sys.exit(2)
    except DivergedError as error:
        say(f"laddernet: {error}")
        sys.exit(1)


@contextmanager
def _printed() -> Iterator[None]:
    """Whatever a command prints has gone out at its end; if the system refuses it, that is one sentence."""
    try:
        try:
            yield
        finally:
            if sys.stdout is not None:
                sys.stdout.flush()
    except OSError as error:
        if error.filename is not None:
            raise
        # Python writes what is left when it ends, and would complain once more.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):  # its reader has seen enough, as `head` has
            sys.exit(1)
        reason = f"Cannot write to standard output ({error.strerror or error})"
        raise InputError(f"{reason}; send it to a place that has space.") from error


def _version(asked: bool) -> None:
    if asked:
        print(f"laddernet {metadata.version('laddernet')}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[bool, typer.Option("--version", callback=_version, help="Print the version.")] = False,
) -> None:
    """Semi-supervised learning with Ladder Networks."""

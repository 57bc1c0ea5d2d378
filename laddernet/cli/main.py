"""The command ``laddernet``: it finds the module of a subcommand, and imports only that one."""

import ast
import io
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module, metadata
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from laddernet.errors import DivergedError, InputError, packages
from laddernet.files import refusal
from laddernet.text import say, visible

_COMMANDS = {
    "fit": ["fit", "curve"],
    "predict": ["predict", "suggest"],
    "label": ["label"],
    "inspect": ["inspect", "compare"],
    "export": ["export"],
    "catalogue": ["models", "data"],
    "train": ["train"],
    "sample": ["sample"],
    "study": ["study", "report"],
    "tune": ["tune"],
}


class _Commands(TyperGroup):
    """Lists the commands from the source text of their modules, and imports only the module of the one that is called.

    All that the commands need together (JAX, scikit-learn, pandas, Optuna, SQLAlchemy) takes seconds to import.
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
        # In Rich's own markup, help texts would lose their defaults, which are in brackets.
        alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode="markdown")
        alone.command(name)(getattr(import_module(f"laddernet.cli.{module}"), name))
        return name, typer.main.get_command(alone), rest

    def make_context(self, *args: Any, **kwargs: Any) -> Any:
        with _explained():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: Any) -> Any:
        with _explained():
            return super().invoke(ctx)


def _docstrings(module: str, functions: Sequence[str]) -> dict[str, str]:
    """Read the docstrings of functions from a module's source text, without running it."""
    tree = ast.parse(Path(__file__).with_name(f"{module}.py").read_text("utf-8"))
    found = {node.name: ast.get_docstring(node) or "" for node in tree.body if isinstance(node, ast.FunctionDef)}
    return {name: found[name] for name in functions}


app = typer.Typer(cls=_Commands, no_args_is_help=True, pretty_exceptions_enable=False)


def main() -> None:
    """Run the command line; a mistake of the user is one sentence and exit code 2."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # a terminal without "±" shows "?"
            stream.reconfigure(errors="replace")
    # A warning is one sentence, without the line of code.
    warnings.formatwarning = lambda message, *_, **__: f"laddernet: {visible(str(message).replace(chr(10), ' '))}\n"
    try:
        with _printed():
            app(prog_name="laddernet")  # also with python -m
    except InputError as error:
        say(f"laddernet: {error}")
        sys.exit(2)
    except MemoryError as error:
        reason = f" ({error})" if str(error) else ""
        say(f"laddernet: There is not enough memory{reason}; give a smaller table or network, or free some memory.")
        sys.exit(2)
    except DivergedError as error:
        say(f"laddernet: {error}")
        sys.exit(1)


@contextmanager
def _explained() -> Iterator[None]:
    """Turn an error of the system or of the command line into one sentence."""
    try:
        with packages("This command"):
            yield
    except OSError as error:
        if error.filename == _STDOUT:
            raise
        raise InputError(refusal(error)) from error
    except Exception as error:
        # Errors of usage, whose class is not public. Without any arguments the help is the message.
        if not hasattr(error, "format_message") or type(error).__name__ == "NoArgsIsHelpError":
            raise
        reason = " ".join(error.format_message().split()).rstrip(".")
        context = getattr(error, "ctx", None)
        place = "laddernet" if context is None else context.command_path
        mark = "" if reason.endswith("?") else ";"
        raise InputError(f"{reason}{mark} `{place} --help` shows the options.") from error


_STDOUT = "standard output"


class _StandardOutput(io.FileIO):
    """Standard output whose errors have its name, to distinguish them from errors of files."""

    def write(self, data: Any, /) -> int:
        try:
            return super().write(data)
        except OSError as error:
            error.filename = _STDOUT
            raise


def _named(stream: Any) -> Any:
    """Wrap standard output in `_StandardOutput`, unless a test has replaced it."""
    buffer = getattr(stream, "buffer", None)
    raw = getattr(buffer, "raw", buffer)  # there is no buffer with python -u
    if type(raw) is not io.FileIO:
        return stream
    stream.flush()
    out = io.BufferedWriter(_StandardOutput(raw.fileno(), "wb", closefd=False))
    by_lines = stream.line_buffering or stream.write_through
    return io.TextIOWrapper(out, stream.encoding, "replace", line_buffering=by_lines)


@contextmanager
def _printed() -> Iterator[None]:
    """Flush standard output at the end; an error of the system is one sentence."""
    sys.stdout = _named(sys.stdout)
    try:
        try:
            yield
        finally:
            if sys.stdout is not None:
                sys.stdout.flush()
    except OSError as error:
        if error.filename != _STDOUT:
            raise
        # Python flushes the buffer when it ends, and would report the error again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):  # the reader has ended, as `head` does
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

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
from laddernet.files import refusal
from laddernet.text import say, visible

_COMMANDS = {
    "laddernet.cli.table": ["fit", "predict", "inspect", "suggest", "curve"],
    "laddernet.cli.train": ["models", "data", "train"],
    "laddernet.cli.study": ["study", "report"],
    "laddernet.cli.tune": ["tune"],
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

    def make_context(self, *args: Any, **kwargs: Any) -> Any:
        with _explained():
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: Any) -> Any:
        with _explained():
            return super().invoke(ctx)


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
    # One sentence, as all else.
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
    """Turn errors of the system and of the command line into one sentence each."""
    try:
        yield
    except OSError as error:
        if error.filename == _STDOUT:
            raise
        raise InputError(refusal(error)) from error
    except Exception as error:
        # Of a command line that makes no sense; the class is not public. Without any arguments the help is the message.
        if not hasattr(error, "format_message") or type(error).__name__ == "NoArgsIsHelpError":
            raise
        reason = " ".join(error.format_message().split()).rstrip(".")
        context = getattr(error, "ctx", None)
        place = "laddernet" if context is None else context.command_path
        mark = "" if reason.endswith("?") else ";"
        raise InputError(f"{reason}{mark} `{place} --help` shows what can be given.") from error


_STDOUT = "standard output"


class _StandardOutput(io.FileIO):
    """Names itself in its errors, which have no file name otherwise: so they are told from those of other files."""

    def write(self, data: Any, /) -> int:
        try:
            return super().write(data)
        except OSError as error:
            error.filename = _STDOUT
            raise


def _named(stream: Any) -> Any:
    """Standard output with errors that name it, if it is a file of the system and not a test's."""
    buffer = getattr(stream, "buffer", None)
    raw = getattr(buffer, "raw", buffer)  # Python may be told not to buffer
    if type(raw) is not io.FileIO:
        return stream
    stream.flush()
    out = io.BufferedWriter(_StandardOutput(raw.fileno(), "wb", closefd=False))
    by_lines = stream.line_buffering or stream.write_through
    return io.TextIOWrapper(out, stream.encoding, "replace", line_buffering=by_lines)


@contextmanager
def _printed() -> Iterator[None]:
    """Whatever a command prints has gone out at its end; if the system refuses it, that is one sentence."""
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

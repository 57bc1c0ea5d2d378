"""Every example of a document is run by a test, and its commands have only options that exist."""

import shlex
from typing import Any

import typer
from documents import DOCUMENTS, blocks

from laddernet.cli.main import app

TESTED = {  # documents with examples in Python, all of which the tests of this folder run
    "README.md",
    "docs/explanation/models.md",
    "docs/how-to/cross-validation.md",
    "docs/how-to/deploy.md",
    "docs/how-to/extending.md",
    "docs/how-to/imbalanced-classes.md",
    "docs/how-to/label-in-rounds.md",
    "docs/how-to/own-data.md",
    "docs/how-to/samples.md",
    "docs/reference/classifier.md",
    "docs/reference/training.md",
    "docs/tutorials/combinator.md",
    "docs/tutorials/table.md",
}


def test_no_example_is_left_out() -> None:
    assert {document for document in DOCUMENTS if blocks(document)} == TESTED


def test_commands_in_the_documents_have_only_options_that_exist() -> None:
    group: Any = typer.main.get_command(app)
    lines = [line for document in DOCUMENTS for block in blocks(document, "sh") for line in joined(block).splitlines()]
    commands = [line for line in lines if line.strip().startswith("laddernet ")]
    assert len(commands) > 40
    with group.make_context("laddernet", ["models"]) as context:
        for line in commands:
            _, name, *rest = shlex.split(line.split(";")[0].split(">")[0], comments=True)
            command = group.resolve_command(context, [name])[1]
            known = {option for parameter in command.params for option in parameter.opts + parameter.secondary_opts}
            assert not {word for word in rest if word.startswith("--")} - known, line


def joined(block: str) -> str:
    """Return a block with each command on one line."""
    return block.replace("\\\n", " ")

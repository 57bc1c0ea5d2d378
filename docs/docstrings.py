"""Griffe extension: docstrings as the API page needs them."""

import re
from typing import Any

import griffe


class Docstrings(griffe.Extension):
    """Mark doctests as examples and Sphinx's roles as code; put the text after a parameter's colon below its name."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        if obj.docstring is None:
            return
        text = re.sub(r":(?:func|class|meth|mod):`", "`", obj.docstring.value)
        text = re.sub(
            r"^((?:Parameters|Attributes)\n-+\n)(.*?)(?=\n\n|\Z)", _below, text, flags=re.MULTILINE | re.DOTALL
        )
        if not re.search(r"^Examples\n-+$", text, re.MULTILINE):
            text = re.sub(r"^(?=>>> )", "Examples\n--------\n", text, count=1, flags=re.MULTILINE)
        obj.docstring.value = text


def _below(section: re.Match[str]) -> str:
    """Where the numpy style has a type, ours has the description: types are in the signature."""
    return section.group(1) + re.sub(r"^(\w[\w, ]*) : ", r"\1\n    ", section.group(2), flags=re.MULTILINE)

"""Griffe extension: docstrings as the API page needs them."""

import re
from typing import Any

import griffe


class Docstrings(griffe.Extension):
    """Mark doctests as examples, and Sphinx's roles as code."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        if obj.docstring is None:
            return
        text = re.sub(r":(?:func|class|mod):`", "`", obj.docstring.value)
        if not re.search(r"^Examples\n-+$", text, re.MULTILINE):
            text = re.sub(r"^(?=>>> )", "Examples\n--------\n", text, count=1, flags=re.MULTILINE)
        obj.docstring.value = text

"""Checks of the input of a table's model: frames, names of columns, and the content of its file."""

from collections.abc import Iterable

import pandas as pd

from laddernet.errors import InputError
from laddernet.inference import modelfile


def require_frame(frame: object) -> None:
    """Refuse what is not a DataFrame."""
    if not isinstance(frame, pd.DataFrame):
        raise InputError(f"frame must be a pandas DataFrame, got {type(frame).__name__}.")


def column_names(option: str, names: object) -> list[str]:
    """Refuse a single text or another type where a list of names must be."""
    if isinstance(names, str) or not isinstance(names, Iterable):
        raise InputError(f"{option} must be a list of columns' names, got {names!r}.")
    return [str(name) for name in names]


def check_types(about: modelfile.About) -> None:
    """Refuse a file that holds another type where the commands take a text or a number."""
    texts_in = {
        "target": [about["target"]],
        "version": [about["version"]],
        "unlabeled": [about["unlabeled"]] if about.get("unlabeled") is not None else [],
        "classes": [*about["classes"], *about["labels"]],
        "dropped": [*about["dropped"], *about["dropped"].values()],
        "columns": [column[field] for column in about["columns"] for field in ("name", "kind")],
    }
    numbers_in = {"rows": [about["rows"]], "positional": [about["positional"]], "labels": about["labels"].values()}
    for values, kind in ((texts_in, str), (numbers_in, int)):
        for name, held in values.items():
            if wrong := [value for value in held if type(value) is not kind]:
                raise TypeError(f"{name} holds {str(wrong[0])[:80]!r}, not {'a text' if kind is str else 'a number'}")
    if list(about["labels"]) != about["classes"] or len(about["classes"]) != len(
        about["classifier"]["classes"]["values"]
    ):
        raise ValueError("its classes are not those of its classifier")

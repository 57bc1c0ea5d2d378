"""Hyperparameters for known data sets, found by ``laddernet tune`` or published: one TOML file for each data set."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from typing import Any

import tomli_w

from laddernet.errors import InputError
from laddernet.files import from_toml, read_small

SETTINGS = ("noise", "recon_weights", "eta", "learning_rate")

Settings = dict[str, Any]  # of SETTINGS, those that a model has: numbers or lists of numbers
Key = tuple[int, str]  # number of labels, model's id


@dataclass(frozen=True)
class Entry:
    """The values for a model with a number of labels, and where they come from."""

    settings: Settings
    origin: dict[str, Any]


def lookup(
    data: str, labels: int, model: str, recipe: str = "paper", file: str | os.PathLike[str] | None = None
) -> Settings:
    """The values for this model with this very number of labels; none, if there are none.

    They come from ``file``, or else from the file that ships with the package. A learning rate, and η, which says how
    far the combinators have to go at that rate, are for the recipe that they were found with.

    >>> lookup("mnist", 1000, "vanilla")["recon_weights"]
    [2000.0, 20.0, 0.1]
    >>> lookup("mnist", 999, "vanilla")
    {}
    """
    if file is None:
        shipped = resources.files("laddernet.training.tuned").joinpath(f"{data}.toml")
        if not shipped.is_file():
            return {}
        held, entries = parse(shipped.read_text("utf-8"), f"{data}.toml")
    else:
        held, entries = read(file)
        if held != data:
            raise InputError(f"{file} holds values for {held}, not for {data}; name a file for {data}.")
    if (labels, model) not in entries:
        return {}
    entry = entries[labels, model]
    same = entry.origin.get("recipe", "paper") == recipe
    return {name: value for name, value in entry.settings.items() if same or name not in ("learning_rate", "eta")}


def choice(option: str | None) -> bool | str:
    """What the option --tuned asks for: what ships, nothing ("none"), or a file.

    >>> choice(None), choice("none"), choice("mine.toml")
    (True, False, 'mine.toml')
    """
    return True if option is None else option if option != "none" else False


def read(file: str | os.PathLike[str]) -> tuple[str, dict[Key, Entry]]:
    """The data set that a file is for, and its entries."""
    return parse(read_small(file).decode(errors="replace"), str(file))


@lru_cache(maxsize=8)
def parse(text: str, name: str) -> tuple[str, dict[Key, Entry]]:
    try:
        tables = from_toml(text)
        data = tables.pop("data")
        entries = {
            (int(labels), model): _entry(values)
            for labels, models in tables.items()
            for model, values in models.items()
        }
    except (KeyError, ValueError, TypeError, AttributeError, OverflowError) as error:
        raise InputError(
            f"{name} is not a file of tuned values ({error}); `laddernet tune report` writes one."
        ) from error
    return data, entries


def _entry(values: Mapping[str, Any]) -> Entry:
    settings = {name: value for name, value in values.items() if name != "origin"}
    for name, value in settings.items():
        numbers = value if isinstance(value, list) else [value]
        if name not in SETTINGS or not all(type(number) in (int, float) for number in numbers):
            raise ValueError(f"{name} = {value!r}")
        for number in numbers:
            float(number)  # a whole number may be too large for one
    return Entry(settings, dict(values["origin"]))


def to_toml(data: str, entries: Mapping[Key, Entry]) -> str:
    """Return the file's text, which :func:`parse` reads, in the order of labels; the same for the same entries.

    >>> print(to_toml("digits", {(100, "linear"): Entry({"noise": 0.3}, {"searched": True})}))
    # Hyperparameters for digits, by number of labels and model, and where they come from (docs/reference/tuning.md).
    data = "digits"
    <BLANKLINE>
    [100.linear]
    noise = 0.3
    <BLANKLINE>
    [100.linear.origin]
    searched = true
    <BLANKLINE>
    """
    head = f"Hyperparameters for {data}, by number of labels and model, and where they come from"
    tables: dict[str, Any] = {"data": data}
    for (labels, model), entry in sorted(entries.items(), key=lambda item: item[0][0]):
        tables.setdefault(str(labels), {})[model] = {**entry.settings, "origin": entry.origin}
    return f"# {head} (docs/reference/tuning.md).\n{tomli_w.dumps(tables)}"

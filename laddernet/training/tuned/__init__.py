"""Hyperparameters for known data sets, found by ``laddernet tune`` or published: one TOML file for each data set."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from typing import Any, NamedTuple

import tomli_w

from laddernet.errors import InputError
from laddernet.files import from_toml, read_small
from laddernet.training.config import Config

SETTINGS = ("noise", "recon_weights", "eta", "learning_rate")

Settings = dict[str, Any]  # of SETTINGS, those that a model has: numbers or lists of numbers
Key = tuple[int, str]  # number of labels, model's id
Shape = tuple[int, int]  # columns and classes of a data set


@dataclass(frozen=True)
class Entry:
    """The values for a model with a number of labels, and where they come from."""

    settings: Settings
    origin: dict[str, Any]


class Tuned(NamedTuple):
    """The content of a file of tuned values."""

    data: str
    entries: dict[Key, Entry]
    shape: Shape | None = None  # files of earlier versions do not have it


def lookup(
    data: str,
    labels: int,
    model: str,
    recipe: str = "paper",
    file: str | os.PathLike[str] | None = None,
    *,
    shape: Shape | None = None,
) -> Settings:
    """The values for this model with this very number of labels; none, if there are none.

    They come from ``file``, or else from the file that ships with the package for a data set of this name and shape. A
    learning rate, and η, which says how far the combinators have to go at that rate, are for the recipe that they were
    found with.

    >>> lookup("mnist", 1000, "vanilla")["recon_weights"]
    [2000.0, 20.0, 0.1]
    >>> lookup("mnist", 999, "vanilla"), lookup("mnist", 1000, "vanilla", shape=(64, 10))
    ({}, {})
    """
    entries = held_for(data, shape, file).entries
    if (labels, model) not in entries:
        return {}
    entry = entries[labels, model]
    same = entry.origin.get("recipe", "paper") == recipe
    return {name: value for name, value in entry.settings.items() if same or name not in ("learning_rate", "eta")}


def held_for(data: str, shape: Shape | None = None, file: str | os.PathLike[str] | None = None) -> Tuned:
    """Return the values of a file for a data set of this name and shape, or those that ship; none, if none ship."""
    nothing = Tuned(data, {}, shape)
    if file is None:
        shipped = resources.files("laddernet.training.tuned").joinpath(f"{data}.toml")
        held = parse(shipped.read_text("utf-8"), f"{data}.toml") if shipped.is_file() else nothing
        return held if _fits(held, shape) else nothing
    held = read(file)
    if held.data != data:
        raise InputError(f"{file} holds values for {held.data}, not for {data}; name a file for {data}.")
    if not _fits(held, shape):
        found = f"{file} holds values for {data} with {_sizes(held.shape)}, not with {_sizes(shape)}"
        raise InputError(f"{found}; name a file for this data.")
    return held


def untuned(configs: Mapping[str, Config], shape: Shape, tuned: bool | str) -> list[str]:
    """Return which of these runs, given by fingerprint, have no tuned values while other models have some.

    The other models are all those for which a search has found values with the same number of labels. ``tuned`` is what
    `choice` returns: without tuned values, all runs are alike.
    """
    if tuned is False:
        return []
    file = None if tuned is True else tuned
    entries = {data: held_for(data, shape, file).entries for data in {config.data for config in configs.values()}}
    searched = {
        (data, labels)
        for data in entries
        for (labels, _), entry in entries[data].items()
        if entry.origin.get("searched")
    }
    return [
        fingerprint
        for fingerprint, config in configs.items()
        if (config.data, config.labels) in searched and (config.labels, config.model) not in entries[config.data]
    ]


def _fits(held: Tuned, shape: Shape | None) -> bool:
    return held.shape is None or shape is None or held.shape == shape


def _sizes(shape: Shape | None) -> str:
    return "" if shape is None else f"{shape[0]} columns and {shape[1]} classes"


def choice(option: str | None) -> bool | str:
    """What the option --tuned asks for: what ships, nothing ("none"), or a file.

    >>> choice(None), choice("none"), choice("mine.toml")
    (True, False, 'mine.toml')
    """
    return True if option is None else option if option != "none" else False


def read(file: str | os.PathLike[str]) -> Tuned:
    """Read a file of tuned values."""
    return parse(read_small(file).decode(errors="replace"), str(file))


@lru_cache(maxsize=8)
def parse(text: str, name: str) -> Tuned:
    try:
        tables = from_toml(text)
        data = tables.pop("data")
        shape = tables.pop("shape", None)
        if shape is not None:
            columns, classes = map(int, shape)
            shape = columns, classes
        entries = {
            (int(labels), model): _entry(values)
            for labels, models in tables.items()
            for model, values in models.items()
        }
    except (KeyError, ValueError, TypeError, AttributeError, OverflowError) as error:
        raise InputError(
            f"{name} is not a file of tuned values ({error}); `laddernet tune report` writes one."
        ) from error
    return Tuned(data, entries, shape)


def _entry(values: Mapping[str, Any]) -> Entry:
    settings = {name: value for name, value in values.items() if name != "origin"}
    for name, value in settings.items():
        numbers = value if isinstance(value, list) else [value]
        if name not in SETTINGS or not all(type(number) in (int, float) for number in numbers):
            raise ValueError(f"{name} = {value!r}")
        for number in numbers:
            float(number)  # a whole number may be too large for one
    return Entry(settings, dict(values["origin"]))


def to_toml(data: str, entries: Mapping[Key, Entry], shape: Shape | None = None) -> str:
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
    tables: dict[str, Any] = {"data": data} | ({} if shape is None else {"shape": list(shape)})
    for (labels, model), entry in sorted(entries.items(), key=lambda item: item[0][0]):
        tables.setdefault(str(labels), {})[model] = {**entry.settings, "origin": entry.origin}
    return f"# {head} (docs/reference/tuning.md).\n{tomli_w.dumps(tables)}"

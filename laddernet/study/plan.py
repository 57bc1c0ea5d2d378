"""What a study is to run: presets, the runs that they stand for, and the plan that a study's folder keeps."""

import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

from laddernet.data import Dataset
from laddernet.errors import InputError
from laddernet.files import reading, write_atomic
from laddernet.models import MODELS
from laddernet.settings import configure
from laddernet.study.tables import Key
from laddernet.training import Config

Labels = int | Literal["all"]


@dataclass(frozen=True)
class Preset:
    """A study that has a name."""

    description: str
    data: str
    labels: tuple[Labels, ...]
    seeds: int
    epochs: int
    recipe: str = "paper"
    models: tuple[str, ...] = tuple(MODELS)


PRESETS = {
    "demo": Preset(
        "digits, 10 labels a class, all models: a few minutes", "digits", (100,), seeds=3, epochs=60, recipe="small"
    ),
    "mnist-100": Preset("MNIST, 100 labels, the paper's schedule: days", "mnist", (100,), seeds=3, epochs=150),
    "paper": Preset("the paper's Table 1: weeks", "mnist", (100, 1000, 60000), seeds=10, epochs=150),
}


def preset(name: str) -> Preset:
    """The preset of this name."""
    if name not in PRESETS:
        raise InputError(f"There is no preset {name!r}; give one of {', '.join(PRESETS)}.")
    return PRESETS[name]


def plan(dataset: Dataset, what: Preset, **settings: Any) -> dict[str, Config]:
    """The configurations of all runs, by fingerprint: all seeds of a model with one number of labels together.

    ``settings`` are those of :func:`laddernet.settings.configure` that hold for all.
    """
    if what.seeds < 1:
        raise InputError(f"A study of {what.seeds} seeds has no runs; give 1 or more.")
    configs = [
        configure(dataset, labels=labels, model=model, recipe=what.recipe, epochs=what.epochs, seed=seed, **settings)
        for labels in what.labels
        for model in what.models
        for seed in range(1, what.seeds + 1)
    ]
    return {config.fingerprint: config for config in configs}


def cell(config: Config) -> Key:
    """Where a run belongs in the table."""
    return config.model, config.labels


def shape(config: Config) -> tuple[Any, ...]:
    """What runs that share a compiled program have in common."""
    rows = (config.labels, config.validation, config.batch_size, config.labelled_batch_size, config.copies)
    return config.data, config.model, config.hidden, *rows


# --- What a study's folder keeps --------------------------------------------------------------------------------

_FILE = "study.json"


def keep_plan(folder: Path, configs: dict[str, Config], *, store: str | None, command: str) -> None:
    """Write what the folder's study consists of, now that these runs belong to it.

    Runs of an earlier command stay, so that models and seeds can be added; but not those of other data, nor of a cell
    that is now to be computed with other settings, for a table must not mix them.
    """
    earlier = read_plan(folder)[0] if (folder / _FILE).exists() else {}
    data = {config.data for config in configs.values()}
    settings = {cell(config): replace(config, seed=0) for config in configs.values()}
    kept = {
        fingerprint: config
        for fingerprint, config in earlier.items()
        if config.data in data and settings.get(cell(config), replace(config, seed=0)) == replace(config, seed=0)
    }
    runs = [asdict(config) for config in {**kept, **configs}.values()]
    held = {"store": store, "command": command, "runs": runs}
    write_atomic(folder / _FILE, (json.dumps(held, indent=1, ensure_ascii=False) + "\n").encode())


def read_plan(folder: Path) -> tuple[dict[str, Config], str | None, str]:
    """The runs of the study in this folder, by fingerprint; its store's address if it has one; its last command."""
    path = folder / _FILE
    if not path.exists():
        raise InputError(f"{folder} holds no study; name the --out of a study.")
    with reading(path):
        text = path.read_text("utf-8")
    try:
        held = json.loads(text)
        configs = [Config.from_json(values) for values in held["runs"]]
        return {config.fingerprint: config for config in configs}, held["store"], held["command"]
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"{path} is not a plan of this version of laddernet ({error}); choose another --out."
        ) from error

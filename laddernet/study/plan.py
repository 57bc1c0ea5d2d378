"""The plan of a study: presets, their runs, and the plan file in a study's folder."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from laddernet import checks
from laddernet.data import Dataset
from laddernet.errors import InputError
from laddernet.files import content_of, write_atomic
from laddernet.network.models import MODELS
from laddernet.text import one_line
from laddernet.training.config import REVISION, Config
from laddernet.training.settings import configure

Labels = int | Literal["all"]
Key = tuple[str, int]  # a model's id and a number of labels


@dataclass(frozen=True)
class Preset:
    """The settings of a named study."""

    description: str
    data: str
    labels: tuple[Labels, ...]
    seeds: int
    epochs: int
    recipe: str = "paper"
    models: tuple[str, ...] = tuple(MODELS)


PRESETS = {
    "demo": Preset(
        "digits, 10 labels per class, all models: a few minutes", "digits", (100,), seeds=3, epochs=60, recipe="small"
    ),
    "mnist-100": Preset("MNIST, 100 labels, the paper's schedule: days", "mnist", (100,), seeds=3, epochs=150),
    "paper": Preset("the paper's Table 1: weeks", "mnist", (100, 1000, 60000), seeds=10, epochs=150),
}


def preset(name: str) -> Preset:
    """Return the preset of this name."""
    if name not in PRESETS:
        raise InputError(f"There is no preset {name!r}; give one of {', '.join(PRESETS)}.")
    return PRESETS[name]


def plan(dataset: Dataset, what: Preset, **settings: Any) -> dict[str, Config]:
    """Return the configurations of all runs by fingerprint, ordered by number of labels, model and seed.

    ``settings`` are arguments of :func:`laddernet.training.settings.configure`, the same for all runs.
    """
    checks.integer("seeds", what.seeds, most=10_000)
    configs = [
        configure(dataset, labels=labels, model=model, recipe=what.recipe, epochs=what.epochs, seed=seed, **settings)
        for labels in what.labels
        for model in what.models
        for seed in range(1, what.seeds + 1)
    ]
    return {config.fingerprint: config for config in configs}


def cell(config: Config) -> Key:
    """Return the cell of the table to which a run belongs."""
    return config.model, config.labels


def _data(config: Config) -> tuple[str, str | None]:
    """Return the data of a run: all runs of a table are of the same data."""
    return config.data, config.content


def shape(config: Config) -> tuple[Any, ...]:
    """Return the settings on which the compiled program depends."""
    rows = (config.labels, config.validation, config.batch_size, config.labelled_batch_size, config.copies)
    return config.data, config.model, config.hidden, config.precision, *rows


# --- The plan file ----------------------------------------------------------------------------------------------

_FILE = "study.json"
_FORMAT = 2  # format 1 has no number: configurations alone, of revision 9
_FIRST_REVISION = 9


class Plan(NamedTuple):
    """The content of a study's plan file."""

    configs: dict[str, Config]  # by fingerprint
    store: str | None  # the store's address, if it is not in the folder
    command: str  # the last command
    revisions: dict[str, int]  # of the training program, by fingerprint
    data: str | None = None  # the file of a user's data, relative to the folder
    # By fingerprint of a run without tuned values beside models that have some, the options of `tune`.
    untuned: Mapping[str, str] = MappingProxyType({})


def keep_plan(
    folder: Path,
    configs: dict[str, Config],
    *,
    store: str | None,
    command: str,
    data: str | None = None,
    untuned: Mapping[str, str] | None = None,
) -> list[str]:
    """Add runs to the folder's plan; return the fingerprints of the runs that leave it.

    Runs of earlier commands stay, so that models and seeds can be added. Runs leave the plan if they are of other data,
    or of a cell that is now computed with other settings or by another revision: a cell must not mix them.
    """
    before = _plan_so_far(folder)
    earlier, revisions = before.configs, before.revisions
    same_data = set(map(_data, configs.values()))
    settings = {cell(config): (REVISION, replace(config, seed=0)) for config in configs.values()}
    kept = {}
    for fingerprint, config in earlier.items():
        how = revisions[fingerprint], replace(config, seed=0)
        if _data(config) in same_data and settings.get(cell(config), how) == how:
            kept[fingerprint] = config
    marked = {fingerprint: how for fingerprint, how in before.untuned.items() if fingerprint not in configs}
    _write_plan(folder, Plan({**kept, **configs}, store, command, revisions, data, {**marked, **(untuned or {})}))
    return [fingerprint for fingerprint in earlier if fingerprint not in kept and fingerprint not in configs]


def extend_plan(folder: Path, configs: dict[str, Config], *, store: str | None, command: str) -> list[str]:
    """Add runs that were finished elsewhere to the folder's plan; return the fingerprints of those that do not fit.

    A run fits if its cell is empty or has runs of the same settings and revision, on the same data. ``store`` and
    ``command`` are recorded if the folder has no plan yet.
    """
    before = _plan_so_far(folder)
    earlier, revisions = before.configs, before.revisions
    settings = {cell(config): (revisions[name], replace(config, seed=0)) for name, config in earlier.items()}
    fitting = dict(earlier)
    for fingerprint, config in configs.items():
        how = REVISION, replace(config, seed=0)
        same_data = not fitting or _data(config) == _data(next(iter(fitting.values())))
        if same_data and settings.setdefault(cell(config), how) == how:
            fitting[fingerprint] = config
    if not earlier:
        before = before._replace(store=store, command=command)
    _write_plan(folder, before._replace(configs=fitting))
    return [fingerprint for fingerprint in configs if fingerprint not in fitting]


def _plan_so_far(folder: Path) -> Plan:
    return read_plan(folder) if (folder / _FILE).exists() else Plan({}, None, "", {})


def _write_plan(folder: Path, plan: Plan) -> None:
    runs = [
        {
            "fingerprint": fingerprint,
            "revision": plan.revisions.get(fingerprint, REVISION),
            "config": asdict(config),
            **({"untuned": plan.untuned[fingerprint]} if fingerprint in plan.untuned else {}),
        }
        for fingerprint, config in plan.configs.items()
    ]
    held = {"format": _FORMAT, "store": plan.store, "command": plan.command, "data": plan.data, "runs": runs}
    write_atomic(folder / _FILE, (json.dumps(held, indent=1, ensure_ascii=False) + "\n").encode())


def read_plan(folder: Path) -> Plan:
    """Read the plan of the study in this folder.

    The fingerprints are those of the file: after a change of the training program, the same configuration has another
    fingerprint.
    """
    path = folder / _FILE
    if not path.exists():
        raise InputError(f"{folder} holds no study; name the --out of a study.")
    content = content_of(path)
    try:
        held = json.loads(content)
        if held.get("format", 1) not in (1, _FORMAT):
            raise ValueError(f"its format is {held['format']!r}")
        configs: dict[str, Config] = {}
        revisions: dict[str, int] = {}
        untuned: dict[str, str] = {}
        for run in held["runs"]:
            if "format" not in held:
                first = Config.from_json(run).fingerprint_at(_FIRST_REVISION)
                run = {"config": run, "revision": _FIRST_REVISION, "fingerprint": first}
            config, revision, fingerprint = Config.from_json(run["config"]), run["revision"], run["fingerprint"]
            if type(revision) is not int:
                raise ValueError(f"the revision {revision!r} is not a number")
            if type(fingerprint) is not str or (revision == REVISION and config.fingerprint != fingerprint):
                raise ValueError(f"the fingerprint {fingerprint!r} is not that of its configuration")
            configs[fingerprint], revisions[fingerprint] = config, revision
            if "untuned" in run:
                untuned[fingerprint] = str(run["untuned"])
        if not configs:
            raise ValueError("it has no runs")
        data = held.get("data")
        if not {type(held["store"]), type(data)} <= {str, type(None)} or type(held["command"]) is not str:
            raise ValueError("its store, its data and its command must be text")
        return Plan(configs, held["store"], held["command"], revisions, data, untuned)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        reason = one_line(error)
        raise InputError(
            f"{path} is not a plan of this version of laddernet ({reason}); choose another --out."
        ) from error

"""Tabulate error against cost of finished runs: python benchmarks/frontier.py > table.md

Runs that differ only in their seed are one line. FLOPs are those of the matrix products. Seconds are the median of the
runs' last attempts (the whole run if it was never stopped), on the number of cores given. The difference is to the
paper's recipe for the same model, seed by seed.
"""

import json
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from statistics import mean, median, stdev
from typing import NamedTuple

from products import PAPER, gflop

from laddernet.training.config import Config
from laddernet.training.program import steps_per_epoch
from laddernet.training.settings import RECIPES

RESULTS = Path(__file__).parent.parent / "results"
ROWS = 60_000  # of MNIST's training set
HEAD = ("model", "recipe", "epochs", "learning rate", "rows × copies", "labelled rows", "decay of weights")
COST = ("steps", "TFLOP", "seconds")


class Run(NamedTuple):
    """A finished run."""

    config: Config
    error: float
    seconds: float
    cores: int

    @classmethod
    def read(cls, folder: Path) -> "Run":
        config, result, environment = (
            json.loads((folder / f"{name}.json").read_text()) for name in ("config", "result", "environment")
        )
        return cls(Config.from_json(config), result["test_error"], result["seconds"], environment["cores"])


def kept() -> list[Run]:
    """Read the repository's finished runs of MNIST with 100 labels."""
    return [Run.read(path.parent) for path in sorted(RESULTS.glob("mnist-100-*/**/result.json"))]


def table(runs: Iterable[Run]) -> str:
    """Make a line for each setting, sorted by model and by operations, the most first."""
    settings: dict[Config, list[Run]] = defaultdict(list)
    for run in runs:
        settings[replace(run.config, seed=0)].append(run)
    ordered = sorted(settings, key=lambda setting: (setting.model != "vanilla", setting.model, -_tflop(setting)))
    papers = {setting.model: _by_seed(settings[setting]) for setting in ordered if _recipe(setting) == "paper"}
    lines = [_line(setting, settings[setting], papers.get(setting.model, {})) for setting in ordered]
    head = (*HEAD, *COST, "test error ± SE", "by seed", "difference")
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (head, ["---"] * len(head), *lines))


def _by_seed(runs: list[Run]) -> dict[int, float]:
    """Return the errors of a setting's runs by seed."""
    return dict(sorted((run.config.seed, run.error) for run in runs))


def _line(setting: Config, runs: list[Run], paper: dict[int, float]) -> list[str]:
    errors, recipe = _by_seed(runs), _recipe(setting)
    differences = [] if recipe == "paper" else [errors[seed] - paper[seed] for seed in errors if seed in paper]
    cores = " or ".join(map(str, sorted({run.cores for run in runs})))
    return [
        f"`{setting.model}`" + (f", η = {setting.eta:g}" if "mlp" in setting.model else ""),
        f"**{recipe}**" if recipe else "",
        str(setting.epochs),
        f"{setting.learning_rate:g}",
        f"{setting.batch_size} × {setting.copies}",
        str(setting.labelled_batch_size),
        f"{setting.weight_decay:g}",
        f"{_steps(setting):,}",
        f"{_tflop(setting):.0f}",
        f"{median(run.seconds for run in runs):,.0f} ({cores})",
        _with_spread(list(errors.values())) + " %",
        ", ".join(f"{seed}: {error:.2f}" for seed, error in errors.items()),
        _with_spread(differences, sign="+"),
    ]


def _with_spread(values: list[float], sign: str = "") -> str:
    """Format the mean and, for two values or more, its standard error."""
    if not values:
        return ""
    spread = f" ± {stdev(values) / len(values) ** 0.5:.2f}" if len(values) > 1 else ""
    return f"{mean(values):{sign}.2f}{spread}"


def _recipe(setting: Config) -> str:
    """Describe the recipe, without the learning rate, which depends on the model."""

    def followed(what: Config | object) -> list[object]:
        names = ("epochs", "batch_size", "labelled_batch_size", "weight_decay", "copies")
        return [getattr(what, name) for name in names]

    return next((name for name, recipe in RECIPES.items() if followed(recipe) == followed(setting)), "")


def _steps(setting: Config) -> int:
    return setting.epochs * steps_per_epoch(setting, ROWS - setting.validation)


def _tflop(setting: Config) -> float:
    work = gflop(PAPER, setting.batch_size, labelled=setting.labelled_batch_size, copies=setting.copies)
    return _steps(setting) * work / 1000


if __name__ == "__main__":
    print(table(kept()))

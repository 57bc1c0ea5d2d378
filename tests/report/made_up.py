"""Made-up results, studies and networks, for tests of tables and pages."""

import math
import random
from collections.abc import Iterable
from functools import cache
from typing import Any

import jax
import numpy as np

from laddernet.network.ladder import Ladder
from laddernet.network.models import AnyModel, find
from laddernet.report.comparisons import Comparison
from laddernet.report.page import PageData, Pictures, RunData
from laddernet.report.pictures import combinator_surfaces, denoising, samples
from laddernet.report.tables import Cell, Result, Table, tabulate

HOSTILE = ["<img src=x onerror=alert(1)>", "</script><script>document.title='taken'</script>", "a&amp;b\u2028\u202e\"'"]
MODEL_IDS = ["baseline", "baseline-noise", "vanilla", "rand-init", "linear", "amlp-4", "own.py:Gate"]
ENVIRONMENT = {"python": "3.11.7", "cores": 2, "devices": ["TFRT_CPU_0"], "packages": {"jax": "0.10.2"}}


def runs(model: str, errors: Iterable[float], labels: int = 100) -> list[Result]:
    return [Result(model, labels, seed, error) for seed, error in enumerate(errors)]


def cell(table: Table, model: str, labels: int = 100) -> Cell:
    (row,) = (row for row in table.rows if row.model == model)
    return row.cells[table.labels.index(labels)]


def to_vanilla(table: Table, model: str, labels: int = 100) -> Comparison:
    test = cell(table, model, labels).to_reference
    assert test is not None
    return test


def history(rng: random.Random, error: float, epochs: int, layers: int) -> list[dict[str, Any]]:
    """Curves of the usual form; the validation error is known every second epoch."""
    records = []
    for epoch in range(1, epochs + 1):
        left = math.exp(-6 * epoch / epochs) * rng.uniform(0.95, 1.05)
        record = {"epoch": epoch, "cost": 0.4 + 9 * left, "cross_entropy": 0.01 + 2 * left, "learning_rate": 0.02}
        record |= {f"reconstruction_{l}": 0.2 + left / (l + 1) * rng.uniform(0.9, 1.1) for l in range(layers)}
        if epoch % 2 == 0 or epoch == epochs:
            record["validation_error"] = error * (1 + 8 * left)
        records.append(record)
    return records


def study(
    models: list[str],
    labels: tuple[int, ...] = (100, 1000),
    seeds: int = 3,
    epochs: int = 10,
    pictures: list[Pictures] | None = None,
) -> PageData:
    """A study whose models are worse the later they come, but for a run that failed and one that waits."""
    rng = random.Random(0)
    runs = []
    for place, (model, count) in enumerate((model, count) for model in models for count in labels):
        for seed in range(seeds):
            key = {"fingerprint": f"{place:04x}{seed:04x}" + "ab" * 28, "model": model, "labels": count, "seed": seed}
            config = {"data": "mnist", "labels": count, "model": model, "hidden": [1000, 500], "eta": 0.1, "seed": seed}
            if seed == seeds - 1 and place in (1, 3):
                status, message = ("failed", "The cost became nan in epoch 3.") if place == 1 else ("waiting", None)
                runs.append(RunData(**key, status=status, message=message, config=config))
                continue
            error = (1 + models.index(model)) * (100 / count) ** 0.4 * rng.uniform(0.9, 1.1)
            records = history(rng, error, epochs, layers=7)
            runs.append(RunData(**key, status="done", error=error, seconds=61.25, config=config,
                                environment=ENVIRONMENT, history=records))  # fmt: skip
    results = [Result(run.model, run.labels, run.seed, run.error) for run in runs if run.error is not None]
    table = tabulate(
        results,
        data="mnist",
        wanted={(model, count): seeds for model in models for count in labels},
        failed={(run.model, run.labels): 1 for run in runs if run.status == "failed"},
    )
    return PageData("A study of mnist", "mnist", "2026-11-01 12:00", "laddernet study", table, runs, pictures or [])


def of_run(data: PageData, model: str, labels: int) -> str:
    return next(run.fingerprint for run in data.runs if (run.model, run.labels) == (model, labels))


def network(model: AnyModel, sizes: tuple[int, ...]) -> Ladder:
    return jax.jit(lambda key: Ladder(find(model), sizes, key=key))(jax.random.key(0))


@cache
def network_pictures(fingerprint: str, model: str = "rand-init") -> Pictures:
    ladder = network(model, (64, 8, 4))
    x = np.random.default_rng(0).random((50, 64), np.float32)
    layers = denoising(ladder, x, [0.3] * 3, key=jax.random.key(1), image_shape=(8, 8))
    drawn = samples(ladder, x, [0.3] * 3, [1.0] * 3, (8, 8))
    return Pictures(fingerprint, combinator_surfaces(ladder), layers, drawn)


def by_error(data: PageData, column: int) -> list[str]:
    return [row.model for row in sorted(data.table.rows, key=lambda row: row.cells[column].aer or 0)]


def with_pictures(data: PageData) -> PageData:
    pictures = [network_pictures(of_run(data, model, 100), model) for model in ("rand-init", "baseline")]
    return PageData(**{**vars(data), "pictures": pictures})

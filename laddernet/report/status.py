"""The progress of a study, read from its store: for the driver's terminal and for any other."""

import math
import shlex
import time
import timeit
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
from rich.console import Group, RenderableType
from rich.table import Table as RichTable
from rich.text import Text

from laddernet.checks import is_finite
from laddernet.machine import cores
from laddernet.report.cost import Cost, costs_on_mnist, step_operations, steps
from laddernet.report.tables import Result, Table, tabulate
from laddernet.study.plan import cell, shape
from laddernet.study.store import Run, Store
from laddernet.text import visible
from laddernet.training.config import REVISION, Config


@dataclass(frozen=True)
class Status:
    """The runs of a study, as recorded in its store."""

    configs: Mapping[str, Config]
    runs: list[Run]
    revisions: Mapping[str, int] = field(default_factory=dict)  # of the training program, where it is not this one
    untuned: Mapping[str, str] = field(default_factory=dict)  # as in `laddernet.study.plan.Plan`

    @classmethod
    def of(
        cls,
        store: Store,
        configs: Mapping[str, Config],
        revisions: Mapping[str, int] | None = None,
        untuned: Mapping[str, str] | None = None,
        *,
        history: bool = False,
    ) -> "Status":
        """Read the runs and check the values that are computed with: a store may be damaged."""
        runs = store.runs(list(configs), history=history)
        for run in runs:
            if run.status == "done" and not is_finite((run.result or {}).get("test_error")):
                raise store.damaged(run, "result")
            if not all(isinstance(record.get("epoch"), int) for record in run.history or ()):
                raise store.damaged(run, "history")
        return cls(configs, runs, revisions or {}, untuned or {})

    def remarks(self) -> tuple[str, ...]:
        """Return sentences on other revisions of the training program, and on models without tuned values."""
        found = Counter(self.revisions.get(fingerprint, REVISION) for fingerprint in self.configs)
        others = (
            f"{found[revision]} of {len(self.configs)} runs are of revision {revision} of the training program, which "
            f"may compute other values than this version's revision {REVISION}."
            for revision in sorted(found)
            if revision != REVISION
        )
        models: dict[tuple[int, str], dict[str, None]] = {}
        for name, options in self.untuned.items():
            if config := self.configs.get(name):
                models.setdefault((config.labels, options), {})[config.model] = None
        untuned = (
            f"Untuned with {labels} labels, while other models have tuned values: {', '.join(names)}. To tune: "
            f"laddernet tune {shlex.join(names)} --labels {labels} {options}; then give the study that file as "
            "--tuned. To compare all models untuned: --tuned none."
            for (labels, options), names in models.items()
        )
        return *others, *map(visible, untuned)

    def count(self, status: str) -> int:
        """Count the runs in a state; runs that the store does not have are waiting."""
        if status == "waiting":
            return len(self.configs) - sum(run.status != "waiting" for run in self.runs)
        return sum(run.status == status for run in self.runs)

    def failures(self) -> list[str]:
        """Return a sentence for each run that has failed."""
        failed = ((self.configs[run.fingerprint], run.error) for run in self.runs if run.status == "failed")
        return [f"failed: {c.model}, {c.labels} labels, seed {c.seed}: {error}" for c, error in failed]

    def table(self) -> Table:
        """Compute the table of the finished runs."""
        configs = list(self.configs.values())
        done = ((self.configs[run.fingerprint], run.result) for run in self.runs if run.status == "done")
        table = tabulate(
            [Result(c.model, c.labels, c.seed, result["test_error"]) for c, result in done if result],
            data=configs[0].data,
            is_own=configs[0].content is not None,
            wanted=Counter(map(cell, configs)),
            failed=Counter(cell(self.configs[run.fingerprint]) for run in self.runs if run.status == "failed"),
        )
        untuned = frozenset(self.configs[name].model for name in self.untuned if name in self.configs)
        cost = self._cost() if table.is_of_paper else ()
        return replace(table, remarks=self.remarks(), cost=cost, untuned=untuned)

    def _cost(self) -> tuple[Cost, ...]:
        """Return the cost of the finished runs on the paper's data."""
        results = [(run.fingerprint, run.result or {}) for run in self.runs if run.status == "done"]
        timed = [(name, result["seconds"]) for name, result in results if is_finite(result.get("seconds"))]
        return costs_on_mnist((self.configs[name], seconds) for name, seconds in timed)

    def seconds_left(self, slots: int = 0) -> float | None:
        """Estimate the time left from finished runs, or from the progress of running ones; None without either."""
        running = [run for run in self.runs if run.status == "running"]
        took = [
            run.finished - run.started for run in self.runs if run.status == "done" and run.started and run.finished
        ]
        took = took or [(time.time() - run.started) / _share(run) for run in running if run.started and _share(run)]
        if not took:
            return None
        left = self.count("waiting") + sum(1 - _share(run) for run in running)
        return float(np.mean(took) * left / max(slots or len(running), 1))

    def shown(self, *, slots: int = 0) -> RenderableType:
        """Make the view for a terminal of 80 columns."""
        left = self.seconds_left(slots)
        counts = [f"{self.count(status)} {status}" for status in ("done", "running", "waiting", "failed")]
        head = f"{len(self.configs)} runs: {', '.join(counts)}" + (f"; about {duration(left)} left" if left else "")
        parts: list[RenderableType] = [Text(head, style="bold")]
        grid = RichTable.grid(padding=(0, 2))
        for run in self.runs:
            if run.status == "running":
                config, progress = self.configs[run.fingerprint], run.progress or {}
                errors = [progress.get(name) for name in ("validation_error", "test_error")]
                error = next((f"{value:.2f} %" for value in errors if is_finite(value)), "")
                epoch = f"epoch {progress['epoch']}/{progress['epochs']}" if _share(run) else "starting"
                model = Text(visible(config.model))
                grid.add_row(model, f"{config.labels} labels", f"seed {config.seed}", epoch, error)
        parts.append(grid)
        table = self.table()
        cells = RichTable("model", *(f"{n} labels" for n in table.labels), box=None, padding=(0, 2))
        for row in table.rows:
            values = ["" if c.aer is None else f"{c.aer:.2f} % ({c.n}/{c.wanted})" for c in row.cells]
            if any(values):
                cells.add_row(Text(visible(row.model)), *values)
        parts.append(cells)
        parts += map(Text, self.remarks())
        parts += (Text(visible(sentence), style="red") for sentence in self.failures())
        return Group(*parts)


def _share(run: Run) -> float:
    """Return the finished share of a run, from 0 to 1; 0 if its recorded progress is not valid."""
    epoch, epochs = ((run.progress or {}).get(name) for name in ("epoch", "epochs"))
    return epoch / epochs if isinstance(epoch, int) and isinstance(epochs, int) and 0 < epoch <= epochs else 0.0


def duration(seconds: float) -> str:
    """Write a duration in the unit that suits it.

    >>> duration(95), duration(7300), duration(200000)
    ('2 min', '2.0 h', '2.3 days')
    """
    if seconds < 90 * 60:
        return f"{math.ceil(seconds / 60)} min"
    return f"{seconds / 3600:.1f} h" if seconds < 48 * 3600 else f"{seconds / 86400:.1f} days"


def estimate(status: Status, sizes: tuple[int, ...], rows: int, slots: int, cores_each: float) -> float:
    """Estimate the seconds for the runs that are left, from a short timing of this machine's matrix product.

    A step takes about 1.4 times the time of its matrix products, and 2 ms; compiling a program takes about 10 s.
    """
    ended = {run.fingerprint for run in status.runs if run.status in ("done", "failed")}
    left = [config for fingerprint, config in status.configs.items() if fingerprint not in ended]
    speed = cores_each * _gflops()
    step_seconds = ((config, 1.4 * step_operations(config, sizes) / speed / 1e9 + 0.002) for config in left)
    seconds = sum(steps(config, rows) * each for config, each in step_seconds)
    return (seconds + 10 * len({shape(config) for config in left})) / slots


def _gflops() -> float:
    """Measure the matrix product of one core while all are busy, in 10⁹ operations a second: the best of 20."""
    # With NumPy: JAX in this process would reserve GPU memory that the workers need.
    a, b = np.ones((300, 1000), np.float32), np.ones((1000, 500), np.float32)
    seconds = min(timeit.repeat(lambda: a @ b, number=1, repeat=20))
    return 2 * 300 * 1000 * 500 / seconds / 1e9 / cores()

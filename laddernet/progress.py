"""A live line on a terminal; nothing elsewhere."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from laddernet.training import Config, Record


@contextmanager
def epochs_shown(config: Config, steps: int, console: Console) -> Iterator[Callable[[Record], None]]:
    """Show how far a run is, how fast, and when it will be done; what is yielded hears each epoch's record.

    ``steps`` is the number of steps of an epoch.
    """
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=20),
        MofNCompleteColumn(),
        TextColumn("{task.fields[now]}"),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        task = progress.add_task(f"{config.model} seed {config.seed}", total=config.epochs, now="compiling")
        last: float | None = None  # when the epoch before ended; the first one's time is mostly compilation

        def shown(record: Record) -> None:
            errors = [
                f"{name.removesuffix('_error')} {record[name]:.2f} %"
                for name in ("validation_error", "test_error")
                if name in record
            ]
            nonlocal last
            before, last = last, time.monotonic()
            speed = [f"{steps / (last - before):,.0f} steps/s"] if before is not None else []
            now = "  ".join([f"cost {record['cost']:.3f}", *errors, *speed])
            progress.update(task, completed=record["epoch"], now=now)

        yield shown

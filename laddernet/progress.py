"""A live line on a terminal; nothing elsewhere."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Column

from laddernet.training import Config, Record


@contextmanager
def epochs_shown(config: Config, steps: int, console: Console) -> Iterator[Callable[[Record], None]]:
    """Show how far a run is, how fast, and when it will be done; what is yielded hears each epoch's record.

    ``steps`` is the number of steps of an epoch.
    """
    # On a narrow terminal the bar gives way, and nothing else.
    columns = (
        TextColumn("epoch"),
        MofNCompleteColumn(table_column=Column(no_wrap=True)),
        BarColumn(bar_width=20),
        TextColumn("{task.fields[now]}"),
        TextColumn("left"),
        TimeRemainingColumn(table_column=Column(no_wrap=True)),
    )
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        task = progress.add_task("epoch", total=config.epochs, now="compiling")
        last: float | None = None  # when the epoch before ended; the first one's time is mostly compilation
        errors: dict[str, str] = {}  # the newest, for not every epoch measures them

        def shown(record: Record) -> None:
            for name in ("validation", "test"):
                if f"{name}_error" in record:
                    errors[name] = f"{name} {record[f'{name}_error']:.2f} %"
            nonlocal last
            before, last = last, time.monotonic()
            speed = [f"{steps / (last - before):,.0f} steps/s"] if before is not None else []
            now = "  ".join([f"cost {record['cost']:.3f}", *errors.values(), *speed])
            progress.update(task, completed=record["epoch"], now=now)

        yield shown

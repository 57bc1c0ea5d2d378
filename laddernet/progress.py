"""A live line on a terminal; nothing elsewhere."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Column

Record = dict[str, Any]


@contextmanager
def progress_shown(unit: str, total: int, steps: int, console: Console) -> Iterator[Callable[[Record], None]]:
    """Show how far a run is, how fast, and when it will be done; what is yielded hears each record.

    A record counts in ``unit``s ("epoch" or "step"), each of so many ``steps``, up to ``total``.
    """
    # On a narrow terminal the bar gives way, and nothing else.
    columns = (
        TextColumn(unit),
        MofNCompleteColumn(table_column=Column(no_wrap=True)),
        BarColumn(bar_width=20),
        TextColumn("{task.fields[now]}"),
        TextColumn("left"),
        TimeRemainingColumn(table_column=Column(no_wrap=True)),
    )
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        task = progress.add_task(unit, total=total, now="compiling")
        last: tuple[float, int] | None = None  # when the record before came; the first one's time is mostly compilation
        errors: dict[str, str] = {}  # the newest, for not every record has them

        def shown(record: Record) -> None:
            for name in ("validation", "test"):
                if f"{name}_error" in record:
                    errors[name] = f"{name} {record[f'{name}_error']:.2f} %"
            nonlocal last
            before, last = last, (time.monotonic(), record[unit])
            speed = []
            if before is not None:
                speed = [f"{steps * (last[1] - before[1]) / (last[0] - before[0]):,.0f} steps/s"]
            now = "  ".join([f"cost {record['cost']:.3f}", *errors.values(), *speed])
            progress.update(task, completed=record[unit], now=now)

        yield shown

"""A live line of progress on a terminal; nothing elsewhere."""

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
    """Show the progress, speed and remaining time of a run; the yielded function takes each new record.

    Progress is counted in ``unit`` ("epoch" or "step") up to ``total``; one unit has ``steps`` steps.
    """
    # On a narrow terminal only the bar is left out.
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
        last: tuple[float, int] | None = None  # time and count of the last record; the first takes mostly compilation
        errors: dict[str, str] = {}  # the newest; not every record has them

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

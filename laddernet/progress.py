"""A live line on a terminal; nothing elsewhere."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from laddernet.training import Config, Record


@contextmanager
def epochs_shown(config: Config, console: Console) -> Iterator[Callable[[Record], None]]:
    """Show how far a run is; what is yielded hears each epoch's record."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=20),
        MofNCompleteColumn(),
        TextColumn("{task.fields[now]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        task = progress.add_task(f"{config.model} seed {config.seed}", total=config.epochs, now="compiling")

        def shown(record: Record) -> None:
            errors = [
                f"{name.removesuffix('_error')} {record[name]:.2f} %"
                for name in ("validation_error", "test_error")
                if name in record
            ]
            now = "  ".join([f"cost {record['cost']:.3f}", *errors])
            progress.update(task, completed=record["epoch"], now=now)

        yield shown

"""The progress of a fit with ``verbose``: a live line on a terminal, else about ten plain ones."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console

from laddernet.progress import progress_shown
from laddernet.training.config import Record

Show = Callable[[int, Record], None]  # called with the number of a network and its record


@contextmanager
def progress_of(verbose: bool, steps: list[int]) -> Iterator[Show]:
    """Yield a function that shows a network's record; ``steps`` has the number of steps of each network."""
    console = Console(stderr=True)
    total = sum(steps)
    taken = [0] * len(steps)
    showing = threading.Lock()  # networks are trained in several threads

    def of_all(number: int, record: Record) -> Record:
        taken[number] = record["step"]
        return {**record, "step": sum(taken)}

    if not verbose:
        yield lambda number, record: None
    elif console.is_terminal:
        with progress_shown("step", total, 1, console) as shown:

            def update(number: int, record: Record) -> None:
                with showing:
                    shown(of_all(number, record))

            yield update
    else:
        tenths = 0

        def write(number: int, record: Record) -> None:
            nonlocal tenths
            with showing:
                step = of_all(number, record)["step"]
                if step * 10 // total > tenths:
                    tenths = step * 10 // total
                    error = f", validation {record['validation_error']:.2f} %" if "validation_error" in record else ""
                    print(f"step {step} of {total}: cost {record['cost']:.3f}{error}", flush=True)

        yield write

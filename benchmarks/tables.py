"""Large tables: reading, prediction, memory, and the start of a second `fit`. Run: python benchmarks/tables.py

Each part runs in processes of its own and prints its lines of a Markdown table; name parts to run only those: reading,
start, predict. Processor time is that of all threads. Rows per second depend on what else the machine does, so its
load is printed too. `ROWS=1000000` makes the table of `predict` shorter than ten million rows.
"""

import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pandas as pd

ROWS = 300_000
LONG = int(os.environ.get("ROWS", 10_000_000))
LABELS = 90
COMMAND = [sys.executable, "-m", "laddernet"]
UNTIL_STEPS = """
import atexit, sys, time
import laddernet.training.loop as loop
from laddernet.cli.main import main

def tell():
    print(f"{time.process_time():.2f}s", file=sys.stderr)

def first(*given, **named):
    loop.run_steps = steps
    found = steps(*given, **named)
    tell()
    return found

steps, loop.run_steps = loop.run_steps, first
atexit.register(tell)
main()
"""


def block(rows: int, first: int, labels: int = 0) -> pd.DataFrame:
    """Rows of a table of 11 columns: an identifier, numbers, categories, dates, missing cells, and classes."""
    rng = np.random.default_rng(first)
    kind = rng.integers(0, 3, rows)
    days = np.datetime64("2020-01-01") + rng.integers(0, 1500, rows) + 200 * kind
    city = rng.zipf(1.3, rows) % 500
    frame = pd.DataFrame(
        {
            "customer_id": np.arange(first, first + rows) + 1_000_000,
            "age": (40 + 10 * kind + rng.normal(0, 9, rows)).round(1),
            "income": rng.lognormal(10, 0.5, rows).round(2),
            "visits": rng.poisson(4 + 2 * kind),
            "balance": (rng.normal(0, 800, rows) + 100 * kind).round(3),
            "score": rng.random(rows).round(6),
            "region": rng.choice(["north", "south", "east", "west, upper", "west, lower"], rows),
            "city": np.char.add("city ", city.astype(str)),
            "member": np.where(rng.random(rows) < 0.3 + 0.2 * kind, "yes", "no"),
            "since": days.astype(str),
            "result": np.where(np.arange(rows) < labels, np.array(["a", "b", "c"])[kind], ""),
        }
    )
    frame.loc[rng.random(rows) < 0.05, ["age", "income"]] = np.nan
    frame.loc[rng.random(rows) < 0.02, "since"] = ""
    return frame


def write(path: Path, rows: int, labels: int = 0) -> None:
    """Write a table in blocks, so that it may be larger than memory."""
    size = 200_000
    for first in range(0, rows, size):
        part = block(min(size, rows - first), first, labels if not first else 0)
        part.to_csv(path, index=False, mode="a" if first else "w", header=not first)


def run(*options: object) -> tuple[float, float]:
    """Run a command of laddernet; return its seconds and its processor time."""
    began, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([*COMMAND, *map(str, options)], check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.perf_counter() - began, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def reading(folder: Path) -> Iterator[tuple[str, str, str]]:
    """What `fit` does before the first network: read, find the kinds of the columns, make the inputs."""
    from laddernet.table.read import open_table
    from laddernet.table.rows import read_rows

    write(folder / "t.csv", ROWS, LABELS)
    began = time.process_time()
    rows = read_rows(open_table(folder / "t.csv"), "result")
    taken = time.process_time() - began
    yield f"reading and preparation of {ROWS:,} × 11 cells, processor time", f"{taken:.2f} s", "≤ 2 s"
    yield "inputs that they become", f"{rows.X.shape[1]}", ""


def start(folder: Path) -> Iterator[tuple[str, str, str]]:
    """Two processes that fit: the processor time until the first chunk of steps is done, and that of a short fit."""
    os.environ["LADDERNET_CACHE"] = str(folder / "cache")
    write(folder / "t.csv", 3000, LABELS)
    options = ["--target", "result", "--max-steps", "32", "--no-estimate", "--out", str(folder / "m.safetensors")]
    for which, aim in (("first", ""), ("second", "≤ 3 s")):
        command = [sys.executable, "-c", UNTIL_STEPS, "fit", str(folder / "t.csv"), *options]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        until, whole = done.stderr.split()
        yield f"the {which} process that fits a table of this shape, processor time until 32 steps are done", until, aim
        yield "the same, whole process: five networks of 32 steps, other methods, saving", whole, ""


def predict(folder: Path) -> Iterator[tuple[str, str, str]]:
    """From CSV to CSV, with the start of the process, by the default method and by the Ladder Network alone."""
    write(folder / "t.csv", 3000, LABELS)
    write(folder / "long.csv", LONG)
    size = (folder / "long.csv").stat().st_size / 1e6
    for method in ("blend", "ladder"):
        model = folder / f"{method}.safetensors"
        run("fit", folder / "t.csv", "--target", "result", "--method", method, "--no-estimate", "--out", model)
        load = os.getloadavg()[0]
        command = [*COMMAND, "predict", model, folder / "long.csv", "--out", folder / "p.csv"]
        began = time.perf_counter()
        process = subprocess.Popen(list(map(str, command)), stdout=subprocess.DEVNULL)
        _, status, used = os.wait4(process.pid, 0)
        taken = time.perf_counter() - began
        assert not status, status
        processor = used.ru_utime + used.ru_stime
        what = f"`predict` of {LONG:,} rows ({size:,.0f} MB) by the {method}, from CSV to CSV"
        yield what, f"{LONG / taken:,.0f} rows/s", "≥ 300,000"
        yield "the same, processor time", f"{1e6 * processor / LONG:.2f} µs per row", ""
        yield "the same, peak memory", f"{used.ru_maxrss / 1024:,.0f} MB", "≤ 1 GB"
        yield "load of the machine before", f"{load:.1f}", ""


PARTS: dict[str, Callable[[Path], Iterator[tuple[str, str, str]]]] = {
    part.__name__: part for part in (reading, start, predict)
}


def main() -> int:
    asked = sys.argv[1:] or list(PARTS)
    if unknown := [name for name in asked if name not in PARTS]:
        print(f"{unknown[0]}: no such part; there are {', '.join(PARTS)}.", file=sys.stderr)
        return 2
    if len(asked) > 1:
        print("| | measured | aim |\n|---|---|---|", flush=True)
        return max(subprocess.run([sys.executable, __file__, name], check=False).returncode for name in asked)
    with tempfile.TemporaryDirectory() as folder:
        for line in PARTS[asked[0]](Path(folder)):
            print(f"| {' | '.join(line)} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())

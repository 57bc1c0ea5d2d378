"""Measure the parts of a step's time: python benchmarks/breakdown.py [MODEL] [--cores N] [--precision P] [--top N].

XLA's profiler gives the time of each operation of the compiled epoch. The named scopes of laddernet (noise, normalise,
activation, combinator, reconstruction, optimiser) assign operations to parts. On one core the parts add up to the step.
On several cores they overlap, so they add up to more.
"""

import argparse
import os
import re
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

PARTS = ("noise", "normalise", "activation", "combinator", "reconstruction", "optimiser")
STEPS = 50


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", nargs="?", default="vanilla")
    parser.add_argument("--cores", type=int, default=1)
    parser.add_argument("--precision", choices=("float32", "bfloat16"), default="float32")
    parser.add_argument("--top", type=int, default=0, help="also list the longest operations of each part")
    asked = parser.parse_args()
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: asked.cores])  # before JAX counts the cores

    from rich import print as show
    from rich.table import Table

    spent, calls, part_of = profile(asked.model, asked.precision)
    total = sum(spent.values())
    table = Table(
        "part", "ms a step", "share", "operations", title=f"{asked.model}, {asked.precision}, {asked.cores} core(s)"
    )
    for part in ("matrix products", "products and Adam", *PARTS, "the rest"):
        names = [name for name in spent if part_of.get(name, "the rest") == part]
        ms = sum(spent[name] for name in names)
        table.add_row(part, f"{ms:.2f}", f"{ms / total:.1%}", f"{sum(calls[name] for name in names):.0f}")
        for name in sorted(names, key=spent.__getitem__, reverse=True)[: asked.top]:
            table.add_row(f"  {name}", f"{spent[name]:.3f}", "", f"{calls[name]:.0f}", style="dim")
    table.add_row("sum", f"{total:.2f}", "", f"{sum(calls.values()):.0f}", end_section=True)
    show(table)


def profile(model: str, precision: str) -> tuple[Counter[str], dict[str, float], dict[str, str]]:
    """Return the milliseconds and the number of runs per step of each operation, and its part of the step."""
    import jax
    import ours
    from products import PAPER

    block, program = ours.epochs_and_program(model, PAPER, batch=100, steps=STEPS, precision=precision)
    block()
    with tempfile.TemporaryDirectory() as folder:
        with jax.profiler.trace(folder):
            block()
        events = list(operations(next(Path(folder).rglob("*.xplane.pb"))))
    parts = parts_of(program)
    spent: Counter[str] = Counter()
    calls: Counter[str] = Counter()
    for name, nanoseconds in events:
        if name in parts:
            spent[name] += nanoseconds / 1e6 / STEPS
            calls[name] += 1
    return spent, {name: n / STEPS for name, n in calls.items()}, parts


def operations(trace: Path) -> Iterator[tuple[str, float]]:
    """Yield each operation that XLA's threads ran, with its nanoseconds."""
    import jax

    for plane in jax.profiler.ProfileData.from_file(str(trace)).planes:
        for line in plane.lines:
            if "XLA" in line.name:
                yield from ((event.name, event.duration_ns) for event in line.events)


def parts_of(program: str) -> dict[str, str]:
    """Assign operations of a compiled program to parts of the step, without loops and conditions."""
    products: set[str] = set()  # computations that hold a matrix product
    parts: dict[str, str] = {}
    computation = ""
    for line in program.splitlines():
        if opens := re.match(r"(?:ENTRY )?%?([\w.-]+) .*{$", line):
            computation = opens[1]
        elif found := re.match(r"\s+(?:ROOT )?%([\w.-]+) = .*? ([a-z][\w-]*)\(", line):
            name, kind = found[1], found[2]
            if kind in ("while", "conditional", "call"):
                continue
            inside = re.search(r"calls=%([\w.-]+)", line)
            if kind == "dot" or (inside and inside[1] in products):
                products.add(computation)
                parts[name] = "matrix products"
            elif native := re.search(r'custom_call_target="laddernet_(product|update)', line):
                parts[name] = {"product": "matrix products", "update": "products and Adam"}[native[1]]
            else:
                scope = re.search(r'op_name="([^"]*)"', line)
                parts[name] = next((p for p in PARTS if scope and p in scope[1]), "the rest")
    return parts


if __name__ == "__main__":
    main()

"""Measure speed and memory of laddernet, beside the machine's limit and other libraries; `make bench` runs it.

Each figure comes from blocks of work that persistent worker processes run one at a time. Each subject alternates with a
reference. A ratio divides the time of a block by the mean of the reference's blocks just before and after it, so that
other load on the machine affects both. A figure is the median over rounds, with the minimum and the maximum. The
docstring of a section is printed below its table and kept in the JSON file.
"""

import argparse
import inspect
import json
import os
import platform
import shlex
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from importlib import metadata, util
from pathlib import Path
from statistics import median
from typing import Any

from bench_sections import SECTIONS
from bench_targets import targets
from bench_timing import Bench, Rows
from products import PAPER
from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).parent.parent


def environment() -> dict[str, Any]:
    """Describe the machine and the versions on which the figures depend."""
    cpuinfo = Path("/proc/cpuinfo")
    names = [line for line in cpuinfo.read_text().splitlines() if "model name" in line] if cpuinfo.exists() else []
    commit = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True)
    packages = ("laddernet", "jax", "jaxlib", "numpy", "optax", "equinox", "scikit-learn", "torch", "LAMDA-SSL")
    installed = {name.lower() for d in metadata.distributions() if (name := d.metadata["Name"])}
    return {
        "command": shlex.join(["python", *sys.argv]),
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": commit.stdout.strip() or None,
        "cpu": names[0].partition(":")[2].strip() if names else platform.processor(),
        "cores": len(os.sched_getaffinity(0)),
        "load average before": os.getloadavg()[0],
        "python": platform.python_version(),
        "versions": {name: metadata.version(name) for name in packages if name.lower() in installed},
    }


def title_and_how(section: Callable[[Bench], Rows]) -> tuple[str, str]:
    title, _, how = inspect.cleandoc(section.__doc__ or "").partition("\n\n")
    return title, " ".join(how.split())


def spread(values: list[float]) -> dict[str, Any]:
    return {"median": median(values), "min": min(values), "max": max(values), "rounds": values}


def show(console: Console, title: str, how: str, rows: Rows) -> None:
    columns = list(dict.fromkeys(column for cells in rows.values() for column in cells))
    table = Table("", *columns, title=f"\n{title}", title_justify="left", box=None)
    for name, cells in rows.items():
        table.add_row(name, *(_cell(cells.get(column, [])) for column in columns))
    console.print(table, highlight=False)
    console.print(how, style="dim", highlight=False)


def _cell(values: list[float]) -> str:
    if not values:
        return ""
    text = _number(median(values))
    return text if len(values) == 1 else f"{text} [dim]({_number(min(values))}–{_number(max(values))})[/]"


def _number(value: float) -> str:
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def show_targets(console: Console, reached: list[dict[str, Any]]) -> None:
    table = Table("", "measured", "target", "", title="\nTargets", title_justify="left", box=None)
    for row in reached:
        table.add_row(
            row["what"], _number(row["measured"]), row["target"], "reached" if row["reached"] else "not reached"
        )
    console.print(table, highlight=False)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="fewer subjects and rounds: about a minute")
    parser.add_argument("--only", nargs="+", metavar="NAME", choices=SECTIONS, help=f"of {', '.join(SECTIONS)}")
    parser.add_argument("--sizes", default=",".join(map(str, PAPER)), help="of all layers [default: %(default)s]")
    parser.add_argument(
        "--json", type=Path, help="the file of the figures [default: results/bench.json if all sections run in full]"
    )
    return parser.parse_args()


def main() -> None:
    asked = arguments()
    chosen = asked.only or list(SECTIONS)
    missing = [name for name in ("torch", "LAMDA_SSL") if "rivals" in chosen and not util.find_spec(name)]
    if missing:
        rest = " ".join(name for name in SECTIONS if name != "rivals")
        print(
            f"{' and '.join(missing)} not installed: `make bench` installs it, `--only {rest}` does without.",
            file=sys.stderr,
        )
        sys.exit(2)
    path = asked.json or (None if asked.quick or asked.only else ROOT / "results" / "bench.json")
    kept: dict[str, Any] = {"environment": environment(), "sections": {}}
    console = Console(width=None if sys.stdout.isatty() else 140)
    if kept["environment"]["load average before"] > 0.5:
        console.print("The machine is busy: figures on both cores will be too slow, those of PyTorch most of all.")
    done: dict[str, Rows] = {}
    with Bench(tuple(int(n) for n in asked.sizes.split(",")), asked.quick) as bench:
        for name in chosen:
            title, how = title_and_how(SECTIONS[name])
            started = time.monotonic()
            with Console(stderr=True).status(f"{title} …"):
                done[name] = SECTIONS[name](bench)
            seconds = round(time.monotonic() - started)
            show(console, title, how, done[name])
            figures = {row: {what: spread(v) for what, v in cells.items()} for row, cells in done[name].items()}
            kept["sections"][name] = {"title": title, "how": how, "seconds": seconds, "figures": figures}
    kept["targets"] = targets(done)
    if kept["targets"]:
        show_targets(console, kept["targets"])
    if path:
        path.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n")
        console.print(f"\nEvery round of every figure, and the environment: {path}")


if __name__ == "__main__":
    main()

"""results/torture.md: a section for each part, made from the figures of its last run."""

import argparse
import platform
import re
import subprocess
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

from torture.common import ROOT, Outcome

FILE = ROOT / "results" / "torture.md"
_HEAD = """# Torture

Kills, system faults and bad inputs, as `make torture` runs them ([what they check](../docs/architecture.md#torture)).
Each section was written by its last run.
"""


def write(
    part: str, figures: list[tuple[str, str]], outcome: Outcome, seconds: float, given: argparse.Namespace
) -> None:
    """Replace the section of a part."""
    sections: dict[str, str] = {}
    if FILE.exists():
        for found in re.finditer(r"^## (\w+)\n(.*?)(?=^## |\Z)", FILE.read_text("utf-8"), re.M | re.S):
            sections[found[1]] = found[2].strip()
    sections[part] = _section(part, figures, outcome, seconds, given)
    order = [name for name in ("kills", "inputs", "faults") if name in sections]
    FILE.write_text(_HEAD + "".join(f"\n## {name}\n\n{sections[name]}\n" for name in order), "utf-8")


def _section(
    part: str, figures: list[tuple[str, str]], outcome: Outcome, seconds: float, given: argparse.Namespace
) -> str:
    options = [f"--only {part}", f"--seed {given.seed}"]
    options += ["--long"] if given.long else []
    options += [f"--count {given.count}"] if given.count else []
    options += [f"--kind {given.kind}"] if given.kind else []
    lines = [
        f"`python -m torture {' '.join(options)}`, {datetime.now(UTC):%Y-%m-%d}, commit {_commit()}, {_machine()}, "
        f"{seconds / 60:.0f} min.",
        "",
        "| | |",
        "|---|---|",
        *(f"| {what} | {value} |" for what, value in figures),
        f"| **failures** | **{len(outcome.failures)}** |",
    ]
    if outcome.failures:
        kinds = Counter((failure.what.partition(":")[0], general(failure.why)) for failure in outcome.failures)
        lines += ["", "| failures | of | why |", "|---|---|---|"]
        lines += [f"| {count} | {what} | {why} |" for (what, why), count in kinds.most_common(40)]
    return "\n".join(lines)


def general(why: str) -> str:
    """The reason without what differs from case to case."""
    short = re.sub(r"\d+", "N", " ".join(why.split()))[:140]
    return short.replace("|", "\\|").replace("<", "‹").replace("`", "'")


def _commit() -> str:
    done = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=ROOT, capture_output=True, text=True)
    return done.stdout.strip() or "unknown"


def _machine() -> str:
    import os

    names = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    processor = names[0].partition(":")[2].strip() if names else platform.processor()
    return f"{len(os.sched_getaffinity(0))} cores of {processor}"

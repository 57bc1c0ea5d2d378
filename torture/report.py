"""Write results/torture.md: a section for each part, with the figures of its last runs from torture.json.

Figures of several runs are added only if they have the same code: the files of ``laddernet`` and ``torture``.
"""

import argparse
import hashlib
import json
import os
import platform
import re
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from torture.common import ROOT, Outcome

FILE = ROOT / "results" / "torture.md"
_HEAD = """# Torture

Kills, system faults and bad inputs, as `make torture` runs them
([what they check](../docs/explanation/architecture.md#torture)). Each section is written by its last run; `--add` adds
a run to those of the same code before it, as torture.json keeps them.
"""
Figures = Callable[[Outcome], Iterator[tuple[str, str]]]


def code() -> str:
    """Return a digest of the program under test and of the checks."""
    whole = hashlib.sha256()
    for path in sorted(path for name in ("laddernet", "torture") for path in (ROOT / name).rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            whole.update(f"{path.relative_to(ROOT)}\0".encode() + path.read_bytes() + b"\0")
    return whole.hexdigest()[:12]


def write(
    part: str, figures: dict[str, Figures], outcome: Outcome, started: str, seconds: float, given: argparse.Namespace
) -> None:
    """Replace the section of a part, or add this run to it. ``started`` is the `code` at its start."""
    path = FILE.with_suffix(".json")
    kept: dict[str, Any] = json.loads(path.read_text("utf-8")) if path.exists() else {}
    run = {
        "command": _command(part, given),
        "date": f"{datetime.now(UTC):%Y-%m-%d}",
        "commit": _commit(),
        "machine": _machine(),
        "minutes": round(seconds / 60, 1),
        "counts": dict(outcome.counts),
        "failures": [[failure.what.partition(":")[0], general(failure.why)] for failure in outcome.failures],
    }
    before = kept.get(part, {})
    others = before["runs"] if given.add and before.get("code") == started else []
    others = [other for other in others if other["command"] != run["command"]]
    kept[part] = {"code": started, "runs": [*others, run]}
    path.write_text(json.dumps(kept, indent=1, ensure_ascii=False) + "\n", "utf-8")
    sections = [f"\n## {name}\n\n{_section(kept[name], figures[name])}\n" for name in figures if name in kept]
    FILE.write_text(_HEAD + "".join(sections), "utf-8")


def _section(kept: dict[str, Any], figures: Figures) -> str:
    runs = kept["runs"]
    failures = Counter((what, why) for run in runs for what, why in run["failures"])
    lines = [
        f"`{run['command']}`, {run['date']}, commit {run['commit']}, {run['machine']}, {run['minutes']:.0f} min."
        for run in runs
    ]
    if len(runs) > 1:
        lines = [*(f"- {line}" for line in lines), "", f"The sum of these runs, with the same code ({kept['code']}):"]
    lines += [
        "",
        "| | |",
        "|---|---|",
        *(f"| {what} | {value} |" for what, value in figures(_sum(runs))),
        f"| **failures** | **{failures.total()}** |",
    ]
    if failures:
        lines += ["", "| failures | of | why |", "|---|---|---|"]
        lines += [f"| {count} | {what} | {why} |" for (what, why), count in failures.most_common(40)]
    return "\n".join(lines)


def _sum(runs: list[dict[str, Any]]) -> Outcome:
    """Add the counts of several runs; for a maximum, take the largest."""
    total: Counter[str] = Counter()
    for run in runs:
        for name, count in run["counts"].items():
            total[name] = max(total[name], count) if name.startswith("most ") else total[name] + count
    return Outcome(total)


def _command(part: str, given: argparse.Namespace) -> str:
    options = [f"--only {part}", f"--seed {given.seed}"]
    options += ["--long"] if given.long else []
    options += [f"--count {given.count}"] if given.count else []
    options += [f"--kind '{given.kind}'"] if given.kind else []
    return f"python -m torture {' '.join(options)}"


def general(why: str) -> str:
    """Return the reason without the numbers of the case."""
    short = re.sub(r"\d+", "N", " ".join(why.split()))[:140]
    return short.replace("|", "\\|").replace("<", "‹").replace("`", "'")


def _commit() -> str:
    """Return the commit, with `-dirty` if the code differs from it."""
    head = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True)
    same = subprocess.run(["git", "diff", "--quiet", "HEAD", "--", "laddernet", "torture"], cwd=ROOT)
    return (head.stdout.strip() or "unknown") + ("" if same.returncode == 0 else "-dirty")


def _machine() -> str:
    names = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    processor = names[0].partition(":")[2].strip() if names else platform.processor()
    return f"{len(os.sched_getaffinity(0))} cores of {processor}"

"""The project's targets of speed, and what the sections of bench.py have measured for them."""

from collections.abc import Mapping
from statistics import median
from typing import Any

from bench_timing import PRINCIPAL, Rows


def targets(done: Mapping[str, Rows]) -> list[dict[str, Any]]:
    """Compare the measured figures with the project's targets."""

    def middle(section: str, rows: str, column: str) -> list[float]:
        """Return the medians of a column, of the rows whose names have this beginning."""
        named = done.get(section, {}).items()
        return [median(cells[column]) for name, cells in named if name.startswith(rows) and column in cells]

    both, gain = "2 cores", "float32's time over it"
    wanted: list[tuple[str, list[float], str, float]] = [
        ("LAMDA-SSL's time over ours", middle("rivals", "LAMDA-SSL", "time over ours"), "≥", 3.0),
        (
            "LAMDA-SSL's time over ours in bfloat16",
            middle("rivals", "LAMDA-SSL", "time over ours in bfloat16"),
            "≥",
            4.3,
        ),
        *(
            (f"float32's time over bfloat16's: {rows}", middle("precision", f"{rows}, bfloat16", gain), "≥", 1.35)
            for rows in (f"vanilla, {both}", "two runs")
        ),
        *(
            (f"share of the limit: {m}, {both}", middle("steps", f"{m}, {both}", "share of the limit"), "≥", 0.7)
            for m in PRINCIPAL
        ),
        ("slowest ladder model over the fastest", middle("models", "", "time over the fastest ladder"), "≤", 1.35),
        ("two runs side by side over one", middle("side-by-side", "two", "throughput over one run"), "≥", 1.8),
        *((f"compile, s: {m}, first time", middle("start", f"{m}, first", "compile, s"), "≤", 12.0) for m in PRINCIPAL),
        *(
            (f"compile, s: {m}, second time", middle("start", f"{m}, second", "compile, s"), "≤", 2.0)
            for m in PRINCIPAL
        ),
    ]
    return [
        {
            "what": what,
            "measured": (m := max(found)),
            "target": f"{sign} {goal:g}",
            "reached": m >= goal if sign == "≥" else m <= goal,
        }
        for what, found, sign, goal in wanted
        if found
    ]

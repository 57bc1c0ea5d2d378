"""Kill drivers, workers, Ray nodes and PostgreSQL at random moments, until the work is done.

Each campaign starts one or several commands, sends signals at random moments (after a checkpoint, or while a process
starts), starts again what has ended, and compares the end with that of the undisturbed command, bit by bit: no result
is lost, none is recorded twice, and a result that has been written once stays. Most suspensions last longer than the
lease, which is short here; briefer ones are counted apart.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from threading import Lock

from torture.common import Options, Outcome, describe, environment
from torture.kills_campaigns import CAMPAIGNS, ENTRY, STUDY, TRAIN, TUNE
from torture.kills_disturbed import BRIEFLY, Disturbed
from torture.kills_results import result
from torture.kills_servers import postgres_programs
from torture.state import State

COUNT, LONG_COUNT = 100, 1_100  # signals
PER_CAMPAIGN, LONG_PER_CAMPAIGN = 12, 25
AT_ONCE = 3  # campaigns


def run(asked: Options, shim: Path | None) -> Outcome:
    outcome = Outcome()
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])  # so that each run has one core, also on Ray
    (asked.work / "cache").mkdir(parents=True, exist_ok=True)
    wanted = asked.count or (LONG_COUNT if asked.long else COUNT)
    names = [name for name in CAMPAIGNS if name not in _missing()]
    if asked.kind:
        names = [asked.kind]
    numbers = iter(asked.cases or count())
    references = {name: _refer(asked, name) for name in {CAMPAIGNS[name].reference for name in names}}
    turn = Lock()

    def perform() -> None:
        while True:
            with turn:
                number = next(numbers, None)
                enough = not asked.cases and _signals(outcome) >= wanted
                if number is None or (enough and number >= len(names)):  # each campaign runs at least once
                    return
            campaign = CAMPAIGNS[names[number % len(names)]]
            kills = campaign.kills or (LONG_PER_CAMPAIGN if asked.long else PER_CAMPAIGN)
            Disturbed(asked, number, campaign, min(kills, wanted), references[campaign.reference], outcome).run()
            asked.on_case(f"{_signals(outcome):,} of {wanted:,} signals, {len(outcome.failures)} failures")

    with ThreadPoolExecutor(AT_ONCE) as pool:
        for worker in [pool.submit(perform) for _ in range(AT_ONCE)]:
            worker.result()
    return outcome


def _signals(outcome: Outcome) -> int:
    """Count the signals, without brief suspensions."""
    counts = outcome.counts.items()
    return sum(count for what, count in counts if what.startswith("SIG") and not what.endswith(BRIEFLY))


def _missing() -> list[str]:
    """List the campaigns whose programs are not installed."""
    from importlib.util import find_spec

    there = {"PostgreSQL": bool(postgres_programs()), "Ray": find_spec("ray") is not None}
    return [name for name in CAMPAIGNS if not all(found for program, found in there.items() if program in name)]


def _refer(asked: Options, name: str) -> State:
    """The results of the undisturbed command."""
    folder = asked.work / "references" / name
    folder.mkdir(parents=True)
    argv = {"train": TRAIN, "study": (*STUDY, "--out", "work"), "tune": (*TUNE, "--jobs", "2", "--out", "work")}[name]
    command = [sys.executable, "-c", ENTRY, *argv]
    done = subprocess.run(command, cwd=folder, env=environment(asked.work), capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{describe(argv)} should end well: {done.stderr}")
    return result(folder, ["work"], None)


def figures(outcome: Outcome) -> Iterator[tuple[str, str]]:
    counts = outcome.counts
    signals = {name: count for name, count in counts.items() if name.startswith("SIG")}
    yield "signals (without brief suspensions)", f"{_signals(outcome):,}"
    yield "by kind", ", ".join(f"{name} {count:,}" for name, count in sorted(signals.items()))
    names = [name for name in counts if name.startswith("campaigns: ")]
    yield "campaigns", ", ".join(f"{name.removeprefix('campaigns: ')} {counts[name]:,}" for name in names)
    yield "results compared bit by bit", f"{counts['results compared']:,}"

"""Bad inputs: tables, model files, checkpoints, stores, plans, TOML files and options, damaged or made up.

Each is refused with exit code 2 and one sentence, or accepted if it happens to be valid. There is no traceback, crash
or hang, memory is bounded, and a refusal changes no existing file. An accepted study or search leaves all finished runs
as they are, and replaces no table by one with fewer runs. A file with a checksum is accepted only if it has the same
meaning, unless the checksum was computed anew.
"""

import os
import random
import shutil
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

from torture.common import Failure, Options, Outcome, changed, complaint, contents, describe, environment, keep
from torture.inputs_files import checkpoint, model_file, plan, signed_model, store, toml
from torture.inputs_options import combinator, options
from torture.inputs_tables import csv_table, npz_table, parquet_table
from torture.seeds import Prepared, Seeds
from torture.server import Call, Ended, Pool, Server

COUNT, LONG_COUNT = 2_000, 12_000
BATCH = 40  # calls of one forked process
GROWTH = 400 << 20  # bytes by which a refusal may make the process grow
ADDRESSES = 3 << 30  # bytes of address space that a call may take
SECONDS = 20.0

Kind = Callable[[Seeds, random.Random, Path], Prepared]

# The kinds, each with its share of the cases.
KINDS: dict[str, tuple[Kind, int]] = {
    "csv": (csv_table, 24),
    "npz": (npz_table, 16),
    "parquet": (parquet_table, 10),
    "model": (model_file, 12),
    "signed model": (signed_model, 8),
    "checkpoint": (checkpoint, 6),
    "store": (store, 7),
    "plan": (plan, 5),
    "toml": (toml, 4),
    "options": (options, 14),
    "combinator": (combinator, 2),
}


def run(asked: Options, shim: Path | None) -> Outcome:
    cores = len(os.sched_getaffinity(0))
    (asked.work / "cache").mkdir(parents=True, exist_ok=True)
    cores = min(cores, 2)
    outcome = Outcome()
    with Pool([Server(environment(asked.work), asked.work / "log", shim) for _ in range(cores)]) as pool:
        with pool.one() as server:
            seeds = Seeds(asked.work / "seeds", server, shim is not None, asked.seed)
        count = asked.count or (LONG_COUNT if asked.long else COUNT)
        cases = iter(asked.cases or range(count))
        batches = iter(lambda: list(islice(cases, BATCH)), [])
        for _ in pool.map(lambda server, batch: _batch(asked, seeds, server, batch, outcome), batches):
            done = outcome.counts["cases"]
            asked.on_case(f"{done:,} of {count:,} inputs, {len(outcome.failures)} failures")
    return outcome


def prepare(asked: Options, seeds: Seeds, case: int, folder: Path) -> tuple[str, Prepared]:
    rng = random.Random(f"inputs {asked.seed} {case}")
    kinds = {name: kind for name, kind in KINDS.items() if name != "checkpoint" or seeds.has_checkpoint}
    name = asked.kind or rng.choices(list(kinds), [share for _, share in kinds.values()])[0]
    folder.mkdir(parents=True)
    return name, kinds[name][0](seeds, rng, folder)


def _batch(asked: Options, seeds: Seeds, server: Server, cases: list[int], outcome: Outcome) -> None:
    place = asked.work / f"inputs-{cases[0]}"
    prepared = [(case, place / str(case), *prepare(asked, seeds, case, place / str(case))) for case in cases]
    before = {case: contents(folder) for case, folder, *_ in prepared}
    calls = [
        Call(made.argv, str(folder), True, stdin=made.stdin, seconds=SECONDS, memory=ADDRESSES)
        for _, folder, _, made in prepared
    ]
    for (case, folder, kind, made), ended in zip(prepared, server.call(calls), strict=True):
        outcome.add("cases")
        outcome.add(f"cases: {kind}")
        accepted = not (ended.signal or ended.hung) and (ended.accepted or ended.code == 0)
        outcome.add("accepted" if accepted else "refused")
        outcome.counts["most memory"] = max(outcome.counts["most memory"], ended.memory)
        why = _why(ended, accepted, made, before[case], folder)
        if why:
            about = f"{describe(made.argv)}\n{why}\n{ended.err}"
            kept = keep(folder, "inputs", asked.seed, case, about)
            if made.stdin:
                why += f" (stdin: {made.stdin})"
            outcome.failures.append(Failure("inputs", case, f"{kind}: {describe(made.argv)}", why, kept))
    shutil.rmtree(place, ignore_errors=True)


def _why(ended: Ended, accepted: bool, made: Prepared, before: dict[str, bytes], folder: Path) -> str | None:
    """Return the check that failed; None if there is none."""
    if ended.hung:
        return f"no end within {SECONDS:.0f} s"
    if ended.signal:
        return f"ended by signal {ended.signal}"
    if ended.memory > GROWTH:
        return f"grew by {ended.memory >> 20} MB"
    if why := complaint(ended.code, ended.err):
        return why
    if accepted:
        if made.same is False:
            return "a damaged file was accepted"
        return _replaced(before, contents(folder))
    if ended.code != 2:
        return f"exit code {ended.code}: {ended.err[:300]}"
    if lost := changed(before, contents(folder)):
        return f"refused, but changed {', '.join(lost)}"
    return None


def _replaced(before: dict[str, bytes], after: dict[str, bytes]) -> str | None:
    """Return the saved result that an accepted command has changed or lost; None if there is none."""
    from laddernet.report.writers import finished_runs

    for name in changed(before, after):
        content = before[name]
        if name.startswith(("study/runs/", "tune/draws/")):
            return f"accepted, but changed {name}"
        if name == "study/table.csv" and content not in after.values():  # a table may be moved
            now = finished_runs(after[name].decode()) if name in after else 0
            if now < finished_runs(content.decode()):
                return "accepted, but the table has fewer runs than before"
    return None


def figures(outcome: Outcome) -> Iterator[tuple[str, str]]:
    counts = outcome.counts
    yield "inputs", f"{counts['cases']:,}"
    kinds = [name for name in counts if name.startswith("cases: ")]
    yield "by kind", ", ".join(f"{name.removeprefix('cases: ')} {counts[name]:,}" for name in sorted(kinds))
    yield "refused with one sentence", f"{counts['refused']:,}"
    yield "accepted, being valid", f"{counts['accepted']:,}"
    yield "most memory of one input", f"{counts['most memory'] >> 20:,} MB"

"""System faults: the n-th system call that changes a file fails, for every n of a small run.

The disk is full, read-only or broken, no descriptor or memory is left, the folder is deleted, the clock jumps, or the
process is killed at that moment, also with half of a write done. Each command then either ends with a sentence or goes
on; nothing that was saved before is lost; and the same command without a fault ends as if there had been none.
"""

import errno
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import safetensors.numpy

from torture.common import (
    Failure,
    Options,
    Outcome,
    complaint,
    describe,
    digest,
    environment,
    keep,
    last_line,
)
from torture.seeds import FIT, TINY, Seeds
from torture.server import Call, Ended, Fault, Pool, Server
from torture.state import State, difference, state

SECONDS = 240.0


@dataclass(frozen=True)
class Scenario:
    """A command, and the files and commands that prepare its folder."""

    name: str
    argv: tuple[str, ...]
    files: tuple[str, ...]  # of the seeds
    target: str  # the folder that is deleted
    before: tuple[tuple[str, ...], ...] = ()  # commands that run first
    partly: bool = False  # the last of them is killed before its end
    expendable: bool = False  # the content of the deleted folder is not made again
    recovery: tuple[str, ...] = ()  # options with which the command is repeated

    def deleted(self, kind: str) -> str | None:
        """Return the folder that a fault of this kind deletes."""
        if kind == "whole folder deleted":
            return self.target.partition("/")[0]
        return self.target if kind == "folder deleted" else None


_STUDY = ("study", "--models", "vanilla", *TINY, "--out", "study")
_TUNE = ("tune", "vanilla", *TINY, "--draws", "1", "--sampler", "random", "--out", "tune")
_FIT = ("fit", "table.csv", *FIT, "--out", "out/model.safetensors")
_CURVE = ("curve", "table.csv", "--target", "y", "--hidden", "4", "--networks", "1", "--max-steps", "2")
SCENARIOS = [
    Scenario("train", ("train", *TINY, "--out", "run"), (), "run", (("train", *TINY, "--out", "run"),), partly=True),
    Scenario(
        "study",
        (*_STUDY, "--seeds", "2"),
        (),
        "study/runs",
        ((*_STUDY, "--seeds", "1"),),
        expendable=True,
        recovery=("--retry-failed",),
    ),
    Scenario("tune", (*_TUNE, "--trials", "2"), (), "tune/draws", ((*_TUNE, "--trials", "1"),), expendable=True),
    Scenario("fit", (*_FIT, "--seed", "1"), ("table.csv",), "out", (_FIT,)),
    Scenario(
        "predict",
        ("predict", "model.safetensors", "table.csv", "--proba", "--out", "out/p.csv"),
        ("model.safetensors", "table.csv"),
        "out",
        (("predict", "model.safetensors", "table.csv", "--out", "out/p.csv"),),
    ),
    Scenario(
        "suggest",
        ("suggest", "model.safetensors", "table.csv", "--count", "5", "--out", "out/s.csv"),
        ("model.safetensors", "table.csv"),
        "out",
        (("suggest", "model.safetensors", "table.csv", "--count", "3", "--out", "out/s.csv"),),
    ),
    Scenario(
        "curve",
        (*_CURVE, "--counts", "2", "--repeats", "2", "--out", "out/c.svg"),
        ("table.csv",),
        "out",
        ((*_CURVE, "--counts", "1", "--repeats", "2", "--out", "out/c.svg"),),
    ),
    Scenario("report", ("report", "--html", "--out", "study"), ("study",), "study/runs", expendable=True),
]

KINDS = {
    "disk full, once": {"action": "fail", "errno": errno.ENOSPC},
    "disk full from then on": {"action": "fail", "errno": errno.ENOSPC, "onwards": True},
    "read-only from then on": {"action": "fail", "errno": errno.EROFS, "onwards": True},
    "no permission, once": {"action": "fail", "errno": errno.EACCES},
    "input/output error, once": {"action": "fail", "errno": errno.EIO},
    "no descriptor, once": {"action": "fail", "errno": errno.EMFILE},
    "no descriptor from then on": {"action": "fail", "errno": errno.EMFILE, "onwards": True},
    "no memory, once": {"action": "fail", "errno": errno.ENOMEM},
    "no memory from then on": {"action": "memory"},
    "killed": {"action": "kill"},
    "killed in the middle of a write": {"action": "torn"},
    "folder deleted": {"action": "delete"},
    "whole folder deleted": {"action": "delete"},
    "clock a day ahead": {"action": "clock", "seconds": 86_400.0},
    "clock ten years back": {"action": "clock", "seconds": -3.2e8},
}
LIMITS: dict[str, list[dict[str, int]]] = {
    "few descriptors": [{"descriptors": count} for count in range(16)],
    "little memory": [
        {"memory": count << 20} for count in (0, 1, 2, 4, 8, 16, 32, 64, 96, 128, 192, 256, 384, 512, 768)
    ],
}


@dataclass(frozen=True)
class Case:
    number: int
    scenario: Scenario
    kind: str
    fault: dict[str, Any] | None = None
    limits: dict[str, int] = field(default_factory=dict)


@dataclass
class Reference:
    """A scenario without a fault: the folder and its content before, the content at the end, and the system calls."""

    folder: Path
    before: State
    after: State
    calls: int
    opens: int


def run(asked: Options, shim: Path | None) -> Outcome:
    outcome = Outcome()
    if shim is None:
        outcome.counts["left out: there is no C compiler"] = 1
        return outcome
    (asked.work / "cache").mkdir(parents=True, exist_ok=True)
    cores = min(len(os.sched_getaffinity(0)), 2)
    with Pool([Server(environment(asked.work), asked.work / "log", shim) for _ in range(cores)]) as pool:
        with pool.one() as server:
            seeds = Seeds(asked.work / "seeds", server, True, asked.seed)
        references = dict(
            pool.map(lambda server, scenario: (scenario.name, _refer(asked, seeds, server, scenario)), SCENARIOS)
        )
        cases = [case for case in _cases(references) if _is_chosen(asked, case)]
        verified: dict[str, str | None] = {}

        def perform(server: Server, case: Case) -> None:
            _perform(asked, server, case, references[case.scenario.name], verified, outcome)
            done = outcome.counts["cases"]
            asked.on_case(f"{done:,} of {len(cases):,} faults, {len(outcome.failures)} failures")

        for _ in pool.map(perform, cases):
            pass
        outcome.counts["distinct states"] = len(verified)
    return outcome


def _cases(references: dict[str, Reference]) -> Iterator[Case]:
    """Yield all faults of all scenarios; numbers of cases depend only on the numbers of system calls."""
    number = 0
    for scenario in SCENARIOS:
        reference = references[scenario.name]
        for kind, fault in KINDS.items():
            if kind == "whole folder deleted" and "/" not in scenario.target:
                continue  # the same folder
            for call in range(1, (reference.opens if "descriptor" in kind else reference.calls) + 1):
                yield Case(number, scenario, kind, {**fault, "number": call})
                number += 1
        for kind, limits in LIMITS.items():
            for limit in limits:
                yield Case(number, scenario, kind, limits=limit)
                number += 1


def _is_chosen(asked: Options, case: Case) -> bool:
    """Return whether the case is run: one kind of fault for each call, in turn; in a long run, all kinds."""
    if asked.cases:
        return case.number in asked.cases
    if asked.kind is not None and asked.kind not in (case.scenario.name, case.kind):
        return False
    if asked.long or case.fault is None:
        return True
    group = [kind for kind in KINDS if ("descriptor" in kind) == ("descriptor" in case.kind)]
    return bool((case.fault["number"] + asked.seed) % len(group) == group.index(case.kind))


def _refer(asked: Options, seeds: Seeds, server: Server, scenario: Scenario) -> Reference:
    folder = asked.work / "references" / scenario.name
    folder.mkdir(parents=True)
    (folder / "out").mkdir()
    for name in scenario.files:
        seeds.copy(name, folder)
    if scenario.partly:
        (argv,) = scenario.before
        count = _expect(server, folder, argv).calls
        shutil.rmtree(folder / scenario.target)
        # Two thirds of the way: the first checkpoint is whole, the last epoch is not reached.
        server.one(_call(folder, argv, fault=Fault(str(folder), count // 2, "kill")))
    else:
        for argv in scenario.before:
            _expect(server, folder, argv)
    for path in folder.rglob(".*.tmp"):
        path.unlink()
    copy = Path(shutil.copytree(folder, asked.work / "references" / f"{scenario.name} done"))
    calls = _expect(server, copy, scenario.argv).calls
    after = state(copy)
    shutil.rmtree(copy)
    shutil.copytree(folder, copy)
    opens = _expect(server, copy, scenario.argv, errno=errno.EMFILE).calls
    if state(copy) != after:
        raise RuntimeError(f"{scenario.name} ends differently without any fault: {difference(state(copy), after)}")
    shutil.rmtree(copy)
    return Reference(folder, state(folder), after, calls, opens)


def _call(folder: Path, argv: tuple[str, ...], **more: Any) -> Call:
    return Call(list(argv), str(folder), inline=True, seconds=SECONDS, **more)


def _expect(server: Server, folder: Path, argv: tuple[str, ...], **fault: Any) -> Ended:
    ended = server.one(_call(folder, argv, fault=Fault(str(folder), **fault)))
    if ended.code or ended.signal or ended.hung:
        raise RuntimeError(f"{describe(argv)} should end with exit code 0: {ended}")
    return ended


def _perform(
    asked: Options, server: Server, case: Case, reference: Reference, verified: dict[str, str | None], outcome: Outcome
) -> None:
    scenario = case.scenario
    folder = asked.work / f"case-{case.number}"
    shutil.copytree(reference.folder, folder)
    deleted = scenario.deleted(case.kind)
    fault = case.fault and Fault(str(folder), target=str(folder / (deleted or scenario.target)), **case.fault)
    ended = server.one(_call(folder, scenario.argv, fault=fault, **case.limits))
    outcome.add("cases")
    outcome.add(f"cases: {case.kind}")
    outcome.add(f"command: {scenario.name}")
    ignored = deleted if deleted and scenario.expendable and "/" in deleted else None
    why = _why(case, ended, folder, reference, ignored)
    is_gone = scenario.name == "report" and case.kind == "whole folder deleted"  # then there is nothing to resume
    if why is None and _same_program(ended) and not is_gone:
        why = _recovered(server, case, folder, reference, ignored, verified)
    if why is not None:
        where = f"{case.kind}, {case.limits or 'call ' + str((case.fault or {}).get('number'))}"
        about = f"{describe(scenario.argv)}\n{where}\n{why}\n{ended}"
        kept = keep(folder, "faults", asked.seed, case.number, about)
        outcome.failures.append(
            Failure(
                "faults", case.number, f"{scenario.name}, {case.kind}: {where}: {describe(scenario.argv)}", why, kept
            )
        )
    shutil.rmtree(folder, ignore_errors=True)


def _why(case: Case, ended: Ended, folder: Path, reference: Reference, ignored: str | None) -> str | None:
    """Return what is wrong with the end of the command and its files."""
    scenario = case.scenario
    failed_runs = scenario.name in ("study", "tune") and "failed" in ended.out
    little_memory = case.kind in ("little memory", "no memory from then on")
    if ended.hung:
        return f"no end within {SECONDS:.0f} s"
    if ended.signal:
        if not (case.kind.startswith("killed") or little_memory):  # XLA and NumPy end the process without memory
            return f"ended by signal {ended.signal}"
    elif ended.code == 0:
        if why := complaint(0, ended.err):
            return why
        if _same_program(ended) and (what := difference(_left(scenario, case, folder), reference.after, ignored)):
            return f"exit code 0, but {what}"
    elif failed_runs:
        if "Traceback (most recent call last)" in ended.err:
            return "a traceback: " + last_line(ended.err)
    elif not little_memory and (why := complaint(ended.code, ended.err)):
        return why
    deleted = scenario.deleted(case.kind)
    now = state(folder)
    if failed_runs or not _same_program(ended):  # the tables name the failed runs, and the next report replaces them
        now |= {name: reference.after[name] for name in now if Path(name).stem == "table"}
    if not _same_program(ended):  # so the results differ too, and a model that was written must only be whole
        now |= {name: value for name, value in reference.before.items() if name.endswith("environment.json")}
        now |= {name: reference.after[name] for name in now if scenario.name == "fit" and _is_whole(folder / name)}
    if deleted:  # files elsewhere must still exist
        now |= {name: value for name, value in reference.before.items() if name.startswith(deleted + "/")}
    return _lost(scenario, now, reference)


def _left(scenario: Scenario, case: Case, folder: Path) -> State:
    """Read the files that the command left; a folder that was deleted at the end counts as it was before."""
    deleted = scenario.deleted(case.kind)
    if deleted is None or (folder / deleted).exists() or not (folder / f"{deleted}.gone").exists():
        return state(folder)
    moved = state(folder / f"{deleted}.gone")
    return state(folder) | {f"{deleted}/{name}": value for name, value in moved.items()}


def _is_whole(path: Path) -> bool:
    """Return whether a file is a model file from its first to its last byte."""
    if path.suffix != ".safetensors":
        return False
    try:
        return bool(safetensors.numpy.load(path.read_bytes()))
    except safetensors.SafetensorError:
        return False


def _same_program(ended: Ended) -> bool:
    """Return whether native kernels were used; without them, as a warning says, the bits differ."""
    return "without native kernels" not in ended.err


def _lost(scenario: Scenario, now: State, reference: Reference) -> str | None:
    """Return a saved file that is neither as before nor as at the undisturbed end; None if there is none."""
    for name, before in reference.before.items():
        if "/checkpoints/" in name or name.endswith(".tmp") or name == "tmp":
            continue
        if name.endswith(".db"):
            for key, value in before.items():
                if (now.get(name) or {}).get(key) not in (value, reference.after[name].get(key)):
                    return f"lost: {key} in {name}"
        elif name.endswith("metrics.csv"):  # grows from epoch to epoch
            if not (now.get(name) or b"").startswith(before):
                return f"lost: {name}"
        elif now.get(name) not in (before, reference.after.get(name)):
            return f"lost: {name}"
    if scenario.name == "train":
        records = [name for name in now if "/checkpoints/" in name and name.endswith(".json")]
        whole = [name for name in records if name.replace(".json", ".safetensors") in now]
        if not whole and "run/result.json" not in now:
            return "lost: all checkpoints"
    return None


def _recovered(
    server: Server, case: Case, folder: Path, reference: Reference, ignored: str | None, verified: dict[str, str | None]
) -> str | None:
    """Check that the same command without a fault ends as the undisturbed one.

    It is not tried again for a folder with the same content as an earlier one.
    """
    key = f"{case.scenario.name} {ignored} " + digest({"state": repr(sorted(state(folder).items())).encode()})
    if key not in verified:
        if case.scenario.target == "out":  # files are written to folders that exist
            (folder / "out").mkdir(exist_ok=True)
        ended = server.one(_call(folder, (*case.scenario.argv, *case.scenario.recovery)))
        if ended.hung or ended.signal or ended.code:
            verified[key] = f"afterwards: exit code {ended.code}, signal {ended.signal}: {ended.err[-300:]}"
        else:
            what = difference(state(folder), reference.after, ignored)
            verified[key] = f"afterwards: {what}" if what else None
    return verified[key]


def figures(outcome: Outcome) -> Iterator[tuple[str, str]]:
    counts = outcome.counts
    if not counts["cases"]:
        yield "left out", "no C compiler"
        return
    yield "faults", f"{counts['cases']:,}"
    for title, prefix in (("by kind", "cases: "), ("by command", "command: ")):
        names = [name for name in counts if name.startswith(prefix)]
        yield title, ", ".join(f"{name.removeprefix(prefix)} {counts[name]:,}" for name in names)
    yield "different states from which the next run went on", f"{counts['distinct states']:,}"

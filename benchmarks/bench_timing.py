"""The machinery of bench.py: subjects, the worker processes that run them, and blocks of work in turn."""

import multiprocessing
import os
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import worker

PRINCIPAL = ("vanilla", "gaussian", "amlp-2-2-2")
BATCH = 100  # labelled rows of a step, and also unlabelled rows

Cells = dict[str, list[float]]  # the measured values of each column, by round
Rows = dict[str, Cells]


@dataclass(frozen=True)
class Subject:
    """A piece of work that a worker repeats in blocks."""

    name: str
    cores: tuple[int, ...]
    function: str
    settings: dict[str, Any] = field(hash=False)
    units: int  # steps or rows of a block
    library: str = "jax"  # subjects of one library on the same cores with the same kernels share a process
    native: str = "1"  # native kernels, as LADDERNET_NATIVE names them

    @property
    def process(self) -> tuple[str, tuple[int, ...], str]:
        return self.library, self.cores, self.native


@dataclass(frozen=True)
class Timing:
    """The times of a subject, by round."""

    seconds: list[float] = field(default_factory=list)  # for each unit
    ratio: list[float] = field(default_factory=list)  # to the reference's blocks next to it

    @property
    def ms(self) -> list[float]:
        return [1e3 * s for s in self.seconds]


class Bench(ExitStack):
    """The workers, and the amount of work."""

    def __init__(self, sizes: tuple[int, ...], quick: bool) -> None:
        super().__init__()
        self.sizes, self.quick = sizes, quick
        self.steps = 5 if quick else 20
        cores = sorted(os.sched_getaffinity(0))
        self.both, self.first, self.second = tuple(cores[:2]), (cores[0],), (cores[:2][-1],)
        self.principal = PRINCIPAL[:1] if quick else PRINCIPAL
        self.vanilla = self.step("vanilla", self.both)
        self._workers: dict[tuple[str, tuple[int, ...], str], ProcessPoolExecutor] = {}
        self._built: set[Subject] = set()

    def rounds(self, full: int) -> int:
        return 2 if self.quick else full

    # --- Subjects

    def step(self, model: str, cores: tuple[int, ...], *, name: str = "", native: str = "1", **changes: Any) -> Subject:
        """Return the training steps of a model; ``changes`` override network, batch, precision and so on."""
        settings = {"model": model, "sizes": self.sizes, "batch": BATCH, "steps": self.steps, **changes}
        units = settings["steps"] * settings.get("seeds", 1)
        return Subject(name or f"{model}, {in_words(cores)}", cores, "ours:epochs", settings, units, native=native)

    def other(self, name: str, cores: tuple[int, ...], function: str, library: str = "jax") -> Subject:
        """Return another subject with the sizes of the paper's step."""
        settings = {"sizes": self.sizes, "batch": BATCH, "steps": self.steps}
        return Subject(f"{name}, {in_words(cores)}", cores, function, settings, self.steps, library)

    # --- Measuring

    def new_worker(self, cores: tuple[int, ...], native: str = "1") -> ProcessPoolExecutor:
        return ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), worker.pin, (cores, native))

    def worker(self, library: str, cores: tuple[int, ...], native: str = "1") -> ProcessPoolExecutor:
        process = (library, cores, native)
        if process not in self._workers:
            self._workers[process] = self.enter_context(self.new_worker(cores, native))
        return self._workers[process]

    def build(self, subjects: Iterable[Subject]) -> None:
        """Make and compile subjects, in all workers at the same time."""
        new = [s for s in dict.fromkeys(subjects) if s not in self._built]
        self._built.update(new)
        under_way = []
        for process in dict.fromkeys(s.process for s in new):
            named = {s.name: (s.function, s.settings) for s in new if s.process == process}
            library, cores, _ = process
            at_once = len(cores) if library == "jax" else 1  # only JAX compiles, mostly on one core
            under_way.append(self.worker(*process).submit(worker.build, named, at_once))
        for future in under_way:
            future.result()

    def seconds(self, *subjects: Subject) -> list[float]:
        """Run a block of each subject at the same time; return the seconds for each unit."""
        time.sleep(0.05)  # until the thread pools of the previous block sleep
        under_way = [self.worker(*s.process).submit(worker.seconds, s.name) for s in subjects]
        return [future.result() / s.units for future, s in zip(under_way, subjects, strict=True)]

    def interleave(self, reference: Subject, subjects: Sequence[Subject], rounds: int) -> dict[str, Timing]:
        """Alternate the reference and the subjects; each round begins with another subject."""
        self.build([reference, *subjects])
        timings = {s.name: Timing() for s in (reference, *subjects)}
        for r in range(rounds):
            (before,) = self.seconds(reference)
            turn = r % len(subjects)
            for subject in (*subjects[turn:], *subjects[:turn]):
                ((took,), (after,)) = self.seconds(subject), self.seconds(reference)
                timings[subject.name].seconds.append(took)
                timings[subject.name].ratio.append(2 * took / (before + after))
                timings[reference.name].seconds.append(after)
                before = after
        return timings


def in_words(cores: tuple[int, ...]) -> str:
    return "1 core" if len(cores) == 1 else f"{len(cores)} cores"

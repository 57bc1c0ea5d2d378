"""Speed and memory of laddernet, beside the machine's limit and beside others: run by `make bench`.

Every figure comes from blocks of work that persistent worker processes do in turn, one at a time. Subjects that are
compared take turns with a reference, and a ratio is that of a block to the reference's blocks just before and after
it, so that what else the machine does falls on both. A figure is a median, with the least and the greatest of its
rounds. What a section's docstring says is printed below its table and kept in the JSON file.
"""

import argparse
import inspect
import json
import multiprocessing
import os
import platform
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib import metadata, util
from pathlib import Path
from statistics import correlation, linear_regression, median
from typing import Any

import worker
from products import PAPER, gflop
from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).parent.parent
PRINCIPAL = ("vanilla", "gaussian", "amlp-2-2-2")
BATCH = 100  # labelled rows of a step, and as many unlabelled

Cells = dict[str, list[float]]  # what was measured, by round
Rows = dict[str, Cells]


@dataclass(frozen=True)
class Subject:
    """Something that a worker does in blocks."""

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
    """What a subject took, by round."""

    seconds: list[float] = field(default_factory=list)  # for each unit
    ratio: list[float] = field(default_factory=list)  # to the reference next to it

    @property
    def ms(self) -> list[float]:
        return [1e3 * s for s in self.seconds]


class Bench(ExitStack):
    """The workers, and how much they are asked to do."""

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
        """Training steps of a model; ``changes`` are to the paper's network, the batch, the precision and so on."""
        settings = {"model": model, "sizes": self.sizes, "batch": BATCH, "steps": self.steps, **changes}
        units = settings["steps"] * settings.get("seeds", 1)
        return Subject(name or f"{model}, {_cores(cores)}", cores, "ours:epochs", settings, units, native=native)

    def other(self, name: str, cores: tuple[int, ...], function: str, library: str = "jax") -> Subject:
        """Something else that has the size of the paper's step."""
        settings = {"sizes": self.sizes, "batch": BATCH, "steps": self.steps}
        return Subject(f"{name}, {_cores(cores)}", cores, function, settings, self.steps, library)

    # --- Measuring

    def new_worker(self, cores: tuple[int, ...], native: str = "1") -> ProcessPoolExecutor:
        return ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), worker.pin, (cores, native))

    def worker(self, library: str, cores: tuple[int, ...], native: str = "1") -> ProcessPoolExecutor:
        process = (library, cores, native)
        if process not in self._workers:
            self._workers[process] = self.enter_context(self.new_worker(cores, native))
        return self._workers[process]

    def build(self, subjects: Iterable[Subject]) -> None:
        """Have subjects made and compiled, all workers at the same time."""
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
        """Have a block of each subject done at the same moment: seconds for each unit."""
        time.sleep(0.05)  # thread pools of the block before go to sleep
        under_way = [self.worker(*s.process).submit(worker.seconds, s.name) for s in subjects]
        return [future.result() / s.units for future, s in zip(under_way, subjects, strict=True)]

    def interleave(self, reference: Subject, subjects: Sequence[Subject], rounds: int) -> dict[str, Timing]:
        """The reference and each subject in turn, the order moved on by one from round to round."""
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


def _cores(cores: tuple[int, ...]) -> str:
    return "1 core" if len(cores) == 1 else f"{len(cores)} cores"


# --- The sections: each docstring is a title, and how the figures below it were obtained ----------------------


def steps(bench: Bench) -> Rows:
    """Our training step, and the machine's limit for its matrix products

    A step is one of an epoch compiled as in training: 100 labelled and 100 unlabelled rows, noise, cost, gradient,
    Adam. The limit is an XLA program that does the same matrix products and nothing else, measured between our
    blocks; the share of it is limit / ours. GFLOP/s counts the products alone.
    """
    groups = []
    for cores in (bench.both,) if bench.quick else (bench.both, bench.first):
        limit = bench.other("matrix products alone, XLA", cores, "products:in_xla")
        groups.append((limit, [bench.step(model, cores) for model in bench.principal]))
    bench.build(subject for limit, models in groups for subject in (limit, *models))
    work = gflop(bench.sizes, BATCH)
    rows: Rows = {}
    for limit, models in groups:
        for name, timing in bench.interleave(limit, models, bench.rounds(5)).items():
            rows[name] = {"ms a step": timing.ms, "GFLOP/s": [work / s for s in timing.seconds]}
            if timing.ratio:
                rows[name]["share of the limit"] = [1 / ratio for ratio in timing.ratio]
    return rows


def precision(bench: Bench) -> Rows:
    """The step with matrix products in bfloat16, beside float32

    Blocks between blocks of the same model's step in float32. The last two rows are two runs, one core each, started at
    the same moment; a round has a block of both in each precision.
    """
    rows: Rows = {}
    for cores in (bench.both,) if bench.quick else (bench.both, bench.first):
        for model in bench.principal if cores == bench.both else bench.principal[:1]:
            float32 = bench.step(model, cores)
            bfloat16 = bench.step(model, cores, name=f"{float32.name}, bfloat16", precision="bfloat16")
            timings = bench.interleave(float32, [bfloat16], bench.rounds(7))
            rows[float32.name] = {"ms a step": timings[float32.name].ms}
            gain = [1 / ratio for ratio in timings[bfloat16.name].ratio]
            rows[bfloat16.name] = {"ms a step": timings[bfloat16.name].ms, "float32's time over it": gain}
    if bench.first == bench.second:
        return rows
    pairs = {
        p: [
            bench.step("vanilla", c, name=f"vanilla, {p}, core {c[0]}", precision=p)
            for c in (bench.first, bench.second)
        ]
        for p in ("float32", "bfloat16")
    }
    bench.build(run for runs in pairs.values() for run in runs)
    rates: Cells = {p: [] for p in pairs}
    for _ in range(bench.rounds(7)):
        for p, runs in pairs.items():
            rates[p].append(sum(1 / s for s in bench.seconds(*runs)))
    gain = [b / f for b, f in zip(rates["bfloat16"], rates["float32"], strict=True)]
    rows["two runs, float32"] = {"steps/s": rates["float32"]}
    rows["two runs, bfloat16"] = {"steps/s": rates["bfloat16"], "float32's time over it": gain}
    return rows


def kernels(bench: Bench) -> Rows:
    """What each native kernel gives: the step with only that one off

    Blocks between blocks of the same step with all native kernels; the figure is the time over theirs.
    """
    names: tuple[str, ...] = bench.worker("jax", bench.both).submit(worker.call, "ours:kernels").result()
    rows: Rows = {}
    for cores in (bench.both,) if bench.quick else (bench.both, bench.first):
        for precision in ("float32", "bfloat16"):
            column = f"vanilla, {precision}, {_cores(cores)}"
            reference = bench.step("vanilla", cores, name=column, precision=precision)
            kept = {f"without {off}": ",".join(name for name in names if name != off) for off in names}
            without = {
                row: bench.step("vanilla", cores, name=f"{column}, {row}", native=native, precision=precision)
                for row, native in {**kept, "without any": "0"}.items()
            }
            timings = bench.interleave(reference, list(without.values()), bench.rounds(5))
            for row, subject in without.items():
                rows.setdefault(row, {})[column] = timings[subject.name].ratio
    return rows


def rivals(bench: Bench) -> Rows:
    """Others' steps for the same network and batch

    Blocks between blocks of our vanilla step, with products in float32 and in bfloat16. LAMDA-SSL: its own network
    (with the Gaussian combinator), passes, cost and Adam; it detaches the clean path, whose gradient it thus leaves
    out, and its data loader is not counted. PyTorch: benchmarks/torch_ladder.py, eager, the same computation as ours,
    cost and gradients checked against ours before. The products by PyTorch are torch.mm into memory kept for them.
    """
    ours = bench.worker("jax", bench.both).submit(worker.call, "ours:reference", sizes=(12, 8, 6, 4), batch=BATCH)
    case = ours.result()
    difference = bench.worker("torch", bench.both).submit(worker.call, "torch_ladder:check", case=case).result()
    if not difference < 1e-9:
        raise SystemExit(f"benchmarks/torch_ladder.py differs from laddernet by {difference:.1e}: it is no comparison.")
    subjects = [
        bench.other("LAMDA-SSL", bench.both, "lamda:steps", "torch"),
        bench.other("PyTorch", bench.both, "torch_ladder:steps", "torch"),
        bench.other("matrix products alone, PyTorch", bench.both, "products:in_torch", "torch"),
    ]
    rows: Rows = {}
    for reference, ratio in (
        (bench.vanilla, "time over ours"),
        (
            bench.step("vanilla", bench.both, name="vanilla, bfloat16", precision="bfloat16"),
            "time over ours in bfloat16",
        ),
    ):
        for name, timing in bench.interleave(reference, subjects, bench.rounds(5)).items():
            cells = rows.setdefault(name, {"ms a step": []})
            cells["ms a step"] += timing.ms
            if timing.ratio:
                cells[ratio] = timing.ratio
    return rows


def models(bench: Bench) -> Rows:
    """The twenty models, both cores

    Blocks between blocks of vanilla; the last column is the time over that of the fastest ladder model, both taken
    relative to vanilla's blocks next to them. Baselines are no ladders: they have neither decoder nor clean path.
    """
    known: dict[str, bool] = bench.worker("jax", bench.both).submit(worker.call, "ours:models").result()
    others = [id for id in known if id != "vanilla"][: 1 if bench.quick else None]
    timings = bench.interleave(bench.vanilla, [bench.step(id, bench.both) for id in others], bench.rounds(5))
    timings[bench.vanilla.name].ratio.append(1.0)
    by_id = {id: timings[bench.step(id, bench.both).name] for id in known if id in ("vanilla", *others)}
    fastest = min(median(timing.ratio) for id, timing in by_id.items() if known[id])
    rows = {id: _with_ratio(timing, "ms a step", "time over vanilla") for id, timing in by_id.items()}
    for id, timing in by_id.items():
        if known[id]:
            rows[id]["time over the fastest ladder"] = [ratio / fastest for ratio in timing.ratio]
    return rows


def side_by_side(bench: Bench) -> Rows:
    """Two runs side by side, one core each

    In each round a block on the first core alone, one on the second alone, then both started at the same moment; the
    sum of the two rates over the mean of the rates alone.
    """
    runs = [bench.step("vanilla", cores, name=f"vanilla on core {cores[0]}") for cores in (bench.first, bench.second)]
    bench.build(runs)
    alone: list[float] = []
    together: list[float] = []
    for _ in range(bench.rounds(7)):
        alone.append(sum(1 / bench.seconds(run)[0] for run in runs) / 2)
        together.append(sum(1 / s for s in bench.seconds(*runs)))
    gain = [t / a for t, a in zip(together, alone, strict=True)]
    return {"one run": {"steps/s": alone}, "two runs": {"steps/s": together, "throughput over one run": gain}}


def seeds(bench: Bench) -> Rows:
    """Several seeds in one program, both cores

    The epoch under jax.vmap over weights, Adam's state and keys; blocks between blocks of the plain program.
    """
    counts = (2,) if bench.quick else (2, 4)
    subjects = [bench.step("vanilla", bench.both, name=f"{n} seeds", seeds=n) for n in counts]
    timings = bench.interleave(bench.vanilla, subjects, bench.rounds(5))
    return {name: _with_ratio(t, "ms a seed and step", "time over one seed") for name, t in timings.items()}


def start(bench: Bench) -> Rows:
    """What a new run waits for, both cores

    New processes, 60,000 unlabelled rows (1,000 in a quick run), 100 of them a step: the first with an empty
    compilation cache, the second with what the first left in it. Compile is tracing and compiling (or loading) the
    program of an epoch; initial values are compiled, drawn and waited for. Peak memory is ru_maxrss of the process by
    then.
    """
    rows: Rows = {}
    for model in bench.principal[::2]:
        with tempfile.TemporaryDirectory() as cache:
            for time_ in ("first", "second"):
                settings = {"model": model, "sizes": bench.sizes, "rows": 1_000 if bench.quick else 60_000}
                with bench.new_worker(bench.both) as fresh:
                    took = fresh.submit(worker.call, "ours:start", cache=cache, **settings).result()
                rows[f"{model}, {time_} time"] = {name: [value] for name, value in took.items()}
    return rows


def prediction(bench: Bench) -> Rows:
    """Prediction against scikit-learn's MLPClassifier of the same shape, both cores

    Trained.predict and MLPClassifier.predict of the same float32 rows in NumPy, in turn. Batches of 1 and 100 are
    predicted many times in a block.
    """
    rows: Rows = {}
    for batch, repeats in ((1, 200), (100, 50), (10_000, 1)):
        subjects = []
        for name, function in (("laddernet", "ours:predictions"), ("scikit-learn", "mlp:predictions")):
            settings = {"sizes": bench.sizes, "batch": batch, "repeats": repeats}
            subjects.append(Subject(f"{name}, batch {batch:,}", bench.both, function, settings, batch * repeats))
        ours, theirs = subjects
        timings = bench.interleave(ours, [theirs], bench.rounds(7))
        rows |= {name: {"rows/s": [1 / s for s in timing.seconds]} for name, timing in timings.items()}
        rows[ours.name]["rate over scikit-learn's"] = timings[theirs.name].ratio
    return rows


def growth(bench: Bench) -> Rows:
    """How the cost of a step grows, vanilla, both cores

    One thing changes at a time: the hidden layers' width, their number (each half as wide as the first of the paper's),
    the rows of each group in a step, the unlabelled rows of the data set (an epoch is one pass over them). Blocks
    between blocks of the paper's step. The fits are least squares through a family's times relative to those, against
    the GFLOP of its matrix products; slope and intercept in ms.
    """
    inputs, *hidden, classes = bench.sizes
    half = max(1, hidden[0] // 2)
    families: dict[str, dict[str, dict[str, Any]]] = {
        "width": {
            f"width × {f}": {"sizes": (inputs, *(max(1, int(n * f)) for n in hidden), classes)} for f in (0.5, 2)
        },
        "depth": {f"hidden layers: {n}": {"sizes": (inputs, *[half] * n, classes)} for n in (1, 3, 5)},
        "batch": {f"batch {n}": {"batch": n} for n in (50, 200, 400)},
        "rows": {f"{n:,} unlabelled rows": {"steps": n // BATCH} for n in (3_000, 60_000)},
    }
    if bench.quick:
        families = {f: dict(list(points.items())[: 2 if f == "depth" else 1]) for f, points in families.items()}
    reference_gflop = gflop(bench.sizes, BATCH)
    rows: Rows = {"the paper's step": {"GFLOP": [reference_gflop], "ms a step": []}}
    all_ms = rows["the paper's step"]["ms a step"]
    for family, points in families.items():
        subjects = [bench.step("vanilla", bench.both, name=name, **changes) for name, changes in points.items()]
        timings = bench.interleave(bench.vanilla, subjects, bench.rounds(2 if family == "rows" else 3))
        reference = median(timings[bench.vanilla.name].ms)
        all_ms += timings[bench.vanilla.name].ms
        for subject in subjects:
            work = gflop(subject.settings["sizes"], subject.settings["batch"])
            timing = timings[subject.name]
            rows[subject.name] = {"GFLOP": [work], **_with_ratio(timing, "ms a step", "time over the paper's step")}
            rows[subject.name]["GFLOP/s"] = [work / s for s in timing.seconds]
        if family != "rows":
            points_of_fit = {rows[s.name]["GFLOP"][0]: reference * median(timings[s.name].ratio) for s in subjects}
            if family != "depth":  # the paper's layers are not of the same width
                points_of_fit[reference_gflop] = reference
            rows[f"fit: {family}"] = _fit(points_of_fit)
    return rows


def _fit(ms_by_gflop: Mapping[float, float]) -> Cells:
    x, y = list(ms_by_gflop), list(ms_by_gflop.values())
    line = linear_regression(x, y)
    return {"ms a GFLOP": [line.slope], "ms at 0 GFLOP": [line.intercept], "r²": [correlation(x, y) ** 2]}


def _with_ratio(timing: Timing, unit: str, ratio: str) -> Cells:
    return {unit: timing.ms, **({ratio: timing.ratio} if timing.ratio else {})}


SECTIONS: dict[str, Callable[[Bench], Rows]] = {
    "steps": steps,
    "precision": precision,
    "rivals": rivals,
    "kernels": kernels,
    "models": models,
    "side-by-side": side_by_side,
    "seeds": seeds,
    "start": start,
    "prediction": prediction,
    "growth": growth,
}


# --- Targets --------------------------------------------------------------------------------------------------


def targets(done: Mapping[str, Rows]) -> list[dict[str, Any]]:
    """The numbers that the project set itself, those of them that were measured."""

    def middle(section: str, rows: str, column: str) -> list[float]:
        """The medians in a column, of rows whose name begins so."""
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


# --- Showing and keeping --------------------------------------------------------------------------------------


def environment() -> dict[str, Any]:
    """All that the figures depend on beside the code's own settings."""
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
        "--json", type=Path, help="where to write the figures [default: results/bench.json, for all in full only]"
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
        console.print("The machine is busy: figures on both cores will be too slow, and PyTorch's far more than ours.")
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

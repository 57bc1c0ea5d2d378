"""The sections of bench.py. The docstring of each has the title and the method of its table, which are printed too."""

import tempfile
from collections.abc import Callable, Mapping
from statistics import correlation, linear_regression, median
from typing import Any

import worker
from bench_timing import BATCH, Bench, Cells, Rows, Subject, Timing, in_words
from products import gflop


def steps(bench: Bench) -> Rows:
    """Our training step, and the machine's limit for its matrix products

    A step is one of an epoch, compiled as in training: 100 labelled and 100 unlabelled rows, noise, cost, gradient,
    Adam. The limit is an XLA program with the same matrix products only, measured between our blocks. The share of the
    limit is its time over ours. GFLOP/s counts the products only.
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

    Blocks in bfloat16 alternate with blocks of the same model in float32. The last two rows are two runs, one core
    each, started at the same time; a round has a block of both in each precision.
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
    """The gain by each native kernel: the step with only that kernel off

    Blocks alternate with blocks of the same step with all native kernels; the figure is the time over theirs.
    """
    names: tuple[str, ...] = bench.worker("jax", bench.both).submit(worker.call, "ours:kernels").result()
    rows: Rows = {}
    for cores in (bench.both,) if bench.quick else (bench.both, bench.first):
        for precision in ("float32", "bfloat16"):
            column = f"vanilla, {precision}, {in_words(cores)}"
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
    """Steps of other libraries for the same network and batch

    Blocks alternate with blocks of our vanilla step, with products in float32 and in bfloat16. LAMDA-SSL: its own
    network (with the Gaussian combinator), passes, cost and Adam; it detaches the clean path, so it leaves out that
    gradient. Its data loader is not counted. PyTorch: benchmarks/torch_ladder.py, eager, the same computation as ours;
    cost and gradients are compared with ours first. The products by PyTorch are torch.mm into preallocated memory.
    """
    ours = bench.worker("jax", bench.both).submit(worker.call, "ours:reference", sizes=(12, 8, 6, 4), batch=BATCH)
    case = ours.result()
    difference = bench.worker("torch", bench.both).submit(worker.call, "torch_ladder:check", case=case).result()
    if not difference < 1e-9:
        raise SystemExit(f"benchmarks/torch_ladder.py differs from laddernet by {difference:.1e}; both must agree.")
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

    Blocks alternate with blocks of vanilla. The last column is the time over that of the fastest ladder model, both
    relative to the blocks of vanilla next to them. Baselines have neither decoder nor clean path, so they do not count
    as ladder models.
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

    Each round has a block on the first core alone, one on the second alone, then both started at the same time. The
    figure is the sum of the two rates over the mean of the rates alone.
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

    The epoch under jax.vmap over weights, Adam's state and keys. Blocks alternate with blocks of the plain program.
    """
    counts = (2,) if bench.quick else (2, 4)
    subjects = [bench.step("vanilla", bench.both, name=f"{n} seeds", seeds=n) for n in counts]
    timings = bench.interleave(bench.vanilla, subjects, bench.rounds(5))
    return {name: _with_ratio(t, "ms a seed and step", "time over one seed") for name, t in timings.items()}


def start(bench: Bench) -> Rows:
    """The start of a new run, both cores

    New processes, 60,000 unlabelled rows (1,000 in a quick run), 100 rows a step. The first process has an empty
    compilation cache, the second the cache of the first. "Compile" is tracing and compiling (or loading) the program of
    an epoch; "initial values" includes compiling and drawing them. Peak memory is ru_maxrss of the process after that.
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
    """The growth of a step's time, vanilla, both cores

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
            if family != "depth":  # the paper's layers have different widths
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

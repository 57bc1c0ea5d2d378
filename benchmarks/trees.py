"""Compare the step of two trees: python benchmarks/trees.py OTHER [MODEL] [--cores N] [--precision P] [--processes N].

OTHER is the folder of another checkout (`git worktree add OTHER COMMIT`). Every process of both trees trains blocks of
the paper's network in turn, so that other load affects both. Processes of one tree differ by several per cent, by where
their arrays lie in memory, so there are several of each. Prints the median and the fastest block of each process in
milliseconds per step, and the ratios of this tree's means over the other's.
"""

import argparse
import os
import subprocess
import sys
from pathlib import Path
from statistics import mean, median

STEPS = 20
HERE = Path(__file__).resolve().parent.parent
# A worker reads a line before each block, and answers with its milliseconds per step.
WORKER = f"""
import sys, time
import ours
from products import PAPER
model, precision = sys.argv[1:]
settings = {{}} if precision == "float32" else {{"precision": precision}}  # old trees have no such argument
block = ours.epochs(model, PAPER, batch=100, steps={STEPS}, **settings)
block(), block()
print("ready", flush=True)
for _ in sys.stdin:
    started = time.perf_counter()
    block()
    print((time.perf_counter() - started) / {STEPS} * 1e3, flush=True)
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("other", type=Path)
    parser.add_argument("model", nargs="?", default="vanilla")
    parser.add_argument("--cores", type=int, default=1)
    parser.add_argument("--precision", choices=("float32", "bfloat16"), default="float32")
    parser.add_argument("--processes", type=int, default=3, help="of each tree")
    parser.add_argument("--rounds", type=int, default=14)
    asked = parser.parse_args()
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: asked.cores])  # workers inherit it
    trees = [HERE, asked.other.resolve()]
    workers = [start(tree, asked.model, asked.precision) for _ in range(asked.processes) for tree in trees]
    times: list[list[float]] = [[] for _ in workers]
    for _ in range(asked.rounds):
        for worker, taken in zip(workers, times, strict=True):
            taken.append(answer(worker))
    for worker in workers:
        worker.communicate()
    print(
        f"{asked.model}, {asked.precision}, {asked.cores} core(s), ms per step, {asked.rounds} blocks of {STEPS} steps"
    )
    for name, best in (("median", median), ("fastest", min)):
        this, other = ([best(taken) for taken in times[i::2]] for i in range(2))
        shown = [" ".join(f"{ms:.2f}" for ms in each) for each in (this, other)]
        print(f"{name} block: this {shown[0]}, other {shown[1]}, ratio of means {mean(this) / mean(other):.3f}")


def start(tree: Path, model: str, precision: str) -> "subprocess.Popen[str]":
    """Start a worker of a tree and wait until its program is compiled."""
    paths = os.pathsep.join(map(str, (tree / "benchmarks", tree)))
    worker = subprocess.Popen(
        [sys.executable, "-c", WORKER, model, precision],
        env=os.environ | {"PYTHONPATH": paths},
        cwd=tree,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert worker.stdout is not None
    if worker.stdout.readline() != "ready\n":
        raise SystemExit(f"The worker of {tree} ended; its message is above.")
    return worker


def answer(worker: "subprocess.Popen[str]") -> float:
    """Let a worker run a block; return its milliseconds per step."""
    assert worker.stdin is not None
    assert worker.stdout is not None
    print(file=worker.stdin, flush=True)
    return float(worker.stdout.readline())


if __name__ == "__main__":
    main()

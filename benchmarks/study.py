"""Measure a study: the speed-up by two jobs, and the time of a run besides its training.

    python benchmarks/study.py [--out FILE]

One study (digits, six models, four seeds) is run with one job on one core and with two jobs on two, each with an
empty cache of compiled programs. A run's overhead is the time from its claim to its end in the store, minus that of
`train` with the same configuration in one process on one core, after compilation. Runs that compile (the first of a
model in each worker) are left out.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

MODELS = ("vanilla", "linear", "gaussian", "no-sig", "mlp-4", "amlp-2-2-2")
ALSO_BARE = ("vanilla", "amlp-2-2-2")
SEEDS, EPOCHS = 4, 60


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="write the figures as JSON")
    out = parser.parse_args().out
    cores = sorted(os.sched_getaffinity(0))[:2]
    if len(cores) < 2:
        sys.exit("Two cores are needed.")
    one, two = (_study(cores[:jobs], jobs) for jobs in (1, 2))
    os.sched_setaffinity(0, cores[:1])
    bare = {model: _bare(model) for model in ALSO_BARE}
    overhead = [seconds - bare[model] for model, seconds in one["runs"] if model in bare]
    figures = {
        "seconds_one_job": one["seconds"],
        "seconds_two_jobs": two["seconds"],
        "speed_up": one["seconds"] / two["seconds"],
        "overhead_median": statistics.median(overhead),
        "overhead_largest": max(overhead),
        "runs_without_compilation": len(overhead),
        "bare_training": bare,
    }
    print(json.dumps(figures, indent=2))
    if out:
        out.write_text(json.dumps(figures, indent=2) + "\n")


def _study(cores: list[int], jobs: int) -> dict[str, Any]:
    """Run the study in a process on these cores; return its seconds, and those of each run that compiled nothing."""
    from laddernet.study.store import Store

    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "laddernet", "study", "--models", ",".join(MODELS), "--seeds", str(SEEDS)]
        command += ["--recipe", "paper", "--epochs", str(EPOCHS), "--jobs", str(jobs), "--out", f"{folder}/study"]
        started = time.monotonic()
        subprocess.run(
            command,
            check=True,
            stdout=subprocess.DEVNULL,
            env={**os.environ, "LADDERNET_CACHE": f"{folder}/cache"},
            preexec_fn=lambda: os.sched_setaffinity(0, cores),
        )
        seconds = time.monotonic() - started
        runs = sorted(Store.open(f"{folder}/study/study.db", create=False).runs(), key=lambda run: run.started or 0)
    seen: set[str] = set()
    later = []
    for run in runs:
        model = run.config["model"]
        if model in seen and run.started and run.finished:
            later.append((model, run.finished - run.started))
        seen.add(model)
    return {"seconds": seconds, "runs": later}


def _bare(model: str) -> float:
    from laddernet import configure, load, train, training_data

    dataset = load("digits")
    taken = []
    for seed in (1, 2, 3):
        config = configure(dataset, model=model, labels=100, epochs=EPOCHS, validation=0, seed=seed)
        data = training_data(dataset, config.labels, config.validation, seed)
        started = time.monotonic()
        train(config, data, evaluate_every=max(1, EPOCHS // 30), monitor=(dataset.x_test, dataset.y_test))
        taken.append(time.monotonic() - started)
    return statistics.median(taken[1:])


if __name__ == "__main__":
    main()

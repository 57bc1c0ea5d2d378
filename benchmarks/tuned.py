"""Compare tuned with untuned values on new seeds: python benchmarks/tuned.py UNTUNED TUNED > table.md

Both are folders of studies with the same models and seeds, which the search did not use. The comparison is
seed by seed.
"""

import sys
from contextlib import closing
from pathlib import Path

import numpy as np
from scipy.stats import sem

from laddernet.network.models import MODELS
from laddernet.study.store import Store


def errors(folder: Path) -> dict[str, dict[int, float]]:
    """Read the test errors of a study's finished runs in per cent, by model and seed."""
    found: dict[str, dict[int, float]] = {}
    with closing(Store.open(folder / "study.db", create=False)) as store:
        for run in store.runs(status="done"):
            found.setdefault(run.config["model"], {})[run.config["seed"]] = run.result["test_error"]
    return found


def main() -> None:
    untuned, tuned = (errors(Path(folder)) for folder in sys.argv[1:])
    lower = worse = 0
    print("| model | untuned | tuned | difference | n |\n|---|---|---|---|---|")
    for model in MODELS:
        seeds = sorted(untuned[model].keys() & tuned[model].keys())
        before, after = (np.array([study[model][seed] for seed in seeds]) for study in (untuned, tuned))
        change = after - before
        lower += change.mean() < 0
        worse += change.mean() > sem(change)
        cells = [f"{values.mean():.2f} ± {sem(values):.2f} %" for values in (before, after)]
        print(f"| `{model}` | {' | '.join(cells)} | {change.mean():+.2f} ± {sem(change):.2f} | {len(seeds)} |")
    print(
        f"\nLower: {lower} of {len(MODELS)} models. Higher by more than one standard error of the difference: {worse}."
    )


if __name__ == "__main__":
    main()

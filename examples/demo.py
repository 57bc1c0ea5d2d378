"""Four models, the same ten labels a class of the 8×8 digits: what unlabelled rows are worth.

Run by `make demo`. The errors are on 360 test rows that no run has seen.
"""

import time

from rich.console import Console
from rich.table import Table

from laddernet import configure, load, train, training_data
from laddernet.progress import epochs_shown
from laddernet.training import steps_per_epoch

MODELS = ("baseline", "baseline-noise", "vanilla", "amlp-2-2-2")
SEEDS = (0, 1)

console = Console()
dataset = load("digits")
table = Table("model", *(f"seed {seed}" for seed in SEEDS), "mean test error", "seconds", box=None)
for name in MODELS:
    started = time.monotonic()
    errors = []
    for seed in SEEDS:
        config = configure(dataset, labels=100, validation=0, model=name, seed=seed)
        data = training_data(dataset, config.labels, config.validation, seed)
        with epochs_shown(config, steps_per_epoch(config, len(data.x_unlabelled)), console) as shown:
            trained = train(config, data, on_epoch=shown)
        errors.append(trained.error(dataset.x_test, dataset.y_test))
    mean = sum(errors) / len(errors)
    seconds = time.monotonic() - started
    table.add_row(name, *(f"{error:.2f} %" for error in errors), f"{mean:.2f} %", f"{seconds:.0f}")
console.print("\nTest error with 10 labels a class, 1,437 training rows:")
console.print(table)

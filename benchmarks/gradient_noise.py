"""Measure the variance of a step's gradient, by noisy copies and labelled rows.

    python benchmarks/gradient_noise.py > table.md

The gradient of a network, trained for some epochs, is computed many times, with other rows and other noise each time.
The figure is the variance of a matrix's gradient with one noisy copy of each row over the variance with several: one
copy needs that many times the passes over the rows for the same precision. With 100 labels, 400 labelled rows contain
each of them four times. Neither labels of unlabelled rows nor test rows are used.
"""

import argparse
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from rich.console import Console

from laddernet import configure, load, train, training_data
from laddernet.data import TrainingData
from laddernet.network.ladder import Ladder, draw_noise, forward
from laddernet.progress import progress_shown
from laddernet.training.config import Config
from laddernet.training.program import steps_per_epoch
from laddernet.training.programs import keep_compiled_programs
from laddernet.training.step import mirrored

Variances = dict[str, float]  # of a matrix's gradient, by the matrix's name


class Way(NamedTuple):
    """The rows and copies of a step."""

    copies: int
    mirror: bool
    labelled: int  # rows

    def __str__(self) -> str:
        noise = ", in mirrored pairs" if self.mirror else ", independent" if self.copies > 1 else ""
        return f"{self.copies}{noise} | {self.labelled}"


WAYS = [
    *(Way(copies, mirror, 100) for copies in (1, 2, 3, 4, 5) for mirror in (False, True) if copies > 1 or not mirror),
    *(Way(copies, copies > 1, labelled) for copies in (1, 2, 4) for labelled in (200, 400)),
]


def variances(ladder: Ladder, config: Config, data: TrainingData, way: Way, draws: int) -> Variances:
    """Compute the variance of each matrix's gradient, summed over its elements."""
    copies, labelled, batch = way.copies, way.labelled, config.batch_size
    drawn = -(-copies // 2) if way.mirror else copies
    taken = np.arange(labelled) % len(data.x_labelled)
    x_labelled, y_labelled = jnp.asarray(data.x_labelled[taken]), jnp.asarray(data.y_labelled[taken])
    noise_std, recon_weights = jnp.asarray(config.noise), jnp.asarray(config.recon_weights)

    @jax.jit
    @jax.grad
    def gradient(ladder: Ladder, x: jax.Array, key: jax.Array) -> jax.Array:
        noise = draw_noise(ladder.model, ladder.sizes, labelled + drawn * batch, key=key)
        known = [None if n is None else n[:labelled] for n in noise]
        unknown = [None if n is None else mirrored(n[labelled:], copies * batch) for n in noise]
        return forward(ladder, x_labelled, y_labelled, x, (known, unknown), noise_std, recon_weights, copies).total

    rng = np.random.default_rng(config.seed)
    seen: dict[str, list[np.ndarray]] = {}
    for draw in range(draws):
        rows = rng.choice(len(data.x_unlabelled), batch, replace=False)
        found = gradient(ladder, data.x_unlabelled[rows], jax.random.key(draw))
        for l, layer in enumerate(found.encoder, start=1):
            seen.setdefault(f"W({l})", []).append(np.asarray(layer.W))
        for l, layer in enumerate(found.decoder[:-1]):
            seen.setdefault(f"V({l})", []).append(np.asarray(layer.V))
    return {name: float(np.var(values, axis=0, ddof=1).sum()) for name, values in seen.items()}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--data", default="mnist")
    options.add_argument("--model", default="vanilla")
    options.add_argument("--epochs", type=int, default=5, help="epochs of training before the measurement")
    options.add_argument("--draws", type=int, default=32, help="number of random draws of rows and noise")
    asked = options.parse_args()
    keep_compiled_programs()
    dataset = load(asked.data)
    settings = {"labels": 100, "model": asked.model, "recipe": "small", "decay_epochs": 0, "seed": 101}
    config = configure(dataset, epochs=asked.epochs, validation=0, **settings)
    data = training_data(dataset, config.labels, config.validation, config.seed)
    console = Console(stderr=True)
    with progress_shown("epoch", config.epochs, steps_per_epoch(config, len(data.x_unlabelled)), console) as shown:
        ladder = jax.tree.map(jnp.asarray, train(config, data, on_epoch=shown).ladder)
    one, *others = [variances(ladder, config, data, way, asked.draws) for way in WAYS]
    print(f"| copies | labelled rows | {' | '.join(one)} |\n|{'---|' * (2 + len(one))}")
    for way, found in zip(WAYS, (one, *others), strict=True):
        print(f"| {way} | {' | '.join(f'{one[name] / variance:.2f}' for name, variance in found.items())} |")


if __name__ == "__main__":
    main()

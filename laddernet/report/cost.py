"""The cost of runs: hours of training, and the floating-point operations of the matrix products."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from laddernet.network.models import MODELS
from laddernet.training.config import Config
from laddernet.training.program import steps_per_epoch

FEATURES, CLASSES, ROWS = 784, 10, 60_000  # of MNIST, the paper's data


@dataclass(frozen=True)
class Cost:
    """The cost of the finished runs with one number of labels."""

    labels: int
    runs: int
    hours: float  # of the last attempt of each run, on the cores that it had
    tflop: float


def costs_on_mnist(runs: Iterable[tuple[Config, float]]) -> tuple[Cost, ...]:
    """Add up the costs of finished runs by number of labels; each is given as its configuration and its seconds."""
    by_labels: dict[int, list[tuple[float, float]]] = {}
    for config, seconds in runs:
        operations = steps(config, ROWS) * step_operations(config, (FEATURES, *config.hidden, CLASSES))
        by_labels.setdefault(config.labels, []).append((seconds / 3600, operations / 1e12))
    return tuple(
        Cost(labels, len(found), sum(hours for hours, _ in found), sum(tflop for _, tflop in found))
        for labels, found in sorted(by_labels.items())
    )


def steps(config: Config, rows: int) -> int:
    """Return the training steps of a run on a data set with this number of training rows."""
    return config.epochs * steps_per_epoch(config, rows - config.validation)


def step_operations(config: Config, sizes: Sequence[int]) -> int:
    """Return the floating-point operations of the matrix products of a training step.

    A product is computed forward, for the gradient of its weights, and for that of its input, which the encoder's first
    layer does not need. Each unlabelled row goes up clean, and each of its copies up and down; a model without a
    decoder has labelled rows only.
    """
    learned = config.model not in MODELS or MODELS[config.model].combinator is not None
    up = config.labelled_batch_size + ((1 + config.copies) * config.batch_size if learned else 0)
    down = config.copies * config.batch_size if learned else 0
    weights = sum(below * above for below, above in pairwise(sizes))
    return 2 * (3 * (up + down) * weights - up * sizes[0] * sizes[1])

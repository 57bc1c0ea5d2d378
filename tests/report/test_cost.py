import runpy
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from laddernet.report.cost import costs_on_mnist, step_operations, steps
from laddernet.training.config import Config

PRODUCTS: Any = runpy.run_path(str(Path(__file__).parents[2] / "benchmarks" / "products.py"))
PAPER, gflop = PRODUCTS["PAPER"], PRODUCTS["gflop"]
VANILLA = Config("mnist", 100, 0, "vanilla", PAPER[1:-1], (0.3,) * 7, (1000.0,) * 7, 0.1, 150, 50, 0.002, 100, 100, 1)


@pytest.mark.parametrize(("batch", "labelled", "copies"), [(100, 100, 1), (200, 400, 4), (200, 100, 3)])
def test_a_steps_operations_are_those_of_its_products(batch: int, labelled: int, copies: int) -> None:
    config = replace(VANILLA, batch_size=batch, labelled_batch_size=labelled, copies=copies)
    assert step_operations(config, PAPER) / 1e9 == pytest.approx(gflop(PAPER, batch, labelled, copies))
    assert step_operations(replace(config, model="own.py:Gate"), PAPER) == step_operations(config, PAPER)


def test_a_model_without_a_decoder_computes_labelled_rows_only() -> None:
    baseline = replace(VANILLA, model="baseline", batch_size=200, labelled_batch_size=50)
    # Forward and two gradients of each matrix, but for the gradient of the input of the first.
    forward = sum(50 * below * above for below, above in pairwise(PAPER))
    assert step_operations(baseline, PAPER) == 2 * (3 * forward - 50 * 784 * 1000)


def test_an_epoch_is_a_pass_over_the_rows_that_are_not_held_out() -> None:
    assert steps(VANILLA, 60_000) == 90_000
    assert steps(replace(VANILLA, validation=10_000, batch_size=300, epochs=1), 60_000) == 167


def test_costs_are_added_up_by_number_of_labels() -> None:
    many = replace(VANILLA, labels=1000, epochs=30)
    few, more = costs_on_mnist([(many, 3600.0), (VANILLA, 1800.0), (VANILLA, 5400.0)])
    assert (few.labels, few.runs, few.hours, more.labels, more.runs, more.hours) == (100, 2, 2.0, 1000, 1, 1.0)
    assert few.tflop == pytest.approx(2 * 90_000 * gflop(PAPER, 100) / 1000)  # results/README.md: 290 a run
    assert round(few.tflop / 2) == 290
    assert costs_on_mnist([]) == ()

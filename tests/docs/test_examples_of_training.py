"""The examples of training a ladder of one's own run and do what the text promises."""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from documents import blocks, run

import laddernet
from laddernet.network.ladder import Pass
from laddernet.training import program


def test_the_example_of_training_does_far_better_than_chance() -> None:
    names = run("docs/reference/training.md")
    assert names["trained"].error(names["digits"].x_test, names["digits"].y_test) < 20


def test_a_combinator_of_ones_own_takes_under_fifteen_lines_and_learns() -> None:
    document = "docs/explanation/models.md"
    assert len(blocks(document)[0].splitlines()) < 15
    assert blocks(document)[0] == blocks("docs/tutorials/combinator.md")[0]
    names = run(document)
    assert names["config"].model.endswith(":Gate")
    assert names["trained"].error(names["digits"].x_test, names["digits"].y_test) < 7


def test_the_example_of_samples_draws_rows_and_walks_on_from_them() -> None:
    names = run("docs/how-to/samples.md")
    assert names["threes"].shape == (16, 64)
    assert names["chain"].shape == (11, 16, 64)
    np.testing.assert_allclose(names["chain"][0], names["threes"], rtol=1e-6)
    assert np.isfinite(names["chain"]).all()


def test_the_examples_of_extending_change_schedule_optimiser_and_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    names: dict[str, Any] = {"jax": jax, "jnp": jnp, "optax": optax, "Array": jax.Array, "Pass": Pass}
    for block in blocks("docs/how-to/extending.md"):
        exec(block, names)
    for name in ("SCHEDULE", "OPTIMISER", "TERMS"):
        monkeypatch.setattr(program, name, names[name])
    digits = laddernet.load("digits")
    config = laddernet.configure(digits, labels=100, hidden=[16], epochs=3, decay_epochs=0)
    trained = laddernet.train(config, laddernet.training_data(digits, 100, config.validation, config.seed))
    first, _, last = trained.history
    assert config.learning_rate > first["learning_rate"] > last["learning_rate"]  # constant with the usual schedule
    assert 0 < last["entropy"] < 0.1 * math.log(10)
    assert last["cost"] < first["cost"]


def test_the_example_of_an_own_data_set_learns() -> None:
    names = run("docs/how-to/own-data.md")
    assert names["trained"].error(names["wine"].x_test, names["wine"].y_test) < 20

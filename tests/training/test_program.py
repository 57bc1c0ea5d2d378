"""The training program: its schedule, and that schedule, optimiser and cost terms are each changed in one place."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_iris
from support import STEPS, exact, tiny_config, tiny_data

from laddernet import DivergedError, LadderClassifier, train
from laddernet.kernels.products import PRECISIONS, Precision
from laddernet.network.ladder import Ladder, Pass
from laddernet.network.models import find
from laddernet.training import program
from laddernet.training.loop import first_state
from laddernet.training.program import linear_decay, program_of, steps_per_epoch
from laddernet.training.step import ladder_of


@pytest.mark.parametrize("decay_epochs", [0, 1, 2, 6])
def test_the_learning_rate_is_constant_then_falls_linearly_to_zero(decay_epochs: int) -> None:
    steps, epochs, rate = 5, 6, 0.002
    config = tiny_config(epochs=epochs, decay_epochs=decay_epochs, learning_rate=rate, batch_size=100)
    program = program_of(config, find(config.model), 64, 10, 100 * steps)
    after_each_step = np.concatenate([program.rates(epoch) for epoch in range(epochs)])
    falling = decay_epochs * steps
    left = epochs * steps - np.arange(epochs * steps)
    expected = [rate * min(1, n / falling) if falling else rate for n in left]
    np.testing.assert_allclose(after_each_step, expected, rtol=1e-5)


def test_the_papers_schedule_holds_for_100_epochs_and_reaches_zero_after_150() -> None:
    schedule = linear_decay(0.002, 150 * 600, 50 * 600)
    chosen = np.array([0, 100 * 600 - 1, 100 * 600, 125 * 600, 150 * 600 - 1, 150 * 600])
    expected = [0.002, 0.002, 0.002, 0.001, 0.002 / 30000, 0]
    # A float32 near 1 knows no more than 6e-8 of 1 - n / 30000.
    np.testing.assert_allclose(schedule(chosen), expected, rtol=1e-6, atol=0.002 * 6e-8)


@given(rows=st.integers(1, 10_000), batch_size=st.integers(1, 10_000))
def test_an_epoch_has_as_many_steps_as_one_pass_needs(rows: int, batch_size: int) -> None:
    steps = steps_per_epoch(replace(tiny_config(), batch_size=batch_size), rows)
    batch = min(batch_size, rows)
    assert steps * batch >= rows > (steps - 1) * batch


@given(steps=st.integers(1, 10**6), share=st.floats(0, 1), rate=st.floats(1e-6, 1))
def test_the_schedule_has_the_bits_of_optaxs(steps: int, share: float, rate: float) -> None:
    decay = int(steps * share)
    falling = optax.linear_schedule(rate, 0.0, decay)
    theirs = optax.join_schedules([optax.constant_schedule(rate), falling], [steps - decay])
    taken = np.unique(np.linspace(0, steps, 50).astype(np.int32))
    ours = np.broadcast_to(linear_decay(rate, steps, decay)(taken), taken.shape)
    np.testing.assert_array_equal(np.asarray(ours, np.float32), np.asarray(theirs(taken), np.float32))


# --- Changed in one place: docs/how-to/extending.md ---------------------------------------------------------------


def fitted(**settings: Any) -> LadderClassifier:
    """A small fit of a table."""
    x, truth = load_iris(return_X_y=True)
    y = np.where(np.arange(150) % 10 == 0, truth, -1)
    alone = {"hidden": 8, "n_networks": 1, "linear_share": 0, "max_steps": 70, "random_state": 0}
    return LadderClassifier(**{**alone, **settings}).fit(x, y)


def initial(config: Any) -> Ladder:
    key = jax.random.split(jax.random.key(config.seed), 3)[0]
    made = program_of(config, find(config.model), 64, 10, 1198)
    return ladder_of(first_state(made, key))


def test_another_schedule_is_followed_by_runs_and_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    def cosine(learning_rate: float, steps: int, decay_steps: float) -> optax.Schedule:
        return optax.cosine_decay_schedule(learning_rate, steps)

    monkeypatch.setattr(program, "SCHEDULE", cosine)
    config = tiny_config()
    ends = np.arange(STEPS, 4 * STEPS + 1, STEPS) - 1
    rates = [record["learning_rate"] for record in train(config, tiny_data(config)).history]
    np.testing.assert_allclose(rates, 0.001 * (1 + np.cos(np.pi * ends / (4 * STEPS))), rtol=1e-5)
    rates = [record["learning_rate"] for record in fitted(learning_rate=0.01).history_]
    np.testing.assert_allclose(rates, 0.005 * (1 + np.cos(np.pi * np.array([31, 63, 69]) / 70)), atol=1e-9)


@pytest.mark.parametrize("schedule", [optax.constant_schedule(0.5), lambda step: 0.5 + 0 * jnp.asarray(step)])
def test_steps_beyond_the_last_learn_nothing_whatever_the_schedule(schedule: Any) -> None:
    made = replace(program_of(tiny_config(), find("vanilla"), 64, 10, 1198), steps=5, chunk=3)
    rates = [replace(made, schedule=lambda *_: schedule).rates(chunk) for chunk in range(made.chunks)]
    assert [list(of_chunk) for of_chunk in rates] == [[0.5, 0.5, 0.5], [0.5, 0.5, 0]]
    assert {of_chunk.dtype for of_chunk in rates} == {np.dtype(np.float32)}


@pytest.mark.parametrize("precision", PRECISIONS)
def test_another_optimiser_trains_runs_and_fits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, precision: Precision
) -> None:
    monkeypatch.setattr(program, "OPTIMISER", optax.scale_by_lion())
    # One step; 64 times 600 weights are a large matrix, 600 times 10 a small one.
    config = tiny_config(epochs=1, decay_epochs=0, batch_size=1198, hidden=(600,), precision=precision)
    before, after = initial(config), train(config, tiny_data(config)).ladder
    for old, new in zip(before.encoder, after.encoder, strict=True):
        moved = np.abs(np.asarray(new.W) - np.asarray(old.W))
        learning = moved > 0  # a pixel that is always blank has no gradient
        assert learning.mean() > 0.8
        np.testing.assert_allclose(moved[learning], 0.002, rtol=1e-3)  # Lion takes the sign of its direction
    config = tiny_config(precision=precision)
    whole = train(config, tiny_data(config))
    train(config, tiny_data(config), folder=tmp_path)
    assert exact(train(config, tiny_data(config), folder=tmp_path)) == exact(whole)
    costs = [record["cost"] for record in fitted(learning_rate=0.003, precision=precision).history_]
    assert costs[-1] < costs[0]


def test_weight_decay_is_that_of_w_and_v_with_another_optimiser_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program, "OPTIMISER", optax.set_to_zero())
    config = tiny_config(epochs=1, decay_epochs=0, batch_size=1198, hidden=(600,), learning_rate=0.5, weight_decay=0.2)
    before, after = initial(config), train(config, tiny_data(config)).ladder
    for (path, old), new in zip(jax.tree.leaves_with_path(before), jax.tree.leaves(after), strict=True):
        name = jax.tree_util.keystr(path)
        left = 0.9 if name.endswith((".W", ".V")) else 1.0
        np.testing.assert_allclose(new, left * np.asarray(old), rtol=1e-6, err_msg=name)


def entropy(done: Pass) -> jax.Array:
    """The entropy of the predictions for unlabelled rows: low where the network is sure of its classes."""
    assert done.noisy is not None
    log_p = jax.nn.log_softmax(done.noisy.logits)
    return -0.1 * jnp.mean(jnp.sum(jnp.exp(log_p) * log_p, axis=1))


def test_another_cost_term_is_minimised_and_recorded_by_runs_and_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    config = tiny_config(recon_weights=0.0, epochs=8)
    without = train(config, tiny_data(config))
    monkeypatch.setattr(program, "TERMS", (("entropy", lambda done: 10 * entropy(done)),))
    done = train(config, tiny_data(config))
    names = ["epoch", "learning_rate", "cost", "cross_entropy", *(f"reconstruction_{l}" for l in range(4)), "entropy"]
    assert [list(record)[: len(names)] for record in done.history] == [names] * 8
    for record in done.history:
        assert record["cost"] == pytest.approx(record["cross_entropy"] + record["entropy"], rel=1e-5)
    assert done.history[-1]["entropy"] < done.history[0]["entropy"]
    assert exact(done) != exact(without)
    assert fitted().history_[-1]["entropy"] > 0


def test_a_cost_term_that_is_not_finite_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program, "TERMS", (("entropy", lambda done: jnp.log(entropy(done) - 1e9)),))
    with pytest.raises(DivergedError, match=r"^In epoch 1, step 1, entropy became nan; "):
        train(tiny_config(), tiny_data(tiny_config()))
    with pytest.raises(DivergedError, match=r"^In step 1, entropy became nan; "):
        fitted()

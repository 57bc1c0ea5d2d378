from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
import reference
from support import STEPS, digits, exact, tiny_config, tiny_data

from laddernet.errors import DivergedError, InputError
from laddernet.kernels.products import PRECISIONS
from laddernet.network.ladder import Ladder, draw_noise
from laddernet.network.models import find
from laddernet.training import loop
from laddernet.training.config import Config
from laddernet.training.loop import Trained, train
from laddernet.training.program import program_of
from laddernet.training.rows import Chunk, Stream, counted_passes, device_chunks
from laddernet.training.step import Costs


@cache
def trained(**changes: Any) -> Trained:
    """A run that several tests look at."""
    config = tiny_config(**changes)
    return train(config, tiny_data(config), monitor=(digits().x_test, digits().y_test))


class Stopped(Exception):
    pass


def train_until(epoch: int, config: Config, folder: Path, **options: Any) -> None:
    """Train, and break off after an epoch."""

    def stop(record: dict) -> None:
        if record["epoch"] == epoch:
            raise Stopped

    with pytest.raises(Stopped):
        train(config, tiny_data(config), folder=folder, checkpoint_every=0, on_epoch=stop, **options)


# --- Compilation ----------------------------------------------------------------------------------------------


def test_epochs_seeds_settings_and_a_resumed_run_share_one_compiled_program(tmp_path: Path) -> None:
    jitted = (loop.run_steps, loop.initial_state, loop.statistics)
    trained()
    compiled = [program._cache_size() for program in jitted]
    for change in (
        {"seed": 1},
        {"epochs": 5, "decay_epochs": 5},
        {"decay_epochs": 0},
        {"noise": (0.1, 0.2)},
        {"recon_weights": (1.0, 2.0, 3.0)},
        {"eta": 0.5},
        {"learning_rate": 0.01},
        {"weight_decay": 0.01},
    ):
        trained(**change)
    train_until(2, tiny_config(), tmp_path)
    train(tiny_config(), tiny_data(tiny_config()), folder=tmp_path)
    assert [program._cache_size() for program in jitted] == compiled


def test_a_chunk_is_asked_for_while_the_one_before_is_computed() -> None:
    config = tiny_config()
    data = tiny_data(config)
    program = program_of(config, find(config.model), 64, 10, len(data.x_unlabelled))
    rows = (data.x_labelled, data.y_labelled, data.x_unlabelled)
    events: list[str] = []

    def chunks() -> Iterator[Chunk]:
        for chunk in device_chunks(program, rows, jax.random.key(1), jax.random.key(2)):
            events.append("made")
            yield chunk

    state = loop.first_state(program, jax.random.key(0))
    for record, _ in loop.train_chunks(program, state, chunks()):
        events.append(f"epoch {record['epoch']}")
    assert events == ["made", "made", "epoch 1", "made", "epoch 2", "made", "epoch 3", "epoch 4"]


# --- What is computed -----------------------------------------------------------------------------------------


def weights_for_reference(ladder: Ladder) -> dict:
    encoder = [{"W": layer.W, "gamma": layer.gamma, "beta": layer.beta} for layer in ladder.encoder]
    decoder = [{"V": layer.V, "combinator": vars(layer.combinator)} for layer in ladder.decoder]
    return jax.tree.map(lambda a: np.asarray(a, np.float64), {"encoder": encoder, "decoder": decoder})


@pytest.mark.parametrize("copies", [1, 3])
def test_the_recorded_costs_are_the_means_over_an_epochs_steps_of_the_papers(copies: int) -> None:
    # A step of 1e-30 is lost in a float32 weight: all steps of the epoch are taken from the initial weights.
    config = tiny_config(epochs=1, decay_epochs=0, learning_rate=1e-30, copies=copies)
    data = tiny_data(config)
    done = train(config, data)
    weights = weights_for_reference(done.ladder)
    _, order_key, noise_key = jax.random.split(jax.random.key(config.seed), 3)
    # 40 labelled rows are fewer than the labelled batch size of 100: a step takes each of them twice or more.
    assert config.labelled_batch_size == 100 > len(data.x_labelled) == 40
    labelled, unlabelled = (
        Stream(n, counted_passes(jax.random.fold_in(order_key, group), n)).take(STEPS * batch).reshape(STEPS, batch)
        for group, (n, batch) in enumerate([(40, 100), (len(data.x_unlabelled), 400)])
    )
    keys = jax.random.split(jax.random.fold_in(noise_key, 0), STEPS)
    steps = []
    drawn = {1: 400, 3: 800}[copies]  # of three copies the last has the first one's noise with the other sign
    for i, j, key in zip(labelled, unlabelled, keys, strict=True):
        noise = [np.asarray(n) for n in draw_noise(find("vanilla"), done.ladder.sizes, 100 + drawn, key=key)]
        steps.append(
            reference.costs(
                "vanilla",
                weights,
                data.x_labelled[i],
                data.y_labelled[i],
                np.tile(data.x_unlabelled[j], (copies, 1)),
                [n[:100] for n in noise],
                [n[100:] if copies == 1 else np.concatenate([n[100:], -n[100:500]]) for n in noise],
                list(config.noise),
                list(config.recon_weights),
            )
        )
    (record,) = done.history
    expected = {
        "cost": np.mean([step["total"] for step in steps]),
        "cross_entropy": np.mean([step["cross_entropy"] for step in steps]),
        **{f"reconstruction_{l}": np.mean([step["reconstruction"][l] for step in steps]) for l in range(4)},
    }
    for name, value in expected.items():
        assert record[name] == pytest.approx(value, rel=1e-5), name


def test_the_cost_falls() -> None:
    costs = [record["cost"] for record in trained().history]
    assert costs == sorted(costs, reverse=True)


def test_adam_moves_a_weight_by_about_the_learning_rate_at_each_step() -> None:
    # Adam divides the gradient by its own size, so that a step is at most the rate, or little more.
    rate = 1e-4
    config = tiny_config(epochs=1, decay_epochs=0, learning_rate=rate)
    start = loop.ladder_of(
        loop.initial_state(jax.random.split(jax.random.key(0), 3)[0], config.eta, find("vanilla"), (64, 8, 4, 10))
    )
    end = train(config, tiny_data(config)).ladder
    moved = np.abs(np.asarray(end.encoder[0].W) - np.asarray(start.encoder[0].W))
    assert 0.5 * rate < np.median(moved)
    assert moved.max() < STEPS * rate * 1.5


def test_weight_decay_shrinks_the_matrices_and_nothing_else() -> None:
    # A learning rate of 1e-30 loses the gradient's part of a step; the decay is a multiple of it that is not lost.
    rate, decay = np.float32(1e-30), np.float32(1e29)
    plain, decayed = (
        train(config, tiny_data(config)).ladder
        for config in (
            tiny_config(epochs=1, decay_epochs=0, learning_rate=1e-30, weight_decay=wd) for wd in (0.0, float(decay))
        )
    )
    for (path, before), after in zip(jax.tree.leaves_with_path(plain), jax.tree.leaves(decayed), strict=True):
        name = jax.tree_util.keystr(path)
        shrunk = (1 - rate * decay) ** STEPS if name.endswith((".W", ".V")) else 1.0
        np.testing.assert_allclose(after, shrunk * np.asarray(before), rtol=1e-6, atol=1e-29, err_msg=name)
    assert {jax.tree_util.keystr(path)[-2:] for path, _ in jax.tree.leaves_with_path(plain)} > {".W", ".V"}


def test_predictions_are_normalised_with_the_statistics_of_the_training_rows() -> None:
    done, data, x_test = trained(), tiny_data(tiny_config()), digits().x_test
    probabilities = reference.predict(weights_for_reference(done.ladder), x_test, data.x_unlabelled)
    highest = np.sort(probabilities)[:, -2:]
    clear = highest[:, 1] - highest[:, 0] > 1e-4  # where rounding decides nothing
    assert clear.mean() > 0.9
    assert len(set(probabilities.argmax(axis=1))) > 2
    np.testing.assert_array_equal(done.predict(x_test)[clear], probabilities.argmax(axis=1)[clear])
    np.testing.assert_array_equal(done.predict(x_test[:1]), done.predict(x_test)[:1])


def test_the_error_is_the_share_of_wrong_predictions_in_per_cent() -> None:
    done, x, y = trained(), digits().x_test, digits().y_test
    assert done.error(x, y) == pytest.approx(100 * np.mean(done.predict(x) != y))
    assert done.error(x, done.predict(x)) == 0


def test_without_a_decoder_only_labelled_rows_teach_and_normalise() -> None:
    config = tiny_config(model="baseline", epochs=2)
    data = tiny_data(config)
    other = replace(data, x_unlabelled=np.zeros_like(data.x_unlabelled))
    one, two = train(config, data), train(config, other)
    assert exact(one) == exact(two)
    weights = [{"W": layer.W, "gamma": layer.gamma, "beta": layer.beta} for layer in one.ladder.encoder]
    clean = reference.clean_encoder({"encoder": jax.tree.map(np.asarray, weights)}, data.x_labelled)
    for l, (mu, sigma) in enumerate(zip(one.statistics.mu, one.statistics.sigma, strict=True), start=1):
        np.testing.assert_allclose(mu, clean["mu"][l], rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(sigma, clean["sigma"][l], rtol=1e-4, atol=1e-5)


def test_all_is_float32() -> None:
    config = tiny_config()
    data = tiny_data(config)
    assert {part.dtype for part in (data.x_labelled, data.x_unlabelled, data.x_validation)} == {np.dtype("float32")}
    done = trained()
    assert {leaf.dtype for leaf in jax.tree.leaves((done.ladder, done.statistics))} == {np.dtype("float32")}


# --- The record -----------------------------------------------------------------------------------------------


def test_a_record_has_the_rate_each_cost_and_the_errors_as_plain_numbers() -> None:
    history = trained().history
    assert [list(record) for record in history] == [
        [
            "epoch",
            "learning_rate",
            "cost",
            "cross_entropy",
            *(f"reconstruction_{l}" for l in range(4)),
            "validation_error",
            "test_error",
        ]
    ] * 4
    assert [record["epoch"] for record in history] == [1, 2, 3, 4]
    assert {type(value) for record in history for value in list(record.values())[1:]} == {float}


def test_the_last_recorded_errors_are_those_of_the_trained_network() -> None:
    done, data = trained(), tiny_data(tiny_config())
    assert done.history[-1]["validation_error"] == done.error(data.x_validation, data.y_validation)
    assert done.history[-1]["test_error"] == done.error(digits().x_test, digits().y_test)
    there = loop.on_device(data)
    wrong = np.sum(done.predict(data.x_validation) != data.y_validation)
    assert done.error(there.x_validation, there.y_validation) == 100 * (wrong / len(data.y_validation))


def test_the_recorded_rate_is_that_of_the_epochs_last_step() -> None:
    recorded = [record["learning_rate"] for record in trained().history]
    np.testing.assert_allclose(recorded, [0.002, 0.002, 0.002, 0.002 / STEPS], rtol=1e-5)  # 4 // 3 = 1 falls


def test_errors_are_measured_every_so_many_epochs_and_after_the_last() -> None:
    config = tiny_config(epochs=5)
    done = train(config, tiny_data(config), evaluate_every=2)
    assert [record["epoch"] for record in done.history if "validation_error" in record] == [2, 4, 5]


def test_watching_the_test_error_changes_nothing_else() -> None:
    config = tiny_config()
    unwatched = train(config, tiny_data(config))
    assert exact(unwatched) == exact(trained())
    assert unwatched.history == [
        {name: value for name, value in record.items() if name != "test_error"} for record in trained().history
    ]


def test_the_same_seed_gives_the_same_bits_and_another_seed_others() -> None:
    again = trained.__wrapped__()
    assert exact(again) == exact(trained())
    assert again.history == trained().history
    other = trained(seed=1)
    assert exact(other).keys() == exact(again).keys()
    assert all(exact(other)[name] != exact(again)[name] for name in exact(again) if name.endswith((".W", ".V", "b0")))
    assert other.history != again.history


# --- Resuming -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stopped_after", [1, 2, 3, 4])
def test_a_run_resumed_after_any_epoch_ends_with_the_same_bits(tmp_path: Path, stopped_after: int) -> None:
    config = tiny_config()
    whole = train(config, tiny_data(config))
    train_until(stopped_after, config, tmp_path)
    records: list = []
    resumed = train(config, tiny_data(config), folder=tmp_path, on_resume=records.extend)
    assert records == whole.history[:stopped_after]
    assert resumed.history == whole.history
    assert exact(resumed) == exact(whole)


def test_a_refused_checkpoint_is_told_and_the_one_before_it_resumed(tmp_path: Path) -> None:
    config = tiny_config()
    whole = train(config, tiny_data(config))
    train_until(3, config, tmp_path)
    (tmp_path / "epoch-000003.safetensors").write_bytes(b"")
    notices: list[str] = []
    resumed = train(config, tiny_data(config), folder=tmp_path, on_notice=notices.append)
    assert notices == [f"{tmp_path / 'epoch-000003.safetensors'} is damaged. Going on from epoch 2 instead."]
    assert exact(resumed) == exact(whole)


def test_a_checkpoint_is_written_after_so_many_seconds_and_at_the_end(tmp_path: Path) -> None:
    config = tiny_config()
    train(config, tiny_data(config), folder=tmp_path / "rarely", checkpoint_every=3600)
    train(config, tiny_data(config), folder=tmp_path / "always", checkpoint_every=0)
    names = {folder.name: sorted(path.name for path in folder.glob("*.json")) for folder in tmp_path.iterdir()}
    assert names == {"rarely": ["epoch-000004.json"], "always": ["epoch-000003.json", "epoch-000004.json"]}


# --- What goes wrong ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "first_bad"),
    [
        ({"recon_weights": 3e38}, "step 1, cost became inf"),
        ({"noise": 1e38}, "step 1, cross_entropy became nan"),
        ({"noise": (1e30, 0.0), "recon_weights": 0.0}, "step 1, reconstruction_0 became inf"),
    ],
)
def test_a_cost_that_is_not_finite_stops_the_run_with_the_epoch_and_its_name(change: dict, first_bad: str) -> None:
    config = tiny_config(**change)
    with pytest.raises(DivergedError, match=f"^In epoch 1, {first_bad}; a smaller learning rate, .*finite.$"):
        train(config, tiny_data(config))


def test_a_huge_learning_rate_stops_the_run_with_the_epoch_and_step() -> None:
    config = tiny_config(learning_rate=1e30)
    with pytest.raises(DivergedError, match=r"^In epoch 1, step 2, \w+ became (nan|inf); "):
        train(config, tiny_data(config))


def test_weights_that_are_not_finite_after_the_last_step_stop_the_run() -> None:
    config = tiny_config(epochs=7)
    program = program_of(config, find(config.model), 64, 10, len(tiny_data(config).x_unlabelled))
    costs = Costs(("cost", "cross_entropy"), np.zeros((STEPS, 2)))
    with pytest.raises(DivergedError, match=r"^After epoch 7, step 3, the weights are no longer finite; "):
        loop.mean_costs(program, costs, False, before=6 * STEPS)
    with pytest.raises(DivergedError, match=r"^After step 21, the weights are no longer finite; "):
        loop.mean_costs(replace(program, counts="step"), costs, False, before=6 * STEPS)


def test_a_run_that_diverges_keeps_the_checkpoints_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = loop.run_steps
    calls: list[int] = []

    def diverging(state, rows, order, key, rates, noise_std, *others):  # type: ignore[no-untyped-def]
        calls.append(len(calls) + 1)
        noise_std = noise_std * np.float32(np.nan if calls[-1] == 3 else 1)
        return steps(state, rows, order, key, rates, noise_std, *others)

    config = tiny_config()
    monkeypatch.setattr(loop, "run_steps", diverging)
    with pytest.raises(DivergedError, match=r"^In epoch 3, step 1, cross_entropy became nan"):
        train(config, tiny_data(config), folder=tmp_path, checkpoint_every=0)
    monkeypatch.undo()
    records: list = []
    train(config, tiny_data(config), folder=tmp_path, on_resume=records.extend)
    assert [record["epoch"] for record in records] == [1, 2]


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_data_that_are_not_finite_are_refused_with_their_place(bad: float) -> None:
    data = tiny_data(tiny_config())
    x = data.x_unlabelled.copy()
    x[3, 5] = bad
    with pytest.raises(InputError, match=rf"^the training rows holds {bad} in row 3, column 5"):
        train(tiny_config(), replace(data, x_unlabelled=x))


def test_a_run_in_bfloat16_learns_otherwise_and_as_well() -> None:
    ends = {}
    for precision in PRECISIONS:
        config = tiny_config(precision=precision, epochs=8)
        trained = train(config, tiny_data(config))
        assert {leaf.dtype for leaf in jax.tree.leaves(trained.ladder)} == {np.dtype(np.float32)}
        ends[precision] = trained.history[-1]["cost"]
    assert ends["float32"] != ends["bfloat16"]
    np.testing.assert_allclose(ends["float32"], ends["bfloat16"], rtol=0.02)

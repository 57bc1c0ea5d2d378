from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from itertools import combinations

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import reference
from hypothesis import given, settings
from hypothesis import strategies as st
from ladders import (
    DEEP,
    KEY,
    NARROW,
    SHALLOW,
    Batch,
    assert_drawn_from_a_normal_distribution,
    by_name,
    expected_by_name,
    random_batch,
    random_ladder,
    reference_costs,
    weights_for_reference,
)

from laddernet.kernels import native
from laddernet.network.ladder import Ladder, decode, draw_noise, forward, statistics
from laddernet.network.models import MODELS
from laddernet.training.loop import Trained

WITH_DECODER = [id for id in reference.MODEL_IDS if id not in reference.NO_DECODER]

few = settings(max_examples=15, deadline=None, derandomize=True)
model_ids = st.sampled_from(reference.MODEL_IDS)
seeds = st.integers(0, 2**32 - 1)


@pytest.fixture(scope="module", autouse=True)
def _float64() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


def assert_agrees(actual: dict, expected: dict) -> None:
    def compare(path: tuple, a: jax.Array, b: np.ndarray) -> None:
        np.testing.assert_allclose(a, b, rtol=1e-8, err_msg=jax.tree_util.keystr(path))

    jax.tree.map_with_path(compare, actual, expected)  # refuses trees of different structure


@cache
def deep_step(model_id: str) -> tuple[dict, Batch, dict, Ladder]:
    """One step of a deep network: its weights, its batch, all that `forward` computed, and the gradient."""
    rng = np.random.default_rng(1)
    ladder, batch = random_ladder(MODELS[model_id], DEEP, rng), random_batch(model_id, DEEP, rng)

    def total_and_rest(ladder: Ladder) -> tuple[jax.Array, dict]:
        p = forward(ladder, *batch)
        return p.total, by_name(p)

    gradient, computed = jax.grad(total_and_rest, has_aux=True)(ladder)
    return weights_for_reference(ladder), batch, computed, weights_for_reference(gradient)


# --- Against the reference ----------------------------------------------------------------------------------


@pytest.mark.parametrize("model_id", reference.MODEL_IDS)
def test_every_value_of_a_deep_network_is_that_of_the_reference(model_id: str) -> None:
    weights, batch, computed, _ = deep_step(model_id)
    assert_agrees(computed, expected_by_name(model_id, weights, batch))


@pytest.mark.parametrize(
    ("sizes", "labelled", "unlabelled"),
    [
        pytest.param(SHALLOW, 4, 6, id="one hidden layer"),
        pytest.param(NARROW, 6, 4, id="one hidden unit, two classes, more labelled rows than unlabelled"),
    ],
)
@pytest.mark.parametrize("model_id", reference.MODEL_IDS)
def test_every_value_of_a_small_network_is_that_of_the_reference(
    model_id: str, sizes: tuple[int, ...], labelled: int, unlabelled: int
) -> None:
    rng = np.random.default_rng(2)
    batch = random_batch(model_id, sizes, rng, labelled=labelled, unlabelled=unlabelled)
    ladder = random_ladder(MODELS[model_id], sizes, rng)
    expected = expected_by_name(model_id, weights_for_reference(ladder), batch)
    assert all((sigma > 0.1).all() for sigma in expected["labelled"]["sigma"])  # no ReLU is silent for all rows
    assert_agrees(by_name(forward(ladder, *batch)), expected)


def test_a_unit_that_hardly_varies_is_normalised_as_in_the_reference() -> None:
    rng = np.random.default_rng(3)
    ladder, batch = random_ladder(MODELS["vanilla"], SHALLOW, rng), random_batch("vanilla", SHALLOW, rng)
    # A variance of about 1e-10, as small as what is added to it, and one of exactly 0.
    W = ladder.encoder[0].W * jnp.asarray([1e-5, 0, 1, 1, 1])
    ladder = eqx.tree_at(lambda ladder: ladder.encoder[0].W, ladder, W)
    expected = expected_by_name("vanilla", weights_for_reference(ladder), batch)
    assert_agrees(by_name(forward(ladder, *batch)), expected)


@pytest.mark.parametrize("model_id", reference.MODEL_IDS)
def test_in_float32_the_total_cost_of_100_rows_is_that_of_the_reference_to_1e_5(model_id: str) -> None:
    sizes = (64, 50, 50, 10)
    rng = np.random.default_rng(4)
    batch = random_batch(model_id, sizes, rng, labelled=100, unlabelled=100)
    with jax.enable_x64(False):
        ladder = random_ladder(MODELS[model_id], sizes, rng)
        total = forward(ladder, *batch).total
    assert total.dtype == jnp.float32
    expected = reference_costs(model_id, weights_for_reference(ladder), batch)["total"]
    np.testing.assert_allclose(total, expected, rtol=1e-5)


@pytest.mark.parametrize("model_id", reference.MODEL_IDS)
def test_the_gradient_is_the_slope_of_the_references_total_cost(model_id: str) -> None:
    weights, batch, _, gradient = deep_step(model_id)
    rng = np.random.default_rng(5)

    def total(step: float, direction: dict) -> float:
        moved = jax.tree.map(lambda w, d: w + step * d, weights, direction)
        return reference_costs(model_id, moved, batch)["total"]

    for group in ("W", "gamma", "beta", *(("V", "combinator") if weights["decoder"] else ())):
        direction = jax.tree.map_with_path(
            lambda path, w, group=group: rng.normal(size=w.shape) * (path[2].key == group), weights
        )
        # Central differences with two steps: an error of the fourth order, so that rounding decides. Larger steps
        # come upon the kink of a ReLU.
        near, far = (total(step, direction) - total(-step, direction) for step in (3e-6, 6e-6))
        slope = (8 * near - far) / 36e-6
        products = jax.tree.leaves(jax.tree.map(lambda g, d: np.sum(g * d), gradient, direction))
        np.testing.assert_allclose(sum(products), slope, rtol=1e-6, err_msg=group)


@few
@given(seed=seeds)
def test_predictions_with_the_training_sets_statistics_are_those_of_the_reference(seed: int) -> None:
    rng = np.random.default_rng(seed)
    ladder = random_ladder(MODELS["baseline"], SHALLOW, rng)
    x_train, x = rng.normal(size=(6, 3)), rng.normal(size=(4, 3))
    trained = Trained(ladder, statistics(ladder.encoder, x_train), [])
    expected = reference.predict(weights_for_reference(ladder), x, x_train)
    np.testing.assert_allclose(jax.nn.softmax(trained.network.logits(x)), expected, rtol=1e-8)


def test_statistics_of_many_rows_in_float32_are_those_of_the_reference() -> None:
    rng = np.random.default_rng(9)
    ladder = random_ladder(MODELS["baseline"], (64, 30, 20, 10), rng)
    x = rng.normal(1, 1, size=(10_000, 64))
    expected = reference.clean_encoder(weights_for_reference(ladder), x)
    single = jax.tree.map(lambda array: np.asarray(array, np.float32), (ladder.encoder, x))
    with jax.enable_x64(False):
        known = native.call(statistics, *single)
    assert {leaf.dtype for leaf in jax.tree.leaves(known)} == {np.dtype("float32")}
    for l in (1, 2, 3):
        np.testing.assert_allclose(known.mu[l - 1], expected["mu"][l], atol=1e-5 * expected["sigma"][l].max())
        np.testing.assert_allclose(known.sigma[l - 1], expected["sigma"][l], rtol=1e-5)


def test_statistics_in_blocks_are_at_the_first_layer_those_of_all_rows() -> None:
    rng = np.random.default_rng(7)
    ladder = random_ladder(MODELS["baseline"], SHALLOW, rng)
    x = rng.normal(size=(6, 3))
    known = statistics(ladder.encoder, x, block=3)
    expected = reference.clean_encoder(weights_for_reference(ladder), x)
    np.testing.assert_allclose(known.mu[0], expected["mu"][1], rtol=1e-8)
    np.testing.assert_allclose(known.sigma[0], expected["sigma"][1], rtol=1e-8)


def test_statistics_in_blocks_that_are_alike_are_at_every_layer_those_of_all_rows() -> None:
    rng = np.random.default_rng(8)
    ladder = random_ladder(MODELS["baseline"], SHALLOW, rng)
    x = np.tile(rng.normal(size=(3, 3)), (2, 1))
    known = statistics(ladder.encoder, x, block=3)
    expected = reference.clean_encoder(weights_for_reference(ladder), x)
    for l in (1, 2):
        np.testing.assert_allclose(known.mu[l - 1], expected["mu"][l], rtol=1e-8)
        np.testing.assert_allclose(known.sigma[l - 1], expected["sigma"][l], rtol=1e-8)


# --- Initial values -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def fresh() -> Ladder:
    with jax.enable_x64(False):
        return Ladder(MODELS["rand-init"], (400, 100, 400), key=KEY)


def assert_drawn_apart(one: jax.Array, other: jax.Array) -> None:
    """The correlation of the two lies within five standard errors of zero."""
    assert abs(np.corrcoef(one.ravel(), other.ravel())[0, 1]) < 5 / one.size**0.5


def test_weights_start_normal_with_variance_1_over_fan_in_and_are_drawn_apart(fresh: Ladder) -> None:
    W1, W2 = (layer.W for layer in fresh.encoder)
    V0, V1, top = (layer.V for layer in fresh.decoder)
    assert [w.shape for w in (W1, W2, V0, V1)] == [(400, 100), (100, 400), (100, 400), (400, 100)]
    assert top is None
    for weights in (W1, W2, V0, V1):
        assert_drawn_from_a_normal_distribution(weights, weights.shape[0] ** -0.5)
    for one, other in combinations((W1, W2, V0, V1), 2):
        assert_drawn_apart(one, other)


def test_gamma_starts_at_one_and_beta_at_zero(fresh: Ladder) -> None:
    for layer, units in zip(fresh.encoder, (100, 400), strict=True):
        np.testing.assert_array_equal(layer.gamma, np.ones(units))
        np.testing.assert_array_equal(layer.beta, np.zeros(units))


def test_the_combinators_of_two_layers_are_drawn_apart(fresh: Ladder) -> None:
    below, _, above = (np.stack(jax.tree.leaves(layer.combinator)) for layer in fresh.decoder)
    assert_drawn_apart(below, above)


def test_the_decoder_of_no_lateral_learns_from_the_start() -> None:
    model = MODELS["no-lateral"]
    rng = np.random.default_rng(6)
    ladder, batch = random_ladder(model, DEEP, rng), random_batch(model.id, DEEP, rng)
    fresh = [model.combinator(n, key=KEY, eta=0.1) for n in DEEP]
    ladder = eqx.tree_at(lambda ladder: [layer.combinator for layer in ladder.decoder], ladder, fresh)
    gradient = jax.grad(lambda ladder: forward(ladder, *batch).total)(ladder)
    for layer in gradient.decoder:
        assert (layer.combinator.w1u != 0).all()
        assert layer.V is None or (layer.V != 0).all()


# --- Laws ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("model_id", reference.MODEL_IDS)
def test_noise_is_drawn_exactly_where_the_model_has_it(model_id: str) -> None:
    everywhere = [(6, n) for n in DEEP]
    drawn = eqx.filter_eval_shape(draw_noise, MODELS[model_id], DEEP, 6, key=KEY)
    assert [a and a.shape for a in drawn] == reference.noise_of(model_id, everywhere)


def test_noise_is_standard_normal_and_drawn_apart_for_every_layer() -> None:
    with jax.enable_x64(False):
        below, above = draw_noise(MODELS["vanilla"], (50, 50), 100, key=KEY)
    assert_drawn_from_a_normal_distribution(below, 1)
    assert_drawn_from_a_normal_distribution(above, 1)
    assert_drawn_apart(below, above)


@few
@given(model_id=model_ids, l=st.integers(0, 2), seed=seeds)
def test_a_layers_noise_std_matters_exactly_where_the_model_has_noise(model_id: str, l: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    ladder, batch = random_ladder(MODELS[model_id], SHALLOW, rng), random_batch(model_id, SHALLOW, rng)
    louder = batch._replace(noise_std=np.where(np.arange(3) == l, 2, 1) * batch.noise_std)
    before, after = forward(ladder, *batch).total, forward(ladder, *louder).total
    assert (before != after) == (batch.noise[0][l] is not None)


@few
@given(model_id=st.sampled_from(WITH_DECODER), seed=seeds)
def test_labelled_noise_reaches_the_cross_entropy_alone_and_unlabelled_noise_the_reconstruction_alone(
    model_id: str, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    ladder, batch = random_ladder(MODELS[model_id], SHALLOW, rng), random_batch(model_id, SHALLOW, rng)
    before = forward(ladder, *batch)
    labelled, unlabelled = batch.noise

    after = forward(ladder, *batch._replace(noise=([-labelled[0], *labelled[1:]], unlabelled)))
    assert after.cross_entropy != before.cross_entropy
    np.testing.assert_allclose(after.reconstruction, before.reconstruction, rtol=1e-12)

    after = forward(ladder, *batch._replace(noise=(labelled, [-unlabelled[0], *unlabelled[1:]])))
    assert (after.reconstruction != before.reconstruction).all()
    np.testing.assert_allclose(after.cross_entropy, before.cross_entropy, rtol=1e-12)


@few
@given(model_id=st.sampled_from(WITH_DECODER), seed=seeds)
def test_without_reconstruction_cost_the_encoder_learns_as_if_there_were_no_decoder(model_id: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    ladder, batch = random_ladder(MODELS[model_id], SHALLOW, rng), random_batch(model_id, SHALLOW, rng)
    batch = batch._replace(recon_weights=np.zeros(3))
    alone = eqx.tree_at(lambda ladder: ladder.decoder, ladder, ())
    with_decoder, without = (
        jax.grad(lambda ladder: forward(ladder, *batch).total)(network).encoder for network in (ladder, alone)
    )
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-14), with_decoder, without)


@few
@given(seed=seeds)
def test_nothing_that_no_lateral_decodes_depends_on_z_tilde(seed: int) -> None:
    rng = np.random.default_rng(seed)
    decoder = random_ladder(MODELS["no-lateral"], SHALLOW, rng).decoder
    y_tilde = rng.uniform(size=(6, 3))
    one, other = (decode(decoder, [rng.normal(size=(6, n)) for n in SHALLOW], y_tilde) for _ in range(2))
    jax.tree.map(np.testing.assert_array_equal, one, other)


@settings(few, max_examples=2)
@pytest.mark.parametrize("model_id", reference.MODEL_IDS)
@given(order=st.permutations(range(3)), seed=seeds)
def test_the_order_of_the_inputs_columns_does_not_matter(model_id: str, order: list[int], seed: int) -> None:
    rng = np.random.default_rng(seed)
    ladder, batch = random_ladder(MODELS[model_id], SHALLOW, rng), random_batch(model_id, SHALLOW, rng)

    def permuted(a: np.ndarray | jax.Array | None) -> np.ndarray | None:
        return None if a is None else np.asarray(a)[..., order]

    moved = batch._replace(
        x_labelled=permuted(batch.x_labelled),
        x_unlabelled=permuted(batch.x_unlabelled),
        noise=tuple([permuted(first), *rest] for first, *rest in batch.noise),
    )
    first, *encoder = ladder.encoder
    first = eqx.tree_at(lambda layer: layer.W, first, jnp.asarray(np.asarray(first.W)[order]))
    # V(0) has its columns, and every parameter of g(0) its last axis, over the input's columns.
    decoder = [jax.tree.map(lambda a: jnp.asarray(permuted(a)), layer) for layer in ladder.decoder[:1]]
    renamed = eqx.tree_at(
        lambda ladder: (ladder.encoder, ladder.decoder),
        ladder,
        ((first, *encoder), (*decoder, *ladder.decoder[1:])),
    )
    np.testing.assert_allclose(forward(renamed, *moved).total, forward(ladder, *batch).total, rtol=1e-10)


@few
@given(rows=st.sampled_from([2, 4, 100]), seed=seeds)
def test_a_prediction_does_not_depend_on_the_rows_beside_it(rows: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    with jax.enable_x64(False):
        ladder = random_ladder(MODELS["baseline"], (64, 50, 50, 10), rng)
        known = statistics(ladder.encoder, jnp.asarray(rng.normal(size=(100, 64))))
    network = Trained(ladder, known, []).network
    x = rng.normal(size=(rows, 64))
    i = int(rng.integers(rows))
    (alone,) = network.logits(x[i : i + 1])
    together = network.logits(x)[i]
    assert all(array.dtype == np.float32 for array in (alone, *network.weights, *network.biases))
    # A matrix product of another shape may add in another order: equal to within float32's rounding of a sum.
    np.testing.assert_allclose(together, alone, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("model_id", ["vanilla", "first-noise-recons", "baseline-noise"])
def test_joint_rows_are_normalised_together(model_id: str) -> None:
    rng = np.random.default_rng(0)
    ladder = random_ladder(replace(MODELS[model_id], joint=True), DEEP, rng)
    batch = random_batch(model_id, DEEP, rng)
    done = forward(ladder, *batch)
    weights = weights_for_reference(ladder)
    rows, noise = batch.x_labelled, batch.noise[0]
    if done.noisy is not None:  # a model without a decoder has labelled rows only
        rows = np.concatenate([rows, batch.x_unlabelled])
        noise = [None if a is None else np.concatenate([a, b]) for a, b in zip(*batch.noise, strict=True)]
    both = reference.encoder(weights, rows, noise, list(batch.noise_std))
    n = len(batch.x_labelled)
    for z, expected in zip(done.labelled.z, both["z"], strict=True):
        np.testing.assert_allclose(z, expected[:n], rtol=1e-9)
    p = both["h"][-1][np.arange(n), batch.y_labelled]
    np.testing.assert_allclose(done.cross_entropy, -np.log(p).mean(), rtol=1e-9)
    if done.noisy is None:
        return
    decoded = reference.decoder(model_id, weights, [z[n:] for z in both["z"]], both["h"][-1][n:])
    for z_hat, expected in zip(done.z_hat, decoded["z_hat"], strict=True):
        np.testing.assert_allclose(z_hat, expected, rtol=1e-9)
    apart = reference_costs(model_id, weights, batch)
    assert abs(apart["cross_entropy"] - float(done.cross_entropy)) > 1e-3


@pytest.mark.parametrize("model_id", ["vanilla", "first-recons", "amlp-2-2"])
def test_noisy_copies_cost_as_much_as_rows_that_come_again(model_id: str) -> None:
    rng = np.random.default_rng(0)
    ladder = random_ladder(MODELS[model_id], DEEP, rng)
    # Twelve rows that are three times the same four: the clean path normalises them as it does the four.
    batch = random_batch(model_id, DEEP, rng, unlabelled=12)
    again = batch._replace(x_unlabelled=np.tile(batch.x_unlabelled[:4], (3, 1)))
    once = again._replace(x_unlabelled=again.x_unlabelled[:4])
    done = forward(ladder, *once, copies=3)
    expected = reference_costs(model_id, weights_for_reference(ladder), again)
    np.testing.assert_allclose(done.total, expected["total"], rtol=1e-9)
    assert done.clean is None or len(done.clean.z[0]) == 4

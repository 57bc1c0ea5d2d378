from collections.abc import Iterator
from itertools import pairwise

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import reference
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from ladders import assert_drawn_from_a_normal_distribution, in_reference_names

from laddernet.network.combinators import Combinator, RandInit
from laddernet.network.models import MODELS

UNITS = 5
ROWS = 6
KEY = jax.random.key(0)

WITH_DECODER = [id for id in reference.MODEL_IDS if id not in reference.NO_DECODER]
MLPS = [id for id in reference.MODEL_IDS if "mlp-" in id]
CONSTANT_AT_FIRST = {
    **{id: reference.initial(id) for id in WITH_DECODER if id not in ("rand-init", "no-lateral", "gated-gauss", *MLPS)},
    "no-lateral": {"b0": 0.0, "w0u": 1.0, "wsigma": 1.0, "b1": 0.0, "w1u": 1.0},
    "gated-gauss": {"w1": 0.0, "w2": 1.0, "w3": 0.0, "w4": 0.0, "w5": 0.0, "w6": 1.0, "w7": 0.0},
}


@pytest.fixture(scope="module", autouse=True)
def _float64() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


def random_combinator(model_id: str, rng: np.random.Generator) -> Combinator:
    """One whose every parameter is drawn from N(0, 1), whatever it starts at in training."""
    shapes = eqx.filter_eval_shape(MODELS[model_id].combinator, UNITS, key=KEY, eta=0.1)
    return jax.tree.map(lambda a: jnp.asarray(rng.normal(size=a.shape)), shapes)


@pytest.mark.parametrize("spread", [1.0, 100.0])  # at 100 most sigmoids are saturated
@pytest.mark.parametrize("model_id", WITH_DECODER)
def test_a_combinator_computes_what_the_paper_writes(model_id: str, spread: float) -> None:
    rng = np.random.default_rng(1)
    combinator = random_combinator(model_id, rng)
    z_tilde, u = spread * rng.normal(size=(2, ROWS, UNITS))
    expected = reference.combinator(model_id, in_reference_names(combinator), z_tilde, u)
    np.testing.assert_allclose(combinator(jnp.asarray(z_tilde), jnp.asarray(u)), expected, rtol=1e-10)


@pytest.mark.parametrize("model_id", CONSTANT_AT_FIRST)
def test_parameters_that_start_at_a_constant_start_at_the_specified_one(model_id: str) -> None:
    combinator = MODELS[model_id].combinator(UNITS, key=KEY, eta=0.1)
    expected = {name: np.full(UNITS, value) for name, value in CONSTANT_AT_FIRST[model_id].items()}
    jax.tree.map(np.testing.assert_array_equal, in_reference_names(combinator), expected)


def test_rand_init_draws_every_parameter_of_vanilla_from_a_normal_distribution_of_std_0_2() -> None:
    drawn = in_reference_names(RandInit(4000, key=KEY, eta=0.1))
    assert drawn.keys() == reference.initial("vanilla").keys()
    for parameter in drawn.values():
        assert_drawn_from_a_normal_distribution(parameter, 0.2)
    correlation = np.corrcoef(list(drawn.values())) - np.eye(9)
    assert np.abs(correlation).max() < 5 / 4000**0.5


def test_mlp_weights_are_drawn_with_std_eta_and_biases_are_zero() -> None:
    combinator = MODELS["amlp-2-2-2"].combinator(4000, key=KEY, eta=0.03)
    for weight, bias in zip(combinator.weights, combinator.biases, strict=True):
        assert_drawn_from_a_normal_distribution(weight, 0.03)
        assert not bias.any()
    _, first, second, _ = combinator.weights  # of one shape, and yet not one draw
    assert abs(np.corrcoef(first.ravel(), second.ravel())[0, 1]) < 5 / first.size**0.5


@pytest.mark.parametrize("model_id", MLPS)
def test_every_unit_has_an_mlp_of_the_named_sizes(model_id: str) -> None:
    kind, *hidden = model_id.split("-")
    sizes = [3 if kind == "amlp" else 2, *map(int, hidden), 1]
    combinator = eqx.filter_eval_shape(MODELS[model_id].combinator, UNITS, key=KEY, eta=0.1)
    assert [w.shape for w in combinator.weights] == [(*pair, UNITS) for pair in pairwise(sizes)]
    assert [b.shape for b in combinator.biases] == [(size, UNITS) for size in sizes[1:]]


def numbers(largest: float) -> st.SearchStrategy[np.ndarray]:
    return arrays(np.float64, UNITS, elements=st.floats(-largest, largest))


@settings(max_examples=15, deadline=None, derandomize=True)
@given(w6=numbers(3), w7=numbers(3), u=numbers(10))
def test_nu_of_gated_gauss_is_strictly_between_0_and_1(w6: np.ndarray, w7: np.ndarray, u: np.ndarray) -> None:
    # u is normalised, so |u| < 10 in a minibatch of 100 rows. Beyond |w6·u + w7| = 36 float64 rounds ν to 1.
    drawn = random_combinator("gated-gauss", np.random.default_rng(0))
    nu = eqx.tree_at(lambda g: (g.w6, g.w7), drawn, (w6, w7)).nu(jnp.asarray(u))
    assert (nu > 0).all()
    assert (nu < 1).all()


@settings(max_examples=15, deadline=None, derandomize=True)
@given(u=numbers(float(np.finfo(np.float64).max)))
def test_nu_of_gated_gauss_stays_within_0_and_1_for_every_finite_u(u: np.ndarray) -> None:
    nu = random_combinator("gated-gauss", np.random.default_rng(0)).nu(jnp.asarray(u))
    assert ((nu >= 0) & (nu <= 1)).all()


@settings(max_examples=15, deadline=None, derandomize=True)
@given(z_tilde=numbers(1e6), other=numbers(1e6), u=numbers(10))
def test_no_lateral_does_not_depend_on_z_tilde(z_tilde: np.ndarray, other: np.ndarray, u: np.ndarray) -> None:
    combinator = random_combinator("no-lateral", np.random.default_rng(0))
    np.testing.assert_array_equal(combinator(z_tilde[None], u[None]), combinator(other[None], u[None]))

"""Every native kernel and the plain function that it replaces, both against float64, over shapes and precisions."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any
from unittest import mock

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laddernet.inference.network import EPSILON
from laddernet.kernels import native
from laddernet.kernels.products import (
    BETA1,
    BETA2,
    PRECISIONS,
    Precision,
    Step,
    Weights,
    descend,
    moved,
    product,
    product_transposed,
    update,
)
from laddernet.kernels.products import EPSILON as ADAM_EPSILON
from laddernet.network.ladder import Normalised, combine, normalise_and_activate
from laddernet.network.models import MODELS

SIZES = st.integers(1, 90)


@pytest.fixture(scope="module", params=["plain", "native"])
def name(request: pytest.FixtureRequest) -> str:
    """The implementation to be tested."""
    if request.param == "native":
        request.getfixturevalue("compiler")
    return str(request.param)


@contextmanager
def twin(name: str) -> Iterator[None]:
    """Use plain functions only, or make sure that there are native kernels."""
    if name == "native":
        assert native.available()
        yield
    else:
        with mock.patch.object(native, "enabled", return_value=frozenset()):
            assert not native.uses("product", jnp.ones(1))
            yield


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def rounded(a: np.ndarray, precision: Precision) -> np.ndarray:
    """The numbers that a product of this precision multiplies, in float64."""
    return a.astype(jnp.bfloat16 if precision == "bfloat16" else np.float32).astype(np.float64)


# --- Products -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("precision", PRECISIONS)
@settings(max_examples=60, deadline=None)
@given(rows=SIZES, depth=SIZES | st.integers(300, 1400), columns=SIZES)
def test_products(name: str, precision: Precision, rows: int, depth: int, columns: int) -> None:
    a, b = normal(rows, depth), normal(depth, columns, seed=1)
    expected = rounded(a, precision) @ rounded(b, precision)

    def both(a: Any, b: Any, transposed: Any) -> list[Any]:
        return [product(a, b, precision), product_transposed(a, transposed, precision)]

    with twin(name):
        found = jax.jit(both)(a, b, np.ascontiguousarray(b.T))
    for c in found:
        assert c.dtype == np.float32
        np.testing.assert_allclose(c, expected, atol=1e-6 * depth, rtol=1e-5)


@pytest.mark.parametrize("precision", PRECISIONS)
@settings(max_examples=60, deadline=None)
@given(rows=SIZES | st.integers(300, 700), below=SIZES, above=SIZES, number=st.integers(1, 1000))
def test_a_step_of_adam_in_the_product_that_makes_the_gradient(
    name: str, precision: Precision, rows: int, below: int, above: int, number: int
) -> None:
    inputs, errors = normal(rows, below), normal(rows, above, seed=1)
    w, m, v = normal(below, above, seed=2), normal(below, above, seed=3), normal(below, above, seed=4) ** 2
    rate, decay = 0.01, 0.3
    gradient = rounded(inputs, precision).T @ rounded(errors, precision)
    new_m = BETA1 * m + (1 - BETA1) * gradient
    new_v = BETA2 * v + (1 - BETA2) * gradient**2
    direction = new_m / (1 - BETA1**number) / (np.sqrt(new_v / (1 - BETA2**number)) + ADAM_EPSILON)
    step = Step(jnp.float32(number), jnp.float32(rate), jnp.float32(decay))
    with twin(name):
        after = jax.jit(partial(update, precision=precision))(w, (m, v), inputs, errors, step)
    after_w, (after_m, after_v) = after
    np.testing.assert_allclose(after_m, new_m, atol=1e-6 * rows, rtol=1e-5)
    np.testing.assert_allclose(after_v, new_v, atol=1e-6 * rows, rtol=1e-4)
    # β₂ as a float32 makes the first steps longer or shorter by up to a hundred-thousandth.
    tolerance = 1e-5 * rate * (rows + 3 * np.abs(direction).max())
    np.testing.assert_allclose(after_w, w - rate * (direction + decay * w), atol=tolerance, rtol=1e-5)


def test_a_weight_that_no_row_moves_stays(name: str) -> None:
    zeros = jnp.zeros((2, 3))
    step = Step(jnp.float32(1), jnp.float32(0.1), jnp.float32(0))
    with twin(name):
        w, moments = update(jnp.ones((2, 3)), (zeros, zeros), jnp.zeros((4, 2)), normal(4, 3), step, "float32")
    np.testing.assert_array_equal(w, np.ones((2, 3)))
    np.testing.assert_array_equal(moments, np.zeros((2, 2, 3)))


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("bad", [np.nan, -np.nan, np.inf])
def test_a_product_keeps_what_is_not_finite(name: str, precision: Precision, bad: float) -> None:
    a, b = normal(20, 40), normal(40, 5)
    a[3, 7] = bad
    with twin(name):
        assert not np.isfinite(product(a, b, precision)[3]).any()
        assert not np.isfinite(product(b.T.copy(), a.T.copy(), precision)[:, 3]).any()


@pytest.mark.usefixtures("compiler")
def test_arrays_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match=r"shapes \(4, 5\) and \(4, 5\) cannot be multiplied"):
        product(jnp.ones((4, 5)), jnp.ones((4, 5)), "float32")
    with pytest.raises(ValueError, match="cannot have noise of shapes"):
        normalise_and_activate(jnp.ones((4, 5)), [4], [jnp.ones((1, 5))], jnp.float32(1), None)


# --- A cost is differentiated, and its matrices learn -----------------------------------------------------------

H = normal(6, 4)
HEADS: dict[str, Callable[[Any], Any]] = {
    "once": lambda w: H @ w,
    "twice": lambda w: jnp.tanh(H @ w) @ w,
    "not at all": lambda w: H,
    "for a result that does not count": lambda w: jax.lax.stop_gradient(H @ w),
    "in a loop": lambda w: jax.lax.scan(lambda h, _: (jnp.tanh(h @ w), None), H, length=3)[0],
    "in a compiled function": lambda w: jax.jit(lambda h: h @ w)(H),
}


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("uses", HEADS)
def test_a_matrix_makes_the_step_of_its_gradient_however_often_it_is_used(
    name: str, precision: Precision, uses: str
) -> None:
    w = {"other": jnp.asarray(normal(4, 3, seed=5)), "square": jnp.asarray(normal(4, 4, seed=1))}
    moments = tuple({k: jnp.asarray(normal(*x.shape, seed=s) ** 2) for k, x in w.items()} for s in (2, 3))
    step = Step(jnp.float32(3), jnp.float32(0.1), jnp.float32(0.2))
    bias = jnp.arange(4.0)

    def cost(matrices: Any, bias: Any) -> Any:
        top = jnp.square(HEADS[uses](matrices["square"]) + bias) @ matrices["other"]
        return jnp.sum(jnp.sin(top)), top

    with twin(name):
        after, of_after, gradient, top = descend(cost, w, moments, bias, step, precision)
    plain = {key: Weights(x, precision) for key, x in w.items()}
    (expected, of_bias), expected_top = jax.grad(cost, argnums=(0, 1), has_aux=True)(plain, bias)
    np.testing.assert_allclose(gradient, of_bias, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(top, expected_top, rtol=1e-4, atol=1e-4)
    for key in w:
        new, pair = moved(w[key], (moments[0][key], moments[1][key]), expected[key].w, step)
        np.testing.assert_allclose(after[key], new, rtol=1e-4, atol=1e-4)
        for one, other in zip(of_after, pair, strict=True):
            np.testing.assert_allclose(one[key], other, rtol=1e-4, atol=1e-4)


def test_the_gradient_of_rounded_products_is_that_of_rounded_operands() -> None:
    h, w, errors = normal(5, 4), normal(4, 3, seed=1), normal(5, 3, seed=2)
    d_h, d_w = jax.grad(lambda h, w: jnp.sum(errors * (h @ Weights(w, "bfloat16"))), argnums=(0, 1))(h, w)
    np.testing.assert_allclose(d_h, rounded(errors, "bfloat16") @ rounded(w, "bfloat16").T, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(d_w, rounded(h, "bfloat16").T @ rounded(errors, "bfloat16"), rtol=1e-5, atol=1e-6)


def test_a_large_network_learns_in_double_precision_too() -> None:
    with jax.enable_x64(True):
        step = Step(jnp.float64(1), jnp.float64(0.1), jnp.float64(0))
        w, m, v = (jnp.full((7, 3), x, jnp.float32) for x in (1, 0, 0))
        after, moments, *_ = descend(lambda w, _: (jnp.sum(jnp.ones((4, 7)) @ w), None), w, (m, v), 0.0, step)
        assert {leaf.dtype.name for leaf in (after, *moments)} == {"float32"}
        np.testing.assert_allclose(after, 0.9, rtol=1e-5)


# --- Normalisation ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("units", [1, 5, 16, 33, 64, 130])
@pytest.mark.parametrize("scaled", [True, False])
@pytest.mark.parametrize("noisy", [(True, True, False), (False,), (True, False)])
def test_normalisation_and_its_derivatives(name: str, units: int, scaled: bool, noisy: tuple[bool, ...]) -> None:
    """Compared with the plain function in float64."""
    with twin(name):
        ours = normalised(np.float32, units, scaled, noisy)
    with jax.enable_x64(True):
        expected = normalised(np.float64, units, scaled, noisy)
    for one, other in zip(ours, expected, strict=True):
        assert one.dtype == np.float32
        assert other.dtype == np.float64
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4)


def normalised(kind: type, units: int, scaled: bool, noisy: tuple[bool, ...]) -> list[Any]:
    """Return the outputs and the derivatives of a normalisation in one precision, compiled as one program."""
    sizes = [7, 12, 9][: len(noisy)]
    a = 3 + 2 * normal(sum(sizes), units)
    noise = [normal(n, units, seed=n) if is_noisy else None for n, is_noisy in zip(sizes, noisy, strict=True)]
    scale = (normal(units, seed=1), normal(units, seed=2)) if scaled else None

    def outputs(a: Any, scale: Any) -> Normalised:
        return normalise_and_activate(
            a, sizes, [None if e is None else e.astype(a.dtype) for e in noise], a.dtype.type(0.3), scale
        )

    def weighted(a: Any, scale: Any) -> Any:
        done = outputs(a, scale)
        # The cost depends on all outputs of the last group, on z of the others, as in a step, and on h.
        wanted = [*done.z, done.mu[-1], done.sigma[-1], *([] if done.h is None else [done.h])]
        return sum(jnp.sum(out * normal(*out.shape, seed=i)) for i, out in enumerate(wanted))

    inputs = jax.tree.map(lambda x: x.astype(kind), (a, scale))
    return jax.tree.leaves(jax.jit(lambda *x: [outputs(*x), jax.grad(weighted, argnums=(0, 1))(*x)])(*inputs))


def test_a_constant_unit_is_normalised_to_zero(name: str) -> None:
    with twin(name):
        done = normalise_and_activate(jnp.full((6, 3), 5.0), [6], [None], jnp.float32(0), None)
    np.testing.assert_array_equal(done.z[0], np.zeros((6, 3)))
    np.testing.assert_allclose(done.sigma[0], EPSILON**0.5)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_normalisation_keeps_what_is_not_finite(name: str, bad: float) -> None:
    a = normal(20, 40)
    a[3, 7] = bad
    scale = (np.ones(40, np.float32), np.zeros(40, np.float32))
    with twin(name):
        done = normalise_and_activate(a, [20], [None], jnp.float32(0), scale)
    assert done.h is not None
    assert not np.isfinite(done.z[0][:, 7]).any()
    assert not np.isfinite(done.h[3, 7])
    assert np.isfinite(np.delete(done.h, 7, axis=1)).all()


def test_more_groups_than_the_native_kernel_takes_are_normalised_all_the_same() -> None:
    a = normal(40, 3)
    done = normalise_and_activate(a, [2] * 20, [None] * 20, jnp.float32(0), None)
    np.testing.assert_allclose(
        np.concatenate(done.z), np.tile([[1], [-1]], (20, 3)) * np.sign(a[::2] - a[1::2]).repeat(2, 0), atol=1e-4
    )


def test_the_cost_is_not_differentiated_with_respect_to_noise() -> None:
    a, e = normal(9, 5), normal(9, 5, seed=1)

    def cost(std: Any) -> Any:
        return jnp.sum(
            normalise_and_activate(jnp.asarray(a, std.dtype), [9], [jnp.asarray(e, std.dtype)], std, None).z[0]
        )

    assert jax.grad(cost)(jnp.float32(0.3)) == 0
    with jax.enable_x64(True):
        assert jax.grad(cost)(jnp.float64(0.3)) == 0


def test_the_mean_of_many_rows_far_from_zero_is_precise() -> None:
    a = 300 + normal(10_000, 4)
    done = normalise_and_activate(a, [10_000], [None], jnp.float32(0), None)
    np.testing.assert_allclose(done.mu[0], a.astype(np.float64).mean(axis=0), rtol=2e-7)
    np.testing.assert_allclose(done.sigma[0], a.astype(np.float64).std(axis=0), rtol=1e-5)


# --- Combinators; tests/kernels/test_formulas.py has all of them --------------------------------------------------


@pytest.mark.parametrize("model_id", ["vanilla", "amlp-2-2"])
@pytest.mark.parametrize("shape", [(1, 1), (7, 33), (20, 64)])
def test_combinators_and_their_derivatives(name: str, model_id: str, shape: tuple[int, int]) -> None:
    shapes = eqx.filter_eval_shape(MODELS[model_id].combinator, shape[1], key=jax.random.key(0), eta=0.1)
    combinator = jax.tree.map(lambda a: normal(*a.shape, seed=a.size), shapes)
    inputs = (combinator, normal(*shape, seed=1), normal(*shape, seed=2))

    def both(*inputs: Any) -> Any:
        z_hat, derivatives = jax.vjp(combine, *inputs)
        return z_hat, derivatives(jnp.ones_like(z_hat))

    def everything(kind: type) -> list[Any]:
        return jax.tree.leaves(jax.jit(both)(*jax.tree.map(lambda x: x.astype(kind), inputs)))

    with twin(name):
        ours = everything(np.float32)
    with jax.enable_x64(True):
        expected = everything(np.float64)
    for one, other in zip(ours, expected, strict=True):
        assert one.dtype == np.float32
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4)


# --- The choice ---------------------------------------------------------------------------------------------------


def test_a_kernel_that_cannot_take_its_arguments_is_replaced_by_the_plain_function(name: str) -> None:
    @native.replaced_by("product", lambda a: None if len(a) > 2 else a + 100)
    def increased(a: Any) -> Any:
        return a + 1

    with twin(name):
        assert increased(jnp.zeros(3)).tolist() == [1, 1, 1]
        assert increased(jnp.zeros(1)).tolist() == [100 if name == "native" else 1]
        assert increased(jnp.zeros(1, int)).tolist() == [1]
    assert increased.__wrapped__(jnp.zeros(1)).tolist() == [1]  # type: ignore[attr-defined]

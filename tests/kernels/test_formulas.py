"""Combinators as native kernels against the same combinators in float64, as JAX differentiates them."""

import os
import re
import subprocess
import sys
import threading
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.special

from laddernet.network.combinators import Combinator, initially
from laddernet.network.ladder import Ladder, combine, decode
from laddernet.network.models import MODELS

ROWS, UNITS = 100, 100
WITH_DECODER = [id for id, model in MODELS.items() if model.combinator is not None]
SHAPES = [(100, 1), (7, 5), (1, 16), (7, 33), (100, 100)]


def random_combinator(make: Callable[..., Combinator], units: int) -> Any:
    rng = np.random.default_rng(1)
    shapes = eqx.filter_eval_shape(make, units, key=jax.random.key(0), eta=0.1)
    return jax.tree.map(lambda a: rng.normal(size=a.shape).astype(np.float32), shapes)


def random_layers(*shape: int) -> Any:
    return np.random.default_rng(2).normal(size=shape).astype(np.float32)


@partial(jax.jit, static_argnums=0)
def _value_and_derivatives(f: Callable[..., Any], combinator: Any, z_tilde: Any, u: Any, d: Any) -> Any:
    value, derivatives = jax.vjp(f, combinator, z_tilde, u)
    return value, *derivatives(d)


def value_and_derivatives(f: Callable[..., Any], combinator: Any, z_tilde: Any, u: Any, d: Any) -> Any:
    """ẑ, and the derivatives with respect to the parameters, z̃ and u, given d."""
    return jax.device_get(_value_and_derivatives(f, combinator, z_tilde, u, d))


def call(combinator: Any, z_tilde: Any, u: Any) -> Any:
    return combinator(z_tilde, u)


def is_native(combinator: Any, *shape: int) -> bool:
    layer = jnp.zeros(shape)
    return "laddernet_" in jax.jit(combine).lower(combinator, layer, layer).as_text()


def assert_close(one: Any, other: Any, rtol: float = 1e-5) -> None:
    """Within `rtol` of the largest number of an array."""
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
        np.testing.assert_allclose(a, b, rtol=rtol, atol=rtol * max(1, np.abs(b).max()))


# --- The models' combinators --------------------------------------------------------------------------------


@pytest.mark.parametrize("model_id", WITH_DECODER)
def test_values_and_derivatives_are_those_of_the_combinator(model_id: str) -> None:
    combinator = random_combinator(MODELS[model_id].combinator, UNITS)
    z_tilde, u, d = random_layers(3, ROWS, UNITS)

    def spread(a: Any) -> Any:
        """A unit for each element, so that what a parameter's derivative is the sum of can be seen."""
        return np.broadcast_to(np.float64(a)[..., None, :], (*a.shape[:-1], ROWS, UNITS)).reshape(*a.shape[:-1], -1)

    with jax.enable_x64(True):
        flat = (np.float64(a).reshape(1, -1) for a in (z_tilde, u, d))
        expected = value_and_derivatives(call, jax.tree.map(spread, combinator), *flat)
    value, by_parameters, by_z, by_u = jax.tree.map(lambda a: a.reshape(*a.shape[:-1], ROWS, UNITS), expected)

    for rows, units in SHAPES:
        part = np.s_[..., :rows, :units]
        ours = value_and_derivatives(
            combine, jax.tree.map(lambda a, n=units: a[..., :n], combinator), z_tilde[part], u[part], d[part]
        )
        sums = jax.tree.map(lambda a, part=part: a[part].sum(axis=-2), by_parameters)
        assert_close(ours, (value[0][part], sums, by_z[0][part], by_u[0][part]))


@pytest.mark.usefixtures("compiler")
@pytest.mark.parametrize("model_id", WITH_DECODER)
def test_every_model_decodes_and_learns_by_native_kernels(model_id: str) -> None:
    sizes = (12, 7, 3)
    ladder = eqx.filter_eval_shape(Ladder, MODELS[model_id], sizes, key=jax.random.key(0))
    layers = [jnp.ones((6, n)) for n in sizes]

    def cost(decoder: Any) -> Any:
        return sum(map(jnp.sum, decode(decoder, layers, layers[-1])[1]))

    text = jax.jit(jax.value_and_grad(cost)).lower(ladder.decoder).as_text()
    for function in ("values", "derivatives"):
        assert sum("custom_call @laddernet_" in line and f"_{function}(" in line for line in text.splitlines()) == 3


def test_a_column_is_the_same_bits_wherever_it_stands() -> None:
    combinator = random_combinator(MODELS["amlp-2-2-2"].combinator, 150)
    layers = random_layers(3, 20, 150)
    whole = value_and_derivatives(combine, combinator, *layers)
    for part in (np.s_[..., :1], np.s_[..., 3:37], np.s_[..., 100:]):
        alone = value_and_derivatives(combine, jax.tree.map(lambda a, p=part: a[p], combinator), *layers[part])
        jax.tree.map(lambda a, b, p=part: np.testing.assert_array_equal(a[p], b), whole, alone)


def test_nan_stays_nan_and_in_its_unit() -> None:
    combinator = random_combinator(MODELS["gaussian"].combinator, 20)
    z_tilde, u, d = random_layers(3, 6, 20)
    u[2, 4], u[3, 5], d[1, 6] = np.nan, np.inf, np.nan
    ours, plain = (value_and_derivatives(f, combinator, z_tilde, u, d) for f in (combine, call))
    jax.tree.map(lambda a, b: np.testing.assert_array_equal(np.isnan(a), np.isnan(b)), ours, plain)
    jax.tree.map(lambda a, b: np.testing.assert_array_equal(np.isinf(a), np.isinf(b)), ours, plain)
    np.testing.assert_array_equal(np.flatnonzero(np.isnan(ours[1].w7)), [4, 5, 6])


def test_several_at_once() -> None:
    combinator = random_combinator(MODELS["vanilla"].combinator, 7)
    several = jax.tree.map(lambda a: np.stack([a, 2 * a]), combinator)
    layers = random_layers(3, 2, 5, 7)
    together = jax.vmap(partial(_value_and_derivatives, combine))(several, *layers)
    for i in range(2):
        alone = value_and_derivatives(combine, jax.tree.map(lambda a, i=i: a[i], several), *layers[:, i])
        jax.tree.map(lambda a, b, i=i: np.testing.assert_array_equal(a[i], b), together, alone)


# --- Functions ----------------------------------------------------------------------------------------------


class Formula(Combinator):
    """A combinator without parameters that computes a given function."""

    function: Callable[..., Any] = eqx.field(static=True)

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def __call__(self, z_tilde: Any, u: Any) -> Any:
        return self.function(z_tilde, u)


def by_kernel(function: Callable[..., Any], *numbers: np.ndarray) -> np.ndarray:
    z_tilde, u = (np.float32(a)[None] for a in np.broadcast_arrays(numbers[0], numbers[-1]))
    assert is_native(Formula(function), *z_tilde.shape)
    return np.asarray(combine(Formula(function), z_tilde, u)[0])


ALL = np.float32([*np.linspace(-110, 95, 20011), *np.geomspace(1e-30, 1, 300), *-np.geomspace(1e-30, 1, 300), 0.0])
SPECIAL = np.float32([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 100.0, -100.0, 3e38, -3e38, 1e-30])


@pytest.mark.usefixtures("compiler")
@pytest.mark.parametrize(
    ("ours", "exact", "rtol"),
    [
        (lambda z, u: jnp.exp(z), np.exp, 2e-7),
        (lambda z, u: jax.nn.sigmoid(z), scipy.special.expit, 3e-7),
        (lambda z, u: jnp.expm1(z), np.expm1, 5e-7),
        (lambda z, u: jnp.tanh(z), np.tanh, 6e-7),
    ],
)
def test_exponentials(ours: Callable[..., Any], exact: Callable[..., Any], rtol: float) -> None:
    smallest = float(np.finfo(np.float32).tiny)  # the processor may round smaller numbers to zero
    with np.errstate(over="ignore"):
        expected = exact(np.float64(ALL)).astype(np.float32)
        np.testing.assert_allclose(by_kernel(ours, ALL), expected, rtol=rtol, atol=smallest)
        special = exact(np.float64(SPECIAL)).astype(np.float32)
        np.testing.assert_allclose(by_kernel(ours, SPECIAL), special, rtol=rtol, atol=smallest)


@pytest.mark.usefixtures("compiler")
@pytest.mark.parametrize(
    "function",
    [
        lambda z, u: jnp.maximum(z, u) - jnp.minimum(z, 1),
        lambda z, u: jnp.maximum(u, z) + jnp.sign(z) * jnp.abs(u),
        lambda z, u: jnp.where((z > u) | ~(z < 1), u, 2),
        lambda z, u: (z <= u) * 2.0 + (z != 1),
        lambda z, u: jnp.clip(z, -2, 3) + jax.lax.clamp(0.0, u, 1.0),
        lambda z, u: z**3 + jnp.square(u) + (1 + u * u) ** -2,
        lambda z, u: jnp.sqrt(z) + jax.lax.rsqrt(u),
        lambda z, u: jax.nn.relu(z) + jax.nn.elu(u) + jax.nn.leaky_relu(u),
        lambda z, u: jax.nn.silu(z) - jax.lax.stop_gradient(u) * u,
        lambda z, u: jnp.where(z > 0, -z / u, -jnp.inf) * jnp.where(u > 0, jnp.nan, 1),
        lambda z, u: z + np.float32(0.1),
        lambda z, u: 3.0 + 0 * z,
    ],
)
def test_other_operations_of_formulas(function: Callable[..., Any]) -> None:
    z_tilde, u = (a.ravel()[None] for a in np.meshgrid(SPECIAL, SPECIAL))
    assert is_native(Formula(function), *u.shape)
    arguments = Formula(function), z_tilde, u, np.ones_like(u)
    ours, plain = (value_and_derivatives(f, *arguments) for f in (combine, call))
    jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-6, atol=1e-37), ours, plain)


# --- Combinators of users -----------------------------------------------------------------------------------


class Gate(Combinator):
    w: Any = initially(0.0)

    def __call__(self, z_tilde: Any, u: Any) -> Any:
        gate = jax.nn.sigmoid(self.w)
        return gate * z_tilde + (1 - gate) * u


class Matrices(Combinator):
    """Parameters of more than one axis, and one that is not used."""

    w: Any
    unused: Any

    def __init__(self, units: int, **kwargs: Any) -> None:
        self.w = jnp.zeros((2, 3, units))
        self.unused = jnp.zeros(units)

    def __call__(self, z_tilde: Any, u: Any) -> Any:
        return sum(a * z_tilde + b * u + c for a, b, c in self.w)


@pytest.mark.usefixtures("compiler")
@pytest.mark.parametrize("make", [Gate, Matrices])
def test_a_users_combinator(make: Any) -> None:
    combinator = random_combinator(make, 19)
    assert is_native(combinator, 4, 19)
    layers = random_layers(3, 4, 19)
    assert_close(*(value_and_derivatives(f, combinator, *layers) for f in (combine, call)))


def test_two_classes_of_one_name_are_two() -> None:
    def named(factor: float) -> Any:
        class Same(Gate):
            def __call__(self, z_tilde: Any, u: Any) -> Any:
                return self.w * z_tilde + factor * u

        return Same

    layers = random_layers(2, 4, 3)
    for factor in (2.0, 3.0):
        combinator = random_combinator(named(factor), 3)
        np.testing.assert_allclose(combine(combinator, *layers), combinator(*layers), rtol=1e-5)


@jax.custom_vjp
def rounded(z: Any) -> Any:
    return jnp.sign(z)


rounded.defvjp(lambda z: (jnp.sign(z), None), lambda _, d: (2 * d,))


@pytest.mark.usefixtures("compiler")
def test_derivatives_that_a_user_wrote_are_kept() -> None:
    z_tilde, u, d = random_layers(3, 4, 19)
    straight = Formula(lambda z, u: rounded(z) + u)
    assert is_native(straight, 4, 19)
    _, _, by_z, _ = value_and_derivatives(combine, straight, z_tilde, u, d)
    np.testing.assert_array_equal(by_z, 2 * d)


@pytest.mark.parametrize(
    "function",
    [
        lambda z, u: jnp.sin(z),
        lambda z, u: z - z.mean(axis=0),
        lambda z, u: z - u.mean(),
        lambda z, u: z / u.size,
        lambda z, u: z[:, ::-1] + u,
        lambda z, u: jnp.cumsum(z, axis=1),
        lambda z, u: jnp.linalg.norm(u) * z,
        lambda z, u: z * jnp.arange(z.shape[1]),
        lambda z, u: z.T.T,
        lambda z, u: jnp.dot(z, u.T),
        lambda z, u: jnp.floor(z).astype(int) * u,
        lambda z, u: jax.lax.fori_loop(0, 3, lambda i, a: a * u, z),
    ],
)
@pytest.mark.usefixtures("compiler")
def test_a_combinator_that_is_not_translated_is_used_as_it_is_and_a_log_line_gives_the_reason(
    function: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    layers = random_layers(2, 5, 5)
    assert not is_native(Formula(function), 5, 5)
    np.testing.assert_array_equal(combine(Formula(function), *layers), function(*layers))
    (line,) = caplog.messages
    assert re.fullmatch(r"The combinator Formula is used as it is, not as a native kernel, which is faster: .+\.", line)


class Lookup(Combinator):
    """Its parameters are not one for each unit."""

    w: Any = initially(0.0)

    def __init__(self, units: int, **kwargs: Any) -> None:
        self.w = jnp.zeros((units, 2))

    def __call__(self, z_tilde: Any, u: Any) -> Any:
        return self.w[:, 0] * z_tilde + self.w[:, 1] * u


@pytest.mark.parametrize("units", [2, 5])
def test_parameters_that_are_not_one_for_each_unit(units: int) -> None:
    combinator = random_combinator(Lookup, units)
    assert not is_native(combinator, 4, units)
    layers = random_layers(3, 4, units)
    assert_close(*(value_and_derivatives(f, combinator, *layers) for f in (combine, call)))


def test_numbers_other_than_float32_are_left_to_jax() -> None:
    with jax.enable_x64(True):
        combinator = Gate(3, key=jax.random.key(0), eta=0.1)
        assert combine(combinator, jnp.ones((2, 3)), jnp.zeros((2, 3))).dtype == jnp.float64


@pytest.mark.usefixtures("compiler")
def test_threads_that_need_one_formula_at_once_compile_it_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LADDERNET_CACHE", str(tmp_path))
    formula = Formula(lambda z, u: z * 0.123456789 + u * 0.987654321)  # no other test's
    z_tilde, u = random_layers(2, 4, 19)
    barrier = threading.Barrier(6)

    def begin(_: int) -> np.ndarray:
        barrier.wait()
        return np.asarray(combine(formula, z_tilde, u))

    with ThreadPoolExecutor(6) as pool:
        for z_hat in pool.map(begin, range(6)):
            np.testing.assert_allclose(z_hat, formula(z_tilde, u), rtol=1e-5)
    assert len(list((tmp_path / "native").glob("*.so"))) == 1


# --- Other processes ----------------------------------------------------------------------------------------

PROGRAM = """
import sys, jax, numpy as np
from test_formulas import MODELS, combine, random_combinator, random_layers, value_and_derivatives
combinator = random_combinator(MODELS["gaussian"].combinator, 1100)
results = value_and_derivatives(combine, combinator, *random_layers(3, 50, 1100))
np.savez(sys.argv[1], *jax.tree.leaves(results))
"""


def in_another_process(folder: Path, **environment: str) -> list[np.ndarray]:
    here = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    variables = {**os.environ, "PYTHONPATH": here, **environment}
    subprocess.run([sys.executable, "-c", PROGRAM, str(folder / "results.npz")], env=variables, check=True)
    return list(np.load(folder / "results.npz").values())


@pytest.mark.process
@pytest.mark.usefixtures("compiler")
def test_one_thread_computes_the_same_bits_as_many_and_without_a_compiler_it_is_nearly_the_same(tmp_path: Path) -> None:
    alone, together = (in_another_process(tmp_path, NPROC=threads) for threads in "14")  # XLA's threads
    jax.tree.map(np.testing.assert_array_equal, alone, together)
    assert_close(alone, in_another_process(tmp_path, LADDERNET_NATIVE="0"))


@pytest.mark.parametrize(
    "function",
    [
        lambda z, u: z if z.ndim else u,
        lambda z, u: z * (1.0 if u.size > 1 else 2.0),
        lambda z, u: z.astype(bool) * u,
        lambda z, u: jnp.where(jnp.maximum(z > 0, u > 0), z, u),
    ],
)
def test_a_formula_that_depends_on_shapes_or_computes_with_booleans_is_right_all_the_same(
    function: Callable[..., Any],
) -> None:
    z_tilde, u = np.float32(np.random.default_rng(0).normal(size=(2, 7, 20)))
    formula = Formula(function)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        np.testing.assert_allclose(combine(formula, z_tilde, u), formula(z_tilde, u), rtol=1e-6)

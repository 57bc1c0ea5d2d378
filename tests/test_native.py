"""The machine code against NumPy in float64, and that it is used, and done without."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from laddernet import native
from laddernet.kernels import Normalised, mean_squares, normalise
from laddernet.network import EPSILON
from laddernet.optimiser import BETA1, BETA2, Learning, Step
from laddernet.optimiser import EPSILON as ADAM_EPSILON

SIZES = st.integers(1, 90)


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


@pytest.mark.usefixtures("compiler")
def test_this_machine_has_what_it_takes() -> None:
    assert native.available()


@pytest.mark.usefixtures("compiler")
@settings(max_examples=60, deadline=None)
@given(rows=SIZES, depth=SIZES | st.integers(300, 700), columns=SIZES)
def test_products(rows: int, depth: int, columns: int) -> None:
    a, b = normal(rows, depth), normal(depth, columns, seed=1)
    expected = a.astype(np.float64) @ b
    for product in (native.product(a, b), native.product_transposed(a, np.ascontiguousarray(b.T))):
        np.testing.assert_allclose(product, expected, atol=1e-6 * depth, rtol=1e-5)


@settings(max_examples=60, deadline=None)
@given(rows=SIZES | st.integers(300, 700), below=SIZES, above=SIZES, number=st.integers(1, 1000))
def test_a_step_of_adam_in_the_product_that_makes_the_gradient(rows: int, below: int, above: int, number: int) -> None:
    inputs, errors = normal(rows, below), normal(rows, above, seed=1)
    w, m, v = normal(below, above, seed=2), normal(below, above, seed=3), normal(below, above, seed=4) ** 2
    rate, decay = 0.01, 0.3
    gradient = inputs.astype(np.float64).T @ errors
    new_m = BETA1 * m + (1 - BETA1) * gradient
    new_v = BETA2 * v + (1 - BETA2) * gradient**2
    direction = new_m / (1 - BETA1**number) / (np.sqrt(new_v / (1 - BETA2**number)) + ADAM_EPSILON)
    step = Step(jnp.float32(number), jnp.float32(rate), jnp.float32(decay))
    after = jax.grad(lambda learning: jnp.sum(errors * (jnp.asarray(inputs) @ learning)))(
        Learning(jnp.asarray(w), jnp.asarray(m), jnp.asarray(v), step)
    )
    np.testing.assert_allclose(after.m, new_m, atol=1e-6 * rows, rtol=1e-5)
    np.testing.assert_allclose(after.v, new_v, atol=1e-6 * rows, rtol=1e-4)
    # β₂ as a float32 makes the first steps longer or shorter by up to a hundred-thousandth.
    tolerance = 1e-5 * rate * (rows + 3 * np.abs(direction).max())
    np.testing.assert_allclose(after.w, w - rate * (direction + decay * w), atol=tolerance, rtol=1e-5)


@pytest.mark.usefixtures("compiler")
def test_a_weight_that_no_row_moves_stays() -> None:
    zeros = np.zeros((2, 3), np.float32)
    settings = jnp.asarray([0.1, 0, BETA1, BETA2, 1 / (1 - BETA1), 1 / (1 - BETA2), ADAM_EPSILON], jnp.float32)
    w, m, v = native.update(jnp.ones((2, 3)), zeros, zeros, np.zeros((4, 2), np.float32), normal(4, 3), settings, None)
    np.testing.assert_array_equal(w, np.ones((2, 3)))
    np.testing.assert_array_equal(m, zeros)
    np.testing.assert_array_equal(v, zeros)


@pytest.mark.parametrize("units", [1, 5, 16, 33, 64, 130])
@pytest.mark.parametrize("scaled", [True, False])
@pytest.mark.parametrize("noisy", [(True, True, False), (False,), (True, False)])
def test_normalisation_and_its_derivatives(units: int, scaled: bool, noisy: tuple[bool, ...]) -> None:
    """Compared with the same function in float64, for which there is no machine code."""
    sizes = [7, 12, 9][: len(noisy)]
    a = 3 + 2 * normal(sum(sizes), units)
    noise = [normal(n, units, seed=n) if is_noisy else None for n, is_noisy in zip(sizes, noisy, strict=True)]
    scale = (normal(units, seed=1), normal(units, seed=2)) if scaled else None

    def outputs(a: Any, scale: Any) -> Normalised:
        return normalise(a, sizes, [None if e is None else e.astype(a.dtype) for e in noise], a.dtype.type(0.3), scale)

    def weighted(a: Any, scale: Any) -> Any:
        done = outputs(a, scale)
        # Of the last group all outputs count, of the others z alone, as in a step; h of all.
        wanted = [*done.z, done.mu[-1], done.sigma[-1], *([] if done.h is None else [done.h])]
        return sum(jnp.sum(out * normal(*out.shape, seed=i)) for i, out in enumerate(wanted))

    def everything(kind: type) -> list[Any]:
        inputs = jax.tree.map(lambda x: jnp.asarray(x, kind), (a, scale))
        return jax.tree.leaves([outputs(*inputs), jax.grad(weighted, argnums=(0, 1))(*inputs)])

    ours = everything(np.float32)
    with jax.enable_x64(True):
        expected = everything(np.float64)
    for one, other in zip(ours, expected, strict=True):
        assert one.dtype == np.float32
        assert other.dtype == np.float64
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("copies", [1, 3])
@pytest.mark.parametrize("units", [(1,), (5, 16, 33), (130, 64)])
def test_how_far_reconstructions_are_off_and_its_derivatives(units: tuple[int, ...], copies: int) -> None:
    """Compared with NumPy, and with the same function in float64, for which there is no machine code."""
    layers = [
        (normal(7 * copies, n), normal(7, n, seed=1), (normal(n, seed=2), 1 + normal(n, seed=3) ** 2) if l else None)
        for l, n in enumerate(units)
    ]

    def everything(kind: type) -> list[Any]:
        inputs = jax.tree.map(lambda x: jnp.asarray(x, kind), layers)
        weights = jnp.arange(1, len(layers) + 1, dtype=kind)
        return jax.tree.leaves(
            [mean_squares(inputs), jax.grad(lambda given: jnp.dot(weights, mean_squares(given)))(inputs)]
        )

    ours = everything(np.float32)
    with jax.enable_x64(True):
        exact = everything(np.float64)
    for l, (z_hat, z, scale) in enumerate(layers):
        mu, sigma = scale or (0, 1)
        expected = np.mean(((z_hat.astype(np.float64) - mu) / sigma - np.tile(z, (copies, 1))) ** 2)
        np.testing.assert_allclose(ours[0][l], expected, rtol=1e-5)
    for one, other in zip(ours, exact, strict=True):
        assert (one.dtype, other.dtype) == (np.float32, np.float64)
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)


def test_a_constant_unit_is_normalised_to_zero() -> None:
    done = normalise(jnp.full((6, 3), 5.0), [6], [None], jnp.float32(0), None)
    np.testing.assert_array_equal(done.z[0], np.zeros((6, 3)))
    np.testing.assert_allclose(done.sigma[0], EPSILON**0.5)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_not_finite_is_handed_on(bad: float) -> None:
    a = normal(20, 40)
    a[3, 7] = bad
    done = normalise(a, [20], [None], jnp.float32(0), (np.ones(40, np.float32), np.zeros(40, np.float32)))
    assert done.h is not None
    assert not np.isfinite(done.z[0][:, 7]).any()
    assert not np.isfinite(done.h[3, 7])
    assert np.isfinite(np.delete(done.h, 7, axis=1)).all()


@pytest.mark.usefixtures("compiler")
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_product_hands_on_what_is_not_finite(bad: float) -> None:
    a = normal(20, 40)
    a[3, 7] = bad
    assert not np.isfinite(native.product(a, normal(40, 5))[3]).any()


# --- Where it is used -----------------------------------------------------------------------------------------


PROGRAM = """
import os, sys, zlib
os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: int(sys.argv[1])])
import jax, numpy as np
from laddernet import native
from laddernet.models import find
from laddernet.training import initial_state, run_epoch
from laddernet.noise import normal
sizes = (300, 200, 10)
state = initial_state(jax.random.key(0), 0.1, find(sys.argv[2]), sizes)
x = normal(jax.random.key(1), (300, 300))
y = np.arange(100) % 10
layers = len(sizes)
rows = (x[:100], y, x)
keys = tuple(jax.random.split(jax.random.key(2)))
rates = np.full(3, 0.002, np.float32)
noise = np.full(layers, 0.3, np.float32)
state, costs, finite = run_epoch(state, rows, keys, ((0, 0), (0, 0)), rates, noise, noise, np.float32(0.1), (100, 100))
assert finite
print(native.available(), *np.asarray(costs)[:, 0], zlib.crc32(b"".join(np.asarray(w) for w in jax.tree.leaves(state))))
"""


def trained(cores: int, model: str, **environment: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(cores), model], capture_output=True, text=True, env=os.environ | environment
    )
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    return done.stdout.split()


@pytest.fixture(scope="module")
def on_both_cores() -> list[str]:
    return trained(2, "vanilla")


@pytest.mark.usefixtures("compiler")
def test_one_core_and_two_give_the_same_bits(on_both_cores: list[str]) -> None:
    assert trained(1, "vanilla") == on_both_cores


@pytest.mark.usefixtures("compiler")
@pytest.mark.parametrize("environment", [{"LADDERNET_NATIVE": "0"}, {"CC": "no-such-compiler"}])
def test_without_a_compiler_it_is_the_same_but_for_rounding(
    on_both_cores: list[str], environment: dict[str, str]
) -> None:
    used, *costs, _ = on_both_cores
    without_used, *without_costs, _ = trained(2, "vanilla", **environment)
    assert (used, without_used) == ("True", "False")
    np.testing.assert_allclose(np.array(costs, float), np.array(without_costs, float), rtol=1e-4)


@pytest.fixture
def failing_compiler(tmp_path: Path) -> dict[str, str]:
    """The environment of a process that finds one, and no library in its cache."""
    compiler = tmp_path / "cc"
    compiler.write_text("#!/bin/sh\n[ \"$1\" = --version ] && exit 0\necho 'error: not today' >&2\nexit 1\n")
    compiler.chmod(0o755)
    return os.environ | {"CC": str(compiler), "LADDERNET_CACHE": str(tmp_path)}


def test_a_compiler_that_fails_is_told_of_and_done_without(failing_compiler: dict[str, str]) -> None:
    program = "from laddernet import native; print(native.available())"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=failing_compiler)
    assert done.stdout == "False\n"
    assert "error: not today" in done.stderr
    assert "slower" in done.stderr


SOURCE = '#include "native.h"\n'


def libraries(cache: Path) -> list[Path]:
    return sorted((cache / "native").iterdir())


def test_on_the_command_line_a_compiler_that_fails_is_one_sentence(
    tmp_path: Path, failing_compiler: dict[str, str]
) -> None:
    command = [
        sys.executable,
        "-m",
        "laddernet",
        "train",
        "--hidden",
        "200",
        "--epochs",
        "1",
        "--out",
        str(tmp_path / "run"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, env=failing_compiler)
    assert done.returncode == 0
    told = [line for line in done.stderr.splitlines() if "not today" in line]
    assert told == ["laddernet: Going on without machine code, which is slower: error: not today"]
    assert "native.py" not in done.stderr


@pytest.mark.usefixtures("compiler")
def test_it_is_compiled_once_a_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LADDERNET_CACHE", str(tmp_path))
    assert native.registered(SOURCE, {})
    (first,) = libraries(tmp_path)
    when = first.stat().st_mtime_ns
    assert native.registered(SOURCE, {})
    assert libraries(tmp_path) == [first]
    assert first.stat().st_mtime_ns == when
    assert native.registered(SOURCE + "\n", {})
    assert len(libraries(tmp_path)) == 2


@pytest.mark.usefixtures("compiler")
def test_a_damaged_library_is_made_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LADDERNET_CACHE", str(tmp_path))
    assert native.registered(SOURCE, {})
    (library,) = libraries(tmp_path)
    library.unlink()  # another file in its place: the one that is loaded stays as it is
    library.write_bytes(b"")
    assert native.registered(SOURCE, {})
    assert libraries(tmp_path)[0].stat().st_size > 1000


@pytest.mark.usefixtures("compiler")
def test_a_cache_that_cannot_be_written_to_is_done_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    in_the_way = tmp_path / "cache"
    in_the_way.write_text("not a folder")
    monkeypatch.setenv("LADDERNET_CACHE", str(in_the_way))
    assert native.registered(SOURCE, {})


@pytest.mark.usefixtures("compiler")
@pytest.mark.parametrize("compiler", ["cc -m64", "env cc"])
def test_a_compiler_may_have_arguments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compiler: str) -> None:
    monkeypatch.setenv("LADDERNET_CACHE", str(tmp_path))
    monkeypatch.setenv("CC", compiler)
    assert native.registered(SOURCE, {})


# --- What does not fit ----------------------------------------------------------------------------------------


@pytest.mark.usefixtures("compiler")
def test_arrays_that_do_not_fit_are_refused() -> None:
    step = Step(jnp.float32(1), jnp.float32(0.1), jnp.float32(0))
    learning = Learning(*(jnp.ones((7, 3)) for _ in range(3)), step)
    with pytest.raises(ValueError, match=r"\(4, 5\) and \(7, 3\) cannot be multiplied"):
        jnp.ones((4, 5)) @ learning
    with pytest.raises(ValueError, match="cannot have noise of shapes"):
        normalise(jnp.ones((4, 5)), [4], [jnp.ones((1, 5))], jnp.float32(1), None)
    with pytest.raises(ValueError, match=r"\(4, 5\) are not those of copies of rows of shape \(3, 5\)"):
        mean_squares([(jnp.ones((4, 5)), jnp.ones((3, 5)), None)])


def test_more_groups_than_the_machine_code_takes_are_normalised_all_the_same() -> None:
    a = normal(40, 3)
    done = normalise(a, [2] * 20, [None] * 20, jnp.float32(0), None)
    np.testing.assert_allclose(
        np.concatenate(done.z), np.tile([[1], [-1]], (20, 3)) * np.sign(a[::2] - a[1::2]).repeat(2, 0), atol=1e-4
    )


def test_noise_is_a_given_not_something_to_be_differentiated() -> None:
    a, e = normal(9, 5), normal(9, 5, seed=1)

    def cost(std: Any) -> Any:
        return jnp.sum(normalise(jnp.asarray(a, std.dtype), [9], [jnp.asarray(e, std.dtype)], std, None).z[0])

    assert jax.grad(cost)(jnp.float32(0.3)) == 0
    with jax.enable_x64(True):
        assert jax.grad(cost)(jnp.float64(0.3)) == 0


def test_the_mean_of_many_rows_far_from_zero_is_exact() -> None:
    a = 300 + normal(10_000, 4)
    done = normalise(a, [10_000], [None], jnp.float32(0), None)
    np.testing.assert_allclose(done.mu[0], a.astype(np.float64).mean(axis=0), rtol=2e-7)
    np.testing.assert_allclose(done.sigma[0], a.astype(np.float64).std(axis=0), rtol=1e-5)


def test_a_large_network_learns_in_double_precision_too() -> None:
    with jax.enable_x64(True):
        step = Step(jnp.float64(1), jnp.float64(0.1), jnp.float64(0))
        before = Learning(*(jnp.full((7, 3), x, jnp.float32) for x in (1, 0, 0)), step)
        after = jax.grad(lambda learning: jnp.sum(jnp.ones((4, 7)) @ learning))(before)
        assert {leaf.dtype.name for leaf in (after.w, after.m, after.v)} == {"float32"}
        np.testing.assert_allclose(after.w, 0.9, rtol=1e-5)

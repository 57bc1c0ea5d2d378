"""The machine code against NumPy in float64, and that it is used, and done without."""

import ctypes
import errno
import os
import subprocess
import sys
import threading
import uuid
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from laddernet.optimiser import BETA1, BETA2, Learning, Step
from laddernet.optimiser import EPSILON as ADAM_EPSILON

from laddernet import native
from laddernet.files import writing
from laddernet.kernels import Normalised, mean_squares, normalise
from laddernet.network import EPSILON

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


@pytest.mark.process
@pytest.mark.usefixtures("compiler")
def test_one_core_and_two_give_the_same_bits(on_both_cores: list[str]) -> None:
    assert trained(1, "vanilla") == on_both_cores


@pytest.mark.process
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


@pytest.mark.process
def test_a_compiler_that_fails_is_told_of_and_done_without(failing_compiler: dict[str, str]) -> None:
    program = "from laddernet import native; print(native.available())"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=failing_compiler)
    assert done.stdout == "False\n"
    assert "error: not today" in done.stderr
    assert "slower" in done.stderr


SOURCE = '#include "native.h"\n'


def libraries(cache: Path) -> list[Path]:
    return sorted((cache / "native").glob("*.so"))


@pytest.mark.process
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


@pytest.fixture
def cache(compiler: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty one."""
    folder = tmp_path / "cache"
    monkeypatch.setenv("LADDERNET_CACHE", str(folder))
    return folder


def test_it_is_compiled_once_a_machine(cache: Path) -> None:
    assert native._register(SOURCE, {})
    (first,) = libraries(cache)
    when = first.stat().st_mtime_ns
    assert native._register(SOURCE, {})
    assert libraries(cache) == [first]
    assert first.stat().st_mtime_ns == when
    assert native._register(SOURCE + "\n", {})
    assert len(libraries(cache)) == 2


def test_threads_that_begin_at_once_register_it_once(cache: Path) -> None:
    source = (native.FOLDER / "native.c").read_text(encoding="utf-8") + f"// {uuid.uuid4()}\n"
    name = f"laddernet_{uuid.uuid4().hex}"
    barrier = threading.Barrier(6)

    def register(_: int) -> bool:
        barrier.wait()
        return native.registered(source, {"product": name})

    with ThreadPoolExecutor(6) as pool:
        assert all(pool.map(register, range(6)))
    assert len(libraries(cache)) == 1
    result = jax.ffi.ffi_call(name, native.float32((1, 1)))(jnp.full((1, 1), 2.0), jnp.full((1, 1), 3.0))
    assert float(np.asarray(result)[0, 0]) == 6


AT_ONCE = """
import threading
from concurrent.futures import ThreadPoolExecutor
from laddernet import native
barrier = threading.Barrier(6)
def begin(_):
    barrier.wait()
    return native.available()
input()
with ThreadPoolExecutor(6) as pool:
    print(*pool.map(begin, range(6)))
"""


@pytest.mark.process
def test_processes_with_several_threads_that_begin_at_once_compile_it_once(cache: Path) -> None:
    command = [sys.executable, "-c", AT_ONCE]
    started = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    for process in started:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    for process in started:
        out, err = process.communicate(timeout=300)
        assert (out.split(), err) == (["True"] * 6, "")
    assert len(libraries(cache)) == 1


def flip(library: Path) -> None:
    code = bytearray(library.read_bytes())
    code[len(code) // 2] ^= 1
    library.write_bytes(code)


def in_the_way(library: Path) -> None:
    library.rename(library.parent / "other")
    library.symlink_to("other")


@pytest.mark.parametrize(
    "damage",
    [
        lambda library: library.write_bytes(b""),
        lambda library: library.write_bytes(library.read_bytes()[:4096]),
        flip,
        in_the_way,
        lambda library: library.chmod(0o666),
        pytest.param(
            lambda library: os.chown(library, 65534, -1),
            marks=pytest.mark.skipif(os.geteuid() != 0, reason="Only root can give a file away."),
        ),
    ],
    ids=["empty", "truncated", "flipped", "link", "writable", "owner"],
)
def test_a_library_that_is_damaged_or_not_ones_own_is_made_anew(
    cache: Path, damage: Callable[[Path], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert native._register(SOURCE, {})
    (library,) = libraries(cache)
    whole = library.read_bytes()
    damage(library)
    loaded: list[bytes] = []
    load = ctypes.CDLL
    monkeypatch.setattr(ctypes, "CDLL", lambda path: (loaded.append(Path(path).read_bytes()), load(path))[1])
    assert native._cached(cache / "native", library.stem[:32]) is None
    assert native._register(SOURCE, {})
    (code,) = loaded
    (anew,) = libraries(cache)
    assert anew.read_bytes() == code
    assert len(code) == len(whole)
    assert anew.lstat().st_mode & 0o777 == 0o644
    assert anew.lstat().st_uid == os.geteuid()


def test_the_folder_is_private(cache: Path) -> None:
    assert native._register(SOURCE, {})
    assert (cache / "native").stat().st_mode & 0o777 == 0o700
    (cache / "native").chmod(0o755)  # as before, when it was not
    assert native._register(SOURCE, {})
    assert (cache / "native").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("whose", ["another's", "anybody's", "a link"])
def test_nothing_is_loaded_from_a_folder_that_others_may_write_to(
    cache: Path, whose: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert native._register(SOURCE, {})
    (library,) = libraries(cache)
    if whose == "another's":
        user = os.geteuid()
        monkeypatch.setattr(os, "geteuid", lambda: user + 1)
    elif whose == "anybody's":
        (cache / "native").chmod(0o777)
    else:
        (cache / "native").rename(cache / "elsewhere")
        (cache / "native").symlink_to("elsewhere")
    monkeypatch.setattr(native, "_cached", None)  # what would read it
    when = library.stat().st_mtime_ns
    with pytest.warns(RuntimeWarning, match="it is not used as a cache; give LADDERNET_CACHE a folder of your own"):
        assert native._register(SOURCE, {})
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # once is enough
        assert native._register(SOURCE, {})
    assert libraries(cache) == [library]
    assert library.stat().st_mtime_ns == when


def test_a_cache_that_cannot_be_written_to_is_done_without(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache.write_text("not a folder")
    assert native._register(SOURCE, {})
    cache.unlink()

    def full(path: Path, data: bytes) -> None:
        with writing(path):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(native, "write_atomic", full)
    assert native._register(SOURCE, {})
    assert not libraries(cache)
    (cache / "native" / "lock").unlink()
    (cache / "native" / "lock").mkdir()  # cannot be locked
    assert native._register(SOURCE, {})


@pytest.mark.parametrize("command", ["cc -m64", "env cc"])
def test_a_compiler_may_have_arguments(cache: Path, monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    monkeypatch.setenv("CC", command)
    assert native._register(SOURCE, {})
    assert libraries(cache)


DEVICES = """
import jax, numpy as np
from laddernet import native
from laddernet.models import find
from laddernet.training import initial_state, run_epoch

first, second = jax.devices()
native._has_kernels = lambda device: device in having
sizes = (300, 200, 10)
rows = (np.ones((100, 300), np.float32), np.arange(100) % 10, np.eye(300, dtype=np.float32))
noise = np.full(3, 0.3, np.float32)
keys = tuple(jax.random.split(jax.random.key(2)))
rates = np.full(3, 0.002, np.float32)

def arguments(device):
    state = initial_state(jax.random.key(0), 0.1, find("vanilla"), sizes)
    placed = rows if device is None else jax.device_put(rows, device)
    return state, placed, keys, ((0, 0), (0, 0)), rates, noise, noise, np.float32(0.1), (100, 100)

def uses_kernels(device):
    return "laddernet_" in native.call(run_epoch.lower, *arguments(device)).as_text()

def bits(device):
    state, costs, finite = native.call(run_epoch, *arguments(device))
    assert finite
    assert costs.devices() == {device}
    return [np.asarray(leaf).tobytes() for leaf in jax.tree.leaves((state, costs))]

having = {first, second}
assert bits(first) == bits(second)
having = {first}  # as if the second were a GPU
jax.clear_caches()
assert [uses_kernels(device) for device in (None, first, second)] == [True, True, False]
with jax.default_device(second):
    assert [uses_kernels(device) for device in (None, first, second)] == [False, True, False]
a = np.ones((2, 2), np.float32)
assert [native.suits(jax.device_put(a, device)) for device in (first, second)] == [True, False]
"""


@pytest.mark.process
@pytest.mark.usefixtures("compiler")
def test_kernels_are_used_where_the_arrays_are() -> None:
    flags = "--xla_force_host_platform_device_count=2 --xla_backend_optimization_level=0"
    environment = os.environ | {"XLA_FLAGS": flags}
    done = subprocess.run([sys.executable, "-c", DEVICES], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr


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

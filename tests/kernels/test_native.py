"""Where native kernels are used, and what happens without them."""

import os
import platform
import subprocess
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from tools import need

from laddernet.errors import InputError
from laddernet.kernels import native
from laddernet.kernels.products import PRECISIONS


@pytest.mark.usefixtures("compiler")
def test_native_kernels_are_available_on_this_machine() -> None:
    assert native.available()


PROGRAM = """
import os, sys, zlib
os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: int(sys.argv[1])])
import jax, numpy as np
from laddernet.kernels import native
from laddernet.network.models import find
from laddernet.training.step import initial_state, run_steps
from laddernet.kernels.noise import normal
sizes = (300, 200, 10)
x = normal(jax.random.key(1), (300, 300))
y = np.arange(100) % 10
layers = len(sizes)
rows = (x[:100], y, x)
order = (np.tile(np.arange(100), (3, 1)), np.arange(300).reshape(3, 100))
rates = np.full(3, 0.002, np.float32)
noise = np.full(layers, 0.3, np.float32)
hyper = (noise, noise, np.float32(0.1))
for precision in sys.argv[2:]:
    state = initial_state(jax.random.key(0), 0.1, find("vanilla"), sizes)
    state, costs, finite = run_steps(state, rows, order, jax.random.key(2), rates, *hyper, 1, precision)
    assert finite
    weights = b"".join(np.asarray(w) for w in jax.tree.leaves(state))
    print(native.available(), *np.asarray(costs["cost"]), zlib.crc32(weights))
"""


@cache
def trained(cores: int, program: str = PROGRAM, **environment: str) -> dict[str, list[str]]:
    """Return what the program prints for each precision, in one process, since each takes seconds to start."""
    command = [sys.executable, "-c", program, str(cores), *PRECISIONS]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | environment)
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    return {precision: line.split() for precision, line in zip(PRECISIONS, done.stdout.splitlines(), strict=True)}


@pytest.fixture(scope="module", params=PRECISIONS)
def on_both_cores(request: pytest.FixtureRequest, compiler: None) -> tuple[str, list[str]]:
    return request.param, trained(2)[request.param]


@pytest.mark.process
def test_one_core_and_two_give_the_same_bits(on_both_cores: tuple[str, list[str]]) -> None:
    precision, both = on_both_cores
    assert trained(1)[precision] == both


def assert_nearly_the_same(on_both_cores: tuple[str, list[str]], native_too: bool, **environment: str) -> None:
    precision, (used, *costs, _) = on_both_cores
    other_used, *other_costs, _ = trained(2, **environment)[precision]
    assert (used, other_used) == ("True", str(native_too))
    # In bfloat16 a sum that differs in its last bit may be rounded to another number.
    tolerance = {"float32": 1e-4, "bfloat16": 1e-3}[precision]
    np.testing.assert_allclose(np.array(costs, float), np.array(other_costs, float), rtol=tolerance)


@pytest.mark.process
@pytest.mark.parametrize("environment", [{"LADDERNET_NATIVE": "0"}, {"CC": "no-such-compiler"}])
def test_without_a_compiler_it_is_the_same_but_for_rounding(
    on_both_cores: tuple[str, list[str]], environment: dict[str, str]
) -> None:
    assert_nearly_the_same(on_both_cores, native_too=False, **environment)


@pytest.mark.process
def test_clang_makes_the_same_kernels_but_for_rounding(on_both_cores: tuple[str, list[str]]) -> None:
    need("clang")
    assert_nearly_the_same(on_both_cores, native_too=True, CC="clang")


@pytest.mark.process
@pytest.mark.skipif(platform.machine() != "x86_64", reason="these options are those of x86-64")
@pytest.mark.parametrize(
    "without",
    ["-mno-amx-bf16", "-mno-amx-bf16 -mno-avx512bf16", "-mno-avx512f -mno-amx-bf16", "-mno-avx -mno-amx-bf16"],
)
def test_processors_with_fewer_units_compute_the_same_but_for_rounding(
    on_both_cores: tuple[str, list[str]], without: str
) -> None:
    assert_nearly_the_same(on_both_cores, native_too=True, CC=f"cc {without}")


# A sandbox in which a process cannot ask for the registers of matrix units: arch_prctl (158) with 0x1023 fails.
SANDBOX = """
import ctypes, struct
allow, refuse = (0x06, 0, 0, 0x7FFF0000), (0x06, 0, 0, 0x50001)
rules = [(0x20, 0, 0, 0), (0x15, 0, 3, 158), (0x20, 0, 0, 16), (0x15, 0, 1, 0x1023), refuse, allow]  # BPF
rules = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *rule) for rule in rules))
rules_of_filter = ctypes.create_string_buffer(struct.pack("HxxxxxxP", 6, ctypes.addressof(rules)))
system = ctypes.CDLL(None)
assert system.prctl(38, 1, 0, 0, 0) == 0  # PR_SET_NO_NEW_PRIVS
assert system.prctl(22, 2, rules_of_filter) == 0  # PR_SET_SECCOMP
assert system.syscall(158, 0x1023, 18) == -1
"""


@pytest.mark.process
@pytest.mark.skipif(sys.platform != "linux" or platform.machine() != "x86_64", reason="Linux on x86-64 has this call")
def test_matrix_units_that_the_system_refuses_are_not_used(on_both_cores: tuple[str, list[str]]) -> None:
    assert_nearly_the_same(on_both_cores, native_too=True, program=SANDBOX + PROGRAM)


@pytest.mark.process
def test_only_the_kernels_that_are_named_are_used(on_both_cores: tuple[str, list[str]]) -> None:
    assert_nearly_the_same(on_both_cores, native_too=True, LADDERNET_NATIVE="product,normalise")


def test_a_kernel_that_does_not_exist_is_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LADDERNET_NATIVE", "product,fast")
    names = "product, update, normalise, combinator"
    with pytest.raises(InputError, match=f"LADDERNET_NATIVE must be 0, 1 or some of {names}, got 'product,fast'"):
        native.enabled.__wrapped__()


@pytest.fixture
def failing_compiler(tmp_path: Path) -> dict[str, str]:
    """The environment of a process with a compiler that fails and an empty cache."""
    compiler = tmp_path / "cc"
    compiler.write_text("#!/bin/sh\n[ \"$1\" = --version ] && exit 0\necho 'error: not today' >&2\nexit 1\n")
    compiler.chmod(0o755)
    return os.environ | {"CC": str(compiler), "LADDERNET_CACHE": str(tmp_path)}


@pytest.mark.process
def test_a_compiler_that_fails_gives_a_warning_and_plain_functions_are_used(failing_compiler: dict[str, str]) -> None:
    program = "from laddernet.kernels import native; print(native.available())"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=failing_compiler)
    assert done.stdout == "False\n"
    assert "error: not today" in done.stderr
    assert "slower" in done.stderr


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
    lines = [line for line in done.stderr.splitlines() if "not today" in line]
    assert lines == ["laddernet: Going on without native kernels, which is slower: error: not today"]
    assert "native.py" not in done.stderr


DEVICES = """
import jax, numpy as np
from laddernet.kernels import native
from laddernet.network.models import find
from laddernet.training.step import initial_state, run_steps

first, second = jax.devices()
native._has_kernels = lambda device: device in having
sizes = (300, 200, 10)
rows = (np.ones((100, 300), np.float32), np.arange(100) % 10, np.eye(300, dtype=np.float32))
noise = np.full(3, 0.3, np.float32)
order = (np.tile(np.arange(100), (3, 1)), np.arange(300).reshape(3, 100))
rates = np.full(3, 0.002, np.float32)

def arguments(device):
    state = initial_state(jax.random.key(0), 0.1, find("vanilla"), sizes)
    placed = rows if device is None else jax.device_put(rows, device)
    return state, placed, order, jax.random.key(2), rates, noise, noise, np.float32(0.1)

def uses_kernels(device):
    return "laddernet_" in native.call(run_steps.lower, *arguments(device)).as_text()

def bits(device):
    state, costs, finite = native.call(run_steps, *arguments(device))
    assert finite
    assert costs.values.devices() == {device}
    return [np.asarray(leaf).tobytes() for leaf in jax.tree.leaves((state, costs))]

having = {first, second}
assert bits(first) == bits(second)
having = {first}  # as if the second were a GPU
jax.clear_caches()
assert [uses_kernels(device) for device in (None, first, second)] == [True, True, False]
with jax.default_device(second):
    assert [uses_kernels(device) for device in (None, first, second)] == [False, True, False]
a = np.ones((2, 2), np.float32)
assert [native.uses("product", jax.device_put(a, device)) for device in (first, second)] == [True, False]
"""


@pytest.mark.process
@pytest.mark.usefixtures("compiler")
def test_kernels_are_used_where_the_arrays_are() -> None:
    flags = "--xla_force_host_platform_device_count=2 --xla_backend_optimization_level=0"
    environment = os.environ | {"XLA_FLAGS": flags}
    done = subprocess.run([sys.executable, "-c", DEVICES], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr

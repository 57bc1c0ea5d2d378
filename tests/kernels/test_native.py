"""How native kernels are compiled, cached and chosen, and what happens without them."""

import ctypes
import errno
import os
import platform
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
from support import PATIENCE
from tools import need

from laddernet.errors import InputError
from laddernet.files import writing
from laddernet.kernels import native
from laddernet.kernels.products import PRECISIONS


@pytest.mark.usefixtures("compiler")
def test_native_kernels_are_available_on_this_machine() -> None:
    assert native.available()


# --- Where it is used -----------------------------------------------------------------------------------------


PROGRAM = """
import os, sys, zlib
os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: int(sys.argv[1])])
import jax, numpy as np
from laddernet.kernels import native
from laddernet.network.models import find
from laddernet.training.step import initial_state, run_steps
from laddernet.kernels.noise import normal
sizes = (300, 200, 10)
state = initial_state(jax.random.key(0), 0.1, find(sys.argv[2]), sizes)
x = normal(jax.random.key(1), (300, 300))
y = np.arange(100) % 10
layers = len(sizes)
rows = (x[:100], y, x)
order = (np.tile(np.arange(100), (3, 1)), np.arange(300).reshape(3, 100))
rates = np.full(3, 0.002, np.float32)
noise = np.full(layers, 0.3, np.float32)
hyper = (noise, noise, np.float32(0.1))
state, costs, finite = run_steps(state, rows, order, jax.random.key(2), rates, *hyper, 1, sys.argv[3])
assert finite
weights = b"".join(np.asarray(w) for w in jax.tree.leaves(state))
print(native.available(), *np.asarray(costs["cost"]), zlib.crc32(weights))
"""


def trained(cores: int, model: str, precision: str, program: str = PROGRAM, **environment: str) -> list[str]:
    command = [sys.executable, "-c", program, str(cores), model, precision]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | environment)
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    return done.stdout.split()


@pytest.fixture(scope="module", params=PRECISIONS)
def on_both_cores(request: pytest.FixtureRequest, compiler: None) -> tuple[str, list[str]]:
    return request.param, trained(2, "vanilla", request.param)


@pytest.mark.process
def test_one_core_and_two_give_the_same_bits(on_both_cores: tuple[str, list[str]]) -> None:
    precision, both = on_both_cores
    assert trained(1, "vanilla", precision) == both


def assert_nearly_the_same(on_both_cores: tuple[str, list[str]], native_too: bool, **environment: str) -> None:
    precision, (used, *costs, _) = on_both_cores
    other_used, *other_costs, _ = trained(2, "vanilla", precision, **environment)
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
    lines = [line for line in done.stderr.splitlines() if "not today" in line]
    assert lines == ["laddernet: Going on without native kernels, which is slower: error: not today"]
    assert "native.py" not in done.stderr


@pytest.fixture
def cache(compiler: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache."""
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
    result = jax.ffi.ffi_call(name, native.float32((1, 1)))(
        jnp.full((1, 1), 2.0), jnp.full((1, 1), 3.0), pairs=np.int32(0)
    )
    assert float(np.asarray(result)[0, 0]) == 6


AT_ONCE = """
import threading
from concurrent.futures import ThreadPoolExecutor
from laddernet.kernels import native
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
        out, err = process.communicate(timeout=PATIENCE)
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
def test_a_library_that_is_damaged_or_not_owned_by_the_user_is_compiled_again(
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
    (cache / "native").chmod(0o755)  # as an earlier version made it
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
    with pytest.warns(RuntimeWarning, match="it is not used as a cache; set LADDERNET_CACHE to a folder of your own"):
        assert native._register(SOURCE, {})
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # once is enough
        assert native._register(SOURCE, {})
    assert libraries(cache) == [library]
    assert library.stat().st_mtime_ns == when


def test_without_a_writable_cache_kernels_are_compiled_each_time(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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

"""Machine code for the hot part of a training step, compiled from native.c for the processor at hand.

XLA's own operations suffice for all of laddernet; where there is a C compiler, these are used instead, because they do
in one pass over memory what XLA does in several (docs/performance.md). The library is made when it is first wanted and
kept in the cache, under a name that says what it was made of. ``LADDERNET_NATIVE=0`` does without it.
"""

import ctypes
import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from laddernet.errors import InputError
from laddernet.files import cache_folder, write_atomic

Matrix = Float[Array, "rows columns"]

_FOLDER = Path(__file__).parent
_FUNCTIONS = ("product", "product_transposed", "update")
_OPTIONS = ("-std=gnu11", "-O3", "-march=native", "-fno-math-errno", "-shared", "-fPIC")


@cache
def available() -> bool:
    """Whether machine code can be made and used in this process; makes native.c's if it is the first on this machine."""
    if os.environ.get("LADDERNET_NATIVE") == "0" or jax.default_backend() != "cpu":
        return False
    return registered((_FOLDER / "native.c").read_text(), {name: f"laddernet_{name}" for name in _FUNCTIONS})


def suits(*arrays: Array) -> bool:
    """Whether these arrays can be handed over: there is a library, and it knows float32 alone."""
    return all(array.dtype == jnp.float32 for array in arrays) and available()


def registered(source: str, names: Mapping[str, str]) -> bool:
    """Compile C code and make its functions known to XLA under these names; False if there is no way to."""
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if compiler is None:
        return False
    try:
        library = ctypes.CDLL(str(_built(compiler, source)))
    except (OSError, InputError, subprocess.SubprocessError):
        return False
    for function, name in names.items():
        jax.ffi.register_ffi_target(name, jax.ffi.pycapsule(getattr(library, function)), platform="cpu")
    return True


def _built(compiler: str, source: str) -> Path:
    """The library, compiled unless the cache has it for this source, compiler, interface and processor."""
    interface = Path(jax.ffi.include_dir())
    version = subprocess.run([compiler, "--version"], capture_output=True, check=True).stdout
    headers = [_FOLDER / "native.h", interface / "xla" / "ffi" / "api" / "c_api.h"]
    made_of = [source.encode(), *(h.read_bytes() for h in headers), version, *map(str.encode, (*_OPTIONS, _processor()))]
    path = cache_folder() / "native" / f"{hashlib.sha256(bytes(1).join(made_of)).hexdigest()[:32]}.so"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory() as folder:
            fresh = Path(folder) / "native.so"
            command = [compiler, *_OPTIONS, f"-I{interface}", f"-I{_FOLDER}", "-x", "c", "-", "-o", str(fresh), "-lm"]
            subprocess.run(command, input=source.encode(), capture_output=True, check=True)
            write_atomic(path, fresh.read_bytes())
    return path


def _processor() -> str:
    """What the processor can do: a cache may be shared by machines that differ."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    told = [line for line in lines if line.startswith(("flags", "Features", "vendor_id", "cpu family", "model"))]
    return "\n".join(dict.fromkeys(told)) or f"{platform.machine()} {platform.processor()}"


def product(a: Matrix, b: Matrix) -> Matrix:
    """a b."""
    return _call("product", (a.shape[0], b.shape[1]))(a, b)


def product_transposed(a: Matrix, b: Matrix) -> Matrix:
    """a bᵀ."""
    return _call("product_transposed", (a.shape[0], b.shape[0]))(a, b)


def update(
    w: Matrix, m: Matrix, v: Matrix, inputs: Matrix, errors: Matrix, adam: Float[Array, "7"], after: Matrix | None
) -> tuple[Matrix, Matrix, Matrix]:
    """A step of Adam for weights whose gradient is inputsᵀ errors: the weights and their two moments, in their places.

    ``adam`` holds rate, decay, β₁, β₂, 1 / (1 − β₁ᵗ), 1 / (1 − β₂ᵗ) and ε. What still reads the weights goes before:
    ``after`` is its result, and not looked at; without it, XLA would save a copy of them.
    """
    result = [jax.ShapeDtypeStruct(w.shape, jnp.float32)] * 3
    call = jax.ffi.ffi_call(
        "laddernet_update", result, input_output_aliases={0: 0, 1: 1, 2: 2}, vmap_method="sequential"
    )
    new_w, new_m, new_v = call(w, m, v, inputs, errors, adam, *([] if after is None else [after]))
    return new_w, new_m, new_v


def _call(function: str, shape: tuple[int, ...]) -> "jax.ffi.Callable":
    result = jax.ShapeDtypeStruct(shape, jnp.float32)
    return jax.ffi.ffi_call(f"laddernet_{function}", result, vmap_method="sequential")

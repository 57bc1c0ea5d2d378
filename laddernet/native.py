"""Machine code for the hot part of a training step, compiled from native.c for the processor at hand.

XLA's own operations suffice for all of laddernet; where there is a C compiler, these are used instead, because they do
in one pass over memory what XLA does in several (docs/performance.md). The library is made when it is first wanted and
kept in the cache, under a name that says what it was made of. ``LADDERNET_NATIVE=0`` does without it.
"""

import ctypes
import hashlib
import os
import platform
import shlex
import shutil
import subprocess
import tempfile
import warnings
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from laddernet.errors import InputError
from laddernet.files import cache_folder, write_atomic

Matrix = Float[Array, "rows columns"]
Vector = Float[Array, " columns"]
Compared = tuple[Matrix, Matrix, tuple[Vector, Vector] | None]  # ẑ, z, and μ with σ, of a layer

FOLDER = Path(__file__).parent
MOST_GROUPS = 8  # as in native.c
_PATIENCE = 60  # seconds for a compiler
_FUNCTIONS = (
    "product",
    "product_transposed",
    "update",
    "normalise",
    "normalise_gradient",
    "mean_squares",
    "mean_squares_gradient",
)
_OPTIONS = ("-std=gnu11", "-O3", "-march=native", "-fno-math-errno", "-shared", "-fPIC")


@cache
def available() -> bool:
    """Whether machine code can be used in this process; makes that of native.c if it is the first on this machine."""
    # On Windows GCC does not align what it keeps on the stack as vectors want it.
    if os.environ.get("LADDERNET_NATIVE") == "0" or os.name == "nt" or jax.default_backend() != "cpu":
        return False
    source = (FOLDER / "native.c").read_text(encoding="utf-8")
    return registered(source, {name: f"laddernet_{name}" for name in _FUNCTIONS})


def suits(*arrays: Array) -> bool:
    """Whether these arrays can be handed over: there is a library, and it knows float32 alone."""
    return all(array.dtype == jnp.float32 for array in arrays) and available()


def registered(source: str, names: Mapping[str, str]) -> bool:
    """Compile C code and make its functions known to XLA under these names; False if there is no way to."""
    command = shlex.split(os.environ.get("CC", "cc"))
    if not command or shutil.which(command[0]) is None:
        return False
    try:
        library = _library(command, source)
    except (OSError, subprocess.SubprocessError) as error:
        told = getattr(error, "stderr", None) or str(error).encode()
        first = next((line for line in told.decode(errors="replace").splitlines() if "error" in line), str(error))
        warnings.warn(f"Going on without machine code, which is slower: {first}", RuntimeWarning, stacklevel=2)
        return False
    for function, name in names.items():
        capsule = jax.ffi.pycapsule(getattr(library, function))  # type: ignore[no-untyped-call]
        jax.ffi.register_ffi_target(name, capsule, platform="cpu")
    return True


def _library(compiler: Sequence[str], source: str) -> ctypes.CDLL:
    """The library, compiled unless the cache has it for this source, compiler, interface and processor."""
    interface = Path(jax.ffi.include_dir())
    version = subprocess.run([*compiler, "--version"], capture_output=True, check=True, timeout=_PATIENCE).stdout
    headers = [FOLDER / "native.h", interface / "xla" / "ffi" / "api" / "c_api.h"]
    options = [*compiler, *_OPTIONS, _processor()]
    made_of = [source.encode(), *(h.read_bytes() for h in headers), version, *map(str.encode, options)]
    path = cache_folder() / "native" / f"{hashlib.sha256(bytes(1).join(made_of)).hexdigest()[:32]}.so"
    if path.exists():
        with suppress(OSError):  # a file that is damaged is made anew
            return ctypes.CDLL(str(path))
    with tempfile.TemporaryDirectory() as folder:
        fresh = Path(folder) / "native.so"
        command = [*compiler, *_OPTIONS, f"-I{interface}", f"-I{FOLDER}", "-x", "c", "-", "-o", str(fresh), "-lm"]
        subprocess.run(command, input=source.encode(), capture_output=True, check=True, timeout=_PATIENCE)
        library = ctypes.CDLL(str(fresh))
        with suppress(OSError, InputError):  # a cache that cannot be written to costs the time to compile, no more
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomic(path, fresh.read_bytes())
        return library


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
    if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[0]:
        raise ValueError(f"Arrays of shapes {a.shape} and {b.shape} cannot be multiplied.")
    (c,) = _call("product", [(a.shape[0], b.shape[1])], a, b)
    return c


def product_transposed(a: Matrix, b: Matrix) -> Matrix:
    """a bᵀ."""
    (c,) = _call("product_transposed", [(a.shape[0], b.shape[0])], a, b)
    return c


def update(
    w: Matrix, m: Matrix, v: Matrix, inputs: Matrix, errors: Matrix, adam: Float[Array, "7"], after: Matrix | None
) -> tuple[Matrix, Matrix, Matrix]:
    """A step of Adam for weights whose gradient is inputsᵀ errors: the weights and their two moments, in their places.

    ``adam`` holds rate, decay, β₁, β₂, 1 / (1 − β₁ᵗ), 1 / (1 − β₂ᵗ) and ε. What still reads the weights goes before:
    ``after`` is its result, and not looked at; without it, XLA would save a copy of them.
    """
    arguments = [w, m, v, inputs, errors, adam, *([] if after is None else [after])]
    new_w, new_m, new_v = _call("update", [w.shape] * 3, *arguments, aliases={0: 0, 1: 1, 2: 2})
    return new_w, new_m, new_v


def normalise(
    a: Matrix,
    sizes: Sequence[int],
    noise: Sequence[Matrix | None],
    noise_std: Float[Array, ""],
    epsilon: float,
    scale: tuple[Vector, Vector] | None,
) -> tuple[Matrix | None, list[Matrix], list[Vector], list[Vector]]:
    """h, and of each group of rows z, μ and σ: see :func:`laddernet.kernels.normalise`."""
    n = a.shape[1]
    expected = [(size, n) for size in sizes]
    if sum(sizes) != len(a) or any(e is not None and e.shape != s for e, s in zip(noise, expected, strict=True)):
        drawn = [None if e is None else e.shape for e in noise]
        raise ValueError(f"Rows of shape {a.shape} in groups of {list(sizes)} cannot have noise of shapes {drawn}.")
    shapes: list[tuple[int, ...]] = [(len(a), n) if scale else (0, n)]
    for size in sizes:
        shapes += [(size, n), (n,), (n,)]
    gamma, beta = scale or (None, None)
    arrays = [a, *_given((gamma, beta), (0,)), noise_std, jnp.float32(epsilon), *_given(noise, (0, n))]
    h, *groups = _call("normalise", shapes, *arrays)
    return (h if scale else None), groups[::3], groups[1::3], groups[2::3]


def normalise_gradient(
    scale: tuple[Vector, Vector] | None,
    noise_std: Float[Array, ""],
    d_h: Matrix | None,
    groups: Sequence[tuple[Matrix, Vector, Matrix | None, Matrix | None, Vector | None, Vector | None]],
) -> tuple[Matrix, tuple[Vector, Vector] | None]:
    """The derivatives of the cost with respect to a, γ and β, of those with respect to what `normalise` returned.

    A group has z, σ, its noise, and the derivatives with respect to z, μ and σ.
    """
    n = groups[0][0].shape[1]
    gamma, beta = (None, None) if d_h is None or scale is None else scale
    arrays = [*_given((gamma, beta), (0,)), noise_std, *_given([d_h], (0, n))]
    for z, sigma, noise, d_z, d_mu, d_sigma in groups:
        arrays += [z, sigma, *_given((noise, d_z), (0, n)), *_given((d_mu, d_sigma), (0,))]
    scale_shape = (0,) if d_h is None else (n,)
    d_a, d_gamma, d_beta = _call(
        "normalise_gradient", [(sum(len(z) for z, *_ in groups), n), scale_shape, scale_shape], *arrays
    )
    return d_a, (None if d_h is None else (d_gamma, d_beta))


def mean_squares(layers: Sequence[Compared]) -> Float[Array, " layers"]:
    """Of each layer the mean square of (ẑ − μ) / σ − z: see :func:`laddernet.kernels.mean_squares`."""
    for z_hat, z, *_ in layers:
        if z_hat.shape[1] != z.shape[1] or len(z_hat) % len(z) != 0:
            raise ValueError(f"Rows of shape {z_hat.shape} are not those of copies of rows of shape {z.shape}.")
    (means,) = _call("mean_squares", [(len(layers),)], *_compared(layers))
    return means


def mean_squares_gradient(layers: Sequence[Compared], d: Float[Array, " layers"]) -> list[Any]:
    """The derivatives of the cost with respect to each layer's ẑ, z, μ and σ; to ẑ alone where there is no μ and σ."""
    shapes: list[tuple[int, ...]] = []
    for z_hat, z, scale in layers:
        n = z.shape[1]
        shapes += [z_hat.shape, *([(0, n), (0,), (0,)] if scale is None else [z.shape, (n,), (n,)])]
    derivatives = iter(_call("mean_squares_gradient", shapes, *_compared(layers), d))
    by_layer = zip(layers, *[derivatives] * 4, strict=True)
    return [
        (d_z_hat, None, None) if scale is None else (d_z_hat, d_z, (d_mu, d_sigma))
        for (_, _, scale), d_z_hat, d_z, d_mu, d_sigma in by_layer
    ]


def _compared(layers: Sequence[Compared]) -> list[Array]:
    return [array for z_hat, z, scale in layers for array in (z_hat, z, *_given(scale or (None, None), (0,)))]


def float32(shape: tuple[int, ...]) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, jnp.float32)  # type: ignore[no-untyped-call]


def _given(arrays: Iterable[Array | None], none: tuple[int, ...]) -> list[Array]:
    """The same with arrays that have no elements for those that are None."""
    return [jnp.zeros(none, jnp.float32) if array is None else array for array in arrays]


def _call(
    function: str, shapes: Sequence[tuple[int, ...]], *arrays: Array, aliases: dict[int, int] | None = None
) -> Sequence[Array]:
    results = [float32(shape) for shape in shapes]
    call = jax.ffi.ffi_call(f"laddernet_{function}", results, input_output_aliases=aliases, vmap_method="sequential")
    return call(*(jnp.asarray(array, jnp.float32) for array in arrays))

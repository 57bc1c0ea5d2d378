"""Machine code for the hot part of a training step, compiled from native.c for the processor at hand.

XLA's own operations suffice for all of laddernet; where there is a C compiler, these are used instead, because they do
in one pass over memory what XLA does in several (docs/performance.md). The library is compiled at its first use and
kept in the cache; its name says what it was made from, and its checksum. ``LADDERNET_NATIVE=0`` does without it.
"""

import ctypes
import hashlib
import os
import platform
import shlex
import shutil
import stat
import subprocess
import tempfile
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
from filelock import FileLock
from jaxtyping import Array, Float

from laddernet.errors import InputError
from laddernet.files import private_cache_folder, write_atomic

Matrix = Float[Array, "rows columns"]
Vector = Float[Array, " columns"]
Result = TypeVar("Result")
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
    """Return whether the native kernels can be used in this process; compile native.c unless the cache has it."""
    # On Windows GCC does not align vectors on the stack.
    if os.environ.get("LADDERNET_NATIVE") == "0" or os.name == "nt":
        return False
    source = (FOLDER / "native.c").read_text(encoding="utf-8")
    return registered(source, {name: f"laddernet_{name}" for name in _FUNCTIONS})


def suits(*arrays: Array) -> bool:
    """Return whether the native kernels can take these arrays: float32, on a CPU, and there is a library."""
    return all(array.dtype == jnp.float32 for array in arrays) and _has_kernels(device_of(*arrays)) and available()


def device_of(*arrays: Any) -> jax.Device:
    """Return the device that JAX computes on with these arguments.

    It is that of the committed arrays, else the default. An array that is being traced has no device: the program that
    is traced must be started by :func:`call`.
    """
    for array in arrays:
        if isinstance(array, jax.Array) and not isinstance(array, jax.core.Tracer) and array.committed:
            return next(iter(array.devices()))
    default = jax.config.jax_default_device  # type: ignore[attr-defined]
    return default if isinstance(default, jax.Device) else jax.local_devices(backend=default)[0]


def call(program: Callable[..., Result], *arguments: Any) -> Result:
    """Call a compiled function with the device of its arguments as the default device.

    While a program is traced, `suits` can only ask for the default device. Here it is the device that the program will
    run on, even if the arrays were committed to another one. JAX traces anew for another default device.
    """
    with jax.default_device(device_of(*jax.tree.leaves(arguments))):
        return program(*arguments)


def _has_kernels(device: jax.Device) -> bool:
    platform: str = device.platform
    return platform == "cpu"


# --- From C to functions that XLA can call ----------------------------------------------------------------------------

# Networks are trained in several threads. XLA refuses a function that is registered twice.
_registering = threading.Lock()
_registered: dict[str, bool] = {}  # by source


def registered(source: str, names: Mapping[str, str]) -> bool:
    """Compile C code and register its functions with XLA under these names, once; return False if that cannot be."""
    with _registering:
        if source not in _registered:
            _registered[source] = _register(source, names)
        return _registered[source]


def _register(source: str, names: Mapping[str, str]) -> bool:
    compiler = shlex.split(os.environ.get("CC", "cc"))
    if not compiler or shutil.which(compiler[0]) is None:
        return False
    try:
        library = _library(compiler, source)
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
    """Load the library of this source, compiled unless the cache has it for this compiler, interface and processor."""
    interface = Path(jax.ffi.include_dir())
    version = subprocess.run([*compiler, "--version"], capture_output=True, check=True, timeout=_PATIENCE).stdout
    headers = [FOLDER / "native.h", interface / "xla" / "ffi" / "api" / "c_api.h"]
    options = [*compiler, *_OPTIONS, _processor()]
    made_of = [source.encode(), *(h.read_bytes() for h in headers), version, *map(str.encode, options)]
    key = hashlib.sha256(bytes(1).join(made_of)).hexdigest()[:32]
    cache = private_cache_folder("native")
    # What is loaded is a copy of the bytes that were checked: no other process can change it in between.
    with tempfile.TemporaryDirectory() as folder, _locked(cache):
        path = Path(folder) / "native.so"
        cached = None if cache is None else _cached(cache, key)
        if cached is not None:
            with suppress(OSError):  # compiled where there are other libraries, for a home that machines share
                path.write_bytes(cached)
                return ctypes.CDLL(str(path))
        command = [*compiler, *_OPTIONS, f"-I{interface}", f"-I{FOLDER}", "-x", "c", "-", "-o", str(path), "-lm"]
        subprocess.run(command, input=source.encode(), capture_output=True, check=True, timeout=_PATIENCE)
        library = ctypes.CDLL(str(path))
        if cache is not None:
            code = path.read_bytes()
            with suppress(InputError):  # a cache without space costs the time to compile, no more
                write_atomic(cache / f"{key}-{hashlib.sha256(code).hexdigest()}.so", code)
        return library


@contextmanager
def _locked(cache: Path | None) -> Iterator[None]:
    """Let one process at a time compile. Without the lock two would compile the same: it spares time, no more."""
    lock = None if cache is None else FileLock(cache / "lock", timeout=2 * _PATIENCE)
    try:
        if lock is not None:
            lock.acquire()
    except (OSError, NotImplementedError):  # held for too long, or the folder cannot be written to
        lock = None
    try:
        yield
    finally:
        if lock is not None:
            lock.release()


def _cached(cache: Path, key: str) -> bytes | None:
    """Return the library of this key if it is there, whole and this user's own; delete any other in its place.

    The checksum is part of the file's name, so both are there or neither is.
    """
    for path in cache.glob(f"{key}-*.so"):
        with suppress(OSError):
            # Opened once: owner, mode and content are those of the same file.
            with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
                about = os.fstat(file.fileno())
                own = stat.S_ISREG(about.st_mode) and about.st_uid == os.geteuid() and not about.st_mode & 0o022
                code = file.read() if own else b""
            if own and hashlib.sha256(code).hexdigest() == path.stem.removeprefix(f"{key}-"):
                return code
        with suppress(OSError):
            path.unlink()
    return None


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

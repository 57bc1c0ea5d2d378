"""Native kernels: where they replace plain JAX functions, and how C is compiled to functions that XLA can call.

Every native kernel replaces a plain function made of XLA's own operations. It takes one pass over memory where XLA
takes several (results/performance.md). The library is compiled at its first use and kept in the cache; its file name is
a hash of its sources and its checksum.

``LADDERNET_NATIVE`` is the switch: ``0`` for no native kernels, or the names of those to use: ``product,update``.
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
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import cache, wraps
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import jax
import jax.numpy as jnp
from jaxtyping import Array

from laddernet.errors import InputError
from laddernet.files import locked, private_cache_folder, write_atomic
from laddernet.machine import processor_lines

Shape = tuple[int, ...]
Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
Function = Callable[Arguments, Result]

FOLDER = Path(__file__).parent
KERNELS = ("product", "update", "normalise", "combinator")
_PATIENCE = 600  # seconds for a compiler: it may be slow on a busy machine
_FUNCTIONS = ("product", "product_transposed", "update", "normalise", "normalise_gradient")
_OPTIONS = ("-std=gnu11", "-O3", "-march=native", "-fno-math-errno", "-shared", "-fPIC")


def replaced_by(
    kernel: str, fast: Callable[Arguments, Result | None]
) -> Callable[[Function[Arguments, Result]], Function[Arguments, Result]]:
    """Decorate a plain JAX function with the native kernel that computes the same.

    Parameters
    ----------
    kernel
        Its name in ``KERNELS``.
    fast
        Calls the native kernel. It takes the same arguments, and returns None for those that the kernel cannot take.

    Returns
    -------
    Callable
        A decorator. The decorated function calls ``fast`` where :func:`uses` allows it, otherwise the plain function,
        which is its attribute ``__wrapped__``.
    """

    def decorate(plain: Function[Arguments, Result]) -> Function[Arguments, Result]:
        @wraps(plain)
        def choose(*arguments: Arguments.args, **named: Arguments.kwargs) -> Result:
            arrays = [leaf for leaf in jax.tree.leaves((arguments, named)) if hasattr(leaf, "dtype")]
            result = fast(*arguments, **named) if uses(kernel, *arrays) else None
            return plain(*arguments, **named) if result is None else result

        return choose

    return decorate


def uses(kernel: str, *arrays: Array) -> bool:
    """Return whether the native kernel of this name is used: it is available, and the arrays are float32 on a CPU."""
    return (
        kernel in enabled()
        and all(array.dtype == jnp.float32 for array in arrays)
        and _has_kernels(device_of(*arrays))
        and available()
    )


def in_use() -> bool:
    """Return whether programs on the default device use native kernels."""
    return any(uses(kernel) for kernel in KERNELS)


@cache
def enabled() -> frozenset[str]:
    """Return the names of the kernels that the environment allows."""
    asked = os.environ.get("LADDERNET_NATIVE", "1").strip()
    if asked in ("0", "1", ""):
        return frozenset(() if asked == "0" or os.name == "nt" else KERNELS)  # on Windows GCC misaligns vectors
    names = frozenset(name.strip() for name in asked.split(","))
    if names - set(KERNELS):
        raise InputError(f"LADDERNET_NATIVE must be 0, 1 or some of {', '.join(KERNELS)}, got {asked!r}.")
    return names


@cache
def available() -> bool:
    """Return whether the library of native.c can be used; compile it unless the cache has it."""
    if not enabled():
        return False
    source = (FOLDER / "native.c").read_text(encoding="utf-8")
    return registered(source, {name: f"laddernet_{name}" for name in _FUNCTIONS})


def device_of(*arrays: Any) -> jax.Device:
    """Return the device that JAX computes on with these arguments.

    It is the device of the committed arrays, else the default device. A traced array has no device: its program must be
    started by :func:`call`.
    """
    for array in arrays:
        if isinstance(array, jax.Array) and not isinstance(array, jax.core.Tracer) and array.committed:
            return next(iter(array.devices()))
    default = jax.config.jax_default_device  # type: ignore[attr-defined]
    return default if isinstance(default, jax.Device) else jax.local_devices(backend=default)[0]


def call(program: Callable[..., Result], *arguments: Any) -> Result:
    """Call a compiled function with the device of its arguments as the default device.

    While a program is traced, :func:`uses` has only the default device. Here it is the device that the program will run
    on, even if the arrays were committed to another one. JAX traces again for another default device.
    """
    with jax.default_device(device_of(*jax.tree.leaves(arguments))):
        return program(*arguments)


def _has_kernels(device: jax.Device) -> bool:
    platform: str = device.platform
    return platform == "cpu"


# --- From C to functions that XLA can call ----------------------------------------------------------------------------

# Networks may be trained in several threads, and XLA refuses a function that is registered twice.
_registering = threading.Lock()
_registered: dict[str, bool] = {}  # by source


def registered(source: str, names: Mapping[str, str]) -> bool:
    """Compile C code and register its functions with XLA under these names, once; return False if that fails."""
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
        output = getattr(error, "stderr", None) or str(error).encode()
        first = next((line for line in output.decode(errors="replace").splitlines() if "error" in line), str(error))
        warnings.warn(f"Going on without native kernels, which is slower: {first}", RuntimeWarning, stacklevel=2)
        return False
    for function, name in names.items():
        capsule = jax.ffi.pycapsule(getattr(library, function))  # type: ignore[no-untyped-call]
        jax.ffi.register_ffi_target(name, capsule, platform="cpu")
    return True


def _library(compiler: Sequence[str], source: str) -> ctypes.CDLL:
    """Load the library of this source; compile it if the cache has none for this compiler, interface and processor."""
    interface = Path(jax.ffi.include_dir())
    version = subprocess.run([*compiler, "--version"], capture_output=True, check=True, timeout=_PATIENCE).stdout
    headers = [FOLDER / "native.h", interface / "xla" / "ffi" / "api" / "c_api.h"]
    options = [*compiler, *_OPTIONS, _processor()]
    made_of = [source.encode(), *(h.read_bytes() for h in headers), version, *map(str.encode, options)]
    key = hashlib.sha256(bytes(1).join(made_of)).hexdigest()[:32]
    cache = private_cache_folder("native")
    # The library is loaded from a copy of the bytes that were checked, which no other process can change in between.
    with tempfile.TemporaryDirectory() as folder, ExitStack() as lock:
        if cache is not None:  # one process compiles at a time, so that two do not compile the same
            with suppress(InputError, NotImplementedError):  # held for too long, or the folder is read-only
                lock.enter_context(locked(cache / "lock", busy="Another process compiles.", timeout=2 * _PATIENCE))
        path = Path(folder) / "native.so"
        cached = None if cache is None else _cached(cache, key)
        if cached is not None:
            with suppress(OSError):  # compiled on a machine with other libraries, which shares this home
                path.write_bytes(cached)
                return ctypes.CDLL(str(path))
        command = [*compiler, *_OPTIONS, f"-I{interface}", f"-I{FOLDER}", "-x", "c", "-", "-o", str(path), "-lm"]
        subprocess.run(command, input=source.encode(), capture_output=True, check=True, timeout=_PATIENCE)
        library = ctypes.CDLL(str(path))
        if cache is not None:
            code = path.read_bytes()
            with suppress(InputError):  # with a full cache, the next process compiles again
                write_atomic(cache / f"{key}-{hashlib.sha256(code).hexdigest()}.so", code)
        return library


def _cached(cache: Path, key: str) -> bytes | None:
    """Return the library of this key if it is whole and owned by this user; delete it otherwise.

    The checksum is part of the file name, so there is no library without one.
    """
    for path in cache.glob(f"{key}-*.so"):
        with suppress(OSError):
            # Opened once, so that owner, mode and content are those of the same file.
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
    """Return a description of the processor's abilities: machines that differ may share a cache."""
    relevant = [
        line for line in processor_lines() if line.startswith(("flags", "Features", "vendor_id", "cpu family", "model"))
    ]
    return "\n".join(dict.fromkeys(relevant)) or f"{platform.machine()} {platform.processor()}"


# --- Calls ------------------------------------------------------------------------------------------------------------


def kernel(
    function: str, shapes: Sequence[Shape], *arrays: Array, aliases: dict[int, int] | None = None, **attributes: Any
) -> Sequence[Array]:
    """Call a function of native.c with arrays of float32, for results of these shapes."""
    results = [float32(shape) for shape in shapes]
    call = jax.ffi.ffi_call(f"laddernet_{function}", results, input_output_aliases=aliases, vmap_method="sequential")
    return call(*(jnp.asarray(array, jnp.float32) for array in arrays), **attributes)


def float32(shape: Shape) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, jnp.float32)  # type: ignore[no-untyped-call]

"""Compiled programs: the cache that keeps them, and waiting for one of them."""

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import jax
from jax.experimental.compilation_cache import compilation_cache

from laddernet.files import private_cache_folder
from laddernet.machine import keep_xla_to_quota, xla_threads


def keep_compiled_programs() -> None:
    """Switch on JAX's persistent cache for this process: a program that was compiled once on this machine is loaded.

    A cache that the user chose, in the environment or in JAX's configuration, stays. To be called before JAX is first
    used.
    """
    keep_xla_to_quota()
    _set_cache(_folder_of_programs())


_LEAST = "jax_persistent_cache_min_compile_time_secs"
# JAX keeps programs that took a second to compile. Ours take about that, so that it would depend on the machine's load.
_JAX_SECONDS, _SECONDS = 1.0, 0.1

_keeping = threading.Lock()
_blocks_keeping = 0
_kept_in: str | None = None


@contextmanager
def compiled_programs_kept() -> Iterator[None]:
    """Switch on the same cache inside the block only: then the user's own programs are not kept.

    JAX has one cache for all threads. Blocks may overlap in several of them; the last to end switches it off.
    """
    global _blocks_keeping, _kept_in
    with _keeping:
        if not _blocks_keeping:
            _kept_in = _folder_of_programs()
            _set_cache(_kept_in)
        _blocks_keeping += 1
    try:
        yield
    finally:
        with _keeping:
            _blocks_keeping -= 1
            if not _blocks_keeping and _kept_in is not None:
                _exchange(_SECONDS, _JAX_SECONDS)
                if _cache_folder() == _kept_in:
                    jax.config.update("jax_compilation_cache_dir", None)  # type: ignore[no-untyped-call]
                    compilation_cache.reset_cache()


def _cache_folder() -> str | None:
    folder: str | None = jax.config.jax_compilation_cache_dir  # type: ignore[attr-defined]
    return folder


def _set_cache(folder: str | None) -> None:
    if folder is not None:
        jax.config.update("jax_compilation_cache_dir", folder)  # type: ignore[no-untyped-call]
        _exchange(_JAX_SECONDS, _SECONDS)


def _exchange(old: float, new: float) -> None:
    """Set the seconds from which a program is kept, unless the user has set another number."""
    if getattr(jax.config, _LEAST) == old:
        jax.config.update(_LEAST, new)  # type: ignore[no-untyped-call]


def _folder_of_programs() -> str | None:
    """Return the folder to keep programs in; None if the user chose one or none, or if it cannot be written to.

    A program is compiled for a number of threads, which JAX leaves out of its key in the cache: each number has its own
    folder.
    """
    enabled: bool = jax.config.jax_enable_compilation_cache  # type: ignore[attr-defined]
    private = private_cache_folder("xla") if enabled and _cache_folder() is None else None
    if private is None:
        return None
    folder = private / f"{xla_threads()}-cores"
    with suppress(OSError):
        folder.mkdir(exist_ok=True)
    return str(folder) if os.access(folder, os.W_OK) else None


def wait_for(array: Any) -> None:
    """Wait for a computation; Ctrl-C is handled meanwhile."""
    while not array.is_ready():
        time.sleep(0.002)

"""Functions that run in a worker process. A subject is a block of work that can be repeated."""

import os
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from typing import Any

_blocks: dict[str, Callable[[], None]] = {}


def pin(cores: tuple[int, ...], native: str) -> None:
    """Restrict the process to these cores and native kernels, before a library that counts cores is imported.

    There is a cache of compiled programs for each number of cores, since different programs would have the same key.
    """
    os.sched_setaffinity(0, cores)
    os.environ["LADDERNET_NATIVE"] = native
    if "JAX_COMPILATION_CACHE_DIR" in os.environ:
        os.environ["JAX_COMPILATION_CACHE_DIR"] += f"/{len(cores)}-cores"


def call(function: str, **settings: Any) -> Any:
    """Call ``module:function``."""
    module, _, name = function.partition(":")
    return getattr(import_module(module), name)(**settings)


def build(subjects: Mapping[str, tuple[str, dict[str, Any]]], at_once: int) -> None:
    """Make subjects and run each twice: the first block compiles it, ``at_once`` at a time; the second warms it up."""
    made: dict[str, Callable[[], None]] = {name: call(function, **s) for name, (function, s) in subjects.items()}
    with ThreadPoolExecutor(at_once) as threads:
        list(threads.map(lambda block: block(), made.values()))
    for block in made.values():
        block()
    _blocks.update(made)


def seconds(name: str) -> float:
    """Time one block of a subject."""
    started = time.perf_counter()
    _blocks[name]()
    return time.perf_counter() - started

"""What runs in a worker process: subjects, each a block of work that can be asked for again and again."""

import os
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from typing import Any

_blocks: dict[str, Callable[[], None]] = {}


def pin(cores: tuple[int, ...], native: str) -> None:
    """Stay on these cores, before anything is imported that counts them, and use these native kernels.

    A cache of compiled programs is kept for each number of cores: the programs differ, their keys in it do not.
    """
    os.sched_setaffinity(0, cores)
    os.environ["LADDERNET_NATIVE"] = native
    if "JAX_COMPILATION_CACHE_DIR" in os.environ:
        os.environ["JAX_COMPILATION_CACHE_DIR"] += f"/{len(cores)}-cores"


def call(function: str, **settings: Any) -> Any:
    """What ``module:function`` returns."""
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
    """How long one block of a subject takes."""
    started = time.perf_counter()
    _blocks[name]()
    return time.perf_counter() - started

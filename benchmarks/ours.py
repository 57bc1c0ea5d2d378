"""Subjects of `bench.py` that use laddernet: an epoch, the start of a run, prediction.

Weights and rows are random numbers: no figure depends on their values, and the true initial values would take as long
to compile as the step.
"""

import resource
import time
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from laddernet.kernels import native
from laddernet.kernels.products import Precision
from laddernet.network.ladder import Ladder, draw_noise, forward, statistics
from laddernet.network.models import MODELS, find
from laddernet.training.loop import Trained
from laddernet.training.step import initial_state, ladder_of, run_steps


def models() -> dict[str, bool]:
    """Return the ids of the twenty models, with False for the baselines."""
    return {model.id: model.combinator is not None for model in MODELS.values()}


def kernels() -> tuple[str, ...]:
    """Return the names of the native kernels."""
    return native.KERNELS


def epochs(
    model: str, sizes: Sequence[int], batch: int, steps: int, seeds: int = 0, precision: Precision = "float32"
) -> Callable[[], None]:
    """Return a block: an epoch of ``steps`` steps over the rows that these need; ``seeds`` at once under vmap."""
    state = _random_state(model, sizes)
    rows, order, key, *settings = _arguments(sizes, batch, steps)

    def program(state: Any, key: Any) -> Any:
        return run_steps(state, rows, order, key, *settings, 1, precision)

    if seeds:
        state = jax.tree.map(lambda leaf: jnp.stack([leaf] * seeds), state)
        key = jax.random.split(key, seeds)
        program = jax.vmap(program)

    def block() -> None:
        nonlocal state
        state, costs, _ = program(state, key)
        assert np.isfinite(costs.values).all()

    return block


def epochs_and_program(
    model: str, sizes: Sequence[int], batch: int, steps: int, precision: Precision
) -> tuple[Callable[[], None], str]:
    """Return the block of :func:`epochs`, and the text of the compiled program."""
    state = _random_state(model, sizes)
    arguments = _arguments(sizes, batch, steps)
    compiled = run_steps.lower(state, *arguments, 1, precision).compile()

    def block() -> None:
        nonlocal state
        state, costs, _ = compiled(state, *arguments)
        assert np.isfinite(costs.values).all()

    return block, compiled.as_text()


def _arguments(sizes: Sequence[int], batch: int, steps: int) -> tuple[Any, ...]:
    """Make the arguments of an epoch after its state: rows, order, key of the noise, rates, noise, λ, decay."""
    rng = np.random.default_rng(0)
    x = [jnp.asarray(rng.random((n, sizes[0]), np.float32)) for n in (batch, steps * batch)]
    y = jnp.asarray(rng.integers(sizes[-1], size=batch))
    rates = jnp.full(steps, 0.002)
    shuffled = rng.permutation(steps * batch).astype(np.int32).reshape(steps, batch)
    order = [np.tile(np.arange(batch, dtype=np.int32), (steps, 1)), shuffled]
    return (x[0], y, x[1]), order, jax.random.key(0), rates, *_hyper(sizes), jnp.zeros(())


def _hyper(sizes: Sequence[int]) -> tuple[jax.Array, ...]:
    """Return the published noise and λ for 100 labels, for layers 0 to L."""
    return jnp.full(len(sizes), 0.3), jnp.asarray([1000.0, 10.0, *[0.1] * (len(sizes) - 2)])


def _random_state(model: str, sizes: Sequence[int]) -> Any:
    rng = np.random.default_rng(0)
    weights, optimiser = jax.eval_shape(
        lambda key: initial_state.__wrapped__(key, 0.1, find(model), tuple(sizes)), jax.random.key(0)
    )
    weights = jax.tree.map(lambda leaf: jnp.asarray(rng.normal(0, 0.1, leaf.shape), leaf.dtype), weights)
    return weights, jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), optimiser)


def start(model: str, sizes: Sequence[int], rows: int, cache: str) -> dict[str, float]:
    """Time the start of a run in a new process, and measure its peak memory; nothing may run before it."""
    jax.config.update("jax_compilation_cache_dir", cache)  # type: ignore[no-untyped-call]  # as `keep_compiled_programs` does
    arguments = _arguments(sizes, 100, rows // 100)
    began = time.perf_counter()
    state = initial_state(jax.random.key(0), 0.1, find(model), tuple(sizes))
    jax.block_until_ready(state)  # type: ignore[no-untyped-call]
    initial = time.perf_counter()
    run_steps.lower(state, *arguments).compile()
    compiled = time.perf_counter()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"initial values, s": initial - began, "compile, s": compiled - initial, "peak memory, MB": peak}


def predictions(sizes: Sequence[int], batch: int, repeats: int) -> Callable[[], None]:
    """Return a block that repeats ``Trained.predict`` on NumPy rows."""
    x = np.random.default_rng(0).random((batch, sizes[0]), np.float32)
    ladder = ladder_of(_random_state("vanilla", sizes))
    trained = Trained(ladder, native.call(statistics, ladder.encoder, x[:100]), [])

    def block() -> None:
        for _ in range(repeats):
            trained.predict(x)

    return block


def reference(sizes: Sequence[int], batch: int) -> dict[str, Any]:
    """Return weights, rows and noise, with vanilla's cost and gradient for them, to check other implementations.

    All is float64, so that a difference is not due to rounding.
    """
    with jax.enable_x64(True):
        state, (x, y, x_unlabelled), _, key, *_ = _random_state("vanilla", sizes), *_arguments(sizes, batch, 1)
        noise = [n for n in draw_noise(find("vanilla"), sizes, 2 * batch, key=key) if n is not None]
        exact = jax.tree.map(lambda a: jnp.asarray(a, jnp.float64), (ladder_of(state), x, x_unlabelled, noise))
        ladder, x, x_unlabelled, noise = exact
        hyper = [jnp.asarray(h, jnp.float64) for h in _hyper(sizes)]
        halves = [n[:batch] for n in noise], [n[batch:] for n in noise]
        cost, gradient = jax.value_and_grad(lambda l: forward(l, x, y, x_unlabelled, halves, *hyper).total)(ladder)
        return {
            "sizes": tuple(sizes),
            "inputs": [np.asarray(a) for a in (x, y, x_unlabelled, *hyper)],
            "noise": [np.stack(pair) for pair in zip(*halves, strict=True)],
            "cost": np.asarray(cost),
            "weights": _named(ladder),
            "gradient": _named(gradient),
        }


def _named(ladder: Ladder) -> dict[str, np.ndarray]:
    named = {
        f"{name}{l}": getattr(layer, name) for l, layer in enumerate(ladder.encoder) for name in layer.__annotations__
    }
    named |= {f"V{l}": layer.V for l, layer in enumerate(ladder.decoder) if layer.V is not None}
    named |= {f"combinator{l}": jnp.stack(jax.tree.leaves(layer.combinator)) for l, layer in enumerate(ladder.decoder)}
    return {name: np.asarray(array) for name, array in named.items()}

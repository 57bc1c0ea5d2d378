"""The matrix products of one training step alone: the machine's limit.

A step multiplies, at every layer, the stacked rows of the encoder's three groups and the rows of the decoder: forward,
for the gradient of the weights, and for the gradient of the input, except in the encoder's first layer.
"""

import os
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import NamedTuple

PAPER = (784, 1000, 500, 250, 250, 250, 10)


class Product(NamedTuple):
    """A (m, k) matrix times a (k, n) matrix; ``transposed`` names the one stored transposed in memory."""

    m: int
    k: int
    n: int
    transposed: str = ""

    @property
    def shapes(self) -> tuple[tuple[int, int], tuple[int, int]]:
        """Return the shapes of the two operands as stored in memory."""
        left = (self.k, self.m) if self.transposed == "left" else (self.m, self.k)
        return left, ((self.n, self.k) if self.transposed == "right" else (self.k, self.n))


def of_step(sizes: Sequence[int], batch: int, labelled: int | None = None, copies: int = 1) -> list[Product]:
    """List the products of a step, in no particular order.

    The step has ``batch`` unlabelled rows with ``copies`` noisy copies each, and ``labelled`` rows (None: ``batch``).
    """
    labelled_rows, noisy = batch if labelled is None else labelled, copies * batch
    products = []
    for l, (below, above) in enumerate(pairwise(sizes)):
        encoder, decoder = _of_layer(labelled_rows + noisy + batch, below, above), _of_layer(noisy, above, below)
        products += (encoder if l > 0 else encoder[:2]) + decoder
    return products


def _of_layer(rows: int, inputs: int, outputs: int) -> list[Product]:
    forward = Product(rows, inputs, outputs)
    return [forward, Product(inputs, rows, outputs, "left"), Product(rows, outputs, inputs, "right")]


def gflop(sizes: Sequence[int], batch: int, labelled: int | None = None, copies: int = 1) -> float:
    """Count the floating-point operations of a step's products, in 10⁹.

    >>> round(gflop(PAPER, 100), 2), round(gflop(PAPER, 100, copies=3), 2)
    (3.22, 6.59)
    """
    return sum(2 * p.m * p.k * p.n for p in of_step(sizes, batch, labelled, copies)) / 1e9


def in_xla(sizes: Sequence[int], batch: int, steps: int) -> Callable[[], None]:
    """Return a block: the products of ``steps`` steps as one XLA program.

    The barriers keep the compiler from multiplying once for all steps, or not at all: operands may change from step to
    step, and every result is needed.
    """
    import jax
    import jax.numpy as jnp
    import numpy as np

    products = of_step(sizes, batch)
    rng = np.random.default_rng(0)
    operands = [tuple(jnp.asarray(rng.normal(size=s), jnp.float32) for s in p.shapes) for p in products]

    def step(operands: list[tuple[jax.Array, ...]], _: None) -> tuple[list[tuple[jax.Array, ...]], jax.Array]:
        operands = jax.lax.optimization_barrier(operands)  # type: ignore[no-untyped-call]
        results = [
            (a.T if p.transposed == "left" else a) @ (b.T if p.transposed == "right" else b)
            for p, (a, b) in zip(products, operands, strict=True)
        ]
        results = jax.lax.optimization_barrier(results)  # type: ignore[no-untyped-call]
        return operands, jnp.stack([result[0, 0] for result in results])

    program = jax.jit(lambda operands: jax.lax.scan(step, operands, length=steps)[1])

    def block() -> None:
        program(operands).block_until_ready()

    return block


def in_torch(sizes: Sequence[int], batch: int, steps: int) -> Callable[[], None]:
    """Return a block: the same products by PyTorch, each into preallocated memory."""
    import torch

    torch.set_num_threads(len(os.sched_getaffinity(0)))
    operands = []
    for p in of_step(sizes, batch):
        a, b = (torch.randn(shape) for shape in p.shapes)
        result = torch.empty(p.m, p.n)
        operands.append((a.T if p.transposed == "left" else a, b.T if p.transposed == "right" else b, result))

    def block() -> None:
        for _ in range(steps):
            for a, b, result in operands:
                torch.mm(a, b, out=result)

    return block

"""Training steps of LAMDA-SSL's Ladder Network, with its own network, passes, cost and Adam.

It does less than laddernet's step: targets from the clean path are detached, so no gradient flows through it, and γ is
learned at the top only. Its combinator is the Gaussian one, its noise comes from NumPy. Its data loader, which fetches
and converts row by row, is left out of the measurement.
"""

import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any
from unittest.mock import MagicMock

import torch


def _algorithm() -> Any:
    """Import the class with the training step, without the parts of the package that it does not use.

    Those parts need torchvision and a scikit-learn of 2022, so stand-ins replace them.
    """
    for package, name in (("Base", "InductiveEstimator"), ("Base", "DeepModelMixin"), ("Config", "LadderNetwork")):
        import_module(f"LAMDA_SSL.{package}")
        sys.modules[f"LAMDA_SSL.{package}.{name}"] = MagicMock(**{name: type(name, (), {})})
    sys.modules["LAMDA_SSL.utils"] = MagicMock()
    return import_module("LAMDA_SSL.Algorithm.Classification.LadderNetwork").LadderNetwork


def steps(sizes: Sequence[int], batch: int, steps: int) -> Callable[[], None]:
    """Return a block of training steps on random rows."""
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    kind = _algorithm()
    network = import_module("LAMDA_SSL.Network.LadderNetwork").LadderNetwork
    adam = import_module("LAMDA_SSL.Opitimizer.Adam").Adam
    hidden = list(sizes[1:-1])
    algorithm = kind.__new__(kind)  # its constructor requires data loaders
    algorithm._network = network(
        hidden, [torch.nn.ReLU() for _ in hidden], noise_std=0.3, dim_in=sizes[0], num_classes=sizes[-1]
    )
    algorithm.lambda_u = [*[0.1] * len(hidden), 10.0, 1000.0]
    algorithm.optimizer = adam(lr=0.002)
    algorithm.init_optimizer()
    x, y = torch.rand(steps * batch, sizes[0]), torch.randint(sizes[-1], (batch,))

    def block() -> None:
        for i in torch.randperm(len(x)).view(steps, batch):
            j = torch.randperm(batch)
            algorithm.optimize(algorithm.get_loss(algorithm.train(x[j], y[j], x[i])))

    return block

"""The vanilla Ladder Network in PyTorch, for comparison with laddernet's step.

Eager, with the gradient through the clean path, and written for speed: one product for the three row
groups, one reduction for their statistics, the fused Adam.
"""

import os
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

NAMES = ("b0", "w0z", "w0u", "w0zu", "wsigma", "b1", "w1z", "w1u", "w1zu")


class Combinator(nn.Module):
    """The vanilla combinator; the nine parameters of each unit are in the rows of one array."""

    def __init__(self, units: int) -> None:
        super().__init__()
        start = torch.tensor([float(name in ("w0z", "wsigma", "w1z")) for name in NAMES])
        self.of_unit = nn.Parameter(start[:, None].repeat(1, units))

    def forward(self, z_tilde: Tensor, u: Tensor) -> Tensor:
        b0, w0z, w0u, w0zu, wsigma, b1, w1z, w1u, w1zu = self.of_unit
        zu = z_tilde * u
        gate = torch.sigmoid(b1 + w1z * z_tilde + w1u * u + w1zu * zu)
        z_hat: Tensor = b0 + w0z * z_tilde + w0u * u + w0zu * zu + wsigma * gate
        return z_hat


class Ladder(nn.Module):
    """Encoder, decoder and cost; lists are by layer, from the bottom."""

    def __init__(self, sizes: Sequence[int]) -> None:
        super().__init__()
        self.sizes = tuple(sizes)
        self.W = nn.ModuleList(nn.Linear(below, above, bias=False) for below, above in pairwise(sizes))
        self.V = nn.ModuleList(nn.Linear(above, below, bias=False) for below, above in pairwise(sizes))
        self.gamma = nn.ParameterList(torch.ones(n) for n in sizes[1:])
        self.beta = nn.ParameterList(torch.zeros(n) for n in sizes[1:])
        self.combinators = nn.ModuleList(Combinator(n) for n in sizes)

    def draw_noise(self, rows: int) -> list[Tensor]:
        """Draw standard normal noise by layer, for labelled and for unlabelled rows."""
        return [torch.randn(2, rows, n) for n in self.sizes]

    def forward(
        self, x_labelled: Tensor, y: Tensor, x_unlabelled: Tensor, noise: list[Tensor], std: Tensor, weights: Tensor
    ) -> Tensor:
        """Compute the total cost. The row groups (labelled noisy, unlabelled noisy, clean) are the first axis."""
        noisy = torch.stack([x_labelled, x_unlabelled]) + std[0] * noise[0]
        clean = x_unlabelled
        z_tilde, z, mu, sigma = [noisy[1]], [clean], [torch.zeros(())], [torch.ones(())]
        h = torch.cat([noisy, clean[None]])
        for l, (W, gamma, beta) in enumerate(zip(self.W, self.gamma, self.beta, strict=True), start=1):
            normal, mean, deviation = normalise(W(h))
            noisy, clean = normal[:2] + std[l] * noise[l], normal[2]
            z_tilde.append(noisy[1])
            z.append(clean)
            mu.append(mean[2])
            sigma.append(deviation[2])
            h = gamma * (torch.cat([noisy, clean[None]]) + beta)
            if l < len(self.W):
                h = torch.relu(h)
        cost = F.cross_entropy(h[0], y)
        above = torch.softmax(h[1], dim=-1)
        for l in reversed(range(len(self.sizes))):
            u = normalise(self.V[l](above) if l < len(self.V) else above)[0]
            above = self.combinators[l](z_tilde[l], u)
            cost = cost + weights[l] * F.mse_loss((above - mu[l]) / sigma[l], z[l])
        return cost


def normalise(a: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Normalise each unit over the rows of its group; return also the mean and the standard deviation."""
    mean = a.mean(dim=-2, keepdim=True)
    centred = a - mean
    sigma = torch.sqrt(centred.square().mean(dim=-2, keepdim=True) + 1e-10)  # torch.var_mean is no faster
    return centred / sigma, mean, sigma


def steps(sizes: Sequence[int], batch: int, steps: int) -> Callable[[], None]:
    """Return a block of training steps on random rows."""
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    x, y = torch.rand(steps * batch, sizes[0]), torch.randint(sizes[-1], (batch,))
    ladder = Ladder(sizes)
    adam = torch.optim.Adam(ladder.parameters(), lr=0.002, fused=True)
    std, weights = torch.full((len(sizes),), 0.3), torch.tensor([1000.0, 10.0, *[0.1] * (len(sizes) - 2)])

    def block() -> None:
        for i in torch.randperm(len(x)).view(steps, batch):
            j = torch.randperm(batch)
            adam.zero_grad()
            ladder(x[j], y[j], x[i], ladder.draw_noise(batch), std, weights).backward()
            adam.step()

    return block


def check(case: dict[str, Any]) -> float:
    """Return the largest relative difference of cost and gradients from those of ``ours.reference``."""
    ladder = Ladder(case["sizes"])
    named = {f"combinator{l}": g.of_unit for l, g in enumerate(ladder.combinators)}
    for l, (W, V, gamma, beta) in enumerate(zip(ladder.W, ladder.V, ladder.gamma, ladder.beta, strict=True)):
        named |= {f"W{l}": W.weight, f"V{l}": V.weight, f"gamma{l}": gamma, f"beta{l}": beta}

    def as_here(name: str, array: Any) -> Tensor:
        return torch.tensor(array.T if name[0] in "WV" else array)  # nn.Linear stores its weights transposed

    for name, parameter in named.items():
        parameter.data = as_here(name, case["weights"][name])
    x_labelled, y, x_unlabelled, std, weights = (torch.tensor(a) for a in case["inputs"])
    cost = ladder(x_labelled, y.long(), x_unlabelled, [torch.tensor(a) for a in case["noise"]], std, weights)
    cost.backward()
    pairs = [(cost.detach(), torch.tensor(case["cost"]))]
    pairs += [(parameter.grad, as_here(name, case["gradient"][name])) for name, parameter in named.items()]
    return float(torch.stack([(ours - theirs).abs().max() / theirs.abs().max() for ours, theirs in pairs]).max())

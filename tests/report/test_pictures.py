from typing import Any

import jax
import numpy as np
import pytest
from made_up import network, network_pictures

from laddernet.network.combinators import Combinator, PerUnit, initially
from laddernet.report.page import Pictures
from laddernet.report.pictures import combinator_surfaces, denoising


class Between(Combinator):
    """Its units trust z̃ wholly, less and less, and not at all."""

    w: PerUnit = initially(0.0)

    def __call__(self, z_tilde: Any, u: Any) -> Any:
        w = jax.numpy.linspace(1, 0, len(self.w)) + self.w
        return w * z_tilde + (1 - w) * u * u


def test_surfaces_are_those_of_the_combinator() -> None:
    surfaces = combinator_surfaces(network(Between, (3, 2)), points=5)
    u, z_tilde = np.meshgrid(np.arange(-4, 5, 2), np.arange(-4, 5, 2), indexing="ij")
    assert [(surface.layer, surface.name) for surface in surfaces[:2]] == [
        (0, "mean of 3 units"),
        (0, "unit 1, the most typical"),
    ]
    half = 0.5 * z_tilde + 0.5 * u * u
    assert surfaces[0].axis == [-4, -2, 0, 2, 4]
    assert surfaces[0].z_hat == half.tolist()
    assert surfaces[1].z_hat == half.tolist()
    assert surfaces[2].z_hat in (z_tilde.tolist(), (u * u).tolist())


def test_network_without_a_decoder_has_no_pictures() -> None:
    found = network_pictures("", "baseline")
    assert found == Pictures("", [], [])


def test_denoising_says_how_much_noise_there_was() -> None:
    ladder = network("first-noise-recons", (64, 8, 4))
    x = np.random.default_rng(0).random((400, 64), np.float32)
    layers = denoising(ladder, x, [0.3, 0, 0], key=jax.random.key(1))
    assert layers[0].noisy_error == pytest.approx(0.09, rel=0.05)
    assert [layer.counted for layer in layers] == [True, False, False]
    assert not layers[0].images

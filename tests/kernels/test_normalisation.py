"""Groups of rows that are stacked in one array, in float64."""

from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from laddernet.kernels.normalisation import in_groups, split_groups
from laddernet.network.ladder import normalise


@pytest.fixture(autouse=True)
def float64() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


@pytest.mark.parametrize("sizes", [(3, 3, 3), (2, 4, 4), (5,), (1, 2)])
def test_a_formula_is_applied_to_each_group_on_its_own(sizes: tuple[int, ...]) -> None:
    def apart(stacked: Any) -> Any:
        z, mu, sigma = zip(*map(normalise, split_groups(stacked, sizes)), strict=True)
        return jnp.concatenate(z), jnp.stack(mu), jnp.stack(sigma)

    rng = np.random.default_rng(0)
    stacked = rng.normal(size=(sum(sizes), 4))
    expected, expected_gradient = jax.vjp(apart, stacked)
    found, gradient = jax.vjp(lambda a: in_groups(normalise, a, sizes), stacked)
    d = jax.tree.map(lambda result: rng.normal(size=result.shape), expected)
    for one, other in zip((*found, *gradient(d)), (*expected, *expected_gradient(d)), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-9)


def test_groups_are_split_where_they_were_stacked() -> None:
    parts = [np.full((n, 1), n) for n in (2, 1, 3)]
    for part, again in zip(parts, split_groups(jnp.concatenate(parts), [2, 1, 3]), strict=True):
        np.testing.assert_array_equal(again, part)

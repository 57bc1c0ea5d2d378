"""The noise is what it claims to be: independent and normal, a function of key and position alone."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from laddernet.kernels import noise
from laddernet.kernels.noise import normal, normal_columns, normal_pairs, normals, permutations

KEY = jax.random.key(2016)
draw = jax.jit(normal, static_argnums=1)


@pytest.fixture(scope="module")
def millions() -> np.ndarray:
    """Two of them, the second made of the same words as the first."""
    pairs = np.asarray(jax.jit(normal_pairs, static_argnums=1)(KEY, (500, 2000)))
    return np.concatenate([pairs.real, pairs.imag]).astype(np.float64)


def rotate(word: Any, turn: int) -> Any:
    return (word << np.uint32(turn)) | (word >> np.uint32(32 - turn))


@pytest.mark.parametrize(
    ("key", "counter", "expected"),
    [  # the known answers of Random123 for 13 rounds
        ((0, 0), (0, 0), (0x9D1C5EC6, 0x8BD50731)),
        ((0xFFFFFFFF, 0xFFFFFFFF), (0xFFFFFFFF, 0), None),
        ((0x13198A2E, 0x03707344), (0x243F6A88, 0x85A308D3), None),
    ],
)
def test_the_words_are_those_of_threefry(
    key: tuple[int, int], counter: tuple[int, int], expected: tuple[int, int] | None
) -> None:
    words = noise._threefry(jnp.array(key, jnp.uint32), *jnp.array(counter, jnp.uint32))
    k = [np.uint32(key[0]), np.uint32(key[1]), np.uint32(key[0] ^ key[1] ^ 0x1BD11BDA)]
    with np.errstate(over="ignore"):
        a: Any = np.uint32(counter[0]) + k[0]
        b: Any = np.uint32(counter[1]) + k[1]
        for r, turn in enumerate([13, 15, 26, 6, 17, 29, 16, 24, 13, 15, 26, 6, 17]):
            a = a + b
            b = rotate(b, turn) ^ a
            if r % 4 == 3:
                a, b = a + k[(r // 4 + 1) % 3], b + k[(r // 4 + 2) % 3] + np.uint32(r // 4 + 1)
    assert [int(word) for word in words] == [int(a), int(b)]
    assert expected is None or (int(a), int(b)) == expected


def test_two_numbers_are_box_and_mullers_of_two_words(millions: np.ndarray) -> None:
    position = jnp.arange(millions.size // 2, dtype=jnp.uint32)
    words = noise._threefry(jax.random.key_data(KEY), position, jnp.uint32(0))
    first, second = (np.asarray(word).astype(np.float64) for word in words)
    radius = np.sqrt(-2 * np.log((first // 512 + 0.5) / 2**23))
    angle = 2 * np.pi * second / 2**32
    expected = np.concatenate([radius * np.cos(angle), radius * np.sin(angle)])
    np.testing.assert_allclose(millions.ravel(), expected, atol=2e-6)


def test_moments_are_those_of_the_normal_distribution(millions: np.ndarray) -> None:
    x = millions.ravel()
    for power, moment in enumerate([0, 1, 0, 3, 0, 15], start=1):
        spread = np.sqrt((stats.norm.moment(2 * power) - moment**2) / x.size)
        assert abs(np.mean(x**power) - moment) < 4 * spread, power


def test_the_distribution_is_normal_far_into_the_tails(millions: np.ndarray) -> None:
    x = millions.ravel()
    assert stats.kstest(x, "norm").pvalue > 1e-3
    for bound in (2.0, 3.0, 4.0, 4.5):
        for beyond in (np.sum(x > bound), np.sum(x < -bound)):
            assert stats.binomtest(int(beyond), x.size, stats.norm.sf(bound)).pvalue > 1e-4, bound


def test_draws_of_neighbouring_steps_layers_rows_and_seeds_are_independent(millions: np.ndarray) -> None:
    n = 100_000
    seeds = [jax.random.key(seed) for seed in range(4)]
    steps = list(jax.random.split(seeds[0], 4))
    streams = [np.asarray(draw(key, (n,))).astype(np.float64) for key in [*seeds, *steps]]
    streams += [millions[:500].ravel()[:n], millions[500:].ravel()[:n], millions[:, ::2].ravel()[:n]]
    streams += [millions.ravel()[lag : lag + n] for lag in (1, 2, 2000)]
    for transform in (lambda x: x, np.square, np.abs):  # what is uncorrelated need not be independent
        correlation = np.corrcoef([transform(stream) for stream in streams])
        correlation[8, 11:] = correlation[11:, 8] = 0  # the same numbers, moved along: see below
        off = correlation[~np.eye(len(streams), dtype=bool)]
        assert np.abs(off).max() < 4.5 / np.sqrt(n)
    for lag in (1, 2, 784, 2000, millions.size // 2):
        x = millions.ravel()
        for transform in (lambda x: x, np.square):
            assert abs(np.corrcoef(transform(x[:-lag]), transform(x[lag:]))[0, 1]) < 4.5 / np.sqrt(x.size)


def test_layers_of_a_step_share_no_number() -> None:
    drawn = [np.asarray(layer) for layer in normal_columns(KEY, 100, (50, 50, 50))]
    assert len(drawn) == 3
    for i, one in enumerate(drawn):
        for other in drawn[i + 1 :]:
            assert len(np.intersect1d(one, other)) < 5  # 5000 draws of 2²³ or more values: about one meets another


@given(seed=st.integers(0, 2**32 - 1), units=st.integers(1, 5))
@settings(max_examples=25, deadline=None)
def test_every_draw_is_finite_and_repeatable(seed: int, units: int) -> None:
    x = np.asarray(draw(jax.random.key(seed), (7, units)))
    assert np.all(np.abs(x) < 5.8)
    np.testing.assert_array_equal(x, np.asarray(draw(jax.random.key(seed), (7, units))))


def test_a_draw_depends_on_key_and_position_alone() -> None:
    np.testing.assert_array_equal(draw(KEY, (6, 4)).ravel()[:12], draw(KEY, (12,)))


@pytest.mark.parametrize("rows", [1, 5, 6])
def test_rows_of_noise_share_no_number_whether_even_or_odd(rows: int) -> None:
    (drawn,) = normal_columns(KEY, rows, (7,))
    assert drawn.shape == (rows, 7)
    assert len(np.unique(drawn)) == 7 * rows


def test_noise_that_is_not_wanted_is_zero() -> None:
    for layer, units in zip(normal_columns(KEY, 4, (3, 2), wanted=False), (3, 2), strict=True):
        assert layer.shape == (4, units)
        assert not np.any(layer)


def test_arrays_of_several_shapes_are_parts_of_one_draw() -> None:
    first, second = jax.jit(normals, static_argnums=1)(KEY, ((2, 3), (4,)))
    assert (first.shape, second.shape) == ((2, 3), (4,))
    np.testing.assert_array_equal(np.concatenate([first.ravel(), second]), draw(KEY, (10,)))


@pytest.mark.parametrize("first", [0, 2**32 - 512, 2**32 - 1])
def test_the_ends_of_the_radius_are_finite(monkeypatch: pytest.MonkeyPatch, first: int) -> None:
    words = (jnp.full(2, first, jnp.uint32), jnp.array([0, 2**31], jnp.uint32))
    monkeypatch.setattr(noise, "_threefry", lambda key, low, high: words)
    expected = np.sqrt(-2 * np.log((first // 512 + 0.5) / 2**23)) * np.array([1, -1])
    np.testing.assert_allclose(normal(KEY, (2,)), expected, atol=1e-5)


def test_every_order_of_the_rows_is_as_likely_as_any_other_whatever_came_before() -> None:
    orders = np.asarray(permutations(KEY, jnp.arange(48_000, dtype=jnp.uint32), 4))
    codes = np.unique(orders @ [64, 16, 4, 1], return_inverse=True)[1]
    assert stats.chisquare(np.bincount(codes, minlength=24)).pvalue > 1e-3
    following = np.histogram2d(codes[:-1], codes[1:], bins=24)[0]
    assert stats.chi2_contingency(following).pvalue > 1e-3


def test_a_long_shuffle_leaves_no_row_near_its_place() -> None:
    orders = np.asarray(permutations(KEY, jnp.arange(4, dtype=jnp.uint32), 60_000)).astype(np.float64)
    correlation = np.corrcoef([np.arange(60_000), *orders])[~np.eye(5, dtype=bool)]
    assert np.abs(correlation).max() < 4.5 / np.sqrt(60_000)

"""Samples: densities against closed forms, draws against quantiles, passes against the reference in float64 NumPy."""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import reference
from hypothesis import given
from hypothesis import strategies as st
from ladders import DEEP, SHALLOW, in_reference_names, random_ladder, weights_for_reference
from scipy import stats
from scipy.special import logsumexp

from laddernet.errors import InputError
from laddernet.network.ladder import Ladder, draw_noise
from laddernet.network.models import MODELS, find
from laddernet.network.samples import Sampler, Statistics, log_density, quantiles, score

ROWS = 6


@pytest.fixture(scope="module", autouse=True)
def _float64() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


def sampler_of(ladder: Ladder, rows: int = ROWS, seed: int = 0, **changes: Any) -> tuple[Sampler, np.ndarray]:
    """A sampler, and the rows of its one batch."""
    x = np.random.default_rng(1).normal(size=(rows, ladder.sizes[0]))
    settings = {"noise_std": [0.3] * len(ladder.sizes), "recon_weights": [1.0] * len(ladder.sizes)} | changes
    return Sampler.of(ladder, x, **settings, seed=seed), x


def gaussian_sampler(rows: int = ROWS) -> Sampler:
    """A sampler of a network with the combinator `gaussian` whose ν, in the units of z, is between 0.1 and 0.7."""
    ladder = random_ladder(find("gaussian"), SHALLOW, np.random.default_rng(0))
    sigmas = [at.sigma for at in sampler_of(ladder, rows)[0].layers]  # of the clean path: no combinator affects them
    for l, sigma in enumerate(sigmas):
        for name, value in {"w6": 0.6 * sigma, "w9": 0 * sigma, "w10": 0.1 * sigma}.items():
            place = partial(_parameter, l, name)
            ladder = eqx.tree_at(place, ladder, jnp.asarray(value))
    return sampler_of(ladder, rows)[0]


def _parameter(l: int, name: str, ladder: Ladder) -> Any:
    return getattr(ladder.decoder[l].combinator, name)


def closed_form(sampler: Sampler, l: int, u: np.ndarray) -> tuple[np.ndarray, ...]:
    """μ(u) and ν(u) of a layer with the combinator `gaussian`, and mean and standard deviation of p(z̃ | u)."""
    w, at = in_reference_names(sampler.ladder.decoder[l].combinator), sampler.layers[l]
    nu = w["w6"] * reference.sigmoid(w["w7"] * u + w["w8"]) + w["w10"]
    mu = w["w1"] * reference.sigmoid(w["w2"] * u + w["w3"]) + w["w4"] * u + w["w5"]
    # In the units of z, ẑ = (ν z̃ + (1 − ν) μ(u) − μ(l)) / σ(l).
    slope, shift = nu / at.sigma, ((1 - nu) * mu - at.mu) / at.sigma
    return mu, nu, shift / (1 - slope), 0.3 / np.sqrt(1 - slope)


def made_up_sampler(model_id: str) -> Sampler:
    """A sampler of random weights and plain statistics, which need no pass to be compiled."""
    ladder = random_ladder(MODELS[model_id], SHALLOW, np.random.default_rng(0))
    layers = [Statistics(*[np.zeros(n), np.ones(n)] * 3, low=np.full(n, -4.0), high=np.full(n, 4.0)) for n in SHALLOW]
    return Sampler(ladder, (0.3,) * 3, (1.0,) * 3, tuple(layers), np.full(3, -99.0), np.full(3, 99.0))


# --- One unit -----------------------------------------------------------------------------------------------


def test_the_density_of_a_gaussian_combinator_is_the_closed_form() -> None:
    sampler = gaussian_sampler()
    for l, n in enumerate(SHALLOW):
        u = np.random.default_rng(l).normal(size=n)
        _, _, mean, std = closed_form(sampler, l, u)
        grid = mean + std * np.linspace(-9, 9, 501)[:, None]
        found = sampler.log_p(l, sampler.ladder.decoder[l].combinator, grid, u)
        np.testing.assert_allclose(found, stats.norm.logpdf(grid, mean, std), rtol=1e-9, atol=1e-9)


@given(
    weights=st.lists(st.floats(0.1, 1), min_size=3, max_size=3),
    means=st.lists(st.floats(-2, 2), min_size=3, max_size=3),
    stds=st.lists(st.floats(0, 1), min_size=3, max_size=3),
    noise_std=st.floats(0.2, 1),
)
def test_the_best_denoising_of_a_mixture_gives_the_mixture_back(
    weights: list[float], means: list[float], stds: list[float], noise_std: float
) -> None:
    z_tilde = np.linspace(-8, 8, 2001)[:, None]
    blurred = np.hypot(stds, noise_std)
    parts = np.log(np.array(weights) / np.sum(weights)) + stats.norm.logpdf(z_tilde, means, blurred)
    whole = logsumexp(parts, axis=1, keepdims=True)
    share = np.exp(parts - whole)
    posterior_means = means + (np.array(stds) / blurred) ** 2 * (z_tilde - means)
    z_hat = np.sum(share * posterior_means, axis=1, keepdims=True)

    p = np.exp(log_density(score(z_hat, z_tilde, noise_std), z_tilde))

    np.testing.assert_allclose(p, np.exp(whole), atol=1e-3)


def test_quantiles_are_those_of_the_distribution() -> None:
    grid = np.linspace(-8, 8, 2001)[:, None] * np.ones(3)
    for q in ([0.001, 0.2, 0.5], [0.7, 0.9, 0.999]):
        found = quantiles(stats.norm.logpdf(grid), grid, np.array(q))
        np.testing.assert_allclose(found, stats.norm.ppf(q), atol=1e-4)


def test_quantiles_are_exact_where_the_density_is_linear() -> None:
    q = np.array([0.0, 1e-12, 0.1, 0.5, 1 - 1e-12, 1.0])
    grid = np.linspace(0, 1, 4)[:, None] * np.ones(len(q))
    with np.errstate(divide="ignore"):
        rising, falling = np.log(2 * grid), np.log(2 * (1 - grid))
    np.testing.assert_allclose(quantiles(rising, grid, q), np.sqrt(q), atol=1e-12)
    np.testing.assert_allclose(quantiles(falling, grid, q), 1 - np.sqrt(1 - q), atol=1e-8)


# --- The training set's pass ----------------------------------------------------------------------------------


@pytest.mark.parametrize("model_id", ["vanilla", "no-lateral", "amlp-2-2"])
def test_statistics_are_those_of_the_reference(model_id: str) -> None:
    ladder = random_ladder(MODELS[model_id], DEEP, np.random.default_rng(0))
    sampler, x = sampler_of(ladder)
    noisy, clean, z_tilde, z_hat, _ = reference_pass(model_id, ladder, x)
    weights = weights_for_reference(ladder)
    for l, at in enumerate(sampler.layers):
        above = noisy["h"][-1] if l == len(DEEP) - 1 else z_hat[l + 1] @ weights["decoder"][l]["V"]
        for name, expected in {
            "mu": clean["mu"][l] if l else np.zeros(3), "sigma": clean["sigma"][l] if l else np.ones(3),
            "noisy_mu": noisy["mu"][l] if l else np.zeros(3), "noisy_sigma": noisy["sigma"][l] if l else np.ones(3),
            "u_mu": above.mean(axis=0), "u_sigma": above.std(axis=0),
            "low": z_tilde[l].min(axis=0), "high": z_tilde[l].max(axis=0),
        }.items():  # fmt: skip
            np.testing.assert_allclose(getattr(at, name), expected, rtol=1e-6, atol=1e-8, err_msg=f"{name}, layer {l}")


def reference_pass(model_id: str, ladder: Ladder, x: np.ndarray) -> tuple[dict, dict, list, list, Any]:
    """The noisy and the clean path of rows, z̃, ẑ, and the key of the noise: that of a sampler with seed 0."""
    key = jax.random.split(jax.random.key(0), 1)[0]
    drawn = eqx.filter_jit(draw_noise)(ladder.model, ladder.sizes, len(x), key=key)  # compiled, as a sampler's is
    noise = [np.zeros((len(x), n)) if e is None else np.asarray(e) for e, n in zip(drawn, ladder.sizes, strict=True)]
    weights = weights_for_reference(ladder)
    noisy = reference.encoder(weights, x, reference.noise_of(model_id, noise), [0.3] * len(ladder.sizes))
    z_hat = reference.decoder(model_id, weights, noisy["z"], noisy["h"][-1])["z_hat"]
    return noisy, reference.clean_encoder(weights, x), noisy["z"], z_hat, key


def test_statistics_of_several_batches_are_pooled(monkeypatch: pytest.MonkeyPatch) -> None:
    ladder = random_ladder(find("vanilla"), SHALLOW, np.random.default_rng(0))
    monkeypatch.setattr("laddernet.network.samples._BATCH", ROWS)
    both, x = sampler_of(ladder, rows=2 * ROWS)
    a = x @ np.asarray(ladder.encoder[0].W)
    np.testing.assert_allclose(both.layers[1].mu, a.mean(axis=0), rtol=1e-9)
    np.testing.assert_allclose(both.layers[1].sigma, a.std(axis=0), rtol=1e-9)


# --- Ancestral ------------------------------------------------------------------------------------------------


def test_ancestral_samples_have_the_moments_of_the_closed_form(monkeypatch: pytest.MonkeyPatch) -> None:
    """Against draws by NumPy from N(μ(u), σ² / (1 − ν)), layer by layer."""
    monkeypatch.setattr("laddernet.network.samples.POINTS", 1001)  # the grid is wide
    sampler, count = gaussian_sampler(rows=1000), 2000
    layers, rng = list(sampler.layers), np.random.default_rng(5)
    z_hat = np.tile(np.eye(SHALLOW[-1])[1], (count, 1))
    for l in (2, 1, 0):
        V, at = sampler.ladder.decoder[l].V, sampler.layers[l]
        u = ((z_hat if V is None else z_hat @ np.asarray(V)) - at.u_mu) / at.u_sigma
        mu, nu, mean, std = closed_form(sampler, l, u)
        z_tilde = mean + std * rng.normal(size=u.shape)
        layers[l] = replace(at, low=z_tilde.min(axis=0) - 1, high=z_tilde.max(axis=0) + 1)
        z_hat = nu * z_tilde + (1 - nu) * mu

    found = replace(sampler, layers=tuple(layers), low=np.full(3, -99.0), high=np.full(3, 99.0)).ancestral([1] * count)

    error = np.hypot(found.std(axis=0), z_hat.std(axis=0)) / count**0.5
    assert (np.abs(found.mean(axis=0) - z_hat.mean(axis=0)) < 5 * error).all()
    np.testing.assert_allclose(found.std(axis=0), z_hat.std(axis=0), rtol=0.1)


@pytest.mark.parametrize(
    ("model_id", "recon_weights", "expected"),
    [
        ("vanilla", (1, 1, 1), [True, True, True]),
        ("vanilla", (1, 0, 1), [True, False, True]),
        ("first-recons", (1, 1, 1), [True, False, False]),
        ("first-noise", (1, 1, 1), [True, False, False]),
    ],
)
def test_a_layer_without_noise_or_reconstruction_has_not_learned_to_remove_noise(
    model_id: str, recon_weights: tuple[float, ...], expected: list[bool]
) -> None:
    sampler = replace(made_up_sampler(model_id), recon_weights=recon_weights)
    assert [sampler.denoises(l) for l in range(3)] == expected


@pytest.mark.parametrize("model_id", [m for m in MODELS if m not in reference.NO_DECODER])
def test_every_model_with_a_decoder_samples_and_repeats_itself(model_id: str) -> None:
    sampler = made_up_sampler(model_id)
    found = sampler.ancestral([0, 1, 2, 1], seed=3)
    assert found.shape == (4, 3)
    assert np.isfinite(found).all()
    np.testing.assert_array_equal(found, sampler.ancestral([0, 1, 2, 1], seed=3))
    np.testing.assert_array_equal(found[:2], sampler.ancestral([0, 1], seed=3))
    if model_id != "no-lateral":  # its rows are a function of the class
        assert not np.array_equal(found, sampler.ancestral([0, 1, 2, 1], seed=4))


# --- Walkback -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("model_id", ["vanilla", "no-lateral", "gaussian"])
def test_a_step_from_the_training_rows_is_the_references_reconstruction(model_id: str) -> None:
    """One batch has the statistics of the training set, and the same key gives the same noise."""
    ladder = random_ladder(MODELS[model_id], DEEP, np.random.default_rng(0))
    sampler, x = sampler_of(ladder)
    *_, z_hat, _ = reference_pass(model_id, ladder, x)
    chain = sampler.walkback(x, 1)
    np.testing.assert_array_equal(chain[0], x)
    expected = z_hat[0].clip(x.min(axis=0), x.max(axis=0))
    assert np.mean(expected == z_hat[0]) > 0.1  # not all are beyond the range of the training rows
    np.testing.assert_allclose(chain[1], expected, rtol=1e-5, atol=1e-6)


def test_a_walk_repeats_itself() -> None:
    sampler, x = made_up_sampler("vanilla"), np.ones((ROWS, 3))
    chain = sampler.walkback(x, 3, seed=1)
    assert chain.shape == (4, ROWS, 3)
    np.testing.assert_array_equal(chain, sampler.walkback(x, 3, seed=1))
    assert not np.array_equal(chain[1], sampler.walkback(x, 3, seed=2)[1])


def test_a_walk_keeps_to_its_classes() -> None:
    sampler, x = made_up_sampler("no-lateral"), np.random.default_rng(2).normal(size=(ROWS, 3))
    chain = sampler.walkback(x, 3, classes=[2] * ROWS)
    # Without lateral connections the rows depend on ỹ alone.
    np.testing.assert_allclose(chain[1:], np.broadcast_to(sampler.ancestral([2]), (3, ROWS, 3)), rtol=1e-6)
    assert np.ptp(sampler.walkback(x, 1)[1, :, 1]) > 1e-3


# --- Bad input ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model_id", "changes", "words"),
    [
        ("baseline", {}, "The model baseline has no decoder, so it cannot generate samples"),
        ("vanilla", {"noise_std": [0, 0.3, 0.3]}, "trained without noise at the input"),
        ("vanilla", {"recon_weights": [0, 1, 1]}, "trained without reconstruction cost at the input"),
    ],
)
def test_a_network_that_removes_no_noise_is_refused(model_id: str, changes: dict, words: str) -> None:
    with pytest.raises(InputError, match=words):
        sampler_of(random_ladder(MODELS[model_id], SHALLOW, np.random.default_rng(0)), **changes)


def test_classes_rows_and_sizes_that_do_not_fit_are_refused() -> None:
    sampler, x = made_up_sampler("vanilla"), np.ones((ROWS, 3))
    for classes in ([3], [-1], [0.5], [[1]]):
        with pytest.raises(InputError, match="classes must be integers from 0 to 2, got"):
            sampler.ancestral(classes)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="give rows of 3 columns"):
        sampler.walkback(x[:, :2], 1)
    with pytest.raises(InputError, match="steps must be an integer of 1 or more, got 0"):
        sampler.walkback(x, 0)
    with pytest.raises(InputError, match="too many; give at most 33,333,333"):
        sampler.walkback(x, 10**9)

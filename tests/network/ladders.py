"""Random networks and batches, and their form in tests/reference.py."""

import dataclasses
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import reference

from laddernet.network.combinators import MLP, Combinator
from laddernet.network.ladder import Ladder, Pass, Path
from laddernet.network.models import Model

# JAX compiles every operation again for every shape, and most of the time of these tests is compilation. So they run
# eagerly and share few shapes: 4 or 6 rows, 3 or 5 units.
DEEP = (3, 5, 3, 5, 3)
SHALLOW = (3, 5, 3)
NARROW = (3, 1, 2)
KEY = jax.random.key(0)


class Batch(NamedTuple):
    """The arguments of `forward` after the network."""

    x_labelled: np.ndarray
    y_labelled: np.ndarray
    x_unlabelled: np.ndarray
    noise: tuple[list, list]
    noise_std: np.ndarray
    recon_weights: np.ndarray


def random_ladder(model: Model, sizes: tuple[int, ...], rng: np.random.Generator) -> Ladder:
    """A network whose every parameter is drawn from N(0, 1), whatever it starts at in training."""
    shapes = eqx.filter_eval_shape(Ladder, model, sizes, key=KEY)
    return jax.tree.map(lambda a: jnp.asarray(rng.normal(size=a.shape)), shapes)


def random_batch(
    model_id: str, sizes: tuple[int, ...], rng: np.random.Generator, *, labelled: int = 4, unlabelled: int = 6
) -> Batch:
    noise = [[rng.normal(size=(rows, n)) for n in sizes] for rows in (labelled, unlabelled)]
    return Batch(
        x_labelled=rng.normal(size=(labelled, sizes[0])),
        y_labelled=rng.integers(sizes[-1], size=labelled),
        x_unlabelled=rng.normal(size=(unlabelled, sizes[0])),
        noise=(reference.noise_of(model_id, noise[0]), reference.noise_of(model_id, noise[1])),
        noise_std=rng.uniform(0.2, 1, size=len(sizes)),
        recon_weights=rng.uniform(0.2, 1, size=len(sizes)),
    )


def weights_for_reference(ladder: Ladder) -> dict:
    """A network, or its gradient, as the reference writes them."""
    encoder = [{"W": layer.W, "gamma": layer.gamma, "beta": layer.beta} for layer in ladder.encoder]
    decoder = [{"V": layer.V, "combinator": in_reference_names(layer.combinator)} for layer in ladder.decoder]
    return jax.tree.map(np.asarray, {"encoder": encoder, "decoder": decoder})


def reference_costs(model_id: str, weights: dict, batch: Batch) -> dict:
    x_labelled, y_labelled, x_unlabelled, noise, noise_std, recon_weights = batch
    return reference.costs(model_id, weights, x_labelled, y_labelled, x_unlabelled, *noise, noise_std, recon_weights)


def by_name(p: Pass) -> dict:
    """All that `forward` computed; None where the model has no use for it."""

    def path(q: Path | None) -> dict | None:
        return q and {"z": q.z, "mu": q.mu, "sigma": q.sigma, "y": q.y}

    return {
        "cross_entropy": p.cross_entropy, "reconstruction": list(p.reconstruction), "total": p.total,
        "labelled": path(p.labelled), "noisy": path(p.noisy), "clean": path(p.clean), "u": p.u, "z_hat": p.z_hat,
    }  # fmt: skip


def expected_by_name(model_id: str, weights: dict, batch: Batch) -> dict:
    """The same of the reference."""
    costs = reference_costs(model_id, weights, batch)

    def path(q: dict) -> dict:
        # The input is not normalised; where the reference has None, the ladder has what changes nothing.
        return {
            "z": q["z"],
            "mu": [np.zeros(()), *q["mu"][1:]],
            "sigma": [np.ones(()), *q["sigma"][1:]],
            "y": q["h"][-1],
        }

    decodes = model_id not in reference.NO_DECODER
    input_only = model_id in reference.RECONS_AT_INPUT_ONLY
    return {
        "cross_entropy": costs["cross_entropy"],
        "reconstruction": costs["reconstruction"][:1] if input_only else costs["reconstruction"],
        "total": costs["total"],
        "labelled": path(costs["labelled"]),
        "noisy": path(costs["noisy"]) if decodes else None,
        "clean": path(costs["clean"]) if decodes and not input_only else None,
        **costs["decoder"],
    }


def in_reference_names(combinator: Combinator) -> dict:
    """A combinator's parameters as `reference.combinator` takes them."""
    if isinstance(combinator, MLP):
        parameters = {"W": list(combinator.weights), "b": list(combinator.biases)}
    else:
        parameters = {field.name: getattr(combinator, field.name) for field in dataclasses.fields(combinator)}
    return jax.tree.map(np.asarray, parameters)


def assert_drawn_from_a_normal_distribution(sample: jax.Array, std: float) -> None:
    """Mean, variance and fourth moment of `sample` lie within five standard errors of those of N(0, std²)."""
    a = np.asarray(sample, np.float64).ravel() / std
    for moment, expected, variance in ((1, 0, 1), (2, 1, 2), (4, 3, 96)):
        assert abs(np.mean(a**moment) - expected) < 5 * (variance / a.size) ** 0.5, f"moment {moment}"

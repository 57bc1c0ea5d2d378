"""The compiled programs of training: the initial state, and the steps of a chunk."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Bool, Float, Int, PRNGKeyArray

from laddernet.kernels.products import Precision, Step, Weights, adam, descend, moved
from laddernet.network.ladder import Ladder, Pass, draw_noise, forward
from laddernet.network.models import Model


class Packed(eqx.Module):
    """A network whose small arrays are one vector, so that the optimiser makes few, long passes."""

    large: Ladder
    small: Float[Array | np.ndarray, " small"]
    sizes: tuple[int, ...] = eqx.field(static=True)  # of the network's layers
    shapes: tuple[tuple[int, ...], ...] = eqx.field(static=True)  # of the small arrays
    structure: jax.tree_util.PyTreeDef = eqx.field(static=True)  # of a network that has none but them


State = tuple[Packed, optax.OptState]
CostTerm = Callable[[Pass], Float[Array, ""]]  # a further cost, with its weight
_LARGE = 2**15  # elements of a matrix that has its own place

# Without the first, XLA copies every weight matrix at each step, lest an update overwrite what is still to be read.
# The second lets it reorder sums; NaN and infinity stay what they are. Measured in results/performance.md.
_COMPILER_OPTIONS = {"xla_cpu_copy_insertion_use_region_analysis": True, "xla_cpu_enable_fast_math": True}


class Costs(eqx.Module):
    """Costs by name, of one step or of several. They are one array, which one operation stores."""

    names: tuple[str, ...] = eqx.field(static=True)
    values: Float[Array | np.ndarray, "*steps costs"]

    def __getitem__(self, name: str) -> Float[Array | np.ndarray, "*steps"]:
        return self.values[..., self.names.index(name)]


# Compiled to be run once.
@partial(
    jax.jit, static_argnames=("model", "sizes", "optimiser"), compiler_options={"xla_backend_optimization_level": 0}
)
def initial_state(
    key: PRNGKeyArray,
    eta: float,
    model: Model,
    sizes: tuple[int, ...],
    optimiser: optax.GradientTransformation = adam,
) -> State:
    """Draw the initial weights, and begin the optimiser's state."""
    packed = pack(Ladder(model, sizes, key=key, eta=eta))
    return packed, optimiser.init(packed)


@partial(
    jax.jit,
    static_argnames=("copies", "precision", "optimiser", "terms"),
    donate_argnames="state",
    compiler_options=_COMPILER_OPTIONS,
)
def run_steps(
    state: State,
    rows: tuple[Float[Array, "labelled features"], Int[Array, " labelled"], Float[Array, "unlabelled features"]],
    order: Sequence[Int[Array, "steps batch"]],
    noise_key: PRNGKeyArray,
    rates: Float[Array, " steps"],
    noise_std: Float[Array, " layers"],
    recon_weights: Float[Array, " layers"],
    weight_decay: Float[Array, ""],
    copies: int = 1,
    precision: Precision = "float32",
    optimiser: optax.GradientTransformation = adam,
    terms: tuple[tuple[str, CostTerm], ...] = (),
) -> tuple[State, Costs, Bool[Array, ""]]:
    """Take some steps. What may differ between epochs, seeds or settings is an argument, not a constant.

    Parameters
    ----------
    state
        Weights and the optimiser's state. Its memory is reused.
    rows, order
        Labelled rows, their classes and unlabelled rows; and the numbers of the rows that each step takes.
    noise_key
        The key of these steps' noise.
    rates, noise_std, recon_weights, weight_decay
        The learning rate of each step, noise and λ of each layer, the weight decay.
    copies, precision, optimiser, terms
        As in `laddernet.training.program.Program`.

    Returns
    -------
    tuple
        The new state, the costs of each step, and whether all numbers of the state are finite.
    """
    model, sizes = state[0].large.model, state[0].sizes
    x_labelled, y_labelled, x_unlabelled = rows
    batches = [numbers.shape[1] for numbers in order]
    decaying = _decaying(state[0])

    def step(state: State, inputs: Any) -> tuple[State, Costs]:
        weights, memory = state
        i, j, key, rate = inputs
        with jax.named_scope("noise"):
            drawn_rows = batches[0] + -(-copies // 2) * batches[1]  # copies come in pairs that mirror each other
            noise = draw_noise(model, sizes, drawn_rows, key=key, wanted=jnp.any(noise_std > 0))
            labelled = [None if n is None else n[: batches[0]] for n in noise]
            unlabelled = [None if n is None else mirrored(n[batches[0] :], copies * batches[1]) for n in noise]

        def cost(large: Ladder, small: Float[Array, " small"]) -> tuple[Array, Costs]:
            done = forward(
                _in_precision(unpack(replace(weights, large=large, small=small)), precision),
                x_labelled[i],
                y_labelled[i],
                x_unlabelled[j],
                (labelled, unlabelled),
                noise_std,
                recon_weights,
                copies,
            )
            more = {name: term(done) for name, term in terms}
            total = sum(more.values(), start=done.total)
            costs = {"cost": total, **done.costs, **more}
            return total, Costs(tuple(costs), jnp.stack(list(costs.values())))

        if optimiser == adam:
            return _adam_step(cost, weights, memory, rate, weight_decay, decaying, precision)
        return _optax_step(optimiser, cost, weights, memory, rate, weight_decay, decaying)

    step_keys = jax.random.split(noise_key, len(rates))
    state, costs = jax.lax.scan(step, state, (*order, step_keys, rates))
    finite = jnp.all(jnp.stack([jnp.all(jnp.isfinite(w)) for w in jax.tree.leaves(state)]))
    return state, costs, finite


def _adam_step(
    cost: Callable[[Ladder, Any], tuple[Array, Costs]],
    weights: Packed,
    memory: optax.OptState,
    rate: Float[Array, ""],
    weight_decay: Float[Array, ""],
    decaying: Float[np.ndarray, " small"],
    precision: Precision,
) -> tuple[State, Costs]:
    """Take a step of Adam; a large matrix moves inside the product that makes its gradient."""
    count, mu, nu = memory
    this = Step((count + 1).astype(rate.dtype), rate, weight_decay)
    large, of_large, gradient, costs = descend(
        cost, weights.large, (mu.large, nu.large), weights.small, this, precision
    )
    this = replace(this, decay=weight_decay * decaying)
    small, of_small = moved(jnp.asarray(weights.small), (mu.small, nu.small), gradient, this)
    moments = (replace(mu, large=l, small=s) for mu, l, s in zip((mu, nu), of_large, of_small, strict=True))
    return (replace(weights, large=large, small=small), optax.ScaleByAdamState(count + 1, *moments)), costs


def _optax_step(
    optimiser: optax.GradientTransformation,
    cost: Callable[[Ladder, Any], tuple[Array, Costs]],
    weights: Packed,
    memory: optax.OptState,
    rate: Float[Array, ""],
    weight_decay: Float[Array, ""],
    decaying: Float[np.ndarray, " small"],
) -> tuple[State, Costs]:
    """Take a step in the direction that an Optax transformation makes of the gradient."""
    gradient, costs = jax.grad(lambda packed: cost(packed.large, packed.small), has_aux=True)(weights)
    direction, memory = optimiser.update(gradient, memory, weights)
    decays = replace(weights, large=jax.tree.map(lambda _: 1.0, weights.large), small=decaying)
    weights = jax.tree.map(
        lambda w, d, decay: (w - rate * (d + weight_decay * decay * w)).astype(w.dtype), weights, direction, decays
    )
    return (weights, memory), costs


def mirrored(noise: Float[Array, "drawn units"], rows: int) -> Float[Array, "rows units"]:
    """Return ``rows`` rows of noise: those that were drawn, then their negatives.

    In a pair of noisy copies the odd terms of the noise cancel, so that two pairs give a gradient about as precise as
    five independent copies (benchmarks/gradient_noise.py).
    """
    return noise if len(noise) == rows else jnp.concatenate([noise, -noise])[:rows]


def pack(ladder: Ladder) -> Packed:
    is_matrix = _matrices(ladder)
    is_large = jax.tree.map(lambda leaf, matrix: matrix and leaf.size >= _LARGE, ladder, is_matrix)
    large, small = eqx.partition(ladder, is_large)
    leaves, structure = jax.tree.flatten(small)
    flat = jnp.concatenate([leaf.ravel() for leaf in leaves])
    return Packed(large, flat, ladder.sizes, tuple(leaf.shape for leaf in leaves), structure)


def unpack(packed: Packed) -> Ladder:
    lengths = [math.prod(shape) for shape in packed.shapes]
    if isinstance(packed.small, np.ndarray):
        parts: Sequence[Any] = np.split(packed.small, np.cumsum(lengths[:-1]))
    else:
        parts = jax.lax.split(packed.small, lengths)  # one operation, where a slice for each would take long to trace
    leaves = [part.reshape(shape) for part, shape in zip(parts, packed.shapes, strict=True)]
    small = jax.tree.unflatten(packed.structure, leaves)
    ladder: Ladder = eqx.combine(packed.large, small, is_leaf=_is_weights)
    return ladder


def ladder_of(state: State) -> Ladder:
    """Return the network of a state, unpacked by the host: JAX would compile several kernels for that."""
    packed = state[0]
    return unpack(replace(packed, small=np.array(packed.small)))


def _in_precision(ladder: Ladder, precision: Precision) -> Ladder:
    """Return the network with a precision for the products of each W and V that is a plain array."""
    if precision == "float32":
        return ladder
    is_matrix = _matrices(jax.tree.map(lambda _: 0, ladder, is_leaf=_is_weights))
    wrapped: Ladder = jax.tree.map(
        lambda leaf, matrix: Weights(leaf, precision) if matrix and isinstance(leaf, Array) else leaf,
        ladder,
        is_matrix,
        is_leaf=_is_weights,
    )
    return wrapped


def _is_weights(node: Any) -> bool:
    return isinstance(node, Weights)


def _matrices(ladder: Ladder) -> Ladder:
    """Return True in the place of each layer's W or V, False in that of every other array."""
    # The path of a W is encoder, number, W; that of a combinator's parameter is longer.
    marks: Ladder = jax.tree_util.tree_map_with_path(
        lambda path, _: jax.tree_util.keystr(path[2:], simple=True, separator=".") in ("W", "V"), ladder
    )
    return marks


def _decaying(packed: Packed) -> Float[np.ndarray, " small"]:
    """Return one for each element of the small vector that belongs to a W or V, zero for every other."""
    lengths = [math.prod(shape) for shape in packed.shapes]
    of_matrices = jax.tree.leaves(_matrices(jax.tree.unflatten(packed.structure, lengths)))
    return np.repeat(np.asarray(of_matrices, packed.small.dtype), lengths)

"""The combinators g(z̃, u) of the paper: how a decoder unit combines its lateral input z̃ and its top-down input u.

A combinator is a small Equinox module for a layer of ``units`` units. It is called with two arrays of shape
``(rows, units)``; each unit has parameters of its own.
"""

import dataclasses
from abc import abstractmethod
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, ArrayLike, Float, PRNGKeyArray

from laddernet.kernels import derivatives
from laddernet.kernels.noise import normal, normals
from laddernet.network import sources

PerUnit = Float[Array, " units"]
"""The type of a combinator's parameter with one value for each unit of the layer."""

Layer = Float[Array, "rows units"]


def initially(value: float) -> Any:
    """Declare a parameter of a combinator that has one value for each unit.

    Parameters
    ----------
    value
        The value that the parameter has in all units when training starts.

    Returns
    -------
    Any
        A field of the combinator's class.

    Examples
    --------
    >>> class Scale(Combinator):
    ...     w: PerUnit = initially(0.5)
    ...
    ...     def __call__(self, z_tilde, u):
    ...         return self.w * z_tilde
    >>> print(Scale(2, key=jax.random.key(0), eta=0.1).w)
    [0.5 0.5]
    """
    return eqx.field(metadata={"initially": value})


class Combinator(eqx.Module):
    """A combinator g(z̃, u), which every unit of a layer applies with parameters of its own.

    Subclass it to write one: declare the parameters with :func:`initially`, and the formula as ``__call__``. The class
    can then be given in the place of a model's id.

    Parameters
    ----------
    units
        Number of units of the layer.
    key
        Random key, for combinators that draw their initial parameters.
    eta
        Standard deviation η of such draws.

    Examples
    --------
    >>> class Gate(Combinator):
    ...     w: PerUnit = initially(0.0)
    ...
    ...     def __call__(self, z_tilde, u):
    ...         gate = jax.nn.sigmoid(self.w)
    ...         return gate * z_tilde + (1 - gate) * u
    >>> gate = Gate(3, key=jax.random.key(0), eta=0.1)
    >>> print(gate(jnp.ones((1, 3)), jnp.zeros((1, 3))))
    [[0.5 0.5 0.5]]
    """

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        sources.record(cls)

    def __init__(self, units: int, *, key: PRNGKeyArray, eta: Float[ArrayLike, ""]) -> None:
        """Give every parameter declared with :func:`initially` its value; override it to draw parameters instead."""
        for parameter in dataclasses.fields(self):
            setattr(self, parameter.name, jnp.full(units, parameter.metadata["initially"], float))

    @abstractmethod
    def __call__(self, z_tilde: Layer, u: Layer) -> Layer:
        """Return ẑ.

        Parameters
        ----------
        z_tilde
            Lateral input: the noisy z̃ of the layer.
        u
            Top-down input: the normalised projection of the layer above.

        Returns
        -------
        Array
            The reconstruction ẑ, of the same shape.
        """


class Vanilla(Combinator):
    """b0 + w0z⊙z̃ + w0u⊙u + w0zu⊙z̃⊙u + wσ⊙sigmoid(b1 + w1z⊙z̃ + w1u⊙u + w1zu⊙z̃⊙u).

    It starts as z̃ + sigmoid(z̃): a stack of decoupled denoising autoencoders.
    """

    b0: PerUnit = initially(0.0)
    w0z: PerUnit = initially(1.0)
    w0u: PerUnit = initially(0.0)
    w0zu: PerUnit = initially(0.0)
    wsigma: PerUnit = initially(1.0)
    b1: PerUnit = initially(0.0)
    w1z: PerUnit = initially(1.0)
    w1u: PerUnit = initially(0.0)
    w1zu: PerUnit = initially(0.0)

    def __call__(self, z_tilde: Layer, u: Layer) -> Layer:
        zu = z_tilde * u
        gate = jax.nn.sigmoid(self.b1 + self.w1z * z_tilde + self.w1u * u + self.w1zu * zu)
        return self.b0 + self.w0z * z_tilde + self.w0u * u + self.w0zu * zu + self.wsigma * gate


class RandInit(Vanilla):
    """Vanilla, every parameter drawn from N(0, 0.2²)."""

    def __init__(self, units: int, *, key: PRNGKeyArray, eta: Float[ArrayLike, ""]) -> None:
        drawn = 0.2 * normal(key, (9, units))
        self.b0, self.w0z, self.w0u, self.w0zu, self.wsigma, self.b1, self.w1z, self.w1u, self.w1zu = drawn


class RevInit(Vanilla):
    """Vanilla with the initial values of z̃ and u exchanged: it starts as u + sigmoid(u)."""

    w0z: PerUnit = initially(0.0)
    w0u: PerUnit = initially(1.0)
    w1z: PerUnit = initially(0.0)
    w1u: PerUnit = initially(1.0)


class NoLateral(Combinator):
    """b0 + w0u⊙u + wσ⊙sigmoid(b1 + w1u⊙u): vanilla without every term of z̃.

    Vanilla's zeros for w0u and w1u would make every ẑ a constant and every gradient of the decoder zero. So both start
    at one, as in RevInit.
    """

    b0: PerUnit = initially(0.0)
    w0u: PerUnit = initially(1.0)
    wsigma: PerUnit = initially(1.0)
    b1: PerUnit = initially(0.0)
    w1u: PerUnit = initially(1.0)

    def __call__(self, z_tilde: Layer, u: Layer) -> Layer:
        return self.b0 + self.w0u * u + self.wsigma * jax.nn.sigmoid(self.b1 + self.w1u * u)


class NoSig(Combinator):
    """b0 + w0z⊙z̃ + w0u⊙u + w0zu⊙z̃⊙u: vanilla without the sigmoid path."""

    b0: PerUnit = initially(0.0)
    w0z: PerUnit = initially(1.0)
    w0u: PerUnit = initially(0.0)
    w0zu: PerUnit = initially(0.0)

    def __call__(self, z_tilde: Layer, u: Layer) -> Layer:
        return self.b0 + self.w0z * z_tilde + self.w0u * u + self.w0zu * (z_tilde * u)


class NoMult(Combinator):
    """b0 + w0z⊙z̃ + w0u⊙u + wσ⊙sigmoid(b1 + w1z⊙z̃ + w1u⊙u): vanilla without the products z̃⊙u."""

    b0: PerUnit = initially(0.0)
    w0z: PerUnit = initially(1.0)
    w0u: PerUnit = initially(0.0)
    wsigma: PerUnit = initially(1.0)
    b1: PerUnit = initially(0.0)
    w1z: PerUnit = initially(1.0)
    w1u: PerUnit = initially(0.0)

    def __call__(self, z_tilde: Layer, u: Layer) -> Layer:
        gate = jax.nn.sigmoid(self.b1 + self.w1z * z_tilde + self.w1u * u)
        return self.b0 + self.w0z * z_tilde + self.w0u * u + self.wsigma * gate


class Linear(Combinator):
    """b + wu⊙u + wz⊙z̃."""

    b: PerUnit = initially(0.0)
    wu: PerUnit = initially(0.0)
    wz: PerUnit = initially(1.0)

    def __call__(self, z_tilde: Layer, u: Layer) -> Layer:
        return self.b + self.wu * u + self.wz * z_tilde


class Gaussian(Combinator):
    """ν(u)⊙z̃ + (1−ν(u))⊙μ(u): the optimal denoising if z and its noise are Gaussian.

    μ(u) = w1⊙sigmoid(w2⊙u + w3) + w4⊙u + w5 and ν(u) = w6⊙sigmoid(w7⊙u + w8) + w9⊙u + w10.
    """

    w1: PerUnit = initially(0.0)
    w2: PerUnit = initially(1.0)
    w3: PerUnit = initially(0.0)
    w4: PerUnit = initially(0.0)
    w5: PerUnit = initially(0.0)
    w6: PerUnit = initially(0.0)
    w7: PerUnit = initially(1.0)
    w8: PerUnit = initially(0.0)
    w9: PerUnit = initially(0.0)
    w10: PerUnit = initially(0.0)

    def nu(self, u: Layer) -> Layer:
        """Return the weight of the lateral input; it is not constrained to [0, 1]."""
        return self.w6 * jax.nn.sigmoid(self.w7 * u + self.w8) + self.w9 * u + self.w10

    def __call__(self, z_tilde: Layer, u: Layer) -> Layer:
        mu = self.w1 * jax.nn.sigmoid(self.w2 * u + self.w3) + self.w4 * u + self.w5
        nu = self.nu(u)
        return nu * z_tilde + (1 - nu) * mu


class GatedGauss(Combinator):
    """Gaussian with ν(u) = sigmoid(w6⊙u + w7), a weight between 0 and 1.

    As in Gaussian, the factors of u inside a sigmoid (w2 and w6) start at one, all other parameters at zero.
    """

    w1: PerUnit = initially(0.0)
    w2: PerUnit = initially(1.0)
    w3: PerUnit = initially(0.0)
    w4: PerUnit = initially(0.0)
    w5: PerUnit = initially(0.0)
    w6: PerUnit = initially(1.0)
    w7: PerUnit = initially(0.0)

    def nu(self, u: Layer) -> Layer:
        """Return the weight of the lateral input, 0 < ν < 1."""
        return jax.nn.sigmoid(self.w6 * u + self.w7)

    def __call__(self, z_tilde: Layer, u: Layer) -> Layer:
        mu = self.w1 * jax.nn.sigmoid(self.w2 * u + self.w3) + self.w4 * u + self.w5
        nu = self.nu(u)
        return nu * z_tilde + (1 - nu) * mu


@derivatives.by_hand(derivatives.of_leaky_relu)
def leaky_relu(a: Layer) -> Layer:
    """LReLU, with slope 0.1 below zero."""
    return jnp.where(a >= 0, a, 0.1 * a)


@derivatives.by_hand(derivatives.of_linear)
def linear(
    W: Float[Array, "inputs outputs units"], b: Float[Array, "outputs units"], v: Sequence[Layer]
) -> list[Layer]:
    """b(j) + Σ W(i, j)⊙v(i), for each output j of the small MLPs.

    There are few inputs and outputs: the sums, written out, become one fused loop over rows and units.
    """
    return [sum((W[i][j] * v_i for i, v_i in enumerate(v)), start=b[j]) for j in range(len(b))]


class MLP(Combinator):
    """A small MLP of [u, z̃] for every unit, LReLU between its layers; weights ~ N(0, η²), biases zero."""

    weights: tuple[Float[Array, "inputs outputs units"], ...]
    biases: tuple[Float[Array, "outputs units"], ...]

    def __init__(
        self,
        units: int,
        *,
        key: PRNGKeyArray,
        eta: Float[ArrayLike, ""],
        hidden: tuple[int, ...],
        inputs: int = 2,
    ) -> None:
        shapes = [(*shape, units) for shape in pairwise((inputs, *hidden, 1))]
        self.weights = tuple(jnp.asarray(eta) * weight for weight in normals(key, shapes))
        self.biases = tuple(jnp.zeros(shape[1:]) for shape in shapes)

    def inputs(self, z_tilde: Layer, u: Layer) -> list[Layer]:
        """Return the inputs of the MLPs."""
        return [u, z_tilde]

    def __call__(self, z_tilde: Layer, u: Layer) -> Layer:
        values = linear(self.weights[0], self.biases[0], self.inputs(z_tilde, u))
        for W, b in zip(self.weights[1:], self.biases[1:], strict=True):
            values = linear(W, b, [leaky_relu(a) for a in values])
        return values[0]


class AMLP(MLP):
    """The augmented MLP: as MLP, of [u, z̃, u⊙z̃]."""

    def __init__(self, units: int, **kwargs: Any) -> None:
        super().__init__(units, inputs=3, **kwargs)

    def inputs(self, z_tilde: Layer, u: Layer) -> list[Layer]:
        return [u, z_tilde, u * z_tilde]

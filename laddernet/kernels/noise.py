"""Fast random numbers: normal noise and shuffles from a counter-based generator that XLA fuses into one loop.

``jax.random.normal`` takes a tenth of a training step on a CPU: it runs Threefry's 20 rounds as a loop over whole
arrays and inverts the error function. Here the rounds are 13 and written out. The two words of each position become two
normal numbers by the Box-Muller transform, with polynomials as precise as float32. As in JAX, a number is a function of
the key and the position alone.
"""

import math
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, ArrayLike, Bool, Complex64, Float, Float32, Int32, PRNGKeyArray, UInt32
from numpy.polynomial import Chebyshev, Polynomial

_ROUNDS = 13
_ROTATIONS = (13, 15, 26, 6, 17, 29, 16, 24)


def _fit(f: Callable[[np.ndarray], np.ndarray], low: float, high: float, degree: int) -> list[float]:
    """Return the coefficients of a polynomial that approximates f between two bounds, lowest power first."""
    fitted = Chebyshev.interpolate(f, degree, domain=[low, high]).convert(kind=Polynomial)
    return [float(c) for c in fitted.coef]


_LOG = _fit(lambda f: np.log1p(f) / f, 0.5**0.5 - 1, 2**0.5 - 1, 7)  # ln(1 + f) / f
_SIN = _fit(lambda s2: np.sin(2 * np.pi * np.sqrt(s2)) / np.sqrt(s2), 0, 1 / 16, 4)  # sin(2πs) / s, of s²


def normal(key: PRNGKeyArray, shape: tuple[int, ...]) -> Float[Array, "..."]:
    """Draw independent numbers from N(0, 1); none is beyond ±5.8.

    >>> normal(jax.random.key(0), (2, 3)).shape
    (2, 3)
    """
    return normal_pairs(key, shape).real


def normals(key: PRNGKeyArray, shapes: Sequence[tuple[int, ...]]) -> list[Float[Array, "..."]]:
    """Draw an array of each shape from N(0, 1), in one draw for all of them: it is compiled once.

    >>> [array.shape for array in normals(jax.random.key(0), [(2, 3), (4,)])]
    [(2, 3), (4,)]
    """
    ends = list(accumulate(math.prod(shape) for shape in shapes))
    drawn = jnp.split(normal(key, (ends[-1],)), ends[:-1])
    return [flat.reshape(shape) for flat, shape in zip(drawn, shapes, strict=True)]


def normal_columns(
    key: PRNGKeyArray, rows: int, widths: Sequence[int], wanted: Bool[ArrayLike, ""] = True
) -> list[Float[Array, "rows width"]]:
    """Draw matrices of these widths from N(0, 1), or zeros if no noise is ``wanted``.

    >>> [matrix.shape for matrix in normal_columns(jax.random.key(0), 3, [2, 5])]
    [(3, 2), (3, 5)]
    """
    half = (-(-rows // 2), sum(widths))
    # The result of a conditional is computed once; XLA would otherwise repeat the draw in each loop that uses it.
    # A run without noise draws none.
    pairs = jax.lax.cond(wanted, lambda: normal_pairs(key, half), lambda: jnp.zeros(half, jnp.complex64))
    columns = jnp.concatenate([pairs.real, pairs.imag])[:rows]
    return [columns[:, end - width : end] for width, end in zip(widths, accumulate(widths), strict=True)]


def normal_pairs(key: PRNGKeyArray, shape: tuple[int, ...]) -> Complex64[Array, "..."]:
    """Draw two numbers for each position, its real and its imaginary part, with little more work than for one.

    For two arrays of reals, XLA would do the work twice; for one complex array it makes a single loop.
    """
    position = jax.lax.iota(jnp.uint32, math.prod(shape)).reshape(shape)
    first, second = _threefry(jax.random.key_data(key), position, jnp.uint32(0))
    # The radius is √(−2 ln v), where v is an odd multiple of 2⁻²⁴ between 0 and 1.
    v = (_signed(first >> 9).astype(jnp.float32) + 0.5) * 2.0**-23
    radius = jnp.sqrt(jnp.maximum(-2 * _log(v), 0))
    # The angle t is in turns, from −½ to ½: cos(2πt) = sin(2π(¼ − |t|)), and sin(2πt) has the sign of t.
    t = _signed(second).astype(jnp.float32) * 2.0**-32
    s = 0.25 - jnp.abs(t)
    cosine, sine = _sine(s), jnp.copysign(_sine(0.25 - jnp.abs(s)), t)
    return jax.lax.complex(radius * cosine, radius * sine)


def permutations(key: PRNGKeyArray, which: UInt32[np.ndarray, " some"], n: int) -> Int32[np.ndarray, "some n"]:
    """Return shuffles of the numbers below ``n``: those numbered ``which`` of an endless series.

    NumPy computes them: no program is compiled, so that none depends on the number of rows.

    >>> np.sort(permutations(jax.random.key(0), np.arange(1, dtype=np.uint32), 4)).tolist()
    [[0, 1, 2, 3]]
    """
    row = np.broadcast_to(np.arange(n, dtype=np.uint32), (len(which), n))
    with np.errstate(over="ignore"):  # words wrap around
        first, second = _threefry(np.asarray(jax.random.key_data(key)), row, np.asarray(which)[:, None])
    words: np.ndarray = first.astype(np.uint64) << 32
    words |= second
    order: np.ndarray = words.argsort(axis=1, kind="stable").astype(np.int32)
    return order


Words = UInt32[Array | np.ndarray, "..."]


def _threefry(key: UInt32[Array | np.ndarray, " words"], low: Words, high: Words) -> tuple[Any, Any]:
    """Return the two words of Threefry-2x32 (Salmon et al. 2011) for (low, high); by NumPy or JAX, as the key is."""
    keys = (key[0], key[1], key[0] ^ key[1] ^ np.uint32(0x1BD11BDA))
    a: Any = low + keys[0]
    b: Any = high + keys[1]
    for r in range(_ROUNDS):
        turn = _ROTATIONS[r % 8]
        a = a + b
        b = a ^ ((b << turn) | (b >> (32 - turn)))
        if r % 4 == 3:
            injection = r // 4 + 1
            a = a + keys[injection % 3]
            b = b + (keys[(injection + 1) % 3] + np.uint32(injection))
    return a, b


def _sine(s: Float32[Array, "..."]) -> Float32[Array, "..."]:
    """Return sin(2πs) for s between −¼ and ¼."""
    return s * _polynomial(_SIN, s * s)


def _log(v: Float32[Array, "..."]) -> Float32[Array, "..."]:
    """Return ln v of positive numbers, where v = 2ᵉ (1 + f) with 1 + f between √½ and √2."""
    bits = jax.lax.bitcast_convert_type(v, jnp.int32)
    e = (bits - 0x3F3504F3) >> 23
    f = jax.lax.bitcast_convert_type(bits - (e << 23), jnp.float32) - 1
    log_2 = jnp.float32(math.log(2))
    return jnp.asarray(e.astype(jnp.float32) * log_2 + f * _polynomial(_LOG, f))


def _polynomial(coefficients: Sequence[float], x: Float32[Array, "..."]) -> Float32[Array, "..."]:
    value = jnp.full_like(x, coefficients[-1])
    for c in coefficients[-2::-1]:
        value = value * x + jnp.float32(c)
    return jnp.asarray(value)


def _signed(words: UInt32[Array, "..."]) -> Int32[Array, "..."]:
    """Return the same bits as signed integers, which vector units convert to floats in one instruction."""
    return jax.lax.bitcast_convert_type(words, jnp.int32)

"""A combinator as machine code: its formula, as it stands in Python, in one loop, and all its derivatives in another.

XLA adds up the derivative of each parameter over the rows in a loop of its own. Here JAX traces the formula, and its
derivatives, on the scalars of a single unit; what it finds is written down in C, and fusing.c has the loops. What
cannot be treated so (a combinator that does something which is not translated, no compiler) is called as it is.
"""

import hashlib
import math
from collections.abc import Iterator, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import core
from jaxtyping import Array, Float

from laddernet import native
from laddernet.combinators import Combinator, Layer

Parameters = Float[Array, "parameters units"]
Shape = tuple[int, ...]


def combine(combinator: Combinator, z_tilde: Layer, u: Layer) -> Layer:
    """ẑ, the same as ``combinator(z_tilde, u)``, to be differentiated in reverse mode."""
    with jax.named_scope("combinator"):
        leaves, structure = jax.tree.flatten(combinator)
        name = None
        if _are_per_unit(leaves, z_tilde, u) and native.suits(z_tilde, u, *leaves):
            name = _compiled(structure, tuple(leaf.shape for leaf in leaves), z_tilde.shape)
        if name is None:
            return combinator(z_tilde, u)
        units = z_tilde.shape[1]
        rows = [jnp.zeros((0, units), jnp.float32), *(leaf.reshape(-1, units) for leaf in leaves)]
        return _combine(name, z_tilde, u, jnp.concatenate(rows))


def _are_per_unit(leaves: Sequence[Any], z_tilde: Layer, u: Layer) -> bool:
    units = z_tilde.shape[1:]
    return z_tilde.shape == u.shape and all(getattr(leaf, "shape", ())[-1:] == units for leaf in leaves)


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def _combine(name: str, z_tilde: Layer, u: Layer, parameters: Parameters) -> Layer:
    call = jax.ffi.ffi_call(f"{name}_values", native.float32(z_tilde.shape), vmap_method="sequential")
    z_hat: Layer = call(z_tilde, u, parameters)
    return z_hat


def _forward(name: str, *given: Array) -> tuple[Layer, tuple[Array, ...]]:
    return _combine(name, *given), given


@jax.named_scope("combinator")
def _backward(name: str, given: tuple[Array, ...], d: Layer) -> tuple[Array, ...]:
    results = [native.float32(array.shape) for array in given]
    return tuple(jax.ffi.ffi_call(f"{name}_derivatives", results, vmap_method="sequential")(*given, d))


_combine.defvjp(_forward, _backward)


# --- From a combinator to C -------------------------------------------------------------------------------------------


@cache
def _compiled(structure: Any, shapes: tuple[Shape, ...], layer: Shape) -> str | None:
    """What XLA knows the combinator with leaves of these shapes by; None if it can only be called as it is."""

    def on_arrays(z: Any, u: Any, *leaves: Any) -> Any:
        return jax.tree.unflatten(structure, leaves)(z, u)

    try:
        source, operations = _written(structure, tuple(shape[:-1] for shape in shapes))
        traced = jax.make_jaxpr(on_arrays)(*map(native.float32, (layer, layer, *shapes)))
    except Exception:  # whatever becomes of a user's formula, which was written for arrays, when it is given scalars
        return None
    # A formula that uses the size of a layer, or transposes it, shows only when it is given arrays.
    if _operations(traced.jaxpr) != operations:
        return None
    name = f"laddernet_{hashlib.sha256(source.encode()).hexdigest()[:16]}"
    return name if _registered(source, name) else None


@cache
def _registered(source: str, name: str) -> bool:
    return native.registered(source, {function: f"{name}_{function}" for function in ("values", "derivatives")})


@cache
def _written(structure: Any, shapes: tuple[Shape, ...]) -> tuple[str, list[str]]:
    """A combinator in C, and the operations of its formula; ``shapes`` are those of what a unit has of each leaf.

    Raises an exception if there is anything that is not translated.
    """

    def formula(z: Any, u: Any, *parameters: Any) -> Any:
        scalars = iter(parameters)
        return jax.tree.unflatten(structure, [_nested(shape, scalars) for shape in shapes])(z, u)

    def derivative(d: Any, *arguments: Any) -> Any:
        return jax.vjp(formula, *arguments)[1](d)

    names = ["z", "u", *(f"p[{i}]" for i in range(sum(map(math.prod, shapes))))]
    scalars = [native.float32(())] * len(names)
    traced = jax.make_jaxpr(formula)(*scalars)
    lines, (z_hat,) = _statements(traced, names)
    d_lines, (dz, du, *dp) = _statements(jax.make_jaxpr(derivative)(native.float32(()), *scalars), ["d", *names])
    source = [
        f"enum {{ PARAMETERS = {len(dp)} }};",
        (Path(__file__).parent / "fusing.c").read_text(),
        "INLINE vec formula(vec z, vec u, const vec *p) {",
        *lines,
        f"  return {z_hat};",
        "}",
        "",
        "INLINE void derivative(vec z, vec u, const vec *p, vec d, vec *dz, vec *du, vec *dp) {",
        *d_lines,
        f"  *dz = {dz};",
        f"  *du = {du};",
        *(f"  dp[{i}] += {value};" for i, value in enumerate(dp)),
        "}",
        "",
    ]
    return "\n".join(source), _operations(traced.jaxpr)


def _nested(shape: Shape, scalars: Iterator[Any]) -> Any:
    """The next of the scalars as tuples in tuples, which can be taken apart as an array can."""
    return tuple(_nested(shape[1:], scalars) for _ in range(shape[0])) if shape else next(scalars)


# --- From what JAX traced to lines of C -------------------------------------------------------------------------------

_SYMBOLS = {
    **{"add": "+", "add_any": "+", "sub": "-", "mul": "*", "div": "/", "and": "&", "or": "|"},
    **{"gt": ">", "ge": ">=", "lt": "<", "le": "<=", "eq": "==", "ne": "!="},
}
_TEMPLATES = {
    **{name: f"{{}} {symbol} {{}}" for name, symbol in _SYMBOLS.items()},
    "neg": "-{}",
    "not": "~{}",
    "stop_gradient": "{}",
    "copy": "{}",
    "select_n": "choose({0}, {2}, {1})",
    "max": "larger({}, {})",
    "min": "smaller({}, {})",
    "clamp": "smaller(larger({1}, {0}), {2})",
    "abs": "magnitude({})",
    "sign": "sign({})",
    "square": "power({}, 2)",
    "integer_pow": "power({}, {y})",
    "sqrt": "square_root({})",
    "rsqrt": "1 / square_root({})",
    "exp": "exponential({})",
    "expm1": "exponential_less_1({})",
    "logistic": "sigmoid({})",
    "tanh": "hyperbolic_tangent({})",
}
_TYPES = {"float32": "vec", "bool": "ivec"}
_CALLS = {"jit": "jaxpr", "custom_jvp_call": "call_jaxpr", "custom_vjp_call": "call_jaxpr"}
_SHAPING = ("broadcast_in_dim", "slice", "squeeze")


def _statements(traced: core.ClosedJaxpr, arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Lines of C that do what was traced, and what its results are called there."""
    lines: list[str] = []

    def write(traced: core.ClosedJaxpr, arguments: Sequence[str]) -> list[str]:
        names: dict[Any, str] = dict(zip(traced.jaxpr.constvars, map(_number, traced.consts), strict=True))
        names.update(zip(traced.jaxpr.invars, arguments, strict=True))

        def name(operand: Any) -> str:
            return _number(operand.val) if isinstance(operand, core.Literal) else names[operand]

        for equation in traced.jaxpr.eqns:
            operands = [name(operand) for operand in equation.invars]
            called = _called(equation)
            if called is None:
                results = [f"v{len(lines)}"]
                kind = _TYPES[_dtype(equation.outvars[0])]
                lines.append(f"  {kind} {results[0]} = {_expression(equation, operands)};")
            else:
                results = write(called, operands)
            names.update(zip(equation.outvars, results, strict=True))
        return [name(result) for result in traced.jaxpr.outvars]

    return lines, write(traced, arguments)


def _expression(equation: core.JaxprEqn, operands: Sequence[str]) -> str:
    if equation.primitive.name == "convert_element_type":
        was_bool = _dtype(equation.invars[0]) == "bool"
        return f"choose({operands[0]}, splat(1), splat(0))" if was_bool else operands[0]
    return _TEMPLATES[equation.primitive.name].format(*operands, **equation.params)


def _dtype(variable: Any) -> str:
    name: str = variable.aval.dtype.name
    return name


def _number(value: Any) -> str:
    number = np.asarray(value)
    if number.dtype == bool:
        return "~(ivec){0}" if number else "(ivec){0}"
    return f"splat({float(number).hex()})".replace("inf", "INFINITY").replace("nan", "NAN")


def _called(equation: core.JaxprEqn) -> core.ClosedJaxpr | None:
    """What an equation stands for, if it is but a name for others."""
    called: core.ClosedJaxpr | None = equation.params.get(_CALLS.get(equation.primitive.name, ""))
    return called


def _operations(jaxpr: core.Jaxpr) -> list[str]:
    """What is done, and with which numbers, apart from bringing arrays into shape."""
    found: list[str] = []
    for equation in jaxpr.eqns:
        called = _called(equation)
        if called is not None:
            found += _operations(called.jaxpr)
        elif equation.primitive.name not in _SHAPING:
            found.append(equation.primitive.name)
        found += [_number(operand.val) for operand in equation.invars if isinstance(operand, core.Literal)]
    return found

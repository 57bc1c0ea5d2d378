"""A combinator as a native kernel: its Python formula in one loop, and all its derivatives in another.

XLA sums the derivative of each parameter over the rows in a separate loop. Here JAX traces the formula and its
derivatives on the scalars of a single unit, the traced operations are translated to C, and formulas.c adds the loops. A
combinator with an operation that is not translated is called as it is.
"""

import hashlib
import logging
import math
from collections.abc import Iterator, Sequence
from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import core
from jaxtyping import Array, Float

from laddernet.kernels import native

_log = logging.getLogger(__name__)

Layer = Float[Array, "rows units"]
Parameters = Float[Array, "parameters units"]
Shape = tuple[int, ...]


def combine(combinator: Any, z_tilde: Layer, u: Layer) -> Layer | None:
    """Return ẑ = combinator(z_tilde, u); None if there is no native kernel for it.

    The combinator is a pytree whose leaves are its parameters.
    """
    leaves, structure = jax.tree.flatten(combinator)
    are_per_unit = all(getattr(leaf, "shape", ())[-1:] == z_tilde.shape[1:] for leaf in leaves)
    if z_tilde.ndim != 2 or z_tilde.shape != u.shape or not are_per_unit:
        return None
    name = _compiled(structure, tuple(leaf.shape for leaf in leaves), z_tilde.shape)
    if name is None:
        return None
    # The parameters are parts of one vector. Concatenated as vectors, they are copied at once, and so are their
    # derivatives: XLA then finds that they are neighbours.
    parameters = jnp.concatenate([jnp.zeros(0, jnp.float32), *(leaf.ravel() for leaf in leaves)])
    return _combine(name, z_tilde, u, parameters.reshape(-1, z_tilde.shape[1]))


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
    """Return the name under which the combinator's kernel is registered with XLA; None if there is no kernel."""
    try:
        source = _written(structure, shapes, layer)
    except Exception as error:  # a user's formula may raise any exception
        which = type(jax.tree.unflatten(structure, [None] * len(shapes))).__name__
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        _log.warning("The combinator %s is used as it is, not as a native kernel, which is faster: %s.", which, reason)
        return None
    name = f"laddernet_{hashlib.sha256(source.encode()).hexdigest()[:16]}"
    names = {function: f"{name}_{function}" for function in ("values", "derivatives")}
    return name if native.registered(source, names) else None


def _written(structure: Any, shapes: tuple[Shape, ...], layer: Shape) -> str:
    """Return the C source of a combinator; raise an exception if an operation is not translated."""
    units = layer[1]

    def formula(z: Any, u: Any, *parameters: Any) -> Any:
        of_each = iter(parameters)
        return jax.tree.unflatten(structure, [_nested(shape[:-1], of_each) for shape in shapes])(z, u)

    def derivative(d: Any, *scalars: Any) -> Any:
        return jax.vjp(formula, *scalars)[1](d)

    names = ["z", "u", *(f"p[{i}]" for i in range(sum(math.prod(shape[:-1]) for shape in shapes)))]
    scalars = [native.float32(())] * len(names)
    lines, (z_hat,) = _statements(jax.make_jaxpr(formula)(*scalars), names)
    # Arrays must give the same operations as scalars: a formula may depend on the number of rows, or multiply matrices.
    arrays = [native.float32(shape) for shape in (layer, layer, *[(units,)] * (len(names) - 2))]
    traced = jax.make_jaxpr(formula)(*arrays)
    _check_shapes(traced.jaxpr, {(), (1,), (1, 1), (units,), (1, units), layer})
    if jax.eval_shape(formula, *arrays).shape != layer or _statements(traced, names) != (lines, [z_hat]):
        raise TypeError("it computes something else for arrays than for scalars")
    d_lines, (dz, du, *dp) = _statements(jax.make_jaxpr(derivative)(native.float32(()), *scalars), ["d", *names])
    source = [
        f"enum {{ PARAMETERS = {len(dp)} }};",
        (native.FOLDER / "formulas.c").read_text(encoding="utf-8"),
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
    return "\n".join(source)


def _nested(shape: Shape, of_each: Iterator[Any]) -> Any:
    """Return the next parameters as nested tuples, which can be indexed and iterated as an array can."""
    return tuple(_nested(shape[1:], of_each) for _ in range(shape[0])) if shape else next(of_each)


def _check_shapes(jaxpr: core.Jaxpr, shapes: set[Shape]) -> None:
    """Raise TypeError for an array that is neither a layer, nor a value for each unit, nor a scalar."""
    for equation in jaxpr.eqns:
        avals: list[Any] = [result.aval for result in equation.outvars]
        if any(aval.shape not in shapes for aval in avals):
            raise TypeError("it makes arrays that are neither a layer nor a value for each unit")
        called = _called(equation)
        if called is not None:
            _check_shapes(called.jaxpr, shapes)


# --- From traced operations to lines of C -----------------------------------------------------------------------------

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
_LOGIC = {"and": ["bool"] * 2, "or": ["bool"] * 2, "not": ["bool"], "select_n": ["bool", "float32", "float32"]}
_TYPES = {"float32": "vec", "bool": "ivec"}
_CALLS = {"jit": "jaxpr", "custom_jvp_call": "call_jaxpr", "custom_vjp_call": "call_jaxpr"}


def _statements(traced: core.ClosedJaxpr, arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Translate traced operations to lines of C; return them and the names of the results."""
    lines: list[str] = []

    def write(traced: core.ClosedJaxpr, arguments: Sequence[str]) -> list[str]:
        names: dict[Any, str] = dict(zip(traced.jaxpr.constvars, map(_number, traced.consts), strict=True))
        names.update(zip(traced.jaxpr.invars, arguments, strict=True))

        def name(operand: Any) -> str:
            return _number(operand.val) if isinstance(operand, core.Literal) else names[operand]

        for equation in traced.jaxpr.eqns:
            operands = [name(operand) for operand in equation.invars]
            called = _called(equation)
            if equation.primitive.name == "broadcast_in_dim":
                results = operands[:1]
            elif called is None:
                results = [f"v{len(lines)}"]
                kind = _TYPES.get(_dtype(equation.outvars[0]))
                if kind is None or equation.primitive.name not in (*_TEMPLATES, "convert_element_type"):
                    raise TypeError(f"{equation.primitive.name} to {_dtype(equation.outvars[0])} is not translated")
                lines.append(f"  {kind} {results[0]} = {_expression(equation, operands)};")
            else:
                results = write(called, operands)
            names.update(zip(equation.outvars, results, strict=True))
        return [name(result) for result in traced.jaxpr.outvars]

    return lines, write(traced, arguments)


def _expression(equation: core.JaxprEqn, operands: Sequence[str]) -> str:
    name, result = equation.primitive.name, _dtype(equation.outvars[0])
    kinds = [_dtype(operand) for operand in equation.invars]
    if name == "convert_element_type" and result == "float32":
        return f"choose({operands[0]}, splat(1), splat(0))" if kinds == ["bool"] else operands[0]
    if kinds != _LOGIC.get(name, ["float32"] * len(kinds)):
        raise TypeError(f"{name} of {' and '.join(kinds)} is not translated")
    return _TEMPLATES[name].format(*operands, **equation.params)


def _dtype(variable: Any) -> str:
    name: str = variable.aval.dtype.name
    return name


def _number(value: Any) -> str:
    number = np.asarray(value)
    if number.dtype == bool:
        return "~(ivec){0}" if number else "(ivec){0}"
    return f"splat({float(number).hex()})".replace("inf", "INFINITY").replace("nan", "NAN")


def _called(equation: core.JaxprEqn) -> core.ClosedJaxpr | None:
    """Return the operations that an equation calls, if it is a call."""
    called: core.ClosedJaxpr | None = equation.params.get(_CALLS.get(equation.primitive.name, ""))
    return called

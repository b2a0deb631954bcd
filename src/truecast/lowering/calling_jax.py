"""Functions of JAX as operations of a Graph: which function a node's name stands for, and the rule that calls it.

A node names its function by a digest of what the function computes on operands of these dtypes and shapes, so that
the fingerprint of a program covers it (law N9): another function, or the same one over other constants, has another
name, and a function that is made anew at each call has the same one.
"""

from __future__ import annotations

import functools
import hashlib
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend.core import ClosedJaxpr, Jaxpr

from truecast import dtypes
from truecast.dtypes import DType
from truecast.errors import UnsupportedError, UsageError
from truecast.lowering.context import Array, Context
from truecast.lowering.registry import lowers

OPERATION = "truecast.call_jax.default"
Form = tuple[DType, tuple[int, ...]]


@dataclass(frozen=True, eq=False)
class JaxFunction:
    """A function on operands of fixed dtypes and shapes. call: from arrays to the list of arrays that it returns, in
    the order of `structure` (jax's tree). wide: whether it is traced with 64-bit types."""

    name: str
    label: str
    call: Callable[..., list[Array]]
    operands: tuple[Form, ...]
    results: tuple[Form, ...]
    structure: Any
    wide: bool

    @functools.cached_property
    def differentiable(self) -> tuple[bool, ...]:
        """For each operand, whether a gradient can go to it."""
        return tuple(dtype.is_inexact for dtype, _ in self.operands)

    def pullback(self, wanted: tuple[bool, ...]) -> JaxFunction:
        """A function of the operands and of a cotangent for each inexact result, to the gradients of the operands in
        `wanted`. It computes the results again: XLA drops what a program has already."""
        cotangents = [form for form in self.results if form[0].is_inexact]
        return _derived(_pull, self, wanted, (*self.operands, *cotangents))

    def pushforward(self, moved: tuple[bool, ...]) -> JaxFunction:
        """A function of the operands and of a tangent for each one in `moved`, to a tangent for each inexact result."""
        tangents = [form for form, moves in zip(self.operands, moved, strict=True) if moves]
        return _derived(_push, self, moved, (*self.operands, *tangents))

    def batched(self, axes: tuple[int | None, ...], forms: tuple[Form, ...]) -> JaxFunction:
        """The function over a batch: operand i has its batch along axes[i], results along axis 0."""
        return _derived(_batch, self, axes, forms)


def learn(function: Callable[..., Any], operands: tuple[Form, ...]) -> JaxFunction:
    """What `function` computes on such operands. Traces it once for each of them, as long as it is the same object.

    Raises UnsupportedError for a function that calls back to Python, UsageError for a result that no tensor holds,
    and whatever the function raises.
    """
    named = function.func if isinstance(function, functools.partial) else function
    label = getattr(named, "__name__", None) or type(named).__name__
    try:
        hash(function)
    except TypeError:
        return _traced(function, label, operands, _is_wide(operands))
    return _remembered(function, label, operands, _is_wide(operands))


def find(name: str) -> JaxFunction:
    """The function that a node names. Raises UsageError for one that this process has not met."""
    found = _known.get(name)
    if found is None:
        raise UsageError(
            f"the JAX function {name!r} is not known in this process",
            why="a Graph's text has the name of a JAX function, not the function",
            help="run the program that calls truecast.call_jax, or load what Program.save wrote",
        )
    return found


_known: dict[str, JaxFunction] = {}


def _is_wide(operands: tuple[Form, ...]) -> bool:
    """JAX as it is set up, but 64-bit operands stay 64-bit."""
    return bool(jax.config.jax_enable_x64) or any(dtypes.real_of(dtype).itemsize == 8 for dtype, _ in operands)


def _traced(function: Callable[..., Any], label: str, operands: tuple[Form, ...], wide: bool) -> JaxFunction:
    structure: list[Any] = []

    def call(*arrays: Array) -> list[Array]:
        with jax.enable_x64(wide):
            leaves, tree = jax.tree.flatten(function(*arrays))
            structure[:] = [tree]
            return [jnp.asarray(leaf) for leaf in leaves]

    with jax.enable_x64(wide):
        specifications = [jax.ShapeDtypeStruct(shape, dtypes.numpy_dtype(dtype)) for dtype, shape in operands]
        traced = jax.jit(call).trace(*specifications)
        _refuse_callbacks(traced.jaxpr, label)
        name = f"{label}_{_digest(traced)}"
    known = _known.get(name)
    results = tuple([_form(label, leaf) for leaf in jax.tree.leaves(traced.out_info)])
    made = JaxFunction(name, label, call, operands, results, structure[0], wide)
    if known is None:
        _known[name] = made
    return made


_remembered = functools.lru_cache(maxsize=1024)(_traced)


@functools.lru_cache(maxsize=1024)
def _derived(
    transform: Callable[..., list[Array]], function: JaxFunction, chosen: tuple[Any, ...], operands: tuple[Form, ...]
) -> JaxFunction:
    """transform(function, chosen, *operands), which is traced as `function` is."""
    return _traced(functools.partial(transform, function, chosen), function.label, operands, function.wide)


def _digest(traced: Any) -> str:
    """Of the jaxpr, which has every platform's branch, and of its StableHLO, which has the constants and the kernels'
    index maps."""
    with np.printoptions(threshold=sys.maxsize):
        digest = hashlib.blake2b(str(traced.jaxpr).encode(), digest_size=8)
    refused: Exception | None = None
    for platform in ("cpu", "tpu", "cuda"):
        try:
            text = traced.lower(lowering_platforms=(platform,)).as_text()
        except (ValueError, NotImplementedError) as error:  # a kernel for other devices
            refused = refused or error
            continue
        digest.update(text.encode())
        return digest.hexdigest()
    assert refused is not None
    raise refused


def _form(label: str, leaf: Any) -> Form:
    try:
        return dtypes.of(leaf.dtype), tuple(leaf.shape)
    except KeyError:
        raise UsageError(
            f"the JAX function {label!r} returns {leaf.dtype}, which no tensor has",
            help="return an array of numbers; of random keys, jax.random.key_data",
        ) from None


def _refuse_callbacks(jaxpr: Any, label: str) -> None:
    for primitive in _primitives(jaxpr):
        if "callback" in primitive or primitive.startswith("debug_"):
            raise UnsupportedError(
                f"the JAX function {label!r} calls back to Python ({primitive})",
                why="it becomes a part of a compiled program that is kept and runs in other processes too",
                help="leave the callback out, or do its work in PyTorch",
            )


def _primitives(jaxpr: Any) -> Iterator[str]:
    inner = jaxpr.jaxpr if isinstance(jaxpr, ClosedJaxpr) else jaxpr
    for equation in inner.eqns:
        yield equation.primitive.name
        for parameter in equation.params.values():
            for item in parameter if isinstance(parameter, tuple | list) else (parameter,):
                if isinstance(item, ClosedJaxpr | Jaxpr):
                    yield from _primitives(item)


# ---- derivatives and batches ---------------------------------------------------------------------------------


def _inexact(results: Sequence[Array]) -> list[Array]:
    return [array for array in results if jnp.issubdtype(array.dtype, jnp.inexact)]


def _of_some(function: JaxFunction, operands: Sequence[Array], chosen: tuple[bool, ...]) -> tuple[Any, list[Array]]:
    """The inexact results as a function of the chosen operands, and those operands."""

    def call(*some: Array) -> list[Array]:
        given = iter(some)
        return _inexact(
            function.call(*[next(given) if c else array for array, c in zip(operands, chosen, strict=True)])
        )

    return call, [array for array, c in zip(operands, chosen, strict=True) if c]


def _pull(function: JaxFunction, wanted: tuple[bool, ...], *arrays: Array) -> list[Array]:
    count = len(function.operands)
    call, some = _of_some(function, arrays[:count], wanted)
    _, pull = jax.vjp(call, *some)
    return list(pull(list(arrays[count:])))


def _push(function: JaxFunction, moved: tuple[bool, ...], *arrays: Array) -> list[Array]:
    count = len(function.operands)
    call, some = _of_some(function, arrays[:count], moved)
    return list(jax.jvp(call, some, list(arrays[count:]))[1])


def _batch(function: JaxFunction, axes: tuple[int | None, ...], *arrays: Array) -> list[Array]:
    return list(jax.vmap(function.call, in_axes=axes)(*arrays))


# ---- the rule ------------------------------------------------------------------------------------------------


@lowers("truecast.call_jax")
def _call_jax(ctx: Context, function: str, operands: Sequence[Array]) -> list[Array]:
    known = find(function)
    # A storage map may hold other dtypes than the program says (law N11); the function gets those of the program.
    given = [a.astype(dtypes.numpy_dtype(dtype)) for a, (dtype, _) in zip(operands, known.operands, strict=True)]
    return known.call(*given)

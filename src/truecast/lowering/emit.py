"""Runs a Graph under its Plan with jax.lax: the engine around the rules.

It hands each rule its operands in the compute dtype, rounds and converts what the rule returns (laws N2,
N3), and names every instruction after its node, so that a line of HLO leads back to a line of source.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from truecast import dtypes, ops
from truecast.dtypes import DType
from truecast.errors import UnsupportedError
from truecast.graph import Graph, Node, Value
from truecast.lowering.context import Array, Context
from truecast.lowering.cpu_products import Permutations
from truecast.lowering.registry import rule_for
from truecast.numerics.plan import Decision, Plan
from truecast.numerics.regions import exits
from truecast.ops.agreement import with_casts
from truecast.ops.operands import bound, draws_random_bits, numeric_names, promoted_dtype

# Schema arguments that say where or how a tensor is stored, or which dtype it gets: the engine's affair, not a rule's.
_NOT_FOR_RULES = frozenset(("dtype", "layout", "device", "pin_memory", "memory_format", "generator", "non_blocking"))


def scope(node: Node) -> str:
    """The name of a node's instructions in StableHLO and HLO: value name, then overload."""
    return f"{node.name}.{node.op}"


def needs_seed(graph: Graph) -> bool:
    """Whether `function_of` takes the trailing seed argument."""
    return any(draws_random_bits(node) for node in graph.nodes)


def function_of(plan: Plan, target: str = "") -> Callable[..., tuple[Array, ...]]:
    """A function of the graph's inputs, in order, to its outputs, in order, for jax.jit to trace.

    target: the kind of device it is for, where that decides how a product is written down; never what it computes.

    If `needs_seed(plan.graph)`, the function takes one more argument after the inputs: uint32[2], the seed of
    this call (law N8). Whoever runs the program draws both words anew at each call, from torch's default CPU
    generator, so that torch.manual_seed fixes them. The key of the i-th node that draws is
    fold_in(threefry key of the seed, i): it depends on the Graph and the seed, not on the Numerics. A seed of
    uint32[n, 2] has a row for each of the n nodes that draw, which is that node's key.
    """
    graph = plan.graph
    _refuse_complex32(graph)
    seeded = needs_seed(graph)

    def run(*arguments: Array) -> tuple[Array, ...]:
        inputs, seed = (arguments[:-1], arguments[-1]) if seeded else (arguments, None)
        engine = Engine(plan, seed, target)
        for entry, array in zip(graph.inputs, inputs, strict=True):
            engine.rounded[entry.value.name] = array
        for node, decision in zip(graph.nodes, plan.decisions, strict=True):
            with jax.named_scope(scope(node)):
                engine.run(node, decision)
        return tuple(engine.rounded[o.value.name] for o in graph.outputs if o.value is not None)

    run.__name__ = "".join(c if c.isalnum() else "_" for c in graph.name) or "graph"
    return run


def _refuse_complex32(graph: Graph) -> None:
    inputs = (("the program takes", None, entry.value) for entry in graph.inputs)
    results = ((f"{node.op} gives", node.site, value) for node in graph.nodes for value in node.outputs)
    for what, site, value in itertools.chain(inputs, results):
        if value is not None and value.dtype is dtypes.complex32:
            raise UnsupportedError(
                f"{what} complex32, which XLA does not have",
                where=site,
                values=str(value),
                why="XLA's complex numbers have parts of float32 or float64; no other dtype stands for it (law N1)",
                help="compute in complex64: x.to(torch.complex64), or x.float() before it becomes complex",
            )


class Engine:
    """Runs the nodes of one Plan; `observed.py` looks into it."""

    def __init__(self, plan: Plan, seed: Array | None, target: str = "") -> None:
        self.seed = seed
        self.permutations = Permutations() if target == "cpu" else None
        self.draws = 0  # nodes that drew random bits so far
        self.storage: dict[DType, DType] = {dtypes.of(a): dtypes.of(b) for a, b in plan.numerics.storage}
        self.rounded: dict[str, Array] = {}
        self.wide: dict[str, tuple[int, Array]] = {}  # value name -> (region, its value before rounding)
        self.exits = exits(plan.graph, plan.decisions)
        self.flush = plan.numerics.subnormals == "flush"

    def run(self, node: Node, decision: Decision) -> None:
        op = ops.lookup(node.op)
        rule = rule_for(node)
        context = Context(node, decision, self.storage, self._next_key(node), self.permutations)
        numeric: frozenset[str] = frozenset()
        target = None
        elementwise = False
        if op is not None:
            elementwise = op.kind == "elementwise"
            if decision.compute is not None:
                numeric, target = numeric_names(node, op), decision.compute
            elif op.promotion != "none":
                promoted = promoted_dtype(with_casts(node, decision.casts), op)
                numeric, target = numeric_names(node, op), self.storage.get(promoted, promoted)
        casts = dict(decision.casts)
        arguments: dict[str, Any] = {}
        for name, argument in bound(node).items():
            if name in _NOT_FOR_RULES:
                continue
            operand = self._argument(argument, target if name in numeric else None, decision.region, casts.get(name))
            if elementwise and name in numeric and operand is not None:
                operand = lax.broadcast_in_dim(
                    operand, context.shape, range(len(context.shape) - operand.ndim, len(context.shape))
                )
            arguments[name] = operand
        results = rule(context, **arguments)
        self._bind(node, decision, context, results if isinstance(results, Sequence) else (results,))

    def _next_key(self, node: Node) -> Array | None:
        if self.seed is None or not draws_random_bits(node):
            return None
        self.draws += 1
        if self.seed.ndim == 2:
            return _key(self.seed[self.draws - 1])
        return jax.random.fold_in(_key(self.seed), self.draws)

    def _argument(self, argument: Any, target: DType | None, region: int, cast: DType | None) -> Any:
        if isinstance(argument, Value):
            wide = self.wide.get(argument.name)
            if wide is not None and region and wide[0] == region and target is not None and cast is None:
                return lax.convert_element_type(wide[1], dtypes.numpy_dtype(target))
            array = self.rounded[argument.name]
            if argument.scalar and array.dtype == np.float64 and target is not None and target.is_narrow:
                # Rounded once (law N6): XLA converts float64 to 16 bits by way of float32, which rounds twice.
                array = lax.reduce_precision(array, dtypes.float64.exponent_bits, target.mantissa_bits)
            if cast is not None:  # law N12: like a cast of the user's, it reads the rounded value
                array = lax.convert_element_type(array, dtypes.numpy_dtype(self.storage.get(cast, cast)))
            return array if target is None else lax.convert_element_type(array, dtypes.numpy_dtype(target))
        if isinstance(argument, tuple):
            return tuple(self._argument(a, target, region, cast) for a in argument)
        if target is not None and isinstance(argument, bool | int | float | complex):
            return lax.full((), argument, dtypes.numpy_dtype(target))
        return argument

    def _bind(self, node: Node, decision: Decision, context: Context, results: Sequence[Any]) -> None:
        for value, array in zip(node.outputs, results, strict=True):
            if value is None:
                continue
            held = context.held(value)
            assert array.shape == value.shape, f"{node.op}: the rule made {array.shape}, PyTorch says {value.shape}"
            if decision.region and array.dtype != held:
                self.wide[value.name] = (decision.region, array)
                if value.name not in self.exits:  # nobody reads it rounded: no convert that means nothing (law N2)
                    continue
            array = _round(array, held, decision, node.op.split(".")[1] in _ENDS_IN_A_PRODUCT)
            arithmetic = decision.compute is not None or decision.accumulate is not None
            self.rounded[value.name] = _flush(array) if self.flush and arithmetic else array


def _key(words: Array) -> Array:
    return jax.random.wrap_key_data(words, impl="threefry2x32")


# Operations whose last step is a multiplication.
_ENDS_IN_A_PRODUCT = frozenset(["mul", "square", "pow", "silu", "gelu", "mish", "hardswish", "deg2rad", "rad2deg"])


def _round(array: Array, held: Any, decision: Decision, product: bool) -> Array:
    """`array` as the device holds it, rounded as law N3 says."""
    dtype = dtypes.of(held)
    if product and decision.rounding == "op" and array.dtype == held and dtype.name in ("float32", "float64"):
        # XLA:CPU makes one fused multiply-add of a product and the sum that reads it, which skips the product's
        # rounding, and drops barriers and reductions to the same precision before that. It can't see through this.
        return lax.select(lax.ne(array, array), lax.full_like(array, float("nan")), array)
    computed = decision.compute is not None or array.dtype != held  # an indexed sum has an accumulate dtype only
    if computed and decision.rounding == "op" and dtype.name == "bfloat16":
        array = lax.reduce_precision(array, dtype.exponent_bits, dtype.mantissa_bits)
    if array.dtype == held:
        return array
    source = dtypes.of(array.dtype)
    assert source.is_inexact and dtype.is_inexact, f"a rule returned {source} for a {dtype} result"
    return lax.convert_element_type(array, held)


def _flush(array: Array) -> Array:
    """`array` with its subnormals turned into zeros of their sign."""
    if not jnp.issubdtype(array.dtype, jnp.floating):
        return array
    smallest = lax.full_like(array, jnp.finfo(array.dtype).smallest_normal)
    # x * 0 is a zero of x's sign; a NaN is not less than anything.
    return lax.select(lax.lt(lax.abs(array), smallest), lax.mul(array, lax.full_like(array, 0)), array)

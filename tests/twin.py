"""One ATen call through truecast, beside the same call in PyTorch eager: the twin of most tests here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np
import torch
from torch.utils import _pytree as pytree

from truecast import dtypes
from truecast.graph import Graph, Input, Node, Output, Token, Value, map_values
from truecast.lowering import rules as _rules  # noqa: F401  (registers every rule)
from truecast.lowering.emit import function_of, needs_seed
from truecast.numerics.numerics import Numerics
from truecast.numerics.plan import resolve
from truecast.ops.schema import overload

EAGER = Numerics("eager")  # no rules: opmath, float32 accumulation, every result rounded


def to_numpy(tensor: torch.Tensor) -> np.ndarray:
    """A torch tensor's bits as a NumPy array of the dtype that jax uses for it."""
    tensor = tensor.detach().resolve_conj().resolve_neg().contiguous()
    target = dtypes.numpy_dtype(dtypes.of(tensor.dtype))
    if tensor.dtype in (torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2):
        integer = torch.int16 if tensor.dtype is torch.bfloat16 else torch.int8
        return tensor.view(integer).numpy().view(target)
    return tensor.numpy()


def single_node_graph(op: str, *args: Any, **kwargs: Any) -> tuple[Graph, list[torch.Tensor], Any]:
    """The Graph of one call of an overload, its tensor inputs in order, and what eager returns for it."""
    tensors: list[torch.Tensor] = []
    inputs: list[Input] = []

    def argument(leaf: Any) -> Any:
        if isinstance(leaf, torch.Tensor):
            tensors.append(leaf)
            value = Value(f"arg{len(tensors)}", dtypes.of(leaf.dtype), tuple(leaf.shape))
            inputs.append(Input(value))
            return value
        if isinstance(leaf, torch.dtype):
            return dtypes.of(leaf)
        if isinstance(leaf, list | tuple):
            return tuple(argument(item) for item in leaf)
        if isinstance(leaf, torch.device | torch.memory_format | torch.layout):
            return Token(str(leaf))
        return leaf

    node_args = tuple(argument(a) for a in args)
    node_kwargs = tuple((k, argument(v)) for k, v in kwargs.items())
    expected = overload(op)(*args, **kwargs)
    leaves = pytree.tree_leaves(expected) if isinstance(expected, list | tuple) else [expected]
    outputs = tuple(
        None if t is None else Value(f"out{i}", dtypes.of(t.dtype), tuple(t.shape)) for i, t in enumerate(leaves)
    )
    node = Node(op, node_args, node_kwargs, outputs)
    graph = Graph("call", tuple(inputs), (node,), tuple(Output(v) for v in outputs if v is not None)).verify()
    return graph, tensors, [t for t in leaves if t is not None]


def run(
    graph: Graph, tensors: list[torch.Tensor], numerics: Numerics = EAGER, seed: tuple[int, int] = (0, 0)
) -> list[np.ndarray]:
    """The graph's results under `numerics`, computed by XLA on the CPU; `seed` is what a random graph draws from."""
    arrays = [to_numpy(t) for t in tensors]
    if needs_seed(graph):
        arrays.append(np.array(seed, np.uint32))
    with jax.enable_x64(True):
        lowered = jax.jit(function_of(resolve(graph, numerics)), keep_unused=True).lower(*arrays)
        function = lowered.compile(compiler_options=_QUICK)
        return [np.asarray(r) for r in function(*arrays)]


# LLVM without its expensive passes: values are the rules' affair, and a compile takes half the time. What XLA's
# optimisation may do to them is tests/laws/test_n3_rounding.py's affair.
_QUICK: dict[str, bool | int | str] = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}


def compare(op: str, *args: Any, numerics: Numerics = EAGER, ulps: float = 4, **kwargs: Any) -> None:
    """Asserts that the call gives eager's dtypes, shapes and values, to `ulps` units in the last place of
    the larger of the element and the result's mean magnitude (so that cancellation does not count)."""
    graph, tensors, expected = single_node_graph(op, *args, **kwargs)
    for got, want in zip(run(graph, tensors, numerics), expected, strict=True):
        check(op, got, want, ulps)


@dataclass
class Call:
    """One call of an overload, to be compared together with others in one compilation.

    ulps: its own bound, where it isn't that of the others; outputs: the positions of the results that count,
    where not all of them do.
    """

    op: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    ulps: float | None = None
    outputs: tuple[int, ...] | None = None

    def __str__(self) -> str:
        shown = [f"{a.dtype}{list(a.shape)}" if isinstance(a, torch.Tensor) else repr(a) for a in self.args]
        return f"{self.op}({', '.join([*shown, *(f'{k}={v!r}' for k, v in self.kwargs.items())])})"


def call(op: str, *args: Any, ulps: float | None = None, outputs: tuple[int, ...] | None = None, **kwargs: Any) -> Call:
    return Call(op, args, kwargs, ulps, outputs)


def together(calls: Sequence[Call]) -> tuple[Graph, list[torch.Tensor], list[tuple[Call, int, torch.Tensor]]]:
    """One Graph of all the calls, its tensor inputs, and for each output: its call, position, and eager's result."""
    inputs: list[Input] = []
    nodes: list[Node] = []
    outputs: list[Output] = []
    tensors: list[torch.Tensor] = []
    wanted: list[tuple[Call, int, torch.Tensor]] = []
    for index, one in enumerate(calls):
        graph, own, expected = single_node_graph(one.op, *one.args, **one.kwargs)

        def renamed(value: Value, prefix: str = f"c{index}_") -> Value:
            return replace(value, name=prefix + value.name)

        inputs += [Input(renamed(i.value)) for i in graph.inputs]
        for node in graph.nodes:
            nodes.append(
                replace(
                    node,
                    args=map_values(node.args, renamed),
                    kwargs=map_values(node.kwargs, renamed),
                    outputs=map_values(node.outputs, renamed),
                )
            )
        outputs += [Output(renamed(o.value)) for o in graph.outputs if o.value is not None]
        tensors += own
        wanted += [(one, position, t) for position, t in enumerate(expected)]
    return Graph("calls", tuple(inputs), tuple(nodes), tuple(outputs)).verify(), tensors, wanted


def compare_all(calls: Sequence[Call], numerics: Numerics = EAGER, ulps: float = 4) -> None:
    """`compare` for each of the calls, all of them in one Graph: one compilation instead of one a call."""
    graph, tensors, wanted = together(calls)
    failures: list[str] = []
    for got, (one, position, want) in zip(run(graph, tensors, numerics), wanted, strict=True):
        if one.outputs is None or position in one.outputs:
            try:
                check(f"{one} output {position}", got, want, ulps if one.ulps is None else one.ulps)
            except AssertionError as failure:
                failures.append(str(failure))
    assert not failures, "\n".join(failures)


def check(name: str, got: np.ndarray, want_tensor: torch.Tensor, ulps: float) -> None:
    """Asserts that a result has eager's dtype, shape and values; with ulps=0 the sign of a zero counts too."""
    want = to_numpy(want_tensor)
    assert got.dtype == want.dtype, f"{name}: dtype {got.dtype}, eager has {want.dtype}"
    assert got.shape == want.shape, f"{name}: shape {got.shape}, eager has {want.shape}"
    dtype = dtypes.of(want_tensor.dtype)
    if not dtype.is_inexact:
        np.testing.assert_array_equal(got, want, err_msg=name)
        return
    wide = np.complex128 if dtype.category == "complex" else np.float64
    got64, want64 = got.astype(wide), want.astype(wide)
    finite = np.isfinite(want64)
    magnitude = np.abs(np.where(finite, want64, 0))  # an infinity must be met exactly
    floor = float(magnitude[finite].mean()) if finite.any() else 0.0
    bound = ulps * 2.0**-dtype.mantissa_bits * np.maximum(magnitude, floor)
    with np.errstate(invalid="ignore"):  # inf - inf
        near = finite & (np.abs(got64 - want64) <= bound)
    close = (got64 == want64) | (np.isnan(got64) & np.isnan(want64)) | near
    if ulps == 0 and dtype.is_floating:
        close &= (np.signbit(got64) == np.signbit(want64)) | np.isnan(want64)
    differing = np.count_nonzero(~close)
    assert close.all(), (
        f"{name} {dtype}: {differing} of {close.size} differ\n got {got64[~close][:5]}\nwant {want64[~close][:5]}"
    )

"""torch.export programs and FX graphs of ATen operations -> Graph.

The FX graph is run once more, on fake tensors, under the recorder. So a Graph is made in one place however the
program came in: the recorder decides what is decomposed, makes writes and views functional and checks dtype
contracts; this file supplies what only FX knows: which input is a parameter, and where each node comes from.
"""

from __future__ import annotations

import contextlib
import inspect
import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any, NoReturn

import torch
from torch.export.graph_signature import InputKind as ExportInput
from torch.export.graph_signature import OutputKind as ExportOutput
from torch.utils import _pytree as pytree

from truecast.capture import decompose, fx_sites, torch_export, torch_fake, torch_seam
from truecast.capture.captured import Captured
from truecast.capture.position import Tracker
from truecast.capture.surroundings import modules_of
from truecast.capture.tape import OnViolation, Tape
from truecast.errors import CaptureError, TruecastError
from truecast.graph import Graph, InputKind, Output, Value
from truecast.sites import UNKNOWN, Phase, Site


@dataclass(frozen=True, slots=True)
class Placeholder:
    """What an FX placeholder is in the program; `bound` is the tensor that the program owns for it."""

    kind: InputKind
    path: str
    bound: torch.Tensor | None = None


def trace_export(
    fn_or_module: Any,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any] | None = None,
    *,
    on_violation: OnViolation = "raise",
) -> Captured:
    """Captures a function or module with torch.export, for the shapes of `args` and `kwargs`.

    Raises CaptureError with the user's line where the program can't be exported, for example where a Python
    branch depends on a tensor's contents.
    """
    module, owner = (fn_or_module, "") if isinstance(fn_or_module, torch.nn.Module) else _as_module(fn_or_module)
    try:
        with torch_export.quiet_export(), torch_export.exact_stack_traces():
            program = torch.export.export(module, args, dict(kwargs or {}), strict=False)
    except TruecastError:
        raise
    except Exception as error:
        _refuse(error)
    return _from_exported(program, _name(fn_or_module), on_violation, owner)


def from_fx(
    program: torch.fx.GraphModule | torch.export.ExportedProgram,
    *,
    name: str = "graph",
    phase: Phase = "forward",
    placeholders: Mapping[str, Placeholder] | None = None,
    on_violation: OnViolation = "raise",
    forward_places: fx_sites.Places | None = None,
) -> Captured:
    """The Graph of an ExportedProgram, or of an FX graph whose placeholders have their fake values.

    `placeholders` says what the placeholders of a GraphModule are, by name; the others are inputs.
    `forward_places` is filled by a forward graph and read by its backward graph. Raises CaptureError for dynamic
    shapes and for higher-order operations that are more than a region.
    """
    if isinstance(program, torch.export.ExportedProgram):
        return _from_exported(program, name, on_violation)
    known = placeholders or {}
    entries = [known.get(node.name) or Placeholder("input", str(node.target)) for node in _placeholders(program)]
    sites = _sites(program, phase, forward_places=forward_places)
    replay = _replay(program, entries, sites, on_violation)
    arguments = tuple(value for value, entry in zip(replay.values, entries, strict=True) if entry.bound is None)
    graph = replay.graph(name, [Output(value) for value in replay.results])
    return Captured(
        graph=graph,
        bound={e.value.name: replay.bound[e.value.name] for e in graph.inputs if e.value.name in replay.bound},
        arguments=arguments,
        in_spec=pytree.tree_structure((arguments, {})),
        out_spec=replay.out_spec,
        results=replay.leaves,
    )


def _as_module(function: Callable[..., Any]) -> tuple[torch.nn.Module, str]:
    """A module that calls `function`, since torch.export takes modules only, and the name in it of the one module
    that the function reaches ("" if there are none or several): paths are relative to that one."""

    def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    own = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
    with contextlib.suppress(TypeError, ValueError):  # a builtin without a signature: arguments are numbered
        signature = inspect.signature(function)
        forward.__signature__ = signature.replace(  # type: ignore[attr-defined]
            parameters=[own, *(p.replace(kind=max(p.kind, own.kind)) for p in signature.parameters.values())]
        )
    wrapper = type("Program", (torch.nn.Module,), {"forward": forward})()
    reached = modules_of(function, ())
    for module, name in reached:
        wrapper.add_module(name.replace(".", "_") or "program", module)
    return wrapper, "program" if [name for _, name in reached] == [""] else ""


def _name(fn_or_module: Any) -> str:
    if isinstance(fn_or_module, torch.nn.Module):
        return type(fn_or_module).__name__
    return str(getattr(fn_or_module, "__qualname__", type(fn_or_module).__name__)).rsplit("<locals>.", 1)[-1]


# --------------------------------------------------------------------------------------- exported programs

_EXPORT_KINDS: dict[ExportInput, InputKind] = {
    ExportInput.PARAMETER: "parameter",
    ExportInput.BUFFER: "buffer",
    ExportInput.CONSTANT_TENSOR: "constant",
    ExportInput.USER_INPUT: "input",
}
_EXPORT_RESULTS = (ExportOutput.USER_OUTPUT, ExportOutput.LOSS_OUTPUT)


def _from_exported(
    program: torch.export.ExportedProgram, name: str, on_violation: OnViolation, owner: str = ""
) -> Captured:
    signature = program.graph_signature
    entries: list[Placeholder] = []
    by_target: dict[str, int] = {}  # what an output of the exported program writes -> number of the placeholder
    for node, spec in zip(_placeholders(program.graph_module), signature.input_specs, strict=True):
        kind = _EXPORT_KINDS.get(spec.kind)
        if kind is None:
            raise CaptureError(
                f"the exported program takes a {spec.kind.name.lower().replace('_', ' ')}",
                values=str(spec.arg),
                why="a Graph has tensors and numbers as inputs, no objects and no effect tokens",
                help="export the part of the program without the custom object or the effect",
            )
        target = spec.target or str(node.target)
        bound = None if kind == "input" else program.state_dict.get(target, program.constants.get(target))
        by_target[target] = len(entries)
        entries.append(Placeholder(kind, target.removeprefix(f"{owner}."), bound))
    sites = _sites(program.graph_module, "forward", owner)
    replay = _replay(program.graph_module, entries, sites, on_violation)

    mutations: list[Output] = []
    results: list[Output] = []
    leaves: list[Any] = []
    for spec, leaf in zip(signature.output_specs, replay.leaves, strict=True):
        output = Output(replay.results[leaf]) if isinstance(leaf, int) else None
        if spec.kind not in _EXPORT_RESULTS:  # the functional form of a write
            assert output is not None and spec.target is not None, f"{spec} writes no tensor"
            mutations.append(Output(output.value, "mutation", replay.values[by_target[spec.target]] or ""))
        elif output is None:
            leaves.append(leaf)
        else:
            leaves.append(len(results))
            results.append(output)
    graph = replay.graph(name, results, mutations)
    return Captured(
        graph=graph,
        bound={e.value.name: replay.bound[e.value.name] for e in graph.inputs if e.value.name in replay.bound},
        arguments=tuple(v for v, entry in zip(replay.values, entries, strict=True) if entry.kind == "input"),
        in_spec=program.call_spec.in_spec,
        out_spec=program.call_spec.out_spec,
        results=tuple(leaves),
    )


# ------------------------------------------------------------------------------------------------- replay


@dataclass(frozen=True, slots=True)
class _Replayed:
    """What came of running an FX graph under a tape. recorded: the Graph without results. values: the value name of
    each placeholder, None for one that is no tensor. results: the distinct Values that the FX graph returns. leaves:
    as `Captured.results`."""

    recorded: Graph
    values: tuple[str | None, ...]
    bound: Mapping[str, torch.Tensor]
    results: tuple[Value, ...]
    leaves: tuple[Any, ...]
    out_spec: Any

    def graph(self, name: str, results: Sequence[Output], mutations: Sequence[Output] = ()) -> Graph:
        outputs = (*results, *mutations, *self.recorded.outputs)
        graph = replace(self.recorded, name=name, outputs=outputs).without_dead_nodes()
        graph = decompose.expand(graph).without_dead_nodes()
        used = {value.name for node in graph.nodes for value in node.inputs}
        used.update(output.value.name for output in outputs if output.value is not None)
        used.update(output.target for output in outputs)
        # As when recorded: what the program owns and does not touch is no part of it.
        kept = tuple(e for e in graph.inputs if e.value.name in used or e.value.name not in self.bound)
        return replace(graph, inputs=kept).verify()


def _placeholders(module: torch.fx.GraphModule) -> list[torch.fx.Node]:
    return [node for node in module.graph.nodes if node.op == "placeholder"]


def _replay(
    module: torch.fx.GraphModule,
    entries: Sequence[Placeholder],
    sites: Mapping[torch.fx.Node, Site],
    on_violation: OnViolation,
) -> _Replayed:
    mode = torch_fake.new_fake_mode()
    tape = Tape(fake_mode=mode, on_violation=on_violation)
    tracker = tape.tracker = _NodeTracker(sites)
    arguments: list[Any] = []
    declared: dict[int, str] = {}  # placeholder number -> value name
    bound: dict[str, torch.Tensor] = {}
    for index, (node, entry) in enumerate(zip(_placeholders(module), entries, strict=True)):
        argument: Any = entry.bound
        if entry.kind == "constant" and isinstance(argument, torch.Tensor):
            # As the program has it: a tensor of one number becomes a literal, as it does for the recorder.
            tracker.tensors[id(argument)] = ("constant", entry.path)
        else:
            argument = _fake(node, mode)
            if isinstance(argument, torch.Tensor):
                declared[index] = tape.memory.declare(argument, entry.kind, entry.path).name
                if entry.bound is not None:
                    bound[declared[index]] = entry.bound
        arguments.append(argument)
    with torch_export.as_eager(), torch_fake.without_vendor_kernels(), mode, tape:
        try:
            returned = _Interpreter(module, tracker).run(*arguments)
        except torch_fake.DATA_DEPENDENT as error:
            raise CaptureError(
                "the size of a result depends on a tensor's contents",
                where=_where(tracker.current),
                values=tracker.current.expression or None,
                why=f"a Graph has static shapes ({str(error).splitlines()[0]})",
                help="mask to a fixed shape (torch.where, multiplication by a mask) instead of selecting",
            ) from None
        except torch_fake.unsupported_by_fake_tensors() as error:
            raise CaptureError(
                "an operation can't run on fake tensors",
                where=_where(tracker.current),
                values=str(error).splitlines()[0],
                why="it has no shape function in PyTorch",
                help="register one (torch.library.register_fake)",
            ) from None
    flat, out_spec = pytree.tree_flatten(returned)
    results: list[Value] = []
    leaves: list[Any] = []
    for leaf in flat:
        if isinstance(leaf, torch.Tensor):
            value = tape.memory.read(leaf)
            if value not in results:
                results.append(value)
            leaves.append(results.index(value))
        else:
            leaves.append(("constant", leaf))
    for recorded in tape.memory.inputs:
        if recorded.value.name not in declared.values():  # met on the way: the program owns it
            bound[recorded.value.name] = recorded.tensor
    values = tuple(declared.get(index) for index in range(len(entries)))
    recorded_graph = tape.graph("", [])
    tape.memory.close()
    return _Replayed(recorded_graph, values, bound, tuple(results), tuple(leaves), out_spec)


def _fake(node: torch.fx.Node, mode: torch_fake.FakeTensorMode) -> Any:
    """A fake tensor like the placeholder's value; a number is itself, a symbolic one its hint's value."""
    value = node.meta.get("val", node.meta.get("example_value"))
    if isinstance(value, torch.Tensor):
        with mode:
            made = torch.empty_strided(
                _static(value.shape, node), _static(value.stride(), node), dtype=value.dtype, device=value.device
            )
            return made.requires_grad_(value.requires_grad)
    if isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool):
        return _static((value,), node)[0]
    if value is None and "val" not in node.meta:
        raise CaptureError(
            f"the FX graph's input {node.name!r} has no fake value",
            why="dtypes and shapes come from the graph's metadata (node.meta['val'])",
            help="trace with torch.export, or run torch.fx.passes.fake_tensor_prop.FakeTensorProp over the graph",
        )
    return value


def _static(extents: Sequence[Any], node: torch.fx.Node) -> list[Any]:
    for extent in extents:
        if isinstance(extent, torch.SymInt | torch.SymFloat | torch.SymBool) and not torch_export.is_static(extent):
            raise CaptureError(
                f"the input {node.name!r} has a dynamic shape",
                values=f"[{', '.join(map(str, extents))}]",
                why="XLA compiles for fixed shapes, and a Graph has them",
                help="export without dynamic_shapes, once for each shape that is used",
            )
    return [torch_export.static_value(extent) for extent in extents]


class _NodeTracker(Tracker):
    """Positions come from the FX node being run, not from the Python stack."""

    def __init__(self, sites: Mapping[torch.fx.Node, Site]) -> None:
        super().__init__()
        self.sites = sites
        self.current = UNKNOWN

    def here(self) -> Any:
        return _NodePosition(self.current)


@dataclass(frozen=True, slots=True)
class _NodePosition:
    known: Site

    @property
    def phase(self) -> Phase:
        return self.known.phase

    @property
    def module(self) -> str:
        return self.known.module

    def site(self) -> Site:
        return self.known


class _Interpreter(torch.fx.Interpreter):
    """Runs an FX graph, telling the tracker which node runs."""

    def __init__(self, module: torch.fx.GraphModule, tracker: _NodeTracker) -> None:
        super().__init__(module)
        self.tracker = tracker
        self.extra_traceback = False  # PyTorch's wording stays as it is

    def run_node(self, n: torch.fx.Node) -> Any:
        if n in self.tracker.sites:
            self.tracker.current = self.tracker.sites[n]
        return super().run_node(n)

    def call_function(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        name = torch_export.higher_order_name(target)
        if name is None:
            if target is torch.ops.aten._native_batch_norm_legit_no_training.default:  # as PyTorch's tracing has it
                target, args = torch.ops.aten.native_batch_norm.default, (*args[:5], False, *args[5:])
            return super().call_function(target, args, kwargs)
        region = _REGIONS.get(name)
        if region is not None:
            context, submodule, operands = region(*args, **kwargs)
            with context:
                return _Interpreter(submodule, self.tracker).run(*operands)
        raise CaptureError(
            f"the higher-order operation torch.ops.higher_order.{name}",
            where=_where(self.tracker.current),
            why="it takes functions as arguments; a Graph is one straight list of operations",
            help="take the branch or write out the loop in Python, or capture each function by itself",
        )


def _grad_region(enabled: bool, module: Any, *operands: Any) -> tuple[AbstractContextManager[Any], Any, Any]:
    return torch.set_grad_enabled(enabled), module, operands


def _autocast_region(
    device: str, dtype: Any, enabled: bool, cache: Any, module: Any, *operands: Any
) -> tuple[AbstractContextManager[Any], Any, Any]:
    return torch.autocast(device, dtype=dtype, enabled=enabled, cache_enabled=cache), module, operands


def _checkpoint_region(module: Any, *operands: Any, **options: Any) -> tuple[AbstractContextManager[Any], Any, Any]:
    return nullcontext(), module, operands


# Higher-order operations that run one function once, in a setting.
_REGIONS: dict[str, Callable[..., tuple[AbstractContextManager[Any], Any, Any]]] = {
    "wrap_with_set_grad_enabled": _grad_region,
    "wrap_with_autocast": _autocast_region,
    "tag_activation_checkpoint": _checkpoint_region,
}


def _sites(
    module: torch.fx.GraphModule, phase: Phase, owner: str = "", forward_places: fx_sites.Places | None = None
) -> dict[torch.fx.Node, Site]:
    """The Site of each call in the graph and in the graphs of its regions; module paths are relative to `owner`."""
    nodes = list(_calls(module))
    calls = [fx_sites.call_of(node.meta, _op(node), node, phase, owner) for node in nodes]
    return dict(zip(nodes, fx_sites.locate(calls, forward_places), strict=True))


def _calls(module: torch.fx.GraphModule) -> Iterator[torch.fx.Node]:
    for node in module.graph.nodes:
        if node.op.startswith("call_"):
            yield node
            for argument in node.args:
                if isinstance(argument, torch.fx.Node) and argument.op == "get_attr":
                    attribute = operator.attrgetter(str(argument.target))(module)
                    if isinstance(attribute, torch.fx.GraphModule):
                        yield from _calls(attribute)


def _op(node: torch.fx.Node) -> str:
    if torch_seam.is_overload(node.target):
        return str(node.target)
    return f"python.{getattr(node.target, '__name__', node.target)}"


# ------------------------------------------------------------------------------------------------- errors


def _refuse(error: Exception) -> NoReturn:
    message = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
    if torch_fake.is_data_dependent(error):
        what = "the program branches on a tensor's contents"
        why = f"torch.export runs it without contents ({message})"
        help = "compute both sides and choose with torch.where, or move the branch out of what is captured"
    else:
        what, why = "the program can't be exported", f"{type(error).__name__}: {message}"
        help = "run it in eager mode first; if it works there, capture it with the recorder (truecast.recording)"
    site = fx_sites.site_of_traceback(error.__traceback__)
    raise CaptureError(what, where=_where(site), values=site.expression or None, why=why, help=help) from None


def _where(site: Site) -> str | None:
    if not site.file:
        return None
    return f"{site} in {site.function}"

"""torch.compile -> Graphs: one for the forward pass, one for the backward pass.

AOTAutograd turns what torch.compile found into two FX graphs of ATen operations; each becomes a Captured, and
`compile`, which the caller injects, turns that into something that runs. Nothing is decomposed on the way: the
recorder decides that (export.py), so that all ways of capture agree. Activations are saved where eager saves
them (no recomputation that the program does not ask for), so a value is computed once, in one precision.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import torch

from truecast.capture import torch_export
from truecast.capture.captured import Captured
from truecast.capture.export import Placeholder, from_fx
from truecast.capture.fx_sites import Places
from truecast.capture.tape import OnViolation
from truecast.graph import InputKind
from truecast.sites import Phase

# Takes one tensor for each entry of `captured.arguments` that is not None, gives one for each graph output.
Runner = Callable[[list[torch.Tensor]], Sequence[torch.Tensor]]


def backend(
    module: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    *,
    compile: Callable[[Captured], Runner],
    on_violation: OnViolation = "raise",
) -> Callable[..., Any]:
    """A torch.compile backend: what runs instead of `module`.

    Shapes are fixed: a size that torch.compile made symbolic (dynamic=True, or a second batch size) is guarded to
    the value at hand, and another value compiles again. Raises CaptureError for what has no Graph form, and for
    sizes that are known only when the program runs.
    """
    for node in module.graph.nodes:
        if node.op == "placeholder":
            torch_export.specialise(node.meta.get("example_value"))
    roles = [_role(torch_export.placeholder_source(node)) for node in module.graph.nodes if node.op == "placeholder"]

    places: Places = {}

    def compiler(phase: Phase) -> Callable[[torch.fx.GraphModule, Sequence[Any]], Callable[..., Any]]:
        def compile_part(part: torch.fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
            known = _placeholders(part, roles)
            captured = from_fx(
                part,
                name=phase,
                phase=phase,
                placeholders=known,
                on_violation=on_violation,
                forward_places=places,
            )
            return _boxed(captured, compile)

        return compile_part

    forward, backward = compiler("forward"), compiler("backward")
    return torch_export.aot_autograd(module, example_inputs, forward=forward, backward=backward)


def on_device(module: Any, example_inputs: Sequence[Any], scope: Callable[[], AbstractContextManager[Any]]) -> Any:
    """What runs instead of `module` on tensors of the device: its operations, recorded among the others there, those of
    the backward pass too within `scope()`."""

    def compiler(part: torch.fx.GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        def call(arguments: list[Any]) -> Any:
            tensors = list(arguments)
            arguments.clear()
            with scope():
                return part(*tensors)

        call._boxed_call = True  # type: ignore[attr-defined]
        return call

    return torch_export.aot_autograd(module, example_inputs, forward=compiler, backward=compiler)


def _boxed(captured: Captured, compile: Callable[[Captured], Runner]) -> Callable[..., Any]:
    """`compile`'s result in AOTAutograd's calling convention: the list of arguments is emptied, so that an
    activation is freed as soon as the program no longer needs it."""
    run = compile(captured)
    positions = [index for index, name in enumerate(captured.arguments) if name is not None]
    results = captured.results

    def call(arguments: list[Any]) -> list[Any]:
        tensors = [arguments[index] for index in positions]
        arguments.clear()
        outputs = run(tensors)
        return [outputs[result] if isinstance(result, int) else result[1] for result in results]

    call._boxed_call = True  # type: ignore[attr-defined]  # the mark that AOTAutograd looks for
    return call


def _placeholders(part: torch.fx.GraphModule, roles: Sequence[tuple[InputKind, str]]) -> dict[str, Placeholder]:
    """What the placeholders of a forward or backward graph are, by name."""
    found: dict[str, Placeholder] = {}
    for node in part.graph.nodes:
        if node.op == "placeholder":
            index = torch_export.program_input(node)
            found[node.name] = Placeholder(*roles[index]) if index is not None else Placeholder("input", node.name)
    return found


def _role(source: str) -> tuple[InputKind, str]:
    """Kind and path from how torch.compile reaches an input: L['self']._modules['fc']._parameters['weight'] is the
    parameter fc.weight of the module that the compiled function knows as `self`."""
    kind: InputKind = "input"
    if "._parameters[" in source:
        kind = "parameter"
    elif "._buffers[" in source:
        kind = "buffer"
    variable = r"^[LG]\['\w+'\]" if "._modules[" in source or kind != "input" else r"^[LG]\['"
    path = re.sub(r"\._(?:modules|parameters|buffers)\b", "", re.sub(variable, "", source))
    return kind, re.sub(r"[\[\]'\"]+", ".", path).replace("..", ".").strip(".")

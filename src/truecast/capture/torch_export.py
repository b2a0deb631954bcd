"""The part of the seam to PyTorch's private interfaces that is about torch.export and torch.compile (torch >= 2.13,
< 2.15). tests/unit/test_torch_seam_compile.py holds each name down.
"""

from __future__ import annotations

import importlib.abc
import importlib.util
import itertools
import logging
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import torch
from torch.utils._python_dispatch import _disable_current_modes

from truecast.sites import user_frame


def aot_autograd(
    module: torch.fx.GraphModule, inputs: Any, *, forward: Callable[..., Any], backward: Callable[..., Any]
) -> Callable[..., Any]:
    """`module` split into a forward and a backward graph of ATen operations, each handed to its compiler.

    Operations stay as autograd dispatches them (no decompositions), activations are saved as eager saves them,
    random operations stay themselves.
    """
    from torch._dynamo.backends.common import aot_autograd as make
    from torch._functorch.partitioners import default_partition

    compiler = make(fw_compiler=forward, bw_compiler=backward, decompositions={}, partition_fn=default_partition)
    return compiler(module, inputs)


@contextmanager
def exact_stack_traces() -> Iterator[None]:
    """While active, torch.export notes for each node the innermost frame of the user's, with the columns of the
    sub-expression (by itself it keeps only frames of functions named `forward`, and only their lines)."""
    from torch.fx.experimental.proxy_tensor import PythonKeyTracer

    with patch.object(PythonKeyTracer, "_filter_traceback_frames", _innermost_user_frame):
        yield


@contextmanager
def as_eager() -> Iterator[None]:
    """Dispatches as outside of any tracing: AOTAutograd has other modes and kernels in place while it compiles."""
    from torch._dispatch.python import no_python_dispatcher

    with _disable_current_modes(), no_python_dispatcher():
        yield


@contextmanager
def quiet_export() -> Iterator[None]:
    """While active, torch.export does not print what it also raises: the graph so far, and warnings about symbols."""
    import torch.export._trace as export_module

    logger = logging.getLogger("torch.fx.experimental.symbolic_shapes")
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        with patch.object(export_module, "print", lambda *args, **options: None, create=True):
            yield
    finally:
        logger.setLevel(before)


def _innermost_user_frame(tracer: Any, summary: traceback.StackSummary) -> traceback.StackSummary:
    frame = user_frame(sys._getframe(1))
    if frame is None:
        return traceback.StackSummary()
    code = frame.f_code
    line, end_line, column, end_column = next(itertools.islice(code.co_positions(), frame.f_lasti // 2, None))
    innermost = traceback.FrameSummary(
        code.co_filename, line or 0, code.co_name, end_lineno=end_line, colno=column, end_colno=end_column
    )
    return traceback.StackSummary([innermost])


def placeholder_source(node: torch.fx.Node) -> str:
    """How a graph of torch.compile reaches this input: "L['self']._parameters['weight']"; its name if unknown."""
    argument = node.meta.get("grapharg")
    source = getattr(argument, "source", None)
    return str(source.name) if source is not None else str(node.target)


def program_input(node: torch.fx.Node) -> int | None:
    """The number of the input of torch.compile's graph that AOTAutograd's placeholder is; None for others."""
    from torch._functorch._aot_autograd.descriptors import PlainAOTInput

    descriptor = node.meta.get("desc")
    return descriptor.idx if isinstance(descriptor, PlainAOTInput) else None


def specialise(value: Any) -> None:
    """Guards every symbolic size of a fake tensor, or a symbolic number, to the value it has now."""
    extents = (*value.shape, *value.stride(), value.storage_offset()) if isinstance(value, torch.Tensor) else (value,)
    for extent in extents:
        if isinstance(extent, torch.SymInt):
            int(extent)
        elif isinstance(extent, torch.SymFloat):
            float(extent)


def is_static(extent: torch.SymInt | torch.SymFloat | torch.SymBool) -> bool:
    """Whether a symbolic number is known to have one value."""
    return bool(extent.node.expr.is_number)


def static_value(extent: Any) -> Any:
    """The number behind an `is_static` symbolic number; a plain one is itself."""
    if isinstance(extent, torch.SymBool):
        return bool(extent)
    if isinstance(extent, torch.SymFloat):
        return float(extent)
    return int(extent) if isinstance(extent, torch.SymInt) else extent


def higher_order_name(target: Any) -> str | None:
    """The name of a higher-order operation ("cond"); None for anything else."""
    return target.name() if isinstance(target, torch._ops.HigherOrderOperator) else None


def hide_from_dynamo(function: Any) -> None:
    """torch.compile neither compiles `function` nor what it calls. As torch._dynamo.disable does, but without its
    import of seconds and its microsecond a call."""
    dynamo = torch._C._dynamo.eval_frame
    skip = dynamo._FrameAction.SKIP
    dynamo.set_code_exec_strategy(function.__code__, dynamo._FrameExecStrategy(skip, skip))


def plain_to_dynamo(cls: type) -> None:
    """torch.compile takes tensors of the class as it takes torch.Tensor's own; it would refuse them for their dispatch.

    Dynamo's import takes seconds, so this waits for it. Rests on VariableBuilder._type_dispatch_impl, the table of what
    wraps a value of exactly this type, and on infer_subclass_type.
    """

    def teach(builder: Any) -> None:
        for trace_numpy in (False, True):
            builder.VariableBuilder._type_dispatch_impl(trace_numpy)[cls] = builder.VariableBuilder.wrap_tensor
        subclass_of = builder.infer_subclass_type
        builder.infer_subclass_type = lambda value: None if type(value) is cls else subclass_of(value)

    name = "torch._dynamo.variables.builder"
    if name in sys.modules:
        teach(sys.modules[name])
    else:
        sys.meta_path.insert(0, _AfterImport(name, teach))


class _AfterImport(importlib.abc.MetaPathFinder):
    """Calls `then` with a module as soon as it has been imported."""

    def __init__(self, name: str, then: Callable[[Any], None]) -> None:
        self.name, self.then = name, then

    def find_spec(self, fullname: str, path: Any, target: Any = None) -> Any:
        if fullname != self.name:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        assert spec is not None and spec.loader is not None
        execute = spec.loader.exec_module

        def execute_and_tell(module: Any) -> None:
            execute(module)
            self.then(module)

        spec.loader.exec_module = execute_and_tell  # type: ignore[method-assign]
        return spec

"""The one place where capture/ touches PyTorch's private interfaces (torch >= 2.13, < 2.15); modules: torch_modules.py.

Each function says which private name it rests on; tests/unit/test_torch_seam.py holds every one of them down,
so that a new release of PyTorch shows here, not as a wrong Graph. Schemas have a seam of their own: ops/schema.py.
"""

from __future__ import annotations

import functools
import importlib.abc
import importlib.util
import itertools
import logging
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from unittest.mock import patch

import torch
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    FakeTensorMode,
)
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from truecast.sites import user_frame

__all__ = ["FakeTensor", "FakeTensorMode", "TorchDispatchMode"]

# The autograd node being run by the engine on this thread, None outside of it. Its `_sequence_nr()` is n where
# `next_sequence_number()` was n + 1 as the forward operation was dispatched.
current_autograd_node: Callable[[], Any] = torch._C._current_autograd_node
next_sequence_number: Callable[[], int] = torch.autograd._get_sequence_nr

# new_wrapper(cls, size, strides, storage_offset, memory_format, dtype, layout, device). By position: matching keywords
# takes a quarter of its microsecond.
new_wrapper: Callable[..., Any] = torch.Tensor._make_wrapper_subclass


def storage_key(tensor: torch.Tensor) -> int:
    """An identifier of the memory behind a tensor, fake or real: unique while the memory lives, or while
    `hold_storage` holds it (the address of its StorageImpl)."""
    return tensor.untyped_storage()._cdata


def hold_storage(tensor: torch.Tensor) -> tuple[int, int]:
    """`storage_key(tensor)`, and what keeps it from being used again without keeping the memory: a weak reference
    to be given to `release_storages`."""
    storage = tensor.untyped_storage()
    return storage._cdata, storage._weak_ref()


def release_storages(held: list[int]) -> None:
    """Gives up what `hold_storage` returned."""
    for reference in held:
        torch.UntypedStorage._free_weak_ref(reference)


def fake_mode_of(tensors: Iterator[Any]) -> FakeTensorMode | None:
    """The mode of the first fake tensor among `tensors`."""
    for tensor in tensors:
        if isinstance(tensor, FakeTensor):
            return tensor.fake_mode
    return None


# As `without_modes`, for operations on tensors that have no dispatch of their own: a tenth of its cost.
below_modes: Callable[[], AbstractContextManager[Any]] = torch._C._DisableTorchDispatch


def tensors_in(arguments: Any) -> list[torch.Tensor]:
    """The tensors in a nest of lists, tuples and dicts."""
    from torch.utils import _pytree

    return [leaf for leaf in _pytree.tree_leaves(arguments) if isinstance(leaf, torch.Tensor)]


def without_modes() -> AbstractContextManager[Any]:
    """Runs ATen itself: no dispatch mode, ours or another, sees what happens inside."""
    return _disable_current_modes()


def autocast_region() -> tuple[torch.dtype | None, str]:
    """The dtype and device type of the autocast region that is active, (None, "") outside of any. Ask outside of a
    dispatch mode's handler, where autocast is off."""
    if not torch._C._is_any_autocast_enabled():
        return None, ""
    for device_type in _autocast_devices():
        if torch.is_autocast_enabled(device_type):
            return torch.get_autocast_dtype(device_type), device_type
    return None, ""


@functools.cache
def _autocast_devices() -> tuple[str, ...]:
    own = torch._C._get_privateuse1_backend_name()
    return ("cpu", "cuda", "xpu", "mps", "xla", "hpu", *(() if own == "privateuseone" else (own,)))


@contextmanager
def swaps_told(swapped: Callable[[torch.Tensor, torch.Tensor, Callable[[], None]], None]) -> Iterator[None]:
    """Calls `swapped(a, b, swap)` in place of every `torch.utils.swap_tensors(a, b)`, by which a module converts fake
    parameters, and which refuses tensors with weak references; `swap` does it."""
    real = torch.utils.swap_tensors

    def swap_tensors(a: torch.Tensor, b: torch.Tensor) -> None:
        for tensor in (a, b):
            _forget_conversion(tensor)
        swapped(a, b, lambda: real(a, b))

    with patch.object(torch.utils, "swap_tensors", swap_tensors):
        yield


def _forget_conversion(tensor: torch.Tensor) -> None:
    """A fake mode remembers, by weak reference, what it made of each tensor that it met."""
    if isinstance(tensor, FakeTensor):
        made = tensor.fake_mode.fake_tensor_converter.meta_converter.tensor_memo
        for key in [key for key, value in made.items() if value is tensor]:
            del made[key]


@functools.cache
def is_implicit_composite(func: Any) -> bool:
    """Whether PyTorch defines the overload only by other operations (CompositeImplicitAutograd)."""
    return bool(torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), "CompositeImplicitAutograd"))


def is_overload(func: Any) -> bool:
    """False for higher-order operations (cond, scan, flex_attention), which take functions as arguments."""
    return isinstance(func, torch._ops.OpOverload)


_PLAIN_CLASSES: dict[type, bool] = {torch.Tensor: True, torch.nn.Parameter: True}


def is_plain_tensor_class(cls: type) -> bool:
    """Whether operations on the class do what they do on torch.Tensor: it has no dispatch of its own."""
    plain = _PLAIN_CLASSES.get(cls)
    if plain is None:
        own = getattr(cls, "__torch_dispatch__", None)
        ordinary = (None, torch._C._disabled_torch_dispatch_impl, torch.Tensor.__torch_dispatch__)
        plain = _PLAIN_CLASSES[cls] = own in ordinary
    return plain


@functools.cache
def core_decompositions() -> dict[Any, Callable[..., Any]]:
    """PyTorch's decompositions of ATen into the core operations, by overload."""
    from torch._decomp import core_aten_decompositions

    return dict(core_aten_decompositions().items())


@contextmanager
def optimizer_hooks(before: Callable[..., None], after: Callable[..., None]) -> Iterator[None]:
    """Calls `before` and `after` (optimizer, args, kwargs) around every Optimizer.step in the process."""
    from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook

    handles = [register_optimizer_step_pre_hook(before), register_optimizer_step_post_hook(after)]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


@contextmanager
def module_hooks(before: Callable[..., None], after: Callable[..., None]) -> Iterator[None]:
    """Calls `before` (module, args) and `after` (module, args, result), even if it raised, around every forward."""
    from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

    handles = [register_module_forward_pre_hook(before), register_module_forward_hook(after, always_call=True)]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


# ------------------------------------------------------------------ torch.export and torch.compile


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


def is_data_dependent(error: BaseException) -> bool:
    """Whether PyTorch gave up because a value or a size depends on a tensor's contents."""
    from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException
    from torch.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode

    return isinstance(error, GuardOnDataDependentSymNode | DataDependentOutputException | DynamicOutputShapeException)


def new_fake_mode() -> FakeTensorMode:
    """Fake tensors with static shapes; a result whose shape depends on data raises."""
    return FakeTensorMode(allow_non_fake_inputs=False, static_shapes=True)


def fake_like(tensor: torch.Tensor, mode: FakeTensorMode) -> torch.Tensor:
    """A fake leaf tensor of the same dtype, shape, strides, device and requires_grad, in memory of its own."""
    with without_modes(), mode:
        fake = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=tensor.device)
    return fake.requires_grad_(tensor.requires_grad)


def data_dependence() -> tuple[type[Exception], ...]:
    """What a fake tensor raises where the program asks for its contents, or for a shape that depends on them."""
    from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException

    return (DataDependentOutputException, DynamicOutputShapeException)


def reads_memory(error: BaseException) -> bool:
    """Whether an operation, or `.numpy()`, tried to read the memory that a fake tensor does not have."""
    words = ("its data is not allocated yet", ".numpy() is not supported for tensor subclasses")
    return isinstance(error, RuntimeError) and any(w in str(error) for w in words)


def unsupported_by_fake_tensors() -> tuple[type[Exception], ...]:
    """What a fake tensor raises for an operation that it can't run."""
    from torch._subclasses.fake_tensor import UnsupportedFakeTensorException, UnsupportedOperatorException

    return (UnsupportedFakeTensorException, UnsupportedOperatorException)


def fake_rule(func: Any) -> Callable[..., Any] | None:
    """What to run on fake tensors in place of an operation whose meta function is stricter than the operation, or
    that has none although its results' shapes don't depend on contents, or need not."""
    aten = torch.ops.aten
    rules: dict[Any, Callable[..., Any]] = {
        aten._grouped_mm.default: _fake_grouped_mm,
        aten._ctc_loss.default: _fake_ctc_loss,
        aten._ctc_loss.Tensor: _fake_ctc_loss,
        aten.linalg_lstsq.default: _fake_lstsq,
        aten.multilabel_margin_loss_forward.default: _fake_multilabel_margin_loss,
    }
    return rules.get(func)


def _fake_grouped_mm(a: Any, b: Any, offs: Any = None, bias: Any = None, out_dtype: Any = None) -> torch.Tensor:
    """The meta function knows CUDA's kernel only, which takes bfloat16; the CPU's takes any floating dtype."""
    if a.dim() == 2:
        shape = (offs.shape[0], a.shape[0], b.shape[1]) if b.dim() == 2 else (a.shape[0], b.shape[2])
    else:
        shape = (a.shape[1], b.shape[1]) if b.dim() == 2 else (a.shape[0], a.shape[1], b.shape[2])
    return a.new_empty(shape, dtype=out_dtype or a.dtype)


def _fake_multilabel_margin_loss(self: Any, target: Any, reduction: int) -> Any:
    """The meta function gives one row's loss a dimension that no kernel gives it."""
    loss, is_target = torch.ops.aten.multilabel_margin_loss_forward.default(self, target, reduction)
    return (loss if self.dim() > 1 else loss.new_empty(())), is_target


def _fake_ctc_loss(log_probs: Any, targets: Any, input_lengths: Any, target_lengths: Any, *rest: Any) -> Any:
    """The loss, and log alpha, which only the backward reads: a position for each label and around it. Lengths in a
    tensor are not known; no target is longer than `targets`."""
    longest = targets.shape[-1] if isinstance(target_lengths, torch.Tensor) else max(target_lengths, default=0)
    time, batch, _ = log_probs.shape
    return log_probs.new_empty((batch,)), log_probs.new_empty((batch, time, 2 * longest + 1))


def _fake_lstsq(a: Any, b: Any, rcond: Any = None, *, driver: str | None = None) -> Any:
    """Solution, residuals, rank, singular values, each empty where its driver leaves it out. The drivers that find
    the rank return residuals only if it is full."""
    rows, columns = a.shape[-2:]
    driver = driver or "gelsy"
    spectral, vector = driver in ("gelsd", "gelss"), b.shape == a.shape[:-1]
    if (rows > columns and spectral) or (b.dim() < a.dim() and not vector):
        return torch.ops.aten.linalg_lstsq.default(a, b, rcond, driver=driver)  # refuses in PyTorch's words
    right = b.unsqueeze(-1) if vector else b
    batch = torch.broadcast_shapes(a.shape[:-2], right.shape[:-2])
    solution = a.new_empty((*batch, columns) if vector else (*batch, columns, right.shape[-1]))
    real = a.dtype.to_real()
    residuals = a.new_empty((*batch, right.shape[-1]) if rows > columns and driver == "gels" else (0,), dtype=real)
    rank = a.new_empty((0,) if driver == "gels" else a.shape[:-2], dtype=torch.int64)
    return solution, residuals, rank, a.new_empty((*a.shape[:-2], min(rows, columns)) if spectral else (0,), dtype=real)


@contextmanager
def quiet_fake_tensors() -> Iterator[None]:
    """An operation that fails on fake tensors raises, and is not logged with a traceback besides."""
    logger = logging.getLogger("torch._subclasses.fake_tensor")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)


@contextmanager
def without_vendor_kernels() -> Iterator[None]:
    """PyTorch takes no operation that stands for one vendor's library (mkldnn_rnn_layer for an LSTM)."""
    enabled = torch._C._get_mkldnn_enabled()
    torch._C._set_mkldnn_enabled(False)
    try:
        yield
    finally:
        torch._C._set_mkldnn_enabled(enabled)


@contextmanager
def lengths_in_tensors() -> Iterator[None]:
    """torch.ctc_loss gets its lengths as tensors: to average a loss with lengths in a tuple, PyTorch writes them to
    memory that a fake tensor does not have."""
    original = torch.ctc_loss

    def ctc_loss(
        log_probs: Any, targets: Any, input_lengths: Any, target_lengths: Any, *rest: Any, **named: Any
    ) -> Any:
        lengths = [x if isinstance(x, torch.Tensor) else torch.tensor(x) for x in (input_lengths, target_lengths)]
        return original(log_probs, targets, *lengths, *rest, **named)

    with patch.object(torch, "ctc_loss", ctc_loss):
        yield


@functools.cache
def default_decompositions() -> dict[Any, Callable[..., Any]]:
    """What torch.export decomposes by default: the core decompositions and the implicit composites."""
    from torch.export import default_decompositions as default

    return dict(default().items())


def decides_precision(function: Callable[..., Any]) -> bool:
    """Whether a decomposition of PyTorch's converts its operands to a compute dtype of its own choice: one of the
    wrappers `type_casts` (pw_cast_for_opmath) and `elementwise_type_promotion_wrapper`, or a call of
    `get_computation_dtype` in its body."""
    current: Any = function
    while current is not None:
        code = getattr(current, "__code__", None)
        if code is not None:
            if "type_casts" in code.co_qualname or "elementwise_type_promotion_wrapper" in code.co_qualname:
                return True
            if _names_in(code) & {"get_computation_dtype", "compute_dtype", "computation_dtype"}:
                return True
        current = getattr(current, "__wrapped__", None)
    return False


def _names_in(code: Any) -> set[str]:
    nested = (_names_in(c) for c in code.co_consts if hasattr(c, "co_names"))
    return {*code.co_names, *code.co_varnames}.union(*nested)


# What fake kernels raise where shapes or values depend on contents.
DATA_DEPENDENT: tuple[type[Exception], ...] = (DynamicOutputShapeException, DataDependentOutputException)

# Rebuilds a tensor from CPU contents on a device: (tensor, dtype, device, requires_grad); plain PyTorch has it.
rebuild_from_cpu: Callable[..., Any] = torch._utils._rebuild_device_tensor_from_cpu_tensor
# Makes a parameter of a tensor: (tensor, requires_grad, backward hooks).
rebuild_parameter: Callable[..., Any] = torch._utils._rebuild_parameter


def composite_explicit(func: Any) -> Callable[..., Any] | None:
    """PyTorch's definition of an overload by others, without autograd; None if it has none."""
    if not torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), "CompositeExplicitAutograd"):
        return None
    return functools.partial(func._op_dk, torch._C.DispatchKey.CompositeExplicitAutograd)


def new_storage(cls: Any, *arguments: Any) -> Any:
    """An UntypedStorage of a subclass, in the CPU's memory."""
    return torch._C.StorageBase.__new__(cls, *arguments)


def storages_by(make: Callable[..., Any], device_type: str) -> None:
    """torch.UntypedStorage(..., device=d) is `make(...)` for devices of this type, from now on."""

    def new(cls: Any, *arguments: Any, device: Any = None, **named: Any) -> Any:
        if device is not None and torch.device(device).type == device_type:
            return make(*arguments)
        placed = {} if device is None else {"device": device}
        return torch._C.StorageBase.__new__(cls, *arguments, **placed, **named)

    torch.UntypedStorage.__new__ = new


def remember_constructors() -> None:
    """torch.set_default_device knows constructors by identity: it is to know PyTorch's own, not what wraps them."""
    from torch.utils._device import _device_constructors

    _device_constructors()


@contextmanager
def default_devices_as(translated: Callable[[Any], Any]) -> Iterator[None]:
    """While active, torch.set_default_device(d) and `with d:` take `translated(d)` for d."""
    from torch.utils._device import DeviceContext

    real: Callable[[Any, Any], None] = DeviceContext.__init__

    def construct(self: Any, device: Any) -> None:
        real(self, translated(device))

    with patch.object(DeviceContext, "__init__", construct):
        yield


def composite_implicit(func: Any) -> Callable[..., Any]:
    """PyTorch's definition of an overload by other operations that autograd sees."""
    return functools.partial(func._op_dk, torch._C.DispatchKey.CompositeImplicitAutograd)


def register_backend(name: str, module: Any, guard: Any) -> None:
    """Gives PrivateUse1 a name, a device module, and the guards and hooks that a backend has in C++."""
    from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

    _setup_privateuseone_for_python_backend(name, module, device_guard=guard)


_libraries: list[Any] = []


def register_kernels(kernels: dict[str, Callable[..., Any]], key: str = "PrivateUse1") -> None:
    """Kernels of the backend by overload ("eye.m"): for those that have no tensor argument to dispatch on, or, with the
    key AutocastPrivateUse1, for those that autocast knows."""
    library = torch.library.Library("aten", "IMPL")
    for name, kernel in kernels.items():
        library.impl(name, kernel, key)
    _libraries.append(library)


def pass_autocast_by() -> None:
    """An operation of the backend that has no kernel of its own for autocast is left alone by it."""
    library = torch.library.Library("_", "IMPL")
    library.fallback(torch.library.fallthrough_kernel, "AutocastPrivateUse1")
    _libraries.append(library)


def without_autocast() -> AbstractContextManager[Any]:
    """Operations of the backend pass autocast by."""
    keys = torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastPrivateUse1)
    return torch._C._ExcludeDispatchKeyGuard(keys)


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

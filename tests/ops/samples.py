"""PyTorch's OpInfo database as work items: one operator, one dtype, a list of sample calls; its modules, optimizers.

`torch.testing._internal` is private; this file is the only one that touches it.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.common_modules import module_db
from torch.testing._internal.common_optimizers import optim_db
from torch.testing._internal.opinfo.core import BinaryUfuncInfo, ReductionOpInfo, UnaryUfuncInfo
from torch.utils import _pytree as pytree

DTYPES = (torch.float32, torch.bfloat16, torch.float16, torch.int64, torch.bool, torch.complex64)

# Their values are not functions of their inputs: shapes and dtypes are compared, values are not.
RANDOM = frozenset(
    "bernoulli multinomial normal rand randint randn rand_like randint_like randn_like empty empty_like empty_permuted "
    "empty_strided new_empty new_empty_strided uniform cauchy exponential geometric log_normal nn.functional.dropout "
    "nn.functional.dropout2d nn.functional.dropout3d nn.functional.alpha_dropout nn.functional.feature_alpha_dropout "
    "nn.functional.rrelu nn.functional.fractional_max_pool2d nn.functional.fractional_max_pool3d pca_lowrank "
    "svd_lowrank normal.in_place normal.number_mean".split()
)


# PyTorch leaves open which of several equal elements their indices name (unless `stable=True` settles it): what the
# indices select is compared, beside the values.
SELECTING = frozenset("sort argsort topk kthvalue mode".split())

# Each eigenvector and pair of singular vectors has a factor of modulus 1 that nothing determines: what they multiply to
# is compared.
SPECTRAL = frozenset(["linalg.eigh", "linalg.svd", "svd"])


# Positions of tensors that PyTorch demands on the CPU, whatever the device of the others.
ON_CPU = {"tensor_split": (1,)}


def _all(result: Any, input: Any, *arguments: Any, **keywords: Any) -> Any:
    return result


@dataclass(frozen=True)
class Call:
    """One sample: what to call and its arguments. `run` returns a tuple of tensors.

    determined: of a result and the arguments, that which PyTorch's documentation determines.
    """

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    keywords: dict[str, Any]
    determined: Callable[..., Any] = _all

    def run(self, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> tuple[torch.Tensor, ...]:
        result = self.determined(self.function(*arguments, **keywords), *arguments, **keywords)
        return tuple(leaf for leaf in pytree.tree_leaves(result) if isinstance(leaf, torch.Tensor))


def full_name(info: Any) -> str:
    return f"{info.name}.{info.variant_test_name}" if info.variant_test_name else str(info.name)


def operators() -> dict[str, Any]:
    """OpInfo by full name."""
    return {full_name(info): info for info in op_db}


def smallest_first(names: Iterable[str]) -> list[str]:
    """The operators' names, those with the fewest samples first: a sweep that is cut short has seen most of them."""
    table = operators()

    def size(name: str) -> int:
        info = table[name]
        dtypes = [d for d in (torch.float32, torch.int64, torch.complex64) if supports(info, d, gradient=False)]
        return sum(1 for d in dtypes[:1] for _ in calls(info, d, gradient=False, limit=0))

    return sorted(names, key=size)


def elementwise_or_reduction() -> frozenset[str]:
    """The operators that OpInfo classes as elementwise or as reductions: no wrong value is allowed there."""
    classes = (UnaryUfuncInfo, BinaryUfuncInfo, ReductionOpInfo)
    return frozenset(name for name, info in operators().items() if isinstance(info, classes))


# Operators that move or pick elements without computing on them, by OpInfo's names.
MOVEMENT_OR_INDEXING = frozenset(
    "as_strided as_strided.partial_views as_strided_copy as_strided_scatter atleast_1d atleast_2d atleast_3d "
    "block_diag broadcast_tensors broadcast_to cat chunk clone contiguous diag diag_embed diagonal diagonal_copy "
    "diagonal_scatter dsplit dstack expand expand_as expand_copy flatten flip fliplr flipud gather hsplit hstack "
    "index_copy index_fill index_put index_select item masked_fill masked_scatter masked_select "
    "meshgrid.list_of_tensors meshgrid.variadic_tensors movedim narrow narrow_copy nonzero nonzero_static permute "
    "permute_copy put ravel repeat repeat_interleave reshape reshape_as resolve_conj resolve_neg roll rot90 scatter "
    "select select_scatter slice slice_scatter split split.list_args split_with_sizes split_with_sizes_copy squeeze "
    "squeeze.multiple squeeze_copy stack swapaxes swapdims t t_copy take take_along_dim tensor_split tile transpose "
    "transpose_copy tril triu unbind unbind_copy unflatten unfold unfold_copy unsqueeze unsqueeze_copy unsafe_chunk "
    "unsafe_split view view_as view_copy vsplit vstack where".split()
)


def elementwise_movement_or_indexing() -> frozenset[str]:
    """The operators that OpInfo classes as elementwise, and those that move or pick elements."""
    elementwise = (n for n, info in operators().items() if isinstance(info, UnaryUfuncInfo | BinaryUfuncInfo))
    return frozenset(elementwise) | MOVEMENT_OR_INDEXING


def calls(info: Any, dtype: torch.dtype, *, gradient: bool, limit: int) -> Iterator[Call]:
    """Up to `limit` samples of an operator, evenly spaced over what OpInfo gives. The seed is fixed."""
    torch.manual_seed(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        samples = list(info.sample_inputs("cpu", dtype, requires_grad=gradient))
    step = max(1, -(-len(samples) // limit)) if limit else 1
    determined = _all
    if full_name(info) in SELECTING:
        determined = _selecting(info.op)
    elif full_name(info) in SPECTRAL:
        determined = _rebuilt_from_eigenvectors if "eigh" in info.name else _rebuilt_from_singular_vectors(info.name)
    for sample in samples[::step]:
        yield Call(info.op, (sample.input, *sample.args), dict(sample.kwargs), determined)


def interleaved(t: torch.Tensor) -> torch.Tensor:
    """A tensor with one dimension more, in whose first place along it stand the same values, and ones in the second."""
    return torch.stack([t, torch.ones_like(t)], -1)


def _selecting(operator: Callable[..., Any]) -> Callable[..., Any]:
    """A result of `operator`, with its indices replaced by the elements that they select and, where all positions are
    named, by the sorted positions; an integer 0 of the indices' shape and dtype stands for the rest."""

    def determined(result: Any, input: torch.Tensor, *arguments: Any, **keywords: Any) -> tuple[torch.Tensor, ...]:
        if keywords.get("stable"):
            return (result,) if isinstance(result, torch.Tensor) else tuple(result)
        *values, indices = (result,) if isinstance(result, torch.Tensor) else result
        line = input.reshape(input.shape or (1,))
        dim = _dim_of(operator, arguments, keywords) % line.dim()
        places = indices
        if places.dim() < line.dim():
            places = places.unsqueeze(dim)
        selected = line.take_along_dim(places, dim)
        if places.shape == line.shape:
            return (*values, selected, places.sort(dim).values)
        return (*values, selected, torch.zeros_like(indices))

    return determined


def _dim_of(operator: Callable[..., Any], arguments: tuple[Any, ...], keywords: dict[str, Any]) -> int:
    """The dim argument: behind k in topk and kthvalue, the last dim where it isn't given."""
    place = 1 if operator.__name__ in ("topk", "kthvalue") else 0
    return keywords.get("dim", arguments[place] if len(arguments) > place else -1)


def _rebuilt_from_eigenvectors(result: Any, *arguments: Any, **keywords: Any) -> tuple[torch.Tensor, ...]:
    """The eigenvalues w, and of the eigenvectors V: V diag(w) V^H and V^H V."""
    values, vectors = result
    return values, (vectors * values.unsqueeze(-2)) @ vectors.mH, vectors.mH @ vectors


def _rebuilt_from_singular_vectors(name: str) -> Callable[..., Any]:
    """The singular values S, and of the singular vectors: U S V^H, U^H U and V^H V."""

    def determined(result: Any, *arguments: Any, **keywords: Any) -> tuple[torch.Tensor, ...]:
        left, values, right = result
        right = right.mH if name == "svd" else right
        count = values.shape[-1]
        product = (left[..., :count] * values.unsqueeze(-2)) @ right[..., :count, :]
        return values, product, left.mH @ left, right @ right.mH

    return determined


def is_random(name: str, call: Call) -> bool:
    """Whether the values of a call are drawn, so that only dtypes and shapes can be compared."""
    dropped = [v for k, v in call.keywords.items() if k in ("dropout_p", "p") and "dropout" in k + name]
    return name in RANDOM or any(dropped) or (name.endswith("multi_head_attention_forward") and _drops(call))


def _drops(call: Call) -> bool:
    """multi_head_attention_forward takes dropout_p and training by position (numbers 9 and 12 after the input)."""
    return any(isinstance(a, float) and a > 0 for a in call.arguments) and bool(call.keywords.get("training", True))


def supports(info: Any, dtype: torch.dtype, *, gradient: bool) -> bool:
    return dtype in info.supported_dtypes("cpu") and (not gradient or info.supports_autograd)


def with_gradients(call: Call) -> Call:
    """The call's results followed by the gradients of their weighted sum; weights are a fixed cosine."""

    def function(*arguments: Any, **keywords: Any) -> tuple[torch.Tensor, ...]:
        inputs = [
            t for t in pytree.tree_leaves((arguments, keywords)) if isinstance(t, torch.Tensor) and t.requires_grad
        ]
        outputs = call.run(arguments, keywords)
        inexact = [o for o in outputs if o.requires_grad]
        total = sum(
            (o * torch.cos(torch.arange(o.numel(), dtype=torch.float32)).reshape(o.shape)).sum() for o in inexact
        )
        if not isinstance(total, torch.Tensor):
            return outputs
        total = total.real if total.is_complex() else total
        gradients = torch.autograd.grad(total, inputs, allow_unused=True)
        return (*(o.detach() for o in outputs), *(g for g in gradients if g is not None))

    return Call(function, call.arguments, call.keywords)


def _weights(output: torch.Tensor) -> torch.Tensor:
    return torch.cos(torch.arange(output.numel(), dtype=torch.float32)).reshape(output.shape)


def module_table() -> dict[str, Any]:
    """ModuleInfo by name: "nn.Linear"."""
    return {info.name: info for info in module_db}


def module_inputs(info: Any, dtype: torch.dtype, training: bool) -> list[Any]:
    """What a module is made of and called with; floating inputs want gradients."""
    return list(info.module_inputs_func(info, "cpu", dtype, True, training))


def optimizer_table() -> dict[str, Any]:
    """OptimizerInfo by name: "optim.AdamW"."""
    return {f"optim.{info.optim_cls.__name__}": info for info in optim_db}


def training_table() -> dict[str, Any]:
    """Modules and optimizers by name."""
    return {**module_table(), **optimizer_table()}


def optimizer_inputs(info: Any) -> Iterator[dict[str, Any]]:
    """The keyword arguments of each form of an optimizer, with the implementations that it has."""
    for entry in info.optim_inputs_func("cpu"):
        for flags in ({}, *({name: True} for name in ("foreach", "fused") if name in info.supported_impls)):
            yield {**entry.kwargs, **flags}

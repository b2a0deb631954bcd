"""Public functions and modules that refuse their operands' dtypes before anything is dispatched, and the arguments with
which they don't. What refuses below the dispatcher has its contract in `ops/`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch.nn.utils.rnn import PackedSequence
from torch.utils import _pytree as pytree

from truecast.observations import Call

# By public name: the tensor arguments in order, and the one whose dtype the others follow.
_CONVOLUTION = (("input", "weight", "bias"), "weight")
_FUNCTIONS: dict[str, tuple[tuple[str, ...], str]] = {
    **{f"conv{n}d": _CONVOLUTION for n in (1, 2, 3)},
    **{f"conv_transpose{n}d": _CONVOLUTION for n in (1, 2, 3)},
    "scaled_dot_product_attention": (("query", "key", "value", "attn_mask"), "query"),
    "prelu": (("input", "weight"), "weight"),
}


@dataclass(frozen=True)
class Agreement:
    """operands: the tensors that disagree, those that give way first; `wanted` is the dtype that `strangers` follow."""

    operands: tuple[tuple[str, torch.Tensor], ...]
    strangers: frozenset[str]
    wanted: torch.dtype
    _names: tuple[str, ...]

    def cast(self, args: Any, kwargs: Any) -> tuple[Any, Any]:
        """The arguments with the strangers cast."""
        cast = {name: tensor.to(self.wanted) for name, tensor in self.operands if name in self.strangers}
        positional = [cast.get(n, a) for n, a in zip(self._names, args, strict=False)]
        return (*positional, *args[len(positional) :]), {k: cast.get(k, v) for k, v in kwargs.items()}


def agreement(call: Call, args: Any, kwargs: Any) -> Agreement | None:
    """What would make a public function's operands agree; None where they do, or nothing is known of the function."""
    known = _FUNCTIONS.get(call.function)
    if known is None:
        return None
    names, leader = known
    given = {**dict(zip(names, args, strict=False)), **kwargs}
    tensors = {n: t for n in names if isinstance(t := given.get(n), torch.Tensor) and t.is_floating_point()}
    if leader not in tensors:
        return None
    # Autocast has converted all but float64 to its dtype before the check.
    met = {n: t.dtype if call.autocast is None or t.dtype == torch.float64 else None for n, t in tensors.items()}
    strangers = frozenset(n for n in tensors if met[n] != met[leader])
    if not strangers:
        return None
    order = sorted(tensors, key=lambda n: (n not in strangers, names.index(n)))
    return Agreement(tuple((n, tensors[n]) for n in order), strangers, tensors[leader].dtype, names)


@dataclass(frozen=True)
class RecurrentInput:
    """A recurrent module's input and weight of different dtypes, what PyTorch says of it, and the arguments to go on
    with."""

    input: torch.Tensor
    weight: torch.nn.Parameter
    message: str
    args: tuple[Any, ...]

    def cast(self) -> tuple[Any, ...]:
        """The arguments in the weight's dtype."""
        dtype = self.weight.dtype
        given, *rest = self.args
        return (given.to(dtype), *pytree.tree_map(lambda a: as_dtype(a, dtype), tuple(rest)))


def recurrent_input(module: torch.nn.Module, args: Any) -> RecurrentInput | None:
    """What a recurrent module refuses in Python; None for other modules, and where it doesn't."""
    if not isinstance(module, torch.nn.RNNBase) or not args:
        return None
    given = args[0]
    tensor, sizes = (given.data, given.batch_sizes) if isinstance(given, PackedSequence) else (given, None)
    weight = module.weight_ih_l0
    if not isinstance(tensor, torch.Tensor) or not isinstance(weight, torch.nn.Parameter):
        return None
    if tensor.dtype == weight.dtype or not tensor.is_floating_point():
        return None
    try:
        module.check_input(tensor, sizes)
    except ValueError as error:
        return RecurrentInput(tensor, weight, str(error), args)
    return None


def as_dtype(argument: Any, dtype: torch.dtype) -> Any:
    """A floating tensor in that dtype; anything else as it is."""
    if isinstance(argument, torch.Tensor) and argument.is_floating_point() and argument.dtype != dtype:
        return torch.ops.aten._to_copy.default(argument, dtype=dtype)
    return argument

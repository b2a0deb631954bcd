"""ATen's own schemas: argument names, order, defaults. The one place in ops/ that touches torch.

The seam over `OpOverload._schema` (private, torch >= 2.13): tests/unit/test_schema.py holds it down.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any, Literal

ArgumentClass = Literal["tensor", "tensor_list", "scalar", "dtype", "other"]


@dataclass(frozen=True, slots=True)
class Parameter:
    """One schema argument. `written` is True where the operation writes it (in-place, out)."""

    name: str
    cls: ArgumentClass
    type: str
    keyword_only: bool
    default: Any
    has_default: bool
    written: bool


@dataclass(frozen=True, slots=True)
class Schema:
    parameters: tuple[Parameter, ...]
    returns: int
    written_returns: tuple[bool, ...]

    @property
    def is_functional(self) -> bool:
        return not any(p.written for p in self.parameters)


# truecast's own operations. The results of a JAX function are as many as it has.
_OWN = ("call_jax(str function, Tensor[] operands) -> Tensor[]",)


@functools.cache
def _own_library() -> Any:
    """torch.ops.truecast: what is declared here lives as long as the library."""
    import torch

    library = torch.library.Library("truecast", "DEF")
    for declared in _OWN:
        library.define(declared)
    return library


@functools.cache
def overload(op: str) -> Any:
    """The torch OpOverload named "namespace.name.overload". Raises KeyError if torch has none."""
    import torch

    namespace, name, variant = op.split(".")
    if namespace == "truecast":
        _own_library()
    try:
        return getattr(getattr(getattr(torch.ops, namespace), name), variant)
    except AttributeError as error:
        raise KeyError(op) from error


@functools.cache
def schema(op: str) -> Schema:
    """The schema of an overload. Raises KeyError if torch has no such overload."""
    raw = overload(op)._schema
    parameters = tuple(
        Parameter(
            name=a.name,
            cls=_class(str(a.type), a.name),
            type=str(a.type),
            keyword_only=a.kwarg_only,
            default=a.default_value,
            has_default=a.has_default_value(),
            written=a.alias_info is not None and a.alias_info.is_write,
        )
        for a in raw.arguments
    )
    written = tuple(r.alias_info is not None and r.alias_info.is_write for r in raw.returns)
    return Schema(parameters, len(raw.returns), written)


def _class(type_name: str, name: str) -> ArgumentClass:
    bare = type_name.removeprefix("Optional[").removesuffix("]") if type_name.startswith("Optional[") else type_name
    if bare == "Tensor":
        return "tensor"
    if bare in ("List[Tensor]", "List[Optional[Tensor]]"):
        return "tensor_list"
    if bare in ("number", "Scalar", "complex"):
        return "scalar"
    if name in ("dtype", "out_dtype") and bare == "int":
        return "dtype"
    return "other"


def bind(op: str, args: tuple[Any, ...], kwargs: tuple[tuple[str, Any], ...]) -> dict[str, Any]:
    """Arguments by schema name, defaults filled in."""
    given = dict(kwargs)
    bound: dict[str, Any] = {}
    for index, parameter in enumerate(schema(op).parameters):
        if not parameter.keyword_only and index < len(args):
            bound[parameter.name] = args[index]
        elif parameter.name in given:
            bound[parameter.name] = given[parameter.name]
        else:
            bound[parameter.name] = tuple(d) if isinstance(d := parameter.default, list) else d
    return bound

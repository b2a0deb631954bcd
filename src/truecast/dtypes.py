"""Facts about dtypes: bits, ranges, categories, names in torch and NumPy, and PyTorch's promotion lattice.

A leaf: imports errors alone of truecast, and neither torch nor jax when it is imported itself. Everything
below the user's program speaks of dtypes through `DType`, so that a policy can be read, and a text
form of a graph parsed, on a machine without either framework.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

from truecast.errors import UnsupportedError

Category = Literal["bool", "integral", "floating", "complex"]
_CATEGORY_ORDER: dict[Category, int] = {"bool": 0, "integral": 1, "floating": 2, "complex": 3}


@dataclass(frozen=True, eq=False, slots=True)
class DType:
    """One dtype, interned: two DTypes of the same name are the same object.

    `bits` is the width of one element. `exponent_bits` and `mantissa_bits` (stored bits, without the
    implicit one) are 0 for integers and booleans, and those of one component for complex dtypes.
    """

    name: str
    category: Category
    bits: int
    exponent_bits: int = 0
    mantissa_bits: int = 0

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"DType({self.name})"

    def __reduce__(self) -> tuple[Any, ...]:
        return (of, (self.name,))

    def __copy__(self) -> DType:
        return self

    def __deepcopy__(self, memo: object) -> DType:
        return self

    @property
    def is_floating(self) -> bool:
        return self.category == "floating"

    @property
    def is_inexact(self) -> bool:
        """Floating or complex."""
        return self.category in ("floating", "complex")

    @property
    def is_narrow(self) -> bool:
        """A floating or complex dtype whose components have 16 bits or fewer."""
        return self.is_inexact and self.component_bits <= 16

    @property
    def component_bits(self) -> int:
        return self.bits // 2 if self.category == "complex" else self.bits

    @property
    def itemsize(self) -> int:
        """Bytes of one element; a bool takes one byte."""
        return max(1, self.bits // 8)


_ALL = (
    DType("bool", "bool", 8),
    DType("uint8", "integral", 8),
    DType("int8", "integral", 8),
    DType("int16", "integral", 16),
    DType("int32", "integral", 32),
    DType("int64", "integral", 64),
    DType("uint16", "integral", 16),
    DType("uint32", "integral", 32),
    DType("uint64", "integral", 64),
    DType("float8_e4m3fn", "floating", 8, 4, 3),
    DType("float8_e5m2", "floating", 8, 5, 2),
    DType("float8_e4m3fnuz", "floating", 8, 4, 3),
    DType("float8_e5m2fnuz", "floating", 8, 5, 2),
    DType("float16", "floating", 16, 5, 10),
    DType("bfloat16", "floating", 16, 8, 7),
    DType("float32", "floating", 32, 8, 23),
    DType("float64", "floating", 64, 11, 52),
    DType("complex32", "complex", 32, 5, 10),
    DType("complex64", "complex", 64, 8, 23),
    DType("complex128", "complex", 128, 11, 52),
)
BY_NAME: dict[str, DType] = {d.name: d for d in _ALL}

bool_ = BY_NAME["bool"]
uint8, int8, int16, int32, int64 = (BY_NAME[n] for n in ("uint8", "int8", "int16", "int32", "int64"))
uint16, uint32, uint64 = (BY_NAME[n] for n in ("uint16", "uint32", "uint64"))
float16, bfloat16, float32, float64 = (BY_NAME[n] for n in ("float16", "bfloat16", "float32", "float64"))
complex32, complex64, complex128 = (BY_NAME[n] for n in ("complex32", "complex64", "complex128"))


def of(dtype: object) -> DType:
    """The DType for a name ("bfloat16"), a torch.dtype, a NumPy dtype, a Python number type, or a DType.

    Raises KeyError for what truecast does not know (quantized dtypes, for example).
    """
    if isinstance(dtype, DType):
        return dtype
    if isinstance(dtype, type) and dtype in _PYTHON_TYPES:
        return _PYTHON_TYPES[dtype]
    name = str(dtype).removeprefix("torch.")
    return BY_NAME[_ALIASES.get(name, name)]


_PYTHON_TYPES: dict[type, DType] = {bool: bool_, int: int64, float: float64, complex: complex128}
_ALIASES = {
    "half": "float16",
    "float": "float32",
    "double": "float64",
    "long": "int64",
    "int": "int32",
    "bf16": "bfloat16",
}


@functools.cache
def torch_dtype(dtype: DType) -> Any:
    """The torch.dtype of the same name (imports torch)."""
    import torch

    return getattr(torch, dtype.name)


@functools.cache
def numpy_dtype(dtype: DType) -> Any:
    """The numpy.dtype that jax uses for `dtype` (ml_dtypes for the ones NumPy lacks).

    Raises UnsupportedError for complex32, which XLA does not have.
    """
    import ml_dtypes
    import numpy

    if dtype is complex32:
        raise UnsupportedError("a tensor of dtype complex32", why="XLA has no such type", help="use complex64")
    return numpy.dtype(getattr(ml_dtypes, dtype.name, None) or dtype.name)


def real_of(dtype: DType) -> DType:
    """The dtype of a complex dtype's components; any other dtype unchanged."""
    return {"complex32": float16, "complex64": float32, "complex128": float64}.get(dtype.name, dtype)


def complex_of(dtype: DType) -> DType:
    """The complex dtype whose components have `dtype` (bfloat16 has none of its own: complex64)."""
    table = {"float16": complex32, "bfloat16": complex64, "float32": complex64, "float64": complex128}
    return table.get(dtype.name, dtype if dtype.category == "complex" else complex64)


def opmath(dtype: DType) -> DType:
    """PyTorch's opmath type: float32 for floating dtypes of 16 bits or fewer, complex64 for complex32,
    otherwise the dtype itself (ATen/OpMathType.h)."""
    if not dtype.is_narrow:
        return dtype
    return complex64 if dtype.category == "complex" else float32


_SCALAR_NAMES = {
    "bool": "Bool",
    "uint8": "Byte",
    "int8": "Char",
    "int16": "Short",
    "int32": "Int",
    "int64": "Long",
    "uint16": "UInt16",
    "uint32": "UInt32",
    "uint64": "UInt64",
    "float16": "Half",
    "bfloat16": "BFloat16",
    "float32": "Float",
    "float64": "Double",
    "complex32": "ComplexHalf",
    "complex64": "ComplexFloat",
    "complex128": "ComplexDouble",
}


def scalar_name(dtype: DType) -> str:
    """The name that PyTorch's own messages use: "Float", "BFloat16", "Long" (c10::ScalarType)."""
    return _SCALAR_NAMES.get(dtype.name, dtype.name.capitalize())


_CPP_NAMES = {
    "bool": "bool",
    "uint8": "unsigned char",
    "int8": "signed char",
    "int16": "short int",
    "int32": "int",
    "int64": "long int",
    "uint16": "short unsigned int",
    "uint32": "unsigned int",
    "uint64": "long unsigned int",
    "float32": "float",
    "float64": "double",
    "complex32": "c10::complex<c10::Half>",
    "complex64": "c10::complex<float>",
    "complex128": "c10::complex<double>",
}


def cpp_name(dtype: DType) -> str:
    """The C++ type name that other messages of PyTorch use: "float", "c10::BFloat16" (caffe2::TypeMeta)."""
    return _CPP_NAMES.get(dtype.name, f"c10::{scalar_name(dtype)}")


_LEGACY_TENSOR_TYPES = frozenset(["uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64"])


def tensor_name(dtype: DType) -> str:
    """The name of a CPU tensor's type in PyTorch's messages: "torch.FloatTensor", "CPUBFloat16Type"."""
    name = scalar_name(dtype)
    return f"torch.{name}Tensor" if dtype.name in _LEGACY_TENSOR_TYPES else f"CPU{name}Type"


# The lattice: each dtype's immediate wider neighbours; promote(a, b) is the least upper bound. The wide
# unsigned integers stand below the real floating dtypes alone, and the float8 dtypes below nothing: PyTorch
# refuses the other pairs (c10/core/ScalarType.cpp, promoteTypes).
_UNSIGNED_WIDE = frozenset({uint16, uint32, uint64})
_FLOAT8 = frozenset(d for d in _ALL if d.name.startswith("float8"))
_WIDER: dict[DType, tuple[DType, ...]] = {
    bool_: (uint8, int8),
    uint8: (int16,),
    int8: (int16,),
    int16: (int32,),
    int32: (int64,),
    int64: (float16, bfloat16),
    float16: (float32, complex32),
    bfloat16: (float32,),
    float32: (float64, complex64),
    float64: (complex128,),
    complex32: (complex64,),
    complex64: (complex128,),
    complex128: (),
}


@functools.cache
def _upward(dtype: DType) -> frozenset[DType]:
    above = {dtype}
    for wider in _WIDER[dtype]:
        above |= _upward(wider)
    return frozenset(above)


@functools.cache
def promote(a: DType, b: DType) -> DType:
    """The dtype PyTorch promotes two dimensioned tensors to; symmetric.

    Raises RuntimeError, as PyTorch does and in its words, for the pairs it refuses (float8 with anything else).
    """
    if a is b:
        return a
    names = f"attempted to promote {scalar_name(a)} and {scalar_name(b)}"
    if a in _FLOAT8 or b in _FLOAT8:
        raise RuntimeError(f"Promotion for Float8 Types is not supported, {names}")
    if a in _UNSIGNED_WIDE or b in _UNSIGNED_WIDE:
        if a.is_floating or b.is_floating:
            return a if a.is_floating else b
        raise RuntimeError(f"Promotion for uint16, uint32, uint64 types is not supported, {names}")
    return max(_upward(a) & _upward(b), key=lambda d: len(_upward(d)))


OperandForm = Literal["dimensioned", "zero_dim", "scalar"]


def result_type(operands: Iterable[tuple[DType, OperandForm]], default: DType = float32) -> DType:
    """PyTorch's result type of operands that are dimensioned tensors, 0-dim tensors or Python scalars.

    A form of lower priority (scalar < zero_dim < dimensioned) only raises the category, never the
    width within one. A Python float contributes `default` (torch.get_default_dtype()), a Python complex
    its complex counterpart. Source: ATen/native/TypeProperties.cpp.
    Raises ValueError without operands, and what `promote` raises.
    """
    by_form: dict[OperandForm, DType] = {}
    for dtype, form in operands:
        if form == "scalar" and dtype.is_floating:
            dtype = default
        elif form == "scalar" and dtype.category == "complex":
            dtype = complex_of(default)
        by_form[form] = promote(by_form[form], dtype) if form in by_form else dtype
    if not by_form:
        raise ValueError("result_type needs at least one operand")
    forms: tuple[OperandForm, ...] = ("scalar", "zero_dim", "dimensioned")
    given = [by_form[form] for form in forms if form in by_form]
    return functools.reduce(lambda lower, higher: _raise_category(higher, lower), given)


def _raise_category(higher: DType, lower: DType) -> DType:
    """`higher`, raised to `lower`'s category where that is the greater one; bool counts as the least integer."""
    if higher.category == "complex":
        return higher
    if lower.category == "complex":
        if higher in _FLOAT8:
            raise RuntimeError(f"Unknown Complex ScalarType for {scalar_name(higher)}")
        return complex_of(higher) if higher.is_floating else lower
    if higher.is_floating:
        return higher
    return promote(higher, lower) if lower.is_floating or higher is bool_ else higher

"""Tensor types as HLO ("bf16[8,16]{1,0}") and MLIR ("tensor<8x16xbf16>") spell them, with truecast's dtypes."""

from __future__ import annotations

import re
from dataclasses import dataclass

from truecast import dtypes
from truecast.dtypes import DType


@dataclass(frozen=True, slots=True)
class TensorType:
    """One tensor's type. An extent that the text leaves open ("?", "<=8") is its bound, or 1 without one."""

    dtype: DType
    extents: tuple[int, ...]

    @property
    def size(self) -> int:
        count = 1
        for extent in self.extents:
            count *= extent
        return count

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.bits // 8

    def __str__(self) -> str:
        return f"{self.dtype}[{','.join(map(str, self.extents))}]"


def _known(text: str) -> dict[str, DType]:
    return {word: dtypes.of(name) for word, name in (pair.split("=") for pair in text.split())}


# What XLA has and PyTorch lacks, or spells otherwise.
_FOREIGN = {
    **{f"{sign}int{bits}": DType(f"{sign}int{bits}", "integral", bits) for sign in ("", "u") for bits in (1, 2, 4)},
    "float8_e4m3": DType("float8_e4m3", "floating", 8, 4, 3),
    "float8_e3m4": DType("float8_e3m4", "floating", 8, 3, 4),
    "float8_e4m3b11fnuz": DType("float8_e4m3b11fnuz", "floating", 8, 4, 3),
    "float8_e8m0fnu": DType("float8_e8m0fnu", "floating", 8, 8, 0),
    "float4_e2m1fn": DType("float4_e2m1fn", "floating", 4, 2, 1),
    "tfloat32": DType("tfloat32", "floating", 32, 8, 10),
}

# The spellings of both languages, in lower case: HLO's s32 and u8, MLIR's i32 and ui8.
ELEMENTS: dict[str, DType] = {
    **_known("pred=bool i1=bool f16=float16 bf16=bfloat16 f32=float32 f64=float64 c64=complex64 c128=complex128"),
    **_known("complex<f32>=complex64 complex<f64>=complex128 index=int64"),
    **_known("f8e4m3fn=float8_e4m3fn f8e5m2=float8_e5m2 f8e4m3fnuz=float8_e4m3fnuz f8e5m2fnuz=float8_e5m2fnuz"),
    **{f"{letter}{bits}": dtypes.of(f"int{bits}") for letter in ("s", "i", "si") for bits in (8, 16, 32, 64)},
    **{f"{letter}{bits}": dtypes.of(f"uint{bits}") for letter in ("u", "ui") for bits in (8, 16, 32, 64)},
    **{f"{letter}{bits}": _FOREIGN[f"int{bits}"] for letter in ("s", "i", "si") for bits in (2, 4)},
    **{f"{letter}{bits}": _FOREIGN[f"uint{bits}"] for letter in ("u", "ui") for bits in (1, 2, 4)},
    "s1": _FOREIGN["int1"],
    "f8e4m3": _FOREIGN["float8_e4m3"],
    "f8e3m4": _FOREIGN["float8_e3m4"],
    "f8e4m3b11fnuz": _FOREIGN["float8_e4m3b11fnuz"],
    "f8e8m0fnu": _FOREIGN["float8_e8m0fnu"],
    "f4e2m1fn": _FOREIGN["float4_e2m1fn"],
    "tf32": _FOREIGN["tfloat32"],
}

# What stands where an element type does, and is no number.
OPAQUE = frozenset(("token", "opaque", "opaque_type", "buffer", "b", "tuple"))

_HLO = re.compile(r"([a-z]\w*)\[([\d,<=?]*)\]")
_MLIR = re.compile(r"tensor<((?:(?:\d+|\?)x)*)(complex<f\d+>|[\w!.]+)")


class UnknownElement(ValueError):
    """An element type that is in no table; `offset`: where it stands in the text that was read."""

    def __init__(self, element: str, offset: int) -> None:
        self.element, self.offset = element, offset
        super().__init__(f"unknown element type {element!r}")


def of_hlo(text: str) -> tuple[TensorType, ...]:
    """The tensor types in an HLO shape, a tuple's leaves in order. Raises UnknownElement."""
    found = []
    for match in _HLO.finditer(text):
        dtype = ELEMENTS.get(match[1])
        if dtype is None:
            if match[1] in OPAQUE:
                continue
            raise UnknownElement(match[1], match.start())
        bounds = (bound.lstrip("<=?") for bound in match[2].split(",") if bound)
        found.append(TensorType(dtype, tuple(int(bound) if bound else 1 for bound in bounds)))
    return tuple(found)


def of_mlir(text: str) -> tuple[TensorType, ...]:
    """The ranked tensor types in a piece of MLIR, in order. Raises UnknownElement."""
    found = []
    for match in _MLIR.finditer(text):
        dtype = ELEMENTS.get(match[2].lower())
        if dtype is None:
            if match[2].startswith("!"):
                continue  # a dialect's own type: quantized, a token
            raise UnknownElement(match[2], match.start(2))
        extents = (extent for extent in match[1].split("x") if extent)
        found.append(TensorType(dtype, tuple(1 if extent == "?" else int(extent) for extent in extents)))
    return tuple(found)


def with_format(exponent_bits: int, mantissa_bits: int) -> str:
    """What a reduce-precision to this format rounds to: "bfloat16", or "e5m3" for a format without a name."""
    for dtype in (dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.float64):
        if (dtype.exponent_bits, dtype.mantissa_bits) == (exponent_bits, mantissa_bits):
            return dtype.name
    return f"e{exponent_bits}m{mantissa_bits}"

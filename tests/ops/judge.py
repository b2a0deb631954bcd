"""When two results are the same: dtype and shape exactly, values within a stated bound."""

from __future__ import annotations

from collections.abc import Sequence

import torch

# (relative, absolute) to the result's largest finite magnitude; torch.testing's own per-dtype bounds. Two correct
# implementations of one function differ by a few units in the last place and by the order of their sums.
BOUNDS: dict[torch.dtype, tuple[float, float]] = {
    torch.float64: (1e-7, 1e-7),
    torch.float32: (1.3e-5, 1e-5),
    torch.bfloat16: (1.6e-2, 1e-5),
    torch.float16: (1e-3, 1e-5),
    torch.complex64: (1.3e-5, 1e-5),
    torch.complex128: (1e-7, 1e-7),
}


def judge(got: Sequence[torch.Tensor], want: Sequence[torch.Tensor], *, values: bool = True) -> tuple[str, str]:
    """(outcome, detail): "pass", "wrong dtype" or "wrong value" (a wrong shape or count is a wrong value)."""
    if len(got) != len(want):
        return "wrong value", f"{len(got)} results, eager has {len(want)}"
    for index, (a, b) in enumerate(zip(got, want, strict=True)):
        if a.dtype != b.dtype:
            return "wrong dtype", f"result {index}: {a.dtype}, eager has {b.dtype}"
        if a.shape != b.shape:
            return "wrong value", f"result {index}: shape {tuple(a.shape)}, eager has {tuple(b.shape)}"
        if values and not same(a, b):
            return "wrong value", f"result {index} {b.dtype}{list(b.shape)}: {worst(a, b)}"
    return "pass", ""


def same(a: torch.Tensor, b: torch.Tensor) -> bool:
    a, b = a.detach().resolve_conj().resolve_neg(), b.detach().resolve_conj().resolve_neg()
    if b.dtype not in BOUNDS:
        return torch.equal(a, b)
    relative, absolute = BOUNDS[b.dtype]
    return torch.allclose(_wide(a), _wide(b), rtol=relative, atol=absolute, equal_nan=True)


def worst(a: torch.Tensor, b: torch.Tensor) -> str:
    """The pair of elements that differ most, in words."""
    if b.dtype == torch.bool or not (b.dtype.is_floating_point or b.dtype.is_complex):
        differs = (a != b).flatten()
        index = int(differs.nonzero()[0])
        got, want = a.flatten()[index].item(), b.flatten()[index].item()
        return f"{int(differs.sum())} of {b.numel()} differ, first {got} for {want}"
    wide_a, wide_b = _wide(a.detach()).flatten(), _wide(b.detach()).flatten()
    gap = (wide_a - wide_b).abs().nan_to_num(nan=float("inf"))
    gap[(wide_a == wide_b) | (wide_a.isnan() & wide_b.isnan())] = 0
    index = int(gap.argmax())
    return f"{a.flatten()[index].item()} for {b.flatten()[index].item()}"


def _wide(t: torch.Tensor) -> torch.Tensor:
    return t.to(torch.complex128 if t.dtype.is_complex else torch.float64)

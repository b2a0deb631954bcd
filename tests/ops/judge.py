"""When two results are the same: dtype and shape exactly, values within a stated bound.

A value that differs from eager's by more than the bound still passes if it is nearer to the float64 result than
eager's is: eager's 16-bit kernels round intermediates that truecast keeps, and being right is no fault.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

# Relative bound, torch.testing's own with a decimal more for float32 sums in another order. An eighth of it times the
# result's root mean square is the absolute one: an element near zero, left by cancellation, carries the error of
# the terms. 1e-5 absolute besides, as in torch.testing.
BOUNDS: dict[torch.dtype, float] = {
    torch.float64: 1e-7,
    torch.float32: 1.3e-5,
    torch.bfloat16: 1.6e-2,
    torch.float16: 1e-3,
    torch.complex64: 1.3e-5,
    torch.complex128: 1e-7,
}
_ABSOLUTE = 1e-5

Results = Sequence[torch.Tensor]


def judge(got: Results, want: Results, exact: Results | None = None, *, values: bool = True) -> tuple[str, str]:
    """(outcome, detail): "pass", "wrong dtype" or "wrong value" (a wrong shape or count is a wrong value).

    exact: the float64 results, where there are any.
    """
    if len(got) != len(want):
        return "wrong value", f"{len(got)} results, eager has {len(want)}"
    for index, (a, b) in enumerate(zip(got, want, strict=True)):
        if a.dtype != b.dtype:
            return "wrong dtype", f"result {index}: {a.dtype}, eager has {b.dtype}"
        if a.shape != b.shape:
            return "wrong value", f"result {index}: shape {tuple(a.shape)}, eager has {tuple(b.shape)}"
        if not values or same(a, b):
            continue
        if exact is not None and len(exact) == len(want) and at_least_as_good(a, b, exact[index]):
            continue
        return "wrong value", f"result {index} {b.dtype}{list(b.shape)}: {worst(a, b)}"
    return "pass", ""


def same(a: torch.Tensor, b: torch.Tensor) -> bool:
    return bool(_close(a, b).all())


def at_least_as_good(a: torch.Tensor, b: torch.Tensor, exact: torch.Tensor) -> bool:
    """Whether each element of `a` is equal to b's within the bound, or no farther from the exact one than b's is, or
    within the bound of the exact one where b's is NaN."""
    if exact.shape != b.shape or b.dtype not in BOUNDS:
        return False
    wide_exact = _wide(exact)
    nearer = (_wide(a) - wide_exact).abs() <= (_wide(b) - wide_exact).abs()
    defined = _wide(b).isnan() & _close(a, exact.to(b.dtype))
    return bool((_close(a, b) | nearer | defined).all())


def as_near(got: Results, want: Results, exact: Results) -> bool:
    """Whether the results together are, root mean square, at most 1.5 times as far from the exact ones as eager's: for
    what many operations in a row make, whose single elements carry the roundings of all of them. Errors are relative to
    the root mean square of their result, and all elements of all results count as one: of a result with five elements
    eager may have come near by luck."""
    ours, theirs = [], []
    for a, b, e in zip(got, want, exact, strict=True):
        if b.dtype not in BOUNDS:
            if not same(a, b):
                return False
            continue
        if not a.shape == b.shape == e.shape:
            return False
        wide_a, wide_b, wide_e = _wide(a), _wide(b), _wide(e)
        finite = torch.isfinite(wide_b)
        if not same(a[~finite], b[~finite]):
            return False
        size = wide_e[finite].abs().square().mean().sqrt() if finite.any() else torch.tensor(0.0)
        size = size if size > 0 else torch.ones_like(size)
        ours.append(((wide_a - wide_e).abs() / size)[finite])
        theirs.append(((wide_b - wide_e).abs() / size)[finite])
    if not ours:
        return True
    return bool(torch.cat(ours).square().mean().sqrt() <= 1.5 * torch.cat(theirs).square().mean().sqrt())


def worst(a: torch.Tensor, b: torch.Tensor) -> str:
    """How many elements are out of bounds, and the worst one."""
    outside = ~_close(a, b).flatten()
    wide_a, wide_b = _wide(a).flatten(), _wide(b).flatten()
    gap = torch.where(outside, (wide_a - wide_b).abs().nan_to_num(nan=float("inf")), -1.0)
    index = int(gap.argmax())
    return f"{int(outside.sum())} of {b.numel()}, worst {a.flatten()[index].item()} for {b.flatten()[index].item()}"


def _close(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    if b.dtype not in BOUNDS:
        return a == b
    wide_a, wide_b = _wide(a), _wide(b)
    finite = wide_b[torch.isfinite(wide_b)]
    size = float(finite.abs().square().mean().sqrt()) if finite.numel() else 0.0
    relative = BOUNDS[b.dtype]
    return torch.isclose(wide_a, wide_b, rtol=relative, atol=_ABSOLUTE + relative / 8 * size, equal_nan=True)


def _wide(t: torch.Tensor) -> torch.Tensor:
    t = t.detach().resolve_conj().resolve_neg()
    return t.to(torch.complex128 if t.dtype.is_complex else torch.float64)

"""Factorizations that don't exist of every matrix raise at once, as on the CPU: programs catch the error and go on in
another way. So the program waits there, for the numbers that tell of each matrix.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import torch

from truecast.errors import UsageError

aten = torch.ops.aten
Handler = Callable[[Any, tuple[Any, ...], dict[str, Any]], Any]

# Operations that raise if they are told to check, and what they call themselves then. Their last result tells.
CHECKED = {
    "linalg_cholesky_ex": "linalg.cholesky_ex",
    "linalg_inv_ex": "linalg.inv_ex",
    "_linalg_solve_ex": "torch.linalg.solve_ex",
    "linalg_lu_factor_ex": "torch.linalg.lu_factor_ex",
    "linalg_ldl_factor_ex": "torch.linalg.ldl_factor_ex",
}


def checked(handler: Handler, name: str) -> Handler:
    """`handler`, and what it must check is checked."""

    def handle(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        results = handler(func, args, {n: a for n, a in kwargs.items() if n != "check_errors"})
        if kwargs.get("check_errors"):
            aten._linalg_check_errors.default(results[-1], name, is_matrix=args[0].dim() == 2)
        return results

    return handle


def cholesky(self: torch.Tensor, upper: bool = False) -> Any:
    factor, info = aten.linalg_cholesky_ex.default(self, upper=upper)
    aten._linalg_check_errors.default(info, "cholesky", is_matrix=self.dim() == 2)
    return factor


def cholesky_inverse(handler: Handler) -> Handler:
    """Of a factor with a zero on its diagonal there is none; the first one is named."""

    def handle(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        factor = args[0]
        result = handler(func, args, kwargs)
        if factor.numel():
            zeros = aten.diagonal.default(factor, 0, -2, -1).eq(0)
            first = zeros.to(torch.int32).argmax(-1).add(1)
            info = torch.where(zeros.any(-1), first, 0).to(torch.int32)
            aten._linalg_check_errors.default(info, "cholesky_inverse", is_matrix=factor.dim() == 2)
        return result

    return handle


def ldl_solve(handler: Handler) -> Handler:
    """PyTorch's kernel, which runs for want of a lowering, writes outside of its memory where pivots are not those of a
    factorization: numbers of rows, negative ones in pairs."""

    def handle(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        pivots = args[1].detach().cpu()
        rows = args[0].shape[-1]
        for index, found in enumerate(pivots.reshape(-1, max(rows, 1)).tolist()):
            negative = [len(list(run)) for below, run in itertools.groupby(found, lambda pivot: pivot < 0) if below]
            place = f", in matrix {index} of the batch" if pivots.dim() > 1 else ""
            if any(not 1 <= abs(pivot) <= rows for pivot in found) or any(length % 2 for length in negative):
                raise UsageError(
                    "linalg.ldl_solve: these are no pivots of an LDL factorization",
                    values=f"{found} for {rows} rows{place}",
                    why="a pivot is the number of a row, from 1 on; negative ones stand in pairs",
                    help="pass the LD and pivots that one call of torch.linalg.ldl_factor returned",
                )
        return handler(func, args, kwargs)

    return handle

"""Reductions and scans: many elements to one along dims."""
from truecast.lowering.registry import register
register("sum", lambda ctx, self, dim=None, keepdim=False: ctx.sum(self, dim if dim is not None else range(self.ndim), keepdim))

"""What goes wrong because of the user's program, policy or files, in words a person can act on.

A leaf: imports nothing of truecast. An error has up to five parts, in this order: what, where, values,
why, help. Faults of truecast's own are `assert`s and plain exceptions, never one of these.
"""

from __future__ import annotations


class TruecastError(Exception):
    """An error with the five parts: what, where, values, why, help; `str(e)` joins those that are given."""

    def __init__(
        self,
        what: str,
        *,
        where: object | None = None,
        values: str | None = None,
        why: str | None = None,
        help: str | None = None,
    ) -> None:
        self.what, self.where, self.values, self.why, self.help = what, where, values, why, help
        super().__init__(what)

    def __str__(self) -> str:
        parts = [self.what]
        if self.where is not None:
            parts.append(f"  --> {self.where}")
        for label in ("values", "why", "help"):
            text = getattr(self, label)
            if text:
                parts.append(f"  {label}: {text}")
        return "\n".join(parts)


class UsageError(TruecastError):
    """Wrong use, or an input that is broken: an unknown name, a missing file, a wrong argument (exit code 2)."""


class NumericsError(UsageError):
    """A numerics policy that can't be read, or that contradicts itself."""


class GraphError(UsageError):
    """A Graph that breaks an invariant, or a Graph text that can't be read."""


class CaptureError(TruecastError):
    """A program that can't be turned into a Graph."""


class UnsupportedError(TruecastError):
    """An operation without a lowering rule, or a form of it that the rule does not cover."""


class TargetError(TruecastError):
    """A target that can't do what the policy asks for (law N5: it raises, it never falls back silently)."""


class ContractError(TruecastError):
    """Operands whose dtypes an operation refuses; `exception` is what PyTorch itself raises for it."""

    def __init__(self, exception: Exception, **parts: str | object | None) -> None:
        self.exception = exception
        super().__init__(str(exception), **parts)  # type: ignore[arg-type]

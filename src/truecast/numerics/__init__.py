"""Graph + Numerics -> Plan: the policy, its presets, and which one is in force.

The package is callable, so that `truecast.numerics` is both this package and the public scope of the same
name: `with truecast.numerics("neuron"): ...`.
"""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from truecast.numerics.numerics import Numerics
    from truecast.numerics.scope import Policy


class _CallablePackage(ModuleType):
    def __call__(self, named: Policy) -> AbstractContextManager[Numerics]:
        """Makes a policy (a preset's name, a TOML file's path, a Numerics) hold within a `with` block."""
        from truecast.numerics.scope import numerics

        return numerics(named)


sys.modules[__name__].__class__ = _CallablePackage

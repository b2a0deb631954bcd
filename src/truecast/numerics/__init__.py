"""Graph + Numerics -> Plan: the policy, its presets, and which one is in force.

Callable: `with truecast.numerics("neuron"): ...` makes a policy hold within a block (scope.py).
"""

from truecast.callable_package import make_callable

make_callable(__name__, "truecast.numerics.scope", "numerics")

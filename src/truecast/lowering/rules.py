"""Every lowering rule: importing this module registers the families, each in its own file."""

from truecast.lowering import contraction, elementwise, reduction  # noqa: F401
from truecast.lowering import shape, windows  # noqa: F401

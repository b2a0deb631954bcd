"""Every lowering rule: importing this module registers the families, each in its own file."""

from truecast.lowering import (  # noqa: F401  # noqa: F401
    activation,
    cast,
    complex,
    contraction,
    convolution,
    creation,
    elementwise,
    reduction,
    scan,
    shape,
    special,
    windows,
)

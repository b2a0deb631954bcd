"""Every lowering rule: importing this module registers the families, each in its own file."""

from truecast.lowering import (  # noqa: F401
    activation,
    attention,
    batch_norm,
    cast,
    complex,
    contraction,
    convolution,
    creation,
    elementwise,
    gamma,
    indexing,
    normalization,
    polynomials,
    reduction,
    scan,
    scattering,
    shape,
    special,
    windows,
)

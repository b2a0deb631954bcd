"""torch_xla.experimental: the debug mode that runs each operation at once."""

from truecast.compat.missing import attribute_of
from truecast.compat.torch_xla.experimental.eager import eager_mode, eager_mode_context, is_eager_mode

__all__ = ["eager_mode", "eager_mode_context", "is_eager_mode"]

__getattr__ = attribute_of(__name__)

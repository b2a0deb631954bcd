"""torch_xla.core: the module that most scripts import from it is xla_model."""

from truecast.compat.missing import attribute_of

__getattr__ = attribute_of(__name__)

"""torch_xla.debug: what the device has done so far."""

from truecast.compat.missing import attribute_of

__getattr__ = attribute_of(__name__)

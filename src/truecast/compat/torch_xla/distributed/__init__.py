"""torch_xla.distributed: loaders that send batches to the device, and the start of its one process."""

from truecast.compat.missing import attribute_of

__getattr__ = attribute_of(__name__)

"""program -> Graph: recording, torch.export, torch.compile, and the `pjrt` device.

Callable: `truecast.capture(fn_or_module, *args, **kwargs)` is the Graph of one call (call.py).
"""

from truecast.callable_package import make_callable

make_callable(__name__, "truecast.capture.call", "capture")

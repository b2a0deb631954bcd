"""Makes `import torch_xla` give truecast's layer: at once (`install`), for a block, or where a script imports it."""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from types import ModuleType
from typing import TYPE_CHECKING

from truecast.compat.missing import help_for
from truecast.errors import UsageError

if TYPE_CHECKING:
    from truecast.compat.placement import Place

_HERE = "truecast.compat.torch_xla"
# The modules of the layer, as scripts name them below torch_xla.
MODULES = (
    "_XLAC",
    "runtime",
    "backends",
    "core",
    "core.xla_model",
    "amp",
    "amp.syncfree",
    "distributed",
    "distributed.parallel_loader",
    "distributed.xla_multiprocessing",
    "debug",
    "debug.metrics",
    "experimental",
    "experimental.eager",
)
_installed = ExitStack()


def is_installed_elsewhere() -> bool:
    """Whether this Python has a torch_xla of its own."""
    return importlib.machinery.PathFinder.find_spec("torch_xla") is not None


def install(place: Place = "pjrt") -> None:
    """`import torch_xla` gives the layer from now on, and "xla" is a device that works. Does nothing the second time.

    Raises UsageError if another torch_xla has been imported already.
    """
    if not _is_ours(sys.modules.get("torch_xla")):
        _installed.enter_context(installed(place))


@contextmanager
def installed(place: Place = "pjrt") -> Iterator[None]:
    """Within the block `import torch_xla` gives the layer, and "xla" is `pjrt`, or the CPU."""
    if "torch_xla" in sys.modules:
        raise UsageError(
            "torch_xla has been imported already",
            values=f"from {getattr(sys.modules['torch_xla'], '__file__', None)}",
            help="install the layer before the first import of torch_xla",
        )
    from truecast.compat.placement import placed

    refusing = _Refusing()
    with placed(place):
        modules = {"torch_xla": importlib.import_module(_HERE)}
        modules |= {f"torch_xla.{name}": importlib.import_module(f"{_HERE}.{name}") for name in MODULES}
        sys.modules.update(modules)
        sys.meta_path.insert(0, refusing)
        try:
            yield
        finally:
            sys.meta_path.remove(refusing)
            for name in modules:
                sys.modules.pop(name, None)


@contextmanager
def offered(place: Place = "pjrt", instead: bool = False) -> Iterator[None]:
    """Within the block, the first `import torch_xla` installs the layer, until the block's end.

    Where torch_xla is installed, that one is imported, unless the layer is to be there `instead`.
    """
    with ExitStack() as stack:
        finder = _Installing(stack, place)
        sys.meta_path.insert(0 if instead else len(sys.meta_path), finder)
        stack.callback(sys.meta_path.remove, finder)
        yield


def _is_ours(module: ModuleType | None) -> bool:
    return getattr(module, "__name__", None) == _HERE


class _Installing(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds torch_xla by installing the layer."""

    def __init__(self, stack: ExitStack, place: Place) -> None:
        self._stack, self._place = stack, place

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != "torch_xla" or fullname in sys.modules:
            return None
        return importlib.machinery.ModuleSpec(fullname, self)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        return ModuleType(spec.name)  # stands aside for the layer's own, which exec_module puts in its place

    def exec_module(self, module: ModuleType) -> None:
        del sys.modules["torch_xla"]
        self._stack.enter_context(installed(self._place))


class _Refusing(importlib.abc.MetaPathFinder):
    """Says of a module of torch_xla that the layer doesn't have what to use instead."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if not fullname.startswith("torch_xla."):
            return None
        raise ModuleNotFoundError(
            f"{fullname} is not provided by truecast; instead: {help_for(fullname.partition('.')[2])} "
            "(docs/torch_xla.md lists what is provided)",
            name=fullname,
        )

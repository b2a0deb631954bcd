"""Packages that are also functions: `truecast.capture` and `truecast.numerics` are folders and public names at once.

A leaf. When Python imports a package's module it binds the package to its name in the parent, whatever stood
there, so a function of the same name would be lost with the first import of anything below it.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import Any


def make_callable(package: str, home: str, function: str) -> None:
    """Lets `package` be called as `function` of the module `home`, which is imported at the first call."""

    class CallablePackage(ModuleType):
        def __call__(self, *args: Any, **kwargs: Any) -> Any:
            return getattr(importlib.import_module(home), function)(*args, **kwargs)

    sys.modules[package].__class__ = CallablePackage

"""What the ops table calls composite is replaced at capture: it has a definition, which decides no precision."""

from __future__ import annotations

import pytest
import torch

from truecast import ops
from truecast.capture.decompose import definition_of

COMPOSITES = [name for name, row in ops.table().items() if row.kind == "composite"]
_ALL: dict[str, list[str]] = {}
for _name in torch._C._dispatch_get_all_op_names():
    _base, _, _variant = _name.removeprefix("aten::").partition(".")
    if _name.startswith("aten::") and "out" not in _variant:
        _ALL.setdefault(_base, []).append(f"aten.{_base}.{_variant or 'default'}")


@pytest.mark.parametrize("name", COMPOSITES)
def test_a_composite_has_a_definition_that_decides_no_precision(name: str) -> None:
    base, _, variant = name.partition(".")
    overloads = [f"aten.{name}"] if variant else _ALL.get(base) or _ALL[f"{base}_"]
    assert any(definition_of(op) is not None for op in overloads)

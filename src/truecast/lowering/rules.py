"""Every lowering rule: importing this module registers the families, each in its own file."""

from truecast.lowering import elementwise, reduction  # noqa: F401

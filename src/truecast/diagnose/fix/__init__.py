"""Findings mended: which casts, where, in which files."""

"""Findings as a person or a program reads them."""

"""Reads HLO and StableHLO text, whoever printed it, as far as a question about precision needs.

Line by line and with compiled expressions, since a dump of a large model has millions of instructions: only those that
matter to precision become objects (`module.KEPT`), the others are counted. Knows neither torch nor jax nor XLA.
"""

from truecast.diagnose.hlo.module import Computation, Instruction, Metadata, Module, Problem
from truecast.diagnose.hlo.reading import read_path, read_text

__all__ = ["Computation", "Instruction", "Metadata", "Module", "Problem", "read_path", "read_text"]

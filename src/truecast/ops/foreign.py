"""Functions of other frameworks as operations: what they compute, and how precisely, is theirs to say.

Imports the table's vocabulary only.
"""

from truecast.ops.table import rows

ROWS = (*rows("truecast.call_jax", "foreign"),)

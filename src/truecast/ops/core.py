from truecast.ops.table import rows, Contract
ROWS = (
    *rows("add sub rsub mul", "elementwise", "promote", numeric="self other alpha"),
    *rows("div", "elementwise", "int_to_float", numeric="self other"),
    *rows("exp sin", "elementwise", "int_to_float"),
    *rows("sum", "reduction", "sum", accumulates="the elements along dim"),
    *rows("mm", "contraction", accumulates="products along the shared axis",
          contract=Contract(("self", "mat2"), "expected m1 and m2 to have the same dtype, but got: {0} != {1}", style="short")),
    *rows("t permute view", "movement"),
    *rows("_to_copy", "cast"),
)

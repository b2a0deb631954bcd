"""Random draws (law N8). Imports the table's vocabulary only."""

from truecast.ops.table import rows

ROWS = (
    *rows("rand randn", "random", numeric="", returns="default"),
    *rows("randint randperm", "random", numeric="", returns="int64"),
    *rows("rand_like randn_like randint_like", "random", numeric="self"),
    *rows("uniform", "random", numeric="self", numbers={"from": "end", "to": "end"}),
    *rows("normal_functional", "random", numeric="self", numbers={"mean": "any", "std": "not_negative"}),
    *rows("cauchy log_normal exponential geometric random", "random", numeric="self"),
    *rows("normal", "random", numeric="self mean std"),
    *rows("bernoulli", "random", numeric="self", numbers={"p": "chance"}),
    *rows("native_dropout", "random", numeric="input", returns="result bool", numbers={"p": "inside"}),
    *rows("_fused_dropout", "random", numeric="self", returns="result uint8"),
    *rows("multinomial", "random", numeric="self", returns="int64"),
    *rows("poisson binomial _standard_gamma _sample_dirichlet", "random"),
    *rows("_standard_gamma_grad _dirichlet_grad", "elementwise"),
)

"""Random draws (law N8). Imports the table's vocabulary only."""

from truecast.ops.table import rows

ROWS = (
    *rows("rand randn randint randperm rand_like randn_like randint_like", "random"),
    *rows("uniform normal normal_functional cauchy log_normal exponential geometric random", "random", numeric=""),
    *rows("bernoulli", "random", numeric="self"),
    *rows("native_dropout", "random", numeric="input", returns="result bool"),
    *rows("_fused_dropout", "random", numeric="self", returns="result uint8"),
    *rows("multinomial", "random", numeric="self", returns="int64"),
    *rows("poisson binomial _standard_gamma _sample_dirichlet", "random"),
    *rows("_standard_gamma_grad _dirichlet_grad", "elementwise"),
)

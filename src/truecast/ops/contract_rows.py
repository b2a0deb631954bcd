"""The dtypes each operation demands, in PyTorch's order of checking and in its words (CPU, torch 2.13).

Imports the table's vocabulary only. `ops.table` joins these to the rows; `tests.ops.table_check` runs them
against eager. A message is here once for all operations that share it.
"""

from __future__ import annotations

from truecast.ops.table import Contract

_INDEX = ("int64", "int32")
_LONG = ("int64",)
_MASK = ("bool",)
_INDICES = ("int64", "int32", "uint8", "bool")
_INEXACT = ("floating", "complex")


def _pair(first: str, second: str, follow: str = "") -> Contract:
    """A kernel reads `second` with first's type: "expected scalar type .. but found .."."""
    return Contract((first, second), follow=follow)


def _found(*operands: str, follow: str = "") -> Contract:
    """TensorIterator without promotion; the first operand sets the type."""
    return Contract(operands, f"Found dtype {{found.scalar}} but expected {{{operands[0]}.scalar}}", follow=follow)


def _one_of(
    operand: str,
    allowed: tuple[str, ...],
    message: str,
    exception: str = "RuntimeError",
    empty: bool = True,
    absent: tuple[str, ...] = (),
) -> Contract:
    return Contract((operand,), message, exception, demand="allowed", allowed=allowed, empty=empty, absent=absent)


def _gradient(wording: str, name: str = "gradOutput") -> Contract:
    return Contract(
        ("self", "grad_output"),
        f"{wording} dtype {{self.cpp}} for `{name}` but got dtype {{grad_output.cpp}}",
    )


_ADDMM = "{0} and mat2 must have the same dtype, but got {{{1}.scalar}} and {{{2}.scalar}}"


def _addmm(bias: str, first: str, second: str) -> tuple[Contract, ...]:
    """addmm, and what is computed by it."""
    return (
        Contract((bias, second), _ADDMM.format("self", bias, second), follow=second),
        Contract((first, second), _ADDMM.format("mat1", first, second), follow=second),
    )


def _mm(first: str, second: str, absent: tuple[str, ...] = ()) -> Contract:
    return Contract(
        (first, second),
        f"expected m1 and m2 to have the same dtype, but got: {{{first}.cpp}} != {{{second}.cpp}}",
        follow=second,
        absent=absent,
    )


# The composite's own check of the bias comes before the kernel's of the weight. Where oneDNN takes the
# convolution the kernel's words are these; a small one, and dtypes that oneDNN has not, say _pair's.
_CONVOLUTION = (
    Contract(
        ("input", "bias"),
        "Input type ({input.cpp}) and bias type ({bias.cpp}) should be the same",
        follow="bias",
    ),
    Contract(
        ("input", "weight"),
        "Input type ({input.tensor}) and weight type ({weight.tensor}) should be the same or input should be"
        " a MKLDNN tensor and weight is a dense tensor",
        follow="weight",
    ),
)

_SCATTER = (
    _one_of("index", _INDEX, "scatter(): Expected dtype int32/int64 for index", empty=False),
    Contract(("self", "src"), "scatter(): Expected self.dtype to be equal to src.dtype"),
)
_PUT = Contract(
    ("self", "values"),
    "Index put requires the source and destination dtypes match, got {self.scalar} for the destination and"
    " {values.scalar} for the source.",
)
_SUBSCRIPT = _one_of(
    "indices", _INDICES, "tensors used as indices must be long, int, byte or bool tensors", "IndexError"
)
_EMBEDDING = (
    "Expected tensor for argument #{0} 'indices' to have one of the following scalar types: Long, Int;"
    " but got {{indices.tensor}} instead (while checking arguments for {1})"
)
_VECTORS = "dot : expected both vectors to have same dtype, but found {self.scalar} and {%s.scalar}"
_SOURCE = "{0}: self and source expected to have the same dtype, but got {1}"
_PARTS = "Expected object of scalar type {{{0}.scalar}} but got scalar type {{{1}.scalar}} for second argument"
_NLL_BACKWARD = (_pair("self", "grad_output"), _pair("self", "weight"), _pair("self", "total_weight"))
_RANDOM_WINDOWS = Contract(("self", "random_samples"), "Expect _random_samples to have the same dtype as input")
_SOLVE = (
    "Expected b and A to have the same dtype, but found b of type {{{0}.scalar}} and A of type {{{1}.scalar}} instead."
)
_OPTIMIZER_LISTS = ("grads", "exp_avgs", "exp_avg_sqs", "max_exp_avg_sqs")


def _parts(first: str, second: str) -> tuple[Contract, ...]:
    allowed = ("float16", "float32", "float64")
    message = (
        f"Expected both inputs to be Half, Float or Double tensors but got {{{first}.scalar}} and {{{second}.scalar}}"
    )
    return (
        _one_of(first, allowed, message),
        _one_of(second, allowed, message),
        Contract((first, second), _PARTS.format(first, second)),
    )


def _parameters(*operands: str) -> Contract:
    """ATen/native/mixed_data_type.h: float16 and bfloat16 inputs may come with float32 parameters."""
    return Contract(operands, demand="parameters", follow=operands[1])


CONTRACTS: dict[str, tuple[Contract, ...]] = {
    # Contractions.
    "mm": (_mm("self", "mat2"),),
    "matmul": (_mm("self", "other"),),
    "linear": (
        *(Contract(c.operands, c.message, follow="weight", given=("bias",)) for c in _addmm("bias", "input", "weight")),
        _mm("input", "weight", absent=("bias",)),
    ),
    "bmm": (_pair("self", "mat2", follow="mat2"),),
    "mv": (
        Contract(
            ("self", "vec"),
            "addmv input tensors must have the same dtype, but got {vec.scalar}, {self.scalar}, and {vec.scalar}",
        ),
    ),
    "addmv": (
        Contract(
            ("mat", "vec", "self"),
            "addmv input tensors must have the same dtype, but got {self.scalar}, {mat.scalar}, and {vec.scalar}",
        ),
    ),
    "dot": (Contract(("self", "tensor"), _VECTORS % "tensor"),),
    "vdot": (Contract(("self", "other"), _VECTORS % "other"),),
    "addmm": _addmm("self", "mat1", "mat2"),
    "_addmm_activation": _addmm("self", "mat1", "mat2"),
    "addbmm": _addmm("self", "batch1", "batch2"),
    "baddbmm": (
        Contract(
            ("batch1", "self"),
            "Input dtypes must be the same, got: input {self.cpp}, batch1: {batch1.cpp}, batch2: {batch2.cpp}",
        ),
        _pair("self", "batch2", follow="batch2"),
    ),
    "_cdist_forward": (
        _one_of("x1", ("floating",), "cdist only supports floating-point dtypes, X1 got: {x1.scalar}"),
        _one_of("x2", ("floating",), "cdist only supports floating-point dtypes, X2 got: {x2.scalar}"),
        _pair("x1", "x2"),
    ),
    # Convolutions.
    "convolution": _CONVOLUTION,
    "conv1d": _CONVOLUTION,
    "conv2d": _CONVOLUTION,
    "conv3d": _CONVOLUTION,
    # Normalizations.
    "native_layer_norm": (_parameters("input", "weight", "bias"),),
    "native_group_norm": (_parameters("input", "weight", "bias"),),
    "native_batch_norm": (_parameters("input", "weight", "bias", "running_mean", "running_var"),),
    "_native_batch_norm_legit": (_parameters("input", "weight", "bias", "running_mean", "running_var"),),
    "_native_batch_norm_legit_functional": (_parameters("input", "weight", "bias", "running_mean", "running_var"),),
    "_native_batch_norm_legit_no_training": (_parameters("input", "weight", "bias", "running_mean", "running_var"),),
    "_softmax_backward_data": (_pair("grad_output", "output"),),
    "_log_softmax_backward_data": (_pair("grad_output", "output"),),
    "native_layer_norm_backward": (_pair("input", "grad_out"),),
    "native_group_norm_backward": (
        Contract(("input", "grad_out"), "Expected scalar types of X and dY are same."),
        _parameters("input", "weight"),
    ),
    "native_batch_norm_backward": (
        _parameters("input", "weight", "running_mean", "running_var", "save_mean", "save_invstd"),
        _pair("input", "grad_out"),
    ),
    "_weight_norm_interface": (_pair("v", "g"),),
    # Attention.
    "scaled_dot_product_attention": (
        Contract(
            ("query", "key", "value"),
            "Expected query, key, and value to have the same dtype, but got query.dtype: {query.cpp} key.dtype:"
            " {key.cpp} and value.dtype: {value.cpp} instead.",
        ),
        Contract(
            ("query", "attn_mask"),
            "Expected attn_mask dtype to be bool or float or to match query dtype, but got attn_mask.dtype:"
            " {attn_mask.cpp} and  query.dtype: {query.cpp} instead.",
            allowed=("bool", "float32"),
        ),
        _one_of("query", _INEXACT, "expected scalar type Float but found {query.scalar}"),
    ),
    "_scaled_dot_product_flash_attention_for_cpu": (
        _pair("query", "key"),
        _pair("query", "value"),
        Contract(
            ("query", "attn_mask"),
            "scaled_dot_product_attention_flash_attention: Attention mask is the same data type as query",
            allowed=("float32",),
        ),
    ),
    # Indexing: positions first, then the values.
    "index": (_SUBSCRIPT,),
    "_unsafe_index": (_one_of("indices", _INDEX, "_unsafe_index found unexpected index type {found.scalar}"),),
    "index_put": (_SUBSCRIPT, _PUT),
    "_unsafe_index_put": (_SUBSCRIPT, _PUT),
    "_unsafe_masked_index_put_accumulate": (_PUT,),
    "gather": (_one_of("index", _INDEX, "gather(): Expected dtype int32/int64 for index", empty=False),),
    "index_select": (_one_of("index", _INDEX, "index_select(): Expected dtype int32 or int64 for index"),),
    "take": (_one_of("index", _LONG, "take(): Expected a long tensor for index, but got {index.scalar}"),),
    "put": (
        _one_of("index", _LONG, "put_(): Expected a long tensor for index, but got {index.scalar}"),
        Contract(
            ("self", "source"),
            _SOURCE.format("put_()", "self.dtype = {self.scalar} and source.dtype = {source.scalar}"),
        ),
    ),
    "index_copy": (
        _one_of("index", _LONG, "index_copy_(): Expected a long tensor for index, but got {index.scalar}"),
        Contract(
            ("self", "source"), _SOURCE.format("index_copy_()", "(self) {self.scalar} and (source) {source.scalar}")
        ),
    ),
    "index_fill": (_one_of("index", _LONG, "index_fill_(): Expected dtype int64 for index.", "IndexError"),),
    "index_add": (
        _one_of("index", _INDEX, "index_add_(): Expected dtype int32/int64 for index but got: {index.scalar}"),
        Contract(
            ("self", "source"),
            "index_add_(): self ({self.scalar}) and source ({source.scalar}) must have the same scalar type",
        ),
    ),
    "index_reduce": (
        Contract(
            ("self", "source"),
            "index_reduce_(): self ({self.scalar}) and source ({source.scalar}) must have the same scalar type",
        ),
    ),
    "scatter": _SCATTER,
    "scatter.reduce": _SCATTER,
    "scatter.value": _SCATTER[:1],
    "scatter.value_reduce": _SCATTER[:1],
    "scatter_add": _SCATTER,
    "scatter_reduce": _SCATTER,
    "masked_fill": (
        _one_of("mask", _MASK, "masked_fill_ only supports boolean masks, but got mask with dtype {mask.cpp}"),
    ),
    "masked_select": (_one_of("mask", _MASK, "masked_select: expected BoolTensor for mask"),),
    "masked_scatter": (
        Contract(
            ("self", "source"),
            "masked_scatter: expected self and source to have same dtypes but got{self.scalar} and {source.scalar}",
        ),
        _one_of("mask", _MASK, "masked_scatter_ only supports boolean masks, but got mask with dtype {mask.scalar}"),
    ),
    "where.self": (
        _one_of(
            "condition",
            ("bool", "uint8"),
            "where expected condition to be a boolean tensor, but got a tensor with dtype {condition.scalar}",
        ),
    ),
    "embedding": (_one_of("indices", _INDEX, _EMBEDDING.format(1, "embedding")),),
    "embedding_dense_backward": (_one_of("indices", _INDEX, _EMBEDDING.format(2, "embedding_backward")),),
    "_embedding_bag": (
        _one_of(
            "weight",
            ("float16", "bfloat16", "float32", "float64"),
            "Expected tensor for argument #1 'weight' to have one of the following scalar types: Half, BFloat16,"
            " Float, Double; but got {weight.tensor} instead (while checking arguments for embedding_bag)",
        ),
        Contract(
            ("weight", "per_sample_weights"),
            "Expected tensor for argument #1 'weight' to have the same type as tensor for argument #1"
            " 'per_sample_weights'; but type {weight.tensor} does not equal {per_sample_weights.tensor}"
            " (while checking arguments for embedding_bag)",
        ),
    ),
    # Elementwise operations that don't promote.
    "rrelu_with_noise": (_pair("self", "noise"),),
    "lerp": (
        Contract(("self", "end"), "expected dtype {self.cpp} for `end` but got dtype {end.cpp}"),
        Contract(
            ("self", "weight"), "expected dtype {self.cpp} for `weight` but got dtype {weight.cpp}", zero_dim=False
        ),
    ),
    "lerp.Scalar": (Contract(("self", "end"), "expected dtype {self.cpp} for `end` but got dtype {end.cpp}"),),
    "heaviside": (Contract(("self", "values"), "heaviside is not yet implemented for tensors with different dtypes."),),
    "complex": _parts("real", "imag"),
    "polar": _parts("abs", "angle"),
    "prelu": (
        Contract(
            ("self", "weight"),
            "prelu: Type promoting not supported. Got {self.scalar} and {weight.scalar}",
            follow="weight",
        ),
    ),
    "_prelu_kernel": (_found("self", "weight", follow="weight"),),
    "_prelu_kernel_backward": (_found("self", "grad_output", "weight"),),
    "glu_backward": (
        _one_of("self", _INEXACT, "result type Float can't be cast to the desired output type {self.scalar}"),
        _found("self", "grad_output"),
    ),
    "log_sigmoid_backward": (_found("self", "grad_output", "buffer"),),
    "_standard_gamma_grad": (_found("self", "output"),),
    "_dirichlet_grad": (_found("x", "alpha", "total"),),
    "frexp": (_one_of("self", ("floating",), "torch.frexp() only supports floating-point dtypes"),),
    "multinomial": (
        _one_of("self", ("floating",), "multinomial only supports floating-point dtypes for input, got: {self.scalar}"),
    ),
    "native_dropout": (
        _one_of("input", _INEXACT, "result type Float can't be cast to the desired output type {input.scalar}"),
    ),
    # Losses.
    "binary_cross_entropy": (_found("self", "target"),),
    "binary_cross_entropy_backward": (_found("grad_output", "self", "target"),),
    "huber_loss_backward": (_found("self", "grad_output", "target"),),
    "nll_loss_forward": (
        _one_of("target", ("int64", "uint8"), "expected target dtype to be Long or Byte, but got {target.scalar}"),
        _pair("self", "weight"),
    ),
    "nll_loss2d_forward": (_pair("self", "weight"),),
    "cross_entropy_loss": (_pair("self", "weight"),),
    "nll_loss_backward": _NLL_BACKWARD,
    "nll_loss2d_backward": _NLL_BACKWARD,
    "multi_margin_loss_backward": (_pair("self", "grad_output"),),
    "multilabel_margin_loss_backward": (_pair("self", "grad_output"),),
    # Pooling and resampling.
    "max_pool2d_with_indices_backward": (_gradient("expected"),),
    "max_pool3d_with_indices_backward": (_gradient("expected"),),
    "avg_pool2d_backward": (_gradient("expected"),),
    "avg_pool3d_backward": (_pair("self", "grad_output"),),
    "adaptive_max_pool2d_backward": (_gradient("expected", "grad_output"),),
    "adaptive_max_pool3d_backward": (_gradient("expected"),),
    "fractional_max_pool2d": (_RANDOM_WINDOWS,),
    "fractional_max_pool3d": (_RANDOM_WINDOWS,),
    "fractional_max_pool2d_backward": (_pair("self", "grad_output"),),
    "fractional_max_pool3d_backward": (_pair("self", "grad_output"),),
    "reflection_pad1d_backward": (_pair("grad_output", "self"),),
    "replication_pad1d_backward": (_pair("grad_output", "self"),),
    "replication_pad2d_backward": (_pair("grad_output", "self"),),
    "_adaptive_avg_pool2d_backward": (
        _gradient("adaptive_avg_pool2d_backward_out_cpu_template: Expected", "grad_output"),
    ),
    "_adaptive_avg_pool3d_backward": (_pair("self", "grad_output"),),
    "grid_sampler_2d": (_pair("input", "grid"),),
    "grid_sampler_3d": (_pair("input", "grid"),),
    "grid_sampler_2d_backward": (_pair("input", "grad_output"), _pair("input", "grid")),
    "grid_sampler_3d_backward": (_pair("input", "grad_output"), _pair("input", "grid")),
    # Reductions of what can't be averaged.
    "mean": (
        _one_of(
            "self",
            _INEXACT,
            "mean(): could not infer output dtype. Input dtype must be either a floating point or complex dtype."
            " Got: {self.scalar}",
            absent=("dtype",),
        ),
    ),
    "var": (_one_of("self", _INEXACT, "std and var only support floating point and complex dtypes"),),
    "std": (_one_of("self", _INEXACT, "std and var only support floating point and complex dtypes"),),
    "linalg_vector_norm": (
        _one_of(
            "self",
            _INEXACT,
            "linalg.vector_norm: Expected a floating point or complex tensor as input. Got {self.scalar}",
        ),
    ),
    # Linear algebra.
    "linalg_cross": (_pair("self", "other"),),
    "cholesky_solve": (Contract(("self", "input2"), _SOLVE.format("self", "input2")),),
    "triangular_solve": (Contract(("self", "A"), _SOLVE.format("self", "A")),),
    "linalg_ldl_solve": (
        _one_of(
            "LD",
            _INEXACT,
            "torch.linalg.ldl_solve: Expected a floating point or complex tensor as input. Got {LD.scalar}",
        ),
        Contract(("B", "LD"), _SOLVE.format("B", "LD")),
    ),
    "linalg_householder_product": (
        Contract(
            ("input", "tau"),
            "torch.linalg.householder_product: tau dtype {tau.scalar} does not match input dtype {input.scalar}",
        ),
    ),
    "ormqr": tuple(
        Contract(
            ("self", other),
            f"torch.ormqr: Expected input and {label} to have the same dtype, but input has dtype{{self.scalar}}"
            f" and {label} has dtype {{{other}.scalar}}",
        )
        for other, label in (("input2", "tau"), ("input3", "other"))
    ),
    "linalg_lstsq": (
        Contract(
            ("self", "b"),
            "torch.linalg.lstsq: Expected input and other to have the same dtype, but got input's dtype"
            " {self.scalar} and other's dtype {b.scalar}",
        ),
    ),
    "linalg_lu_solve": (
        _one_of(
            "LU",
            _INEXACT,
            "torch.linalg.lu_solve: Expected a floating point or complex tensor as input. Got {LU.scalar}",
        ),
        Contract(
            ("LU", "B"),
            "linalg.lu_solve: Expected LU and B to have the same dtype, but found LU of type {LU.scalar} and B of"
            " type {B.scalar} instead",
        ),
    ),
    "_linalg_solve_ex": (
        _one_of("A", _INEXACT, "linalg.solve: Expected a floating point or complex tensor as input. Got {A.scalar}"),
        Contract(
            ("A", "B"),
            "linalg.solve: Expected A and B to have the same dtype, but found A of type {A.scalar} and B of type"
            " {B.scalar} instead",
        ),
    ),
    # Optimizers: every list has the parameters' dtype, tensor by tensor.
    "_fused_adam": tuple(_pair("self", name) for name in _OPTIMIZER_LISTS),
    "_fused_adamw": tuple(_pair("self", name) for name in _OPTIMIZER_LISTS),
    "_fused_sgd": (_pair("self", "grads"), _pair("self", "momentum_buffer_list")),
    "_fused_adagrad": (_pair("self", "grads"), _pair("self", "state_sums")),
}

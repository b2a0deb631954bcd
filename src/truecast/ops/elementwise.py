"""Elementwise operations: arithmetic, comparisons, logic, bits, activations and special functions.

The numeric operands are broadcast together. Imports the table's vocabulary only.
"""

from truecast.ops.table import rows

ROWS = (
    # Arithmetic of two operands.
    *rows("add sub rsub", "elementwise", "promote", numeric="self other alpha"),
    *rows("mul maximum minimum fmax fmin fmod remainder floor_divide hypot heaviside", "elementwise", "promote"),
    *rows("nextafter", "elementwise", "promote", exact=True),
    *rows("div", "elementwise", "int_to_float", numeric="self other"),
    *rows("pow", "elementwise", "promote", numeric="self exponent"),
    *rows("gcd lcm", "elementwise", "promote"),
    *rows("atan2 ldexp copysign xlogy special_xlog1py special_zeta", "elementwise", "int_to_float"),
    *rows("logaddexp logaddexp2 igamma igammac", "elementwise", "promote"),
    # Arithmetic of three operands.
    *rows("addcmul addcdiv", "elementwise", "promote", numeric="self tensor1 tensor2 value"),
    *rows("lerp", "elementwise", "none", numeric="self end weight"),
    *rows("clamp", "elementwise", "promote", numeric="self min max"),
    *rows("clamp_min", "elementwise", "promote", numeric="self min"),
    *rows("clamp_max", "elementwise", "promote", numeric="self max"),
    # Comparisons and logic.
    *rows("eq ne lt le gt ge", "elementwise", "promote_to_bool"),
    *rows("logical_and logical_or logical_xor logical_not", "elementwise", "promote_to_bool"),
    *rows("isnan isinf isposinf isneginf signbit", "elementwise", "promote_to_bool"),
    # Bits.
    *rows("bitwise_and bitwise_or bitwise_xor bitwise_not", "elementwise", "promote"),
    *rows("bitwise_left_shift bitwise_right_shift __lshift__ __rshift__", "elementwise", "promote"),
    *rows("__ilshift__ __irshift__", "elementwise", "promote"),
    # One operand, its own dtype.
    *rows("neg sign sgn ceil floor trunc round frac relu", "elementwise"),
    *rows("_conj_physical _neg_view_copy", "elementwise"),
    *rows("nan_to_num", "elementwise", numeric="self"),
    *rows("abs", "elementwise", "complex_to_real"),
    *rows("angle", "elementwise", "int_to_float", returns="real"),
    *rows("frexp", "elementwise", returns="result int32"),
    # One operand; an integer becomes a float.
    *rows("exp exp2 expm1 log log2 log10 log1p sqrt rsqrt reciprocal", "elementwise", "int_to_float"),
    *rows("sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh", "elementwise", "int_to_float"),
    *rows("sigmoid erf erfc erfinv lgamma digamma i0 sinc deg2rad rad2deg", "elementwise", "int_to_float"),
    *rows("logit", "elementwise", "int_to_float", numeric="self"),
    *rows("mvlgamma", "elementwise", "int_to_float", numeric="self"),
    *rows("polygamma", "elementwise", "int_to_float", numeric="self"),
    *rows(
        "special_entr special_erfcx special_i0e special_i1 special_i1e special_log_ndtr", "elementwise", "int_to_float"
    ),
    *rows("special_ndtri special_airy_ai special_spherical_bessel_j0", "elementwise", "int_to_float"),
    *rows("special_bessel_j0 special_bessel_j1 special_bessel_y0 special_bessel_y1", "elementwise", "int_to_float"),
    *rows("special_modified_bessel_i0 special_modified_bessel_i1", "elementwise", "int_to_float"),
    *rows("special_modified_bessel_k0 special_modified_bessel_k1", "elementwise", "int_to_float"),
    *rows("special_scaled_modified_bessel_k0 special_scaled_modified_bessel_k1", "elementwise", "int_to_float"),
    *rows("special_chebyshev_polynomial_t special_chebyshev_polynomial_u", "elementwise", "int_to_float"),
    *rows("special_chebyshev_polynomial_v special_chebyshev_polynomial_w", "elementwise", "int_to_float"),
    *rows(
        "special_shifted_chebyshev_polynomial_t special_shifted_chebyshev_polynomial_u", "elementwise", "int_to_float"
    ),
    *rows(
        "special_shifted_chebyshev_polynomial_v special_shifted_chebyshev_polynomial_w", "elementwise", "int_to_float"
    ),
    *rows("special_hermite_polynomial_h special_hermite_polynomial_he", "elementwise", "int_to_float"),
    *rows("special_laguerre_polynomial_l special_legendre_polynomial_p", "elementwise", "int_to_float"),
    # Complex numbers from their parts.
    *rows("complex polar", "elementwise", returns="complex"),
    # Activations.
    *rows("gelu silu mish elu celu softplus hardsigmoid hardswish hardtanh", "elementwise"),
    *rows("leaky_relu hardshrink softshrink threshold _prelu_kernel", "elementwise"),
    *rows("log_sigmoid_forward", "elementwise", numeric="self"),
    *rows("rrelu_with_noise", "random", numeric="self noise lower upper"),
    *rows("rrelu_with_noise_functional", "random", numeric="self noise lower upper", returns="self noise"),
    # Backwards of elementwise operations.
    *rows("sigmoid_backward tanh_backward", "elementwise", "promote"),
    *rows("gelu_backward silu_backward mish_backward", "elementwise"),
    *rows("elu_backward softplus_backward hardsigmoid_backward hardswish_backward", "elementwise"),
    *rows("hardtanh_backward leaky_relu_backward hardshrink_backward softshrink_backward", "elementwise"),
    *rows("threshold_backward", "elementwise", numeric="grad_output self threshold"),
    *rows("_prelu_kernel_backward rrelu_with_noise_backward", "elementwise"),
    *rows("log_sigmoid_backward", "elementwise", numeric="grad_output self"),
    *rows("logit_backward", "elementwise", numeric="grad_output self"),
    *rows("native_dropout_backward", "elementwise", "int_to_float", numeric="grad_output", numbers={"scale": "any"}),
    *rows("_masked_scale", "elementwise", numeric="self"),
)

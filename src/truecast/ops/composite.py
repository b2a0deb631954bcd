"""Composites: operations that capture replaces by PyTorch's own decomposition, which decides no precision.

Imports the table's vocabulary only. A row may stand here only if the decomposition converts no 16-bit operand
(tests/unit/test_composites.py asks). `_foreach_*` means its single-tensor form once per list element.
"""

from truecast.ops.table import rows

ROWS = (
    # Products of matrices, in the forms that PyTorch writes out as views and mm, bmm, addmm.
    *rows("linear matmul einsum tensordot bilinear inner outer ger kron chain_matmul", "composite"),
    *rows("_addmm_activation", "composite"),
    *rows("linalg_multi_dot linalg_matmul linalg_vecdot linalg_matrix_power matrix_power", "composite"),
    # Convolutions by rank.
    *rows("conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d", "composite"),
    *rows("_convolution_mode _convolution_double_backward thnn_conv2d slow_conv3d", "composite"),
    # Normalizations.
    *rows("softmax log_softmax special_softmax special_log_softmax layer_norm group_norm", "composite"),
    *rows("instance_norm batch_norm _batch_norm_impl_index _batch_norm_impl_index_backward rms_norm", "composite"),
    *rows("_weight_norm norm_except_dim", "composite"),
    # Attention and recurrent layers.
    *rows("scaled_dot_product_attention _scaled_dot_product_attention_math gru gru_cell lstm", "composite"),
    *rows("lstm_cell rnn_relu rnn_relu_cell rnn_tanh rnn_tanh_cell", "composite"),
    # Pooling and padding.
    *rows("adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d adaptive_max_pool1d", "composite"),
    *rows("avg_pool1d max_pool1d max_pool1d_with_indices max_pool2d max_pool3d grid_sampler pad", "composite"),
    *rows("_pad_circular _pad_enum affine_grid_generator_backward", "composite"),
    # Losses.
    *rows("cross_entropy_loss nll_loss nll_loss_nd nll_loss2d l1_loss kl_div poisson_nll_loss", "composite"),
    *rows("hinge_embedding_loss cosine_embedding_loss margin_ranking_loss triplet_margin_loss", "composite"),
    *rows("multilabel_margin_loss ctc_loss cosine_similarity pairwise_distance pdist cdist", "composite"),
    # Activations and dropout.
    *rows("selu relu6 prelu log_sigmoid rrelu dropout feature_dropout", "composite"),
    *rows("alpha_dropout feature_alpha_dropout infinitely_differentiable_gelu_backward", "composite"),
    # Other names and compositions of elementwise operations.
    *rows("absolute negative subtract multiply divide true_divide greater greater_equal less", "composite"),
    *rows("less_equal not_equal arctan2 float_power clip fix positive square isfinite isclose", "composite"),
    *rows("isreal arccos arccosh arcsin arcsinh arctan arctanh conj_physical __and__ __or__ __xor__", "composite"),
    *rows("__iand__ __ior__ __ixor__ special_digamma special_erf special_erfc special_erfinv", "composite"),
    *rows("special_exp2 special_expit special_expm1 special_gammainc special_gammaincc", "composite"),
    *rows("special_gammaln special_i0 special_log1p special_logit special_logsumexp", "composite"),
    *rows("special_multigammaln special_ndtr special_polygamma special_psi special_round", "composite"),
    *rows("special_sinc special_xlogy", "composite"),
    # Statistics and reductions.
    *rows("nanmean frobenius_norm nuclear_norm quantile nanquantile cov corrcoef diff gradient", "composite"),
    *rows("trapezoid trapz cumulative_trapezoid sum_to_size value_selecting_reduction_backward", "composite"),
    *rows("cumprod_backward cummaxmin_backward trace_backward", "composite"),
    # Shapes.
    *rows("reshape reshape_as view_as flatten unflatten ravel contiguous narrow chunk", "composite"),
    *rows("unsafe_chunk tensor_split hsplit vsplit dsplit movedim moveaxis swapaxes swapdims", "composite"),
    *rows("broadcast_to broadcast_tensors expand_as adjoint mT mH matrix_H numpy_T real imag conj", "composite"),
    *rows("resolve_conj resolve_neg atleast_1d atleast_2d atleast_3d concat concatenate hstack", "composite"),
    *rows("vstack dstack row_stack column_stack tile fliplr flipud diag diagflat linalg_diagonal", "composite"),
    *rows("meshgrid cartesian_prod combinations native_channel_shuffle to type_as pad_sequence", "composite"),
    *rows("flatten_dense_tensors unflatten_dense_tensors cross where.default where.Scalar", "composite"),
    *rows("where.ScalarOther where.ScalarSelf", "composite"),
    # Indexing and sorting.
    *rows("argwhere argsort msort take_along_dim one_hot fill_diagonal embedding_backward", "composite"),
    *rows("embedding_bag gather_backward index_select_backward masked_select_backward nonzero_numpy", "composite"),
    *rows("vander linalg_vander histogramdd", "composite"),
    # Linear algebra and Fourier transforms.
    *rows("det linalg_det logdet slogdet linalg_slogdet inverse linalg_inv linalg_cholesky", "composite"),
    *rows("linalg_cond linalg_eigh linalg_eigvals linalg_eigvalsh linalg_ldl_factor", "composite"),
    *rows("linalg_lu_factor linalg_matrix_norm linalg_matrix_rank linalg_norm linalg_pinv pinverse", "composite"),
    *rows("linalg_solve linalg_solve_ex linalg_svd linalg_svdvals svd linalg_tensorinv", "composite"),
    *rows("linalg_tensorsolve lu_solve matrix_exp matrix_exp_backward orgqr qr fft_fft fft_fft2", "composite"),
    *rows("fft_fftn fft_fftshift fft_hfft fft_hfft2 fft_hfftn fft_ifft fft_ifft2 fft_ifftn", "composite"),
    *rows("fft_ifftshift fft_ihfft fft_ihfft2 fft_ihfftn fft_irfft fft_irfft2 fft_irfftn fft_rfft", "composite"),
    *rows("fft_rfft2 fft_rfftn stft istft", "composite"),
    # Lists of tensors.
    *rows("_foreach_abs _foreach_acos _foreach_add _foreach_addcdiv _foreach_addcmul _foreach_asin", "composite"),
    *rows("_foreach_atan _foreach_ceil _foreach_clamp_max _foreach_clamp_min _foreach_clone", "composite"),
    *rows("_foreach_copy _foreach_cos _foreach_cosh _foreach_div _foreach_erf _foreach_erfc", "composite"),
    *rows("_foreach_exp _foreach_expm1 _foreach_floor _foreach_frac _foreach_lerp _foreach_lgamma", "composite"),
    *rows("_foreach_log _foreach_log10 _foreach_log1p _foreach_log2 _foreach_max _foreach_maximum", "composite"),
    *rows("_foreach_minimum _foreach_mm _foreach_mul _foreach_neg _foreach_norm _foreach_pow", "composite"),
    *rows("_foreach_reciprocal _foreach_round _foreach_rsqrt _foreach_sigmoid", "composite"),
    *rows("_foreach_sign _foreach_sin _foreach_sinh _foreach_sqrt _foreach_sub _foreach_tan", "composite"),
    *rows("_foreach_tanh _foreach_trunc _foreach_zero", "composite"),
)

module @jit_kinds attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<8x16xbf16>, %arg1: tensor<8xi32>, %arg2: tensor<4xf64>) -> (tensor<16xbf16> {jax.result_info = "result[0]"}, tensor<9x16xbf16> {jax.result_info = "result[1]"}, tensor<8x15xbf16> {jax.result_info = "result[2]"}, tensor<1x1x8x16xbf16> {jax.result_info = "result[3]"}, tensor<8x16xbf16> {jax.result_info = "result[4]"}, tensor<8x16xbf16> {jax.result_info = "result[5]"}, tensor<f64> {jax.result_info = "result[6]"}) {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<bf16>) -> tensor<16xbf16>
    %c = stablehlo.constant dense<0> : tensor<i64>
    %c_0 = stablehlo.constant dense<0> : tensor<i64>
    %1:4 = stablehlo.while(%iterArg = %arg0, %iterArg_7 = %c_0, %iterArg_8 = %c, %iterArg_9 = %0) : tensor<8x16xbf16>, tensor<i64>, tensor<i64>, tensor<16xbf16>
    cond {
      %c_10 = stablehlo.constant dense<4> : tensor<i64>
      %22 = stablehlo.compare LT, %iterArg_7, %c_10, SIGNED : (tensor<i64>, tensor<i64>) -> tensor<i1>
      stablehlo.return %22 : tensor<i1>
    } do {
      %22:2 = func.call @closed_call(%iterArg, %iterArg_8, %iterArg_9) : (tensor<8x16xbf16>, tensor<i64>, tensor<16xbf16>) -> (tensor<i64>, tensor<16xbf16>)
      %c_10 = stablehlo.constant dense<1> : tensor<i64>
      %23 = stablehlo.add %iterArg_7, %c_10 : tensor<i64>
      stablehlo.return %iterArg, %23, %22#0, %22#1 : tensor<8x16xbf16>, tensor<i64>, tensor<i64>, tensor<16xbf16>
    }
    %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %2 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<bf16>) -> tensor<9x16xbf16>
    %c_2 = stablehlo.constant dense<0> : tensor<i32>
    %3 = stablehlo.broadcast_in_dim %c_2, dims = [] : (tensor<i32>) -> tensor<8xi32>
    %4 = stablehlo.compare LT, %arg1, %3, SIGNED : (tensor<8xi32>, tensor<8xi32>) -> tensor<8xi1>
    %c_3 = stablehlo.constant dense<9> : tensor<i32>
    %5 = stablehlo.broadcast_in_dim %c_3, dims = [] : (tensor<i32>) -> tensor<8xi32>
    %6 = stablehlo.add %arg1, %5 : tensor<8xi32>
    %7 = stablehlo.select %4, %6, %arg1 : tensor<8xi1>, tensor<8xi32>
    %8 = stablehlo.broadcast_in_dim %7, dims = [0] : (tensor<8xi32>) -> tensor<8x1xi32>
    %9 = "stablehlo.scatter"(%2, %8, %arg0) <{indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, unique_indices = false}> ({
    ^bb0(%arg3: tensor<bf16>, %arg4: tensor<bf16>):
      %22 = stablehlo.add %arg3, %arg4 : tensor<bf16>
      stablehlo.return %22 : tensor<bf16>
    }) : (tensor<9x16xbf16>, tensor<8x1xi32>, tensor<8x16xbf16>) -> tensor<9x16xbf16>
    %cst_4 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %10 = stablehlo.broadcast_in_dim %cst_4, dims = [] : (tensor<bf16>) -> tensor<bf16>
    %11 = "stablehlo.reduce_window"(%arg0, %10) <{base_dilations = array<i64: 1, 1>, padding = dense<0> : tensor<2x2xi64>, window_dilations = array<i64: 1, 1>, window_dimensions = array<i64: 1, 2>, window_strides = array<i64: 1, 1>}> ({
    ^bb0(%arg3: tensor<bf16>, %arg4: tensor<bf16>):
      %22 = stablehlo.add %arg3, %arg4 : tensor<bf16>
      stablehlo.return %22 : tensor<bf16>
    }) : (tensor<8x16xbf16>, tensor<bf16>) -> tensor<8x15xbf16>
    %12 = stablehlo.broadcast_in_dim %arg0, dims = [2, 3] : (tensor<8x16xbf16>) -> tensor<1x1x8x16xbf16>
    %cst_5 = stablehlo.constant dense<1.000000e+00> : tensor<bf16>
    %13 = stablehlo.broadcast_in_dim %cst_5, dims = [] : (tensor<bf16>) -> tensor<1x1x3x3xbf16>
    %14 = stablehlo.convolution(%12, %13) dim_numbers = [b, f, 0, 1]x[o, i, 0, 1]->[b, f, 0, 1], window = {stride = [1, 1], pad = [[1, 1], [1, 1]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<1x1x8x16xbf16>, tensor<1x1x3x3xbf16>) -> tensor<1x1x8x16xbf16>
    %15 = call @sort(%arg0) : (tensor<8x16xbf16>) -> tensor<8x16xbf16>
    %16 = call @cumsum(%arg0) : (tensor<8x16xbf16>) -> tensor<8x16xbf16>
    %cst_6 = stablehlo.constant dense<0.000000e+00> : tensor<f64>
    %17 = stablehlo.reduce(%arg2 init: %cst_6) applies stablehlo.add across dimensions = [0] : (tensor<4xf64>, tensor<f64>) -> tensor<f64>
    %18 = stablehlo.slice %arg0 [0:1, 0:1] : (tensor<8x16xbf16>) -> tensor<1x1xbf16>
    %19 = stablehlo.reshape %18 : (tensor<1x1xbf16>) -> tensor<bf16>
    %20 = stablehlo.convert %19 : (tensor<bf16>) -> tensor<f64>
    %21 = stablehlo.multiply %17, %20 : tensor<f64>
    return %1#3, %9, %11, %14, %15, %16, %21 : tensor<16xbf16>, tensor<9x16xbf16>, tensor<8x15xbf16>, tensor<1x1x8x16xbf16>, tensor<8x16xbf16>, tensor<8x16xbf16>, tensor<f64>
  }
  func.func private @closed_call(%arg0: tensor<8x16xbf16>, %arg1: tensor<i64>, %arg2: tensor<16xbf16>) -> (tensor<i64>, tensor<16xbf16>) {
    %c = stablehlo.constant dense<1> : tensor<i64>
    %0 = stablehlo.add %arg1, %c : tensor<i64>
    %1 = stablehlo.convert %arg1 : (tensor<i64>) -> tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %2 = stablehlo.compare LT, %1, %c_0, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %c_1 = stablehlo.constant dense<8> : tensor<i32>
    %3 = stablehlo.add %1, %c_1 : tensor<i32>
    %4 = stablehlo.select %2, %3, %1 : tensor<i1>, tensor<i32>
    %c_2 = stablehlo.constant dense<0> : tensor<i32>
    %c_3 = stablehlo.constant dense<0> : tensor<i32>
    %5 = stablehlo.compare LT, %c_2, %c_3, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %c_4 = stablehlo.constant dense<0> : tensor<i32>
    %c_5 = stablehlo.constant dense<16> : tensor<i32>
    %6 = stablehlo.add %c_4, %c_5 : tensor<i32>
    %c_6 = stablehlo.constant dense<0> : tensor<i32>
    %7 = stablehlo.select %5, %6, %c_6 : tensor<i1>, tensor<i32>
    %8 = stablehlo.dynamic_slice %arg0, %4, %7, sizes = [1, 16] : (tensor<8x16xbf16>, tensor<i32>, tensor<i32>) -> tensor<1x16xbf16>
    %9 = stablehlo.reshape %8 : (tensor<1x16xbf16>) -> tensor<16xbf16>
    %10 = stablehlo.add %arg2, %9 : tensor<16xbf16>
    return %0, %10 : tensor<i64>, tensor<16xbf16>
  }
  func.func private @sort(%arg0: tensor<8x16xbf16>) -> tensor<8x16xbf16> {
    %0 = "stablehlo.sort"(%arg0) <{dimension = 1 : i64, is_stable = true}> ({
    ^bb0(%arg1: tensor<bf16>, %arg2: tensor<bf16>):
      %cst = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
      %1 = stablehlo.compare EQ, %arg1, %cst, FLOAT : (tensor<bf16>, tensor<bf16>) -> tensor<i1>
      %cst_0 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
      %2 = stablehlo.select %1, %cst_0, %arg1 : tensor<i1>, tensor<bf16>
      %3 = stablehlo.compare NE, %arg1, %arg1, FLOAT : (tensor<bf16>, tensor<bf16>) -> tensor<i1>
      %cst_1 = stablehlo.constant dense<0x7FC0> : tensor<bf16>
      %4 = stablehlo.select %3, %cst_1, %2 : tensor<i1>, tensor<bf16>
      %cst_2 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
      %5 = stablehlo.compare EQ, %arg2, %cst_2, FLOAT : (tensor<bf16>, tensor<bf16>) -> tensor<i1>
      %cst_3 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
      %6 = stablehlo.select %5, %cst_3, %arg2 : tensor<i1>, tensor<bf16>
      %7 = stablehlo.compare NE, %arg2, %arg2, FLOAT : (tensor<bf16>, tensor<bf16>) -> tensor<i1>
      %cst_4 = stablehlo.constant dense<0x7FC0> : tensor<bf16>
      %8 = stablehlo.select %7, %cst_4, %6 : tensor<i1>, tensor<bf16>
      %9 = stablehlo.compare LT, %4, %8, TOTALORDER : (tensor<bf16>, tensor<bf16>) -> tensor<i1>
      stablehlo.return %9 : tensor<i1>
    }) : (tensor<8x16xbf16>) -> tensor<8x16xbf16>
    return %0 : tensor<8x16xbf16>
  }
  func.func private @cumsum(%arg0: tensor<8x16xbf16>) -> tensor<8x16xbf16> {
    %0 = call @cumsum_0(%arg0) : (tensor<8x16xbf16>) -> tensor<8x16xbf16>
    return %0 : tensor<8x16xbf16>
  }
  func.func private @cumsum_0(%arg0: tensor<8x16xbf16>) -> tensor<8x16xbf16> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<bf16>) -> tensor<bf16>
    %1 = "stablehlo.reduce_window"(%arg0, %0) <{base_dilations = array<i64: 1, 1>, padding = dense<[[0, 0], [15, 0]]> : tensor<2x2xi64>, window_dilations = array<i64: 1, 1>, window_dimensions = array<i64: 1, 16>, window_strides = array<i64: 1, 1>}> ({
    ^bb0(%arg1: tensor<bf16>, %arg2: tensor<bf16>):
      %2 = stablehlo.add %arg1, %arg2 : tensor<bf16>
      stablehlo.return %2 : tensor<bf16>
    }) : (tensor<8x16xbf16>, tensor<bf16>) -> tensor<8x16xbf16>
    return %1 : tensor<8x16xbf16>
  }
}

module @jit_loss attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<8x16xbf16>, %arg1: tensor<16xbf16>, %arg2: tensor<16x16xbf16>, %arg3: tensor<16x32xbf16>, %arg4: tensor<32x16xbf16>) -> (tensor<8x16xbf16> {jax.result_info = "result[0]"}, tensor<16xbf16> {jax.result_info = "result[1]"}, tensor<16x16xbf16> {jax.result_info = "result[2]"}, tensor<16x32xbf16> {jax.result_info = "result[3]"}, tensor<32x16xbf16> {jax.result_info = "result[4]"}) {
    %0 = stablehlo.convert %arg0 : (tensor<8x16xbf16>) -> tensor<8x16xf32>
    %1 = stablehlo.multiply %0, %0 : tensor<8x16xf32>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %2 = stablehlo.reduce(%1 init: %cst) applies stablehlo.add across dimensions = [1] : (tensor<8x16xf32>, tensor<f32>) -> tensor<8xf32>
    %3 = stablehlo.broadcast_in_dim %2, dims = [0] : (tensor<8xf32>) -> tensor<8x1xf32>
    %cst_0 = stablehlo.constant dense<1.600000e+01> : tensor<f32>
    %4 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<8x1xf32>
    %5 = stablehlo.divide %3, %4 : tensor<8x1xf32>
    %cst_1 = stablehlo.constant dense<9.99999997E-7> : tensor<f32>
    %6 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<8x1xf32>
    %7 = stablehlo.add %5, %6 : tensor<8x1xf32>
    %8 = stablehlo.rsqrt %7 : tensor<8x1xf32>
    %9 = stablehlo.divide %8, %7 : tensor<8x1xf32>
    %cst_2 = stablehlo.constant dense<-5.000000e-01> : tensor<f32>
    %10 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<8x1xf32>
    %11 = stablehlo.multiply %10, %9 : tensor<8x1xf32>
    %12 = stablehlo.broadcast_in_dim %8, dims = [0, 1] : (tensor<8x1xf32>) -> tensor<8x16xf32>
    %13 = stablehlo.multiply %0, %12 : tensor<8x16xf32>
    %14 = stablehlo.convert %13 : (tensor<8x16xf32>) -> tensor<8x16xbf16>
    %15 = stablehlo.broadcast_in_dim %arg1, dims = [1] : (tensor<16xbf16>) -> tensor<1x16xbf16>
    %16 = stablehlo.broadcast_in_dim %15, dims = [0, 1] : (tensor<1x16xbf16>) -> tensor<8x16xbf16>
    %17 = stablehlo.multiply %14, %16 : tensor<8x16xbf16>
    %18 = stablehlo.dot_general %17, %arg2, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<8x16xbf16>, tensor<16x16xbf16>) -> tensor<8x16xbf16>
    %19 = stablehlo.reshape %18 : (tensor<8x16xbf16>) -> tensor<8x2x8xbf16>
    %20 = stablehlo.transpose %19, dims = [1, 0, 2] : (tensor<8x2x8xbf16>) -> tensor<2x8x8xbf16>
    %21 = stablehlo.transpose %20, dims = [0, 2, 1] : (tensor<2x8x8xbf16>) -> tensor<2x8x8xbf16>
    %22 = stablehlo.dot_general %20, %21, batching_dims = [0] x [0], contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<2x8x8xbf16>, tensor<2x8x8xbf16>) -> tensor<2x8x8xbf16>
    %cst_3 = stablehlo.constant dense<0xFF80> : tensor<bf16>
    %23 = stablehlo.reduce(%22 init: %cst_3) applies stablehlo.maximum across dimensions = [2] : (tensor<2x8x8xbf16>, tensor<bf16>) -> tensor<2x8xbf16>
    %cst_4 = stablehlo.constant dense<0xFF80> : tensor<bf16>
    %24 = stablehlo.broadcast_in_dim %cst_4, dims = [] : (tensor<bf16>) -> tensor<2x8xbf16>
    %25 = stablehlo.maximum %24, %23 : tensor<2x8xbf16>
    %26 = stablehlo.broadcast_in_dim %25, dims = [0, 1] : (tensor<2x8xbf16>) -> tensor<2x8x1xbf16>
    %27 = stablehlo.broadcast_in_dim %26, dims = [0, 1, 2] : (tensor<2x8x1xbf16>) -> tensor<2x8x8xbf16>
    %28 = stablehlo.subtract %22, %27 : tensor<2x8x8xbf16>
    %29 = stablehlo.exponential %28 : tensor<2x8x8xbf16>
    %30 = stablehlo.convert %29 : (tensor<2x8x8xbf16>) -> tensor<2x8x8xf32>
    %cst_5 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %31 = stablehlo.reduce(%30 init: %cst_5) applies stablehlo.add across dimensions = [2] : (tensor<2x8x8xf32>, tensor<f32>) -> tensor<2x8xf32>
    %32 = stablehlo.broadcast_in_dim %31, dims = [0, 1] : (tensor<2x8xf32>) -> tensor<2x8x1xf32>
    %33 = stablehlo.convert %32 : (tensor<2x8x1xf32>) -> tensor<2x8x1xbf16>
    %34 = stablehlo.broadcast_in_dim %33, dims = [0, 1, 2] : (tensor<2x8x1xbf16>) -> tensor<2x8x8xbf16>
    %35 = stablehlo.divide %29, %34 : tensor<2x8x8xbf16>
    %36 = stablehlo.multiply %33, %33 : tensor<2x8x1xbf16>
    %cst_6 = stablehlo.constant dense<1.000000e+00> : tensor<bf16>
    %37 = stablehlo.broadcast_in_dim %cst_6, dims = [] : (tensor<bf16>) -> tensor<2x8x1xbf16>
    %38 = stablehlo.divide %37, %36 : tensor<2x8x1xbf16>
    %39 = stablehlo.dot_general %35, %20, batching_dims = [0] x [0], contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<2x8x8xbf16>, tensor<2x8x8xbf16>) -> tensor<2x8x8xbf16>
    %40 = stablehlo.transpose %39, dims = [1, 0, 2] : (tensor<2x8x8xbf16>) -> tensor<8x2x8xbf16>
    %41 = stablehlo.reshape %40 : (tensor<8x2x8xbf16>) -> tensor<8x16xbf16>
    %42 = stablehlo.add %arg0, %41 : tensor<8x16xbf16>
    %43 = stablehlo.convert %42 : (tensor<8x16xbf16>) -> tensor<8x16xf32>
    %44 = stablehlo.multiply %43, %43 : tensor<8x16xf32>
    %cst_7 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %45 = stablehlo.reduce(%44 init: %cst_7) applies stablehlo.add across dimensions = [1] : (tensor<8x16xf32>, tensor<f32>) -> tensor<8xf32>
    %46 = stablehlo.broadcast_in_dim %45, dims = [0] : (tensor<8xf32>) -> tensor<8x1xf32>
    %cst_8 = stablehlo.constant dense<1.600000e+01> : tensor<f32>
    %47 = stablehlo.broadcast_in_dim %cst_8, dims = [] : (tensor<f32>) -> tensor<8x1xf32>
    %48 = stablehlo.divide %46, %47 : tensor<8x1xf32>
    %cst_9 = stablehlo.constant dense<9.99999997E-7> : tensor<f32>
    %49 = stablehlo.broadcast_in_dim %cst_9, dims = [] : (tensor<f32>) -> tensor<8x1xf32>
    %50 = stablehlo.add %48, %49 : tensor<8x1xf32>
    %51 = stablehlo.rsqrt %50 : tensor<8x1xf32>
    %52 = stablehlo.divide %51, %50 : tensor<8x1xf32>
    %cst_10 = stablehlo.constant dense<-5.000000e-01> : tensor<f32>
    %53 = stablehlo.broadcast_in_dim %cst_10, dims = [] : (tensor<f32>) -> tensor<8x1xf32>
    %54 = stablehlo.multiply %53, %52 : tensor<8x1xf32>
    %55 = stablehlo.broadcast_in_dim %51, dims = [0, 1] : (tensor<8x1xf32>) -> tensor<8x16xf32>
    %56 = stablehlo.multiply %43, %55 : tensor<8x16xf32>
    %57 = stablehlo.convert %56 : (tensor<8x16xf32>) -> tensor<8x16xbf16>
    %58 = stablehlo.broadcast_in_dim %arg1, dims = [1] : (tensor<16xbf16>) -> tensor<1x16xbf16>
    %59 = stablehlo.broadcast_in_dim %58, dims = [0, 1] : (tensor<1x16xbf16>) -> tensor<8x16xbf16>
    %60 = stablehlo.multiply %57, %59 : tensor<8x16xbf16>
    %61 = stablehlo.dot_general %60, %arg3, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<8x16xbf16>, tensor<16x32xbf16>) -> tensor<8x32xbf16>
    %62:3 = call @silu(%61) : (tensor<8x32xbf16>) -> (tensor<8x32xbf16>, tensor<8x32xbf16>, tensor<8x32xbf16>)
    %cst_11 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %63 = stablehlo.broadcast_in_dim %cst_11, dims = [] : (tensor<f32>) -> tensor<8x16xf32>
    %64 = stablehlo.convert %63 : (tensor<8x16xf32>) -> tensor<8x16xbf16>
    %65 = stablehlo.dot_general %64, %62#0, contracting_dims = [0] x [0], precision = [DEFAULT, DEFAULT] : (tensor<8x16xbf16>, tensor<8x32xbf16>) -> tensor<16x32xbf16>
    %66 = stablehlo.transpose %65, dims = [1, 0] : (tensor<16x32xbf16>) -> tensor<32x16xbf16>
    %67 = stablehlo.dot_general %64, %arg4, contracting_dims = [1] x [1], precision = [DEFAULT, DEFAULT] : (tensor<8x16xbf16>, tensor<32x16xbf16>) -> tensor<8x32xbf16>
    %68 = call @silu_0(%62#1, %62#2, %61, %67) : (tensor<8x32xbf16>, tensor<8x32xbf16>, tensor<8x32xbf16>, tensor<8x32xbf16>) -> tensor<8x32xbf16>
    %69 = stablehlo.dot_general %68, %60, contracting_dims = [0] x [0], precision = [DEFAULT, DEFAULT] : (tensor<8x32xbf16>, tensor<8x16xbf16>) -> tensor<32x16xbf16>
    %70 = stablehlo.transpose %69, dims = [1, 0] : (tensor<32x16xbf16>) -> tensor<16x32xbf16>
    %71 = stablehlo.dot_general %68, %arg3, contracting_dims = [1] x [1], precision = [DEFAULT, DEFAULT] : (tensor<8x32xbf16>, tensor<16x32xbf16>) -> tensor<8x16xbf16>
    %72 = stablehlo.multiply %57, %71 : tensor<8x16xbf16>
    %cst_12 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %73 = stablehlo.reduce(%72 init: %cst_12) applies stablehlo.add across dimensions = [0] : (tensor<8x16xbf16>, tensor<bf16>) -> tensor<16xbf16>
    %74 = stablehlo.reshape %73 : (tensor<16xbf16>) -> tensor<1x16xbf16>
    %75 = stablehlo.broadcast_in_dim %58, dims = [0, 1] : (tensor<1x16xbf16>) -> tensor<8x16xbf16>
    %76 = stablehlo.multiply %71, %75 : tensor<8x16xbf16>
    %cst_13 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %77 = stablehlo.reduce(%74 init: %cst_13) applies stablehlo.add across dimensions = [0] : (tensor<1x16xbf16>, tensor<bf16>) -> tensor<16xbf16>
    %78 = stablehlo.convert %76 : (tensor<8x16xbf16>) -> tensor<8x16xf32>
    %79 = stablehlo.multiply %43, %78 : tensor<8x16xf32>
    %cst_14 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %80 = stablehlo.reduce(%79 init: %cst_14) applies stablehlo.add across dimensions = [1] : (tensor<8x16xf32>, tensor<f32>) -> tensor<8xf32>
    %81 = stablehlo.reshape %80 : (tensor<8xf32>) -> tensor<8x1xf32>
    %82 = stablehlo.broadcast_in_dim %51, dims = [0, 1] : (tensor<8x1xf32>) -> tensor<8x16xf32>
    %83 = stablehlo.multiply %78, %82 : tensor<8x16xf32>
    %84 = stablehlo.multiply %81, %54 : tensor<8x1xf32>
    %cst_15 = stablehlo.constant dense<1.600000e+01> : tensor<f32>
    %85 = stablehlo.broadcast_in_dim %cst_15, dims = [] : (tensor<f32>) -> tensor<8x1xf32>
    %86 = stablehlo.divide %84, %85 : tensor<8x1xf32>
    %cst_16 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %87 = stablehlo.reduce(%86 init: %cst_16) applies stablehlo.add across dimensions = [1] : (tensor<8x1xf32>, tensor<f32>) -> tensor<8xf32>
    %88 = stablehlo.broadcast_in_dim %87, dims = [0] : (tensor<8xf32>) -> tensor<8x16xf32>
    %89 = stablehlo.multiply %43, %88 : tensor<8x16xf32>
    %90 = stablehlo.add %83, %89 : tensor<8x16xf32>
    %91 = stablehlo.multiply %88, %43 : tensor<8x16xf32>
    %92 = stablehlo.add %90, %91 : tensor<8x16xf32>
    %93 = stablehlo.convert %92 : (tensor<8x16xf32>) -> tensor<8x16xbf16>
    %94 = stablehlo.add %64, %93 : tensor<8x16xbf16>
    %95 = stablehlo.reshape %94 : (tensor<8x16xbf16>) -> tensor<8x2x8xbf16>
    %96 = stablehlo.transpose %95, dims = [1, 0, 2] : (tensor<8x2x8xbf16>) -> tensor<2x8x8xbf16>
    %97 = stablehlo.dot_general %96, %35, batching_dims = [0] x [0], contracting_dims = [1] x [1], precision = [DEFAULT, DEFAULT] : (tensor<2x8x8xbf16>, tensor<2x8x8xbf16>) -> tensor<2x8x8xbf16>
    %98 = stablehlo.transpose %97, dims = [0, 2, 1] : (tensor<2x8x8xbf16>) -> tensor<2x8x8xbf16>
    %99 = stablehlo.dot_general %96, %20, batching_dims = [0] x [0], contracting_dims = [2] x [2], precision = [DEFAULT, DEFAULT] : (tensor<2x8x8xbf16>, tensor<2x8x8xbf16>) -> tensor<2x8x8xbf16>
    %100 = stablehlo.broadcast_in_dim %38, dims = [0, 1, 2] : (tensor<2x8x1xbf16>) -> tensor<2x8x8xbf16>
    %101 = stablehlo.multiply %99, %100 : tensor<2x8x8xbf16>
    %102 = stablehlo.multiply %101, %29 : tensor<2x8x8xbf16>
    %cst_17 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %103 = stablehlo.reduce(%102 init: %cst_17) applies stablehlo.add across dimensions = [2] : (tensor<2x8x8xbf16>, tensor<bf16>) -> tensor<2x8xbf16>
    %104 = stablehlo.reshape %103 : (tensor<2x8xbf16>) -> tensor<2x8x1xbf16>
    %105 = stablehlo.negate %104 : tensor<2x8x1xbf16>
    %106 = stablehlo.broadcast_in_dim %33, dims = [0, 1, 2] : (tensor<2x8x1xbf16>) -> tensor<2x8x8xbf16>
    %107 = stablehlo.divide %99, %106 : tensor<2x8x8xbf16>
    %108 = stablehlo.convert %105 : (tensor<2x8x1xbf16>) -> tensor<2x8x1xf32>
    %cst_18 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %109 = stablehlo.reduce(%108 init: %cst_18) applies stablehlo.add across dimensions = [2] : (tensor<2x8x1xf32>, tensor<f32>) -> tensor<2x8xf32>
    %110 = stablehlo.broadcast_in_dim %109, dims = [0, 1] : (tensor<2x8xf32>) -> tensor<2x8x8xf32>
    %111 = stablehlo.convert %110 : (tensor<2x8x8xf32>) -> tensor<2x8x8xbf16>
    %112 = stablehlo.add %107, %111 : tensor<2x8x8xbf16>
    %113 = stablehlo.multiply %112, %29 : tensor<2x8x8xbf16>
    %114 = stablehlo.dot_general %113, %20, batching_dims = [0] x [0], contracting_dims = [1] x [1], precision = [DEFAULT, DEFAULT] : (tensor<2x8x8xbf16>, tensor<2x8x8xbf16>) -> tensor<2x8x8xbf16>
    %115 = stablehlo.transpose %114, dims = [0, 2, 1] : (tensor<2x8x8xbf16>) -> tensor<2x8x8xbf16>
    %116 = stablehlo.dot_general %113, %21, batching_dims = [0] x [0], contracting_dims = [2] x [2], precision = [DEFAULT, DEFAULT] : (tensor<2x8x8xbf16>, tensor<2x8x8xbf16>) -> tensor<2x8x8xbf16>
    %117 = stablehlo.add %98, %116 : tensor<2x8x8xbf16>
    %118 = stablehlo.transpose %115, dims = [0, 2, 1] : (tensor<2x8x8xbf16>) -> tensor<2x8x8xbf16>
    %119 = stablehlo.add %117, %118 : tensor<2x8x8xbf16>
    %120 = stablehlo.transpose %119, dims = [1, 0, 2] : (tensor<2x8x8xbf16>) -> tensor<8x2x8xbf16>
    %121 = stablehlo.reshape %120 : (tensor<8x2x8xbf16>) -> tensor<8x16xbf16>
    %122 = stablehlo.dot_general %121, %17, contracting_dims = [0] x [0], precision = [DEFAULT, DEFAULT] : (tensor<8x16xbf16>, tensor<8x16xbf16>) -> tensor<16x16xbf16>
    %123 = stablehlo.transpose %122, dims = [1, 0] : (tensor<16x16xbf16>) -> tensor<16x16xbf16>
    %124 = stablehlo.dot_general %121, %arg2, contracting_dims = [1] x [1], precision = [DEFAULT, DEFAULT] : (tensor<8x16xbf16>, tensor<16x16xbf16>) -> tensor<8x16xbf16>
    %125 = stablehlo.multiply %14, %124 : tensor<8x16xbf16>
    %cst_19 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %126 = stablehlo.reduce(%125 init: %cst_19) applies stablehlo.add across dimensions = [0] : (tensor<8x16xbf16>, tensor<bf16>) -> tensor<16xbf16>
    %127 = stablehlo.reshape %126 : (tensor<16xbf16>) -> tensor<1x16xbf16>
    %128 = stablehlo.broadcast_in_dim %15, dims = [0, 1] : (tensor<1x16xbf16>) -> tensor<8x16xbf16>
    %129 = stablehlo.multiply %124, %128 : tensor<8x16xbf16>
    %cst_20 = stablehlo.constant dense<0.000000e+00> : tensor<bf16>
    %130 = stablehlo.reduce(%127 init: %cst_20) applies stablehlo.add across dimensions = [0] : (tensor<1x16xbf16>, tensor<bf16>) -> tensor<16xbf16>
    %131 = stablehlo.add %77, %130 : tensor<16xbf16>
    %132 = stablehlo.convert %129 : (tensor<8x16xbf16>) -> tensor<8x16xf32>
    %133 = stablehlo.multiply %0, %132 : tensor<8x16xf32>
    %cst_21 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %134 = stablehlo.reduce(%133 init: %cst_21) applies stablehlo.add across dimensions = [1] : (tensor<8x16xf32>, tensor<f32>) -> tensor<8xf32>
    %135 = stablehlo.reshape %134 : (tensor<8xf32>) -> tensor<8x1xf32>
    %136 = stablehlo.broadcast_in_dim %8, dims = [0, 1] : (tensor<8x1xf32>) -> tensor<8x16xf32>
    %137 = stablehlo.multiply %132, %136 : tensor<8x16xf32>
    %138 = stablehlo.multiply %135, %11 : tensor<8x1xf32>
    %cst_22 = stablehlo.constant dense<1.600000e+01> : tensor<f32>
    %139 = stablehlo.broadcast_in_dim %cst_22, dims = [] : (tensor<f32>) -> tensor<8x1xf32>
    %140 = stablehlo.divide %138, %139 : tensor<8x1xf32>
    %cst_23 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %141 = stablehlo.reduce(%140 init: %cst_23) applies stablehlo.add across dimensions = [1] : (tensor<8x1xf32>, tensor<f32>) -> tensor<8xf32>
    %142 = stablehlo.broadcast_in_dim %141, dims = [0] : (tensor<8xf32>) -> tensor<8x16xf32>
    %143 = stablehlo.multiply %0, %142 : tensor<8x16xf32>
    %144 = stablehlo.add %137, %143 : tensor<8x16xf32>
    %145 = stablehlo.multiply %142, %0 : tensor<8x16xf32>
    %146 = stablehlo.add %144, %145 : tensor<8x16xf32>
    %147 = stablehlo.convert %146 : (tensor<8x16xf32>) -> tensor<8x16xbf16>
    %148 = stablehlo.add %94, %147 : tensor<8x16xbf16>
    return %148, %131, %123, %70, %66 : tensor<8x16xbf16>, tensor<16xbf16>, tensor<16x16xbf16>, tensor<16x32xbf16>, tensor<32x16xbf16>
  }
  func.func private @silu(%arg0: tensor<8x32xbf16>) -> (tensor<8x32xbf16>, tensor<8x32xbf16>, tensor<8x32xbf16>) {
    %0 = stablehlo.negate %arg0 : tensor<8x32xbf16>
    %1 = stablehlo.exponential %0 : tensor<8x32xbf16>
    %cst = stablehlo.constant dense<1.000000e+00> : tensor<bf16>
    %2 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<bf16>) -> tensor<8x32xbf16>
    %3 = stablehlo.add %2, %1 : tensor<8x32xbf16>
    %cst_0 = stablehlo.constant dense<1.000000e+00> : tensor<bf16>
    %4 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<bf16>) -> tensor<8x32xbf16>
    %5 = stablehlo.divide %4, %3 : tensor<8x32xbf16>
    %cst_1 = stablehlo.constant dense<1.000000e+00> : tensor<bf16>
    %6 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<bf16>) -> tensor<8x32xbf16>
    %7 = stablehlo.subtract %6, %5 : tensor<8x32xbf16>
    %8 = stablehlo.multiply %5, %7 : tensor<8x32xbf16>
    %9 = stablehlo.multiply %arg0, %5 : tensor<8x32xbf16>
    return %9, %8, %5 : tensor<8x32xbf16>, tensor<8x32xbf16>, tensor<8x32xbf16>
  }
  func.func private @silu_0(%arg0: tensor<8x32xbf16>, %arg1: tensor<8x32xbf16>, %arg2: tensor<8x32xbf16>, %arg3: tensor<8x32xbf16>) -> tensor<8x32xbf16> {
    %0 = stablehlo.multiply %arg2, %arg3 : tensor<8x32xbf16>
    %1 = stablehlo.multiply %arg3, %arg1 : tensor<8x32xbf16>
    %2 = stablehlo.multiply %0, %arg0 : tensor<8x32xbf16>
    %3 = stablehlo.add %1, %2 : tensor<8x32xbf16>
    return %3 : tensor<8x32xbf16>
  }
}

#loc1 = dumped/model.py:102:0
#loc2 = dumped/model.py:109:0
#loc3 = dumped/model.py:95:0
#loc4 = dumped/model.py:122:0
#loc5 = dumped/model.py:126:0
#loc6 = dumped/model.py:101:0
#loc7 = dumped/model.py:110:0
#loc8 = dumped/model.py:106:0
#loc9 = "xla__device_data"
#loc10 = dumped/model.py:113:0
#loc56 = "norm"(#loc1)
#loc57 = "step"(#loc2)
#loc58 = "dump"(#loc3)
#loc59 = "torch_xla_dumps"(#loc4)
#loc60 = "<module>"(#loc5)
#loc61 = "norm"(#loc6)
#loc62 = "step"(#loc7)
#loc63 = "rotated"(#loc8)
#loc64 = "step"(#loc10)
#loc70 = #loc59
 at #loc60
#loc71 = #loc58
 at #loc70
#loc72 = #loc57
 at #loc71
#loc73 = #loc62
 at #loc71
#loc74 = #loc64
 at #loc71
#loc78 = #loc56
 at #loc72
#loc79 = #loc61
 at #loc72
#loc80 = "xla__device_data"(#loc73)
#loc81 = #loc63
 at #loc73
#loc82 = "xla__device_data"(#loc74)
#loc100 = "xla__device_data"(#loc78)
#loc101 = "xla__device_data"(#loc79)
#loc102 = "xla__device_data"(#loc81)
module @IrToHlo.341 attributes {mhlo.cross_program_prefetches = [], mhlo.input_output_alias = [], mhlo.is_dynamic = false, mhlo.use_auto_spmd_partitioning = false} {
  func.func @main(%arg0: tensor<f32> "xla__device_data"(#loc78), %arg1: tensor<8x16xbf16> "xla__device_data"(#loc79), %arg2: tensor<16x16xbf16> "xla__device_data"(#loc73), %arg3: tensor<8x8xbf16> "xla__device_data"(#loc81), %arg4: tensor<16xbf16> "xla__device_data"(#loc78), %arg5: tensor<8x8xbf16> "xla__device_data"(#loc81), %arg6: tensor<f32> "xla__device_data", %arg7: tensor<f32> "xla__device_data", %arg8: tensor<16x32xbf16> "xla__device_data"(#loc74), %arg9: tensor<16x32xbf16> "xla__device_data"(#loc74), %arg10: tensor<32x16xbf16> "xla__device_data"(#loc74), %arg11: tensor<f32> "xla__device_data", %arg12: tensor<f32> "xla__device_data") -> (tensor<16xbf16>, tensor<16x16xbf16>, tensor<16x32xbf16>, tensor<16x32xbf16>, tensor<32x16xbf16>) {
    %cst = stablehlo.constant dense<3.000000e+00> : tensor<8x1xf32> "aten__pow"
    %cst_0 = stablehlo.constant dense<1.000000e+00> : tensor<8x32xbf16> [unknown]
    %cst_1 = stablehlo.constant dense<6.250000e-02> : tensor<8xf32> [unknown]
    %cst_2 = stablehlo.constant dense<0.000000e+00> : tensor<bf16> [unknown]
    %cst_3 = stablehlo.constant dense<0xFF80> : tensor<bf16> "aten__softmax"(#loc75)
    %cst_4 = stablehlo.constant dense<0.000000e+00> : tensor<f32> [unknown]
    %cst_5 = stablehlo.constant dense<1.000000e+00> : tensor<8x16xf32> [unknown]
    %0 = stablehlo.broadcast_in_dim %arg12, dims = [] : (tensor<f32>) -> tensor<8x16xf32> "aten__div"
    %1 = stablehlo.divide %cst_5, %0 : tensor<8x16xf32> "aten__div"
    %2 = stablehlo.convert %arg4 : (tensor<16xbf16>) -> tensor<16xf32> "xla__cast"(#loc78)
    %3 = stablehlo.broadcast_in_dim %2, dims = [1] : (tensor<16xf32>) -> tensor<8x16xf32> "aten__mul.4/aten__mul"(#loc78)
    %4 = stablehlo.convert %arg1 : (tensor<8x16xbf16>) -> tensor<8x16xf32> "xla__cast"(#loc79)
    %5 = stablehlo.multiply %4, %4 : tensor<8x16xf32> "aten__mul.1/aten__mul"(#loc78)
    %6 = stablehlo.reduce(%5 init: %cst_4) applies stablehlo.add across dimensions = [1] : (tensor<8x16xf32>, tensor<f32>) -> tensor<8xf32> "aten__mean"(#loc78)
    %7 = stablehlo.multiply %6, %cst_1 : tensor<8xf32> "aten__mean"(#loc78)
    %8 = stablehlo.reshape %7 : (tensor<8xf32>) -> tensor<8x1xf32> "aten__mean"(#loc78)
    %9 = stablehlo.broadcast_in_dim %arg0, dims = [] : (tensor<f32>) -> tensor<8x1xf32> "aten__add.2/aten__add"(#loc78)
    %10 = stablehlo.add %8, %9 : tensor<8x1xf32> "aten__add.2/aten__add"(#loc78)
    %11 = stablehlo.rsqrt %10 : tensor<8x1xf32> "aten__rsqrt"(#loc78)
    %12 = stablehlo.reshape %11 : (tensor<8x1xf32>) -> tensor<8xf32> "aten__mul.3/aten__mul"(#loc78)
    %13 = stablehlo.broadcast_in_dim %12, dims = [0] : (tensor<8xf32>) -> tensor<8x16xf32> "aten__mul.3/aten__mul"(#loc78)
    %14 = stablehlo.multiply %4, %13 : tensor<8x16xf32> "aten__mul.3/aten__mul"(#loc78)
    %15 = stablehlo.convert %14 : (tensor<8x16xf32>) -> tensor<8x16xbf16> "xla__cast"(#loc78)
    %16 = stablehlo.convert %15 : (tensor<8x16xbf16>) -> tensor<8x16xf32> "xla__cast"(#loc78)
    %17 = stablehlo.multiply %3, %16 : tensor<8x16xf32> "aten__mul.4/aten__mul"(#loc78)
    %18 = stablehlo.convert %17 : (tensor<8x16xf32>) -> tensor<8x16xbf16> "xla__cast"(#loc78)
    %19 = stablehlo.dot_general %18, %arg2, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<8x16xbf16>, tensor<16x16xbf16>) -> tensor<8x16xbf16> "aten__mm"(#loc73)
    %20 = stablehlo.reshape %19 : (tensor<8x16xbf16>) -> tensor<8x2x8xbf16> "aten__view"(#loc73)
    %21 = stablehlo.transpose %20, dims = [1, 0, 2] {result_layout = dense<[2, 0, 1]> : tensor<3xindex>, xla_shape = "bf16[2,8,8]{2,0,1}"} : (tensor<8x2x8xbf16>) -> tensor<2x8x8xbf16> "aten__permute"(#loc73)
    %22 = stablehlo.convert %21 {result_layout = dense<[2, 0, 1]> : tensor<3xindex>, xla_shape = "f32[2,8,8]{2,0,1}"} : (tensor<2x8x8xbf16>) -> tensor<2x8x8xf32> "xla__cast"(#loc81)
    %23 = stablehlo.convert %arg5 : (tensor<8x8xbf16>) -> tensor<8x8xf32> "xla__cast"(#loc81)
    %24 = stablehlo.broadcast_in_dim %23, dims = [1, 2] : (tensor<8x8xf32>) -> tensor<2x8x8xf32> "aten__mul.5/aten__mul"(#loc81)
    %25 = stablehlo.multiply %22, %24 : tensor<2x8x8xf32> "aten__mul.5/aten__mul"(#loc81)
    %26 = stablehlo.convert %25 : (tensor<2x8x8xf32>) -> tensor<2x8x8xbf16> "xla__cast"(#loc81)
    %27 = stablehlo.slice %21 [0:2, 0:8, 4:8] : (tensor<2x8x8xbf16>) -> tensor<2x8x4xbf16> "aten__split"(#loc87)
    %28 = stablehlo.negate %27 : tensor<2x8x4xbf16> "aten__neg"(#loc81)
    %29 = stablehlo.slice %21 [0:2, 0:8, 0:4] : (tensor<2x8x8xbf16>) -> tensor<2x8x4xbf16> "aten__split"(#loc87)
    %30 = stablehlo.concatenate %28, %29, dim = 2 : (tensor<2x8x4xbf16>, tensor<2x8x4xbf16>) -> tensor<2x8x8xbf16> "aten__cat"(#loc81)
    %31 = stablehlo.convert %30 : (tensor<2x8x8xbf16>) -> tensor<2x8x8xf32> "xla__cast"(#loc81)
    %32 = stablehlo.convert %arg3 : (tensor<8x8xbf16>) -> tensor<8x8xf32> "xla__cast"(#loc81)
    %33 = stablehlo.broadcast_in_dim %32, dims = [1, 2] : (tensor<8x8xf32>) -> tensor<2x8x8xf32> "aten__mul.6/aten__mul"(#loc81)
    %34 = stablehlo.multiply %31, %33 : tensor<2x8x8xf32> "aten__mul.6/aten__mul"(#loc81)
    %35 = stablehlo.convert %34 : (tensor<2x8x8xf32>) -> tensor<2x8x8xbf16> "xla__cast"(#loc81)
    %36 = stablehlo.add %26, %35 : tensor<2x8x8xbf16> "aten__add.7/aten__add"(#loc81)
    %37 = stablehlo.transpose %36, dims = [0, 2, 1] {result_layout = dense<[1, 2, 0]> : tensor<3xindex>, xla_shape = "bf16[2,8,8]{1,2,0}"} : (tensor<2x8x8xbf16>) -> tensor<2x8x8xbf16> "aten__permute"(#loc75)
    %38 = stablehlo.dot_general %36, %37, batching_dims = [0] x [0], contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<2x8x8xbf16>, tensor<2x8x8xbf16>) -> tensor<2x8x8xbf16> "aten__matmul"(#loc75)
    %39 = stablehlo.reduce(%38 init: %cst_3) applies stablehlo.maximum across dimensions = [2] : (tensor<2x8x8xbf16>, tensor<bf16>) -> tensor<2x8xbf16> "aten__softmax"(#loc75)
    %40 = stablehlo.broadcast_in_dim %39, dims = [0, 1] : (tensor<2x8xbf16>) -> tensor<2x8x8xbf16> "aten__softmax"(#loc75)
    %41 = stablehlo.subtract %38, %40 : tensor<2x8x8xbf16> "aten__softmax"(#loc75)
    %42 = stablehlo.exponential %41 : tensor<2x8x8xbf16> "aten__softmax"(#loc75)
    %43 = stablehlo.reduce(%42 init: %cst_2) applies stablehlo.add across dimensions = [2] : (tensor<2x8x8xbf16>, tensor<bf16>) -> tensor<2x8xbf16> "aten__softmax"(#loc75)
    %44 = stablehlo.broadcast_in_dim %43, dims = [0, 1] : (tensor<2x8xbf16>) -> tensor<2x8x8xbf16> "aten__softmax"(#loc75)
    %45 = stablehlo.divide %42, %44 : tensor<2x8x8xbf16> "aten__softmax"(#loc75)
    %46 = stablehlo.dot_general %45, %36, batching_dims = [0] x [0], contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<2x8x8xbf16>, tensor<2x8x8xbf16>) -> tensor<2x8x8xbf16> "aten__matmul"(#loc75)
    %47 = stablehlo.transpose %46, dims = [1, 0, 2] {result_layout = dense<[2, 0, 1]> : tensor<3xindex>, xla_shape = "bf16[8,2,8]{2,0,1}"} : (tensor<2x8x8xbf16>) -> tensor<8x2x8xbf16> "aten__permute"(#loc75)
    %48 = stablehlo.reshape %47 : (tensor<8x2x8xbf16>) -> tensor<8x16xbf16> "aten__view"(#loc75)
    %49 = stablehlo.add %arg1, %48 : tensor<8x16xbf16> "aten__add.8/aten__add"(#loc75)
    %50 = stablehlo.convert %49 : (tensor<8x16xbf16>) -> tensor<8x16xf32> "xla__cast"(#loc92)
    %51 = stablehlo.multiply %50, %50 : tensor<8x16xf32> "aten__mul.9/aten__mul"(#loc93)
    %52 = stablehlo.reduce(%51 init: %cst_4) applies stablehlo.add across dimensions = [1] : (tensor<8x16xf32>, tensor<f32>) -> tensor<8xf32> "aten__mean"(#loc93)
    %53 = stablehlo.multiply %52, %cst_1 : tensor<8xf32> "aten__mean"(#loc93)
    %54 = stablehlo.reshape %53 : (tensor<8xf32>) -> tensor<8x1xf32> "aten__mean"(#loc93)
    %55 = stablehlo.add %54, %9 : tensor<8x1xf32> "aten__add.10/aten__add"(#loc93)
    %56 = stablehlo.rsqrt %55 : tensor<8x1xf32> "aten__rsqrt"(#loc93)
    %57 = stablehlo.reshape %56 : (tensor<8x1xf32>) -> tensor<8xf32> "aten__mul.11/aten__mul"(#loc93)
    %58 = stablehlo.broadcast_in_dim %57, dims = [0] : (tensor<8xf32>) -> tensor<8x16xf32> "aten__mul.11/aten__mul"(#loc93)
    %59 = stablehlo.multiply %50, %58 : tensor<8x16xf32> "aten__mul.11/aten__mul"(#loc93)
    %60 = stablehlo.convert %59 : (tensor<8x16xf32>) -> tensor<8x16xbf16> "xla__cast"(#loc93)
    %61 = stablehlo.convert %60 : (tensor<8x16xbf16>) -> tensor<8x16xf32> "xla__cast"(#loc93)
    %62 = stablehlo.multiply %3, %61 : tensor<8x16xf32> "aten__mul.12/aten__mul"(#loc93)
    %63 = stablehlo.convert %62 : (tensor<8x16xf32>) -> tensor<8x16xbf16> "xla__cast"(#loc93)
    %64 = stablehlo.dot_general %63, %arg8, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<8x16xbf16>, tensor<16x32xbf16>) -> tensor<8x32xbf16> "aten__mm"(#loc74)
    %65 = stablehlo.logistic %64 : tensor<8x32xbf16> "aten__silu"(#loc95)
    %66 = stablehlo.multiply %64, %65 : tensor<8x32xbf16> "aten__silu"(#loc95)
    %67 = stablehlo.convert %66 : (tensor<8x32xbf16>) -> tensor<8x32xf32> "xla__cast"(#loc74)
    %68 = stablehlo.dot_general %63, %arg9, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<8x16xbf16>, tensor<16x32xbf16>) -> tensor<8x32xbf16> "aten__mm"(#loc74)
    %69 = stablehlo.convert %68 : (tensor<8x32xbf16>) -> tensor<8x32xf32> "xla__cast"(#loc74)
    %70 = stablehlo.multiply %67, %69 : tensor<8x32xf32> "aten__mul.13/aten__mul"(#loc74)
    %71 = stablehlo.convert %70 : (tensor<8x32xf32>) -> tensor<8x32xbf16> "xla__cast"(#loc74)
    %72 = stablehlo.dot_general %71, %arg10, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<8x32xbf16>, tensor<32x16xbf16>) -> tensor<8x16xbf16> "aten__mm"(#loc74)
    %73 = stablehlo.add %49, %72 : tensor<8x16xbf16> "aten__add.14/aten__add"(#loc74)
    %74 = stablehlo.convert %73 : (tensor<8x16xbf16>) -> tensor<8x16xf32> "xla__cast"(#loc77)
    %75 = stablehlo.power %74, %cst_5 : tensor<8x16xf32> "aten__pow"
    %76 = stablehlo.broadcast_in_dim %arg11, dims = [] : (tensor<f32>) -> tensor<8x16xf32> "aten__mul.1/aten__mul"
    %77 = stablehlo.multiply %75, %76 : tensor<8x16xf32> "aten__mul.1/aten__mul"
    %78 = stablehlo.multiply %1, %77 : tensor<8x16xf32> "aten__mul.2/aten__mul"
    %79 = stablehlo.convert %78 : (tensor<8x16xf32>) -> tensor<8x16xbf16> "xla__cast"
    %80 = stablehlo.transpose %arg10, dims = [1, 0] {result_layout = dense<[0, 1]> : tensor<2xindex>, xla_shape = "bf16[16,32]{0,1}"} : (tensor<32x16xbf16>) -> tensor<16x32xbf16> "aten__permute"
    %81 = stablehlo.dot_general %79, %80, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<8x16xbf16>, tensor<16x32xbf16>) -> tensor<8x32xbf16> "aten__mm"
    %82 = stablehlo.convert %81 : (tensor<8x32xbf16>) -> tensor<8x32xf32> "xla__cast"
    %83 = stablehlo.multiply %82, %67 : tensor<8x32xf32> "aten__mul.3/aten__mul"
    %84 = stablehlo.convert %83 : (tensor<8x32xf32>) -> tensor<8x32xbf16> "xla__cast"
    %85 = stablehlo.transpose %arg9, dims = [1, 0] {result_layout = dense<[0, 1]> : tensor<2xindex>, xla_shape = "bf16[32,16]{0,1}"} : (tensor<16x32xbf16>) -> tensor<32x16xbf16> "aten__permute"
    %86 = stablehlo.dot_general %84, %85, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<8x32xbf16>, tensor<32x16xbf16>) -> tensor<8x16xbf16> "aten__mm"
    %87 = stablehlo.multiply %82, %69 : tensor<8x32xf32> "aten__mul.4/aten__mul"
    %88 = stablehlo.convert %87 : (tensor<8x32xf32>) -> tensor<8x32xbf16> "xla__cast"
    %89 = stablehlo.convert %88 : (tensor<8x32xbf16>) -> tensor<8x32xf32> "xla__cast"
    %90 = stablehlo.convert %65 : (tensor<8x32xbf16>) -> tensor<8x32xf32> "xla__cast"
    %91 = stablehlo.convert %64 : (tensor<8x32xbf16>) -> tensor<8x32xf32> "xla__cast"
    %92 = stablehlo.subtract %cst_0, %65 : tensor<8x32xbf16> "aten__sub.5/aten__sub"
    %93 = stablehlo.convert %92 : (tensor<8x32xbf16>) -> tensor<8x32xf32> "xla__cast"
    %94 = stablehlo.multiply %91, %93 : tensor<8x32xf32> "aten__mul.6/aten__mul"
    %95 = stablehlo.convert %94 : (tensor<8x32xf32>) -> tensor<8x32xbf16> "xla__cast"
    %96 = stablehlo.add %95, %cst_0 : tensor<8x32xbf16> "aten__add.7/aten__add"
    %97 = stablehlo.convert %96 : (tensor<8x32xbf16>) -> tensor<8x32xf32> "xla__cast"
    %98 = stablehlo.multiply %90, %97 : tensor<8x32xf32> "aten__mul.8/aten__mul"
    %99 = stablehlo.convert %98 : (tensor<8x32xf32>) -> tensor<8x32xbf16> "xla__cast"
    %100 = stablehlo.convert %99 : (tensor<8x32xbf16>) -> tensor<8x32xf32> "xla__cast"
    %101 = stablehlo.multiply %89, %100 : tensor<8x32xf32> "aten__mul.9/aten__mul"
    %102 = stablehlo.convert %101 : (tensor<8x32xf32>) -> tensor<8x32xbf16> "xla__cast"
    %103 = stablehlo.transpose %arg8, dims = [1, 0] {result_layout = dense<[0, 1]> : tensor<2xindex>, xla_shape = "bf16[32,16]{0,1}"} : (tensor<16x32xbf16>) -> tensor<32x16xbf16> "aten__permute"
    %104 = stablehlo.dot_general %102, %103, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<8x32xbf16>, tensor<32x16xbf16>) -> tensor<8x16xbf16> "aten__mm"
    %105 = stablehlo.add %86, %104 : tensor<8x16xbf16> "aten__add.10/aten__add"
    %106 = stablehlo.convert %105 : (tensor<8x16xbf16>) -> tensor<8x16xf32> "xla__cast"
    %107 = stablehlo.multiply %106, %61 : tensor<8x16xf32> "aten__mul.12/aten__mul"
    %108 = stablehlo.convert %107 : (tensor<8x16xf32>) -> tensor<8x16xbf16> "xla__cast"
    %109 = stablehlo.reduce(%108 init: %cst_2) applies stablehlo.add across dimensions = [0] : (tensor<8x16xbf16>, tensor<bf16>) -> tensor<16xbf16> "aten__sum"
    %110 = stablehlo.transpose %45, dims = [0, 2, 1] {result_layout = dense<[1, 2, 0]> : tensor<3xindex>, xla_shape = "bf16[2,8,8]{1,2,0}"} : (tensor<2x8x8xbf16>) -> tensor<2x8x8xbf16> "aten__permute"
    %111 = stablehlo.multiply %106, %3 : tensor<8x16xf32> "aten__mul.11/aten__mul"
    %112 = stablehlo.convert %111 : (tensor<8x16xf32>) -> tensor<8x16xbf16> "xla__cast"
    %113 = stablehlo.convert %112 : (tensor<8x16xbf16>) -> tensor<8x16xf32> "xla__cast"
    %114 = stablehlo.multiply %113, %58 : tensor<8x16xf32> "aten__mul.14/aten__mul"
    %115 = stablehlo.multiply %113, %50 : tensor<8x16xf32> "aten__mul.13/aten__mul"
    %116 = stablehlo.reduce(%115 init: %cst_4) applies stablehlo.add across dimensions = [1] : (tensor<8x16xf32>, tensor<f32>) -> tensor<8xf32> "aten__sum"
    %117 = stablehlo.reshape %116 : (tensor<8xf32>) -> tensor<8x1xf32> "aten__sum"
    %118 = stablehlo.broadcast_in_dim %arg7, dims = [] : (tensor<f32>) -> tensor<8x1xf32> "aten__mul.15/aten__mul"
    %119 = stablehlo.multiply %117, %118 : tensor<8x1xf32> "aten__mul.15/aten__mul"
    %120 = stablehlo.power %56, %cst : tensor<8x1xf32> "aten__pow"
    %121 = stablehlo.multiply %119, %120 : tensor<8x1xf32> "aten__mul.16/aten__mul"
    %122 = stablehlo.reshape %121 : (tensor<8x1xf32>) -> tensor<8xf32> "aten__expand"
    %123 = stablehlo.broadcast_in_dim %122, dims = [0] : (tensor<8xf32>) -> tensor<8x16xf32> "aten__expand"
    %124 = stablehlo.broadcast_in_dim %arg6, dims = [] : (tensor<f32>) -> tensor<8x16xf32> "aten__div"
    %125 = stablehlo.divide %123, %124 : tensor<8x16xf32> "aten__div"
    %126 = stablehlo.multiply %125, %50 : tensor<8x16xf32> "aten__mul.18/aten__mul"
    %127 = stablehlo.add %114, %126 : tensor<8x16xf32> "aten__add.19/aten__add"
    %128 = stablehlo.add %127, %126 : tensor<8x16xf32> "aten__add.20/aten__add"
    %129 = stablehlo.convert %128 : (tensor<8x16xf32>) -> tensor<8x16xbf16> "xla__cast"
    %130 = stablehlo.add %79, %129 : tensor<8x16xbf16> "aten__add.21/aten__add"
    %131 = stablehlo.reshape %130 : (tensor<8x16xbf16>) -> tensor<8x2x8xbf16> "aten__view"
    %132 = stablehlo.transpose %131, dims = [1, 0, 2] {result_layout = dense<[2, 0, 1]> : tensor<3xindex>, xla_shape = "bf16[2,8,8]{2,0,1}"} : (tensor<8x2x8xbf16>) -> tensor<2x8x8xbf16> "aten__permute"
    %133 = stablehlo.dot_general %110, %132, batching_dims = [0] x [0], contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<2x8x8xbf16>, tensor<2x8x8xbf16>) -> tensor<2x8x8xbf16> "aten__matmul"
    %134 = stablehlo.dot_general %132, %37, batching_dims = [0] x [0], contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<2x8x8xbf16>, tensor<2x8x8xbf16>) -> tensor<2x8x8xbf16> "aten__matmul"
    %135 = stablehlo.multiply %134, %45 : tensor<2x8x8xbf16> "aten___softmax_backward_data"
    %136 = stablehlo.reduce(%135 init: %cst_2) applies stablehlo.add across dimensions = [2] : (tensor<2x8x8xbf16>, tensor<bf16>) -> tensor<2x8xbf16> "aten___softmax_backward_data"
    %137 = stablehlo.broadcast_in_dim %136, dims = [0, 1] : (tensor<2x8xbf16>) -> tensor<2x8x8xbf16> "aten___softmax_backward_data"
    %138 = stablehlo.subtract %134, %137 : tensor<2x8x8xbf16> "aten___softmax_backward_data"
    %139 = stablehlo.multiply %45, %138 : tensor<2x8x8xbf16> "aten___softmax_backward_data"
    %140 = stablehlo.dot_general %139, %36, batching_dims = [0] x [0], contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<2x8x8xbf16>, tensor<2x8x8xbf16>) -> tensor<2x8x8xbf16> "aten__matmul"
    %141 = stablehlo.add %133, %140 : tensor<2x8x8xbf16> "aten__add.22/aten__add"
    %142 = stablehlo.dot_general %37, %139, batching_dims = [0] x [0], contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<2x8x8xbf16>, tensor<2x8x8xbf16>) -> tensor<2x8x8xbf16> "aten__matmul"
    %143 = stablehlo.transpose %142, dims = [0, 2, 1] {result_layout = dense<[1, 2, 0]> : tensor<3xindex>, xla_shape = "bf16[2,8,8]{1,2,0}"} : (tensor<2x8x8xbf16>) -> tensor<2x8x8xbf16> "aten__permute"
    %144 = stablehlo.add %141, %143 : tensor<2x8x8xbf16> "aten__add.23/aten__add"
    %145 = stablehlo.convert %144 : (tensor<2x8x8xbf16>) -> tensor<2x8x8xf32> "xla__cast"
    %146 = stablehlo.multiply %145, %24 : tensor<2x8x8xf32> "aten__mul.25/aten__mul"
    %147 = stablehlo.convert %146 : (tensor<2x8x8xf32>) -> tensor<2x8x8xbf16> "xla__cast"
    %148 = stablehlo.multiply %145, %33 : tensor<2x8x8xf32> "aten__mul.24/aten__mul"
    %149 = stablehlo.convert %148 : (tensor<2x8x8xf32>) -> tensor<2x8x8xbf16> "xla__cast"
    %150 = stablehlo.slice %149 [0:2, 0:8, 4:8] : (tensor<2x8x8xbf16>) -> tensor<2x8x4xbf16> "xla__select"
    %151 = stablehlo.slice %149 [0:2, 0:8, 0:4] : (tensor<2x8x8xbf16>) -> tensor<2x8x4xbf16> "xla__select"
    %152 = stablehlo.negate %151 : tensor<2x8x4xbf16> "aten__neg"
    %153 = stablehlo.concatenate %150, %152, dim = 2 : (tensor<2x8x4xbf16>, tensor<2x8x4xbf16>) -> tensor<2x8x8xbf16> "aten__cat"
    %154 = stablehlo.add %147, %153 : tensor<2x8x8xbf16> "aten__add.26/aten__add"
    %155 = stablehlo.transpose %154, dims = [1, 0, 2] {result_layout = dense<[2, 0, 1]> : tensor<3xindex>, xla_shape = "bf16[8,2,8]{2,0,1}"} : (tensor<2x8x8xbf16>) -> tensor<8x2x8xbf16> "aten__permute"
    %156 = stablehlo.reshape %155 : (tensor<8x2x8xbf16>) -> tensor<8x16xbf16> "aten__view"
    %157 = stablehlo.transpose %arg2, dims = [1, 0] {result_layout = dense<[0, 1]> : tensor<2xindex>, xla_shape = "bf16[16,16]{0,1}"} : (tensor<16x16xbf16>) -> tensor<16x16xbf16> "aten__permute"
    %158 = stablehlo.dot_general %156, %157, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<8x16xbf16>, tensor<16x16xbf16>) -> tensor<8x16xbf16> "aten__mm"
    %159 = stablehlo.convert %158 : (tensor<8x16xbf16>) -> tensor<8x16xf32> "xla__cast"
    %160 = stablehlo.multiply %159, %16 : tensor<8x16xf32> "aten__mul.27/aten__mul"
    %161 = stablehlo.convert %160 : (tensor<8x16xf32>) -> tensor<8x16xbf16> "xla__cast"
    %162 = stablehlo.reduce(%161 init: %cst_2) applies stablehlo.add across dimensions = [0] : (tensor<8x16xbf16>, tensor<bf16>) -> tensor<16xbf16> "aten__sum"
    %163 = stablehlo.add %109, %162 : tensor<16xbf16> "aten__add.28/aten__add"
    %164 = stablehlo.transpose %18, dims = [1, 0] {result_layout = dense<[0, 1]> : tensor<2xindex>, xla_shape = "bf16[16,8]{0,1}"} : (tensor<8x16xbf16>) -> tensor<16x8xbf16> "aten__permute"
    %165 = stablehlo.dot_general %164, %156, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<16x8xbf16>, tensor<8x16xbf16>) -> tensor<16x16xbf16> "aten__mm"
    %166 = stablehlo.transpose %63, dims = [1, 0] {result_layout = dense<[0, 1]> : tensor<2xindex>, xla_shape = "bf16[16,8]{0,1}"} : (tensor<8x16xbf16>) -> tensor<16x8xbf16> "aten__permute"
    %167 = stablehlo.dot_general %166, %84, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<16x8xbf16>, tensor<8x32xbf16>) -> tensor<16x32xbf16> "aten__mm"
    %168 = stablehlo.dot_general %166, %102, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<16x8xbf16>, tensor<8x32xbf16>) -> tensor<16x32xbf16> "aten__mm"
    %169 = stablehlo.transpose %71, dims = [1, 0] {result_layout = dense<[0, 1]> : tensor<2xindex>, xla_shape = "bf16[32,8]{0,1}"} : (tensor<8x32xbf16>) -> tensor<32x8xbf16> "aten__permute"
    %170 = stablehlo.dot_general %169, %79, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<32x8xbf16>, tensor<8x16xbf16>) -> tensor<32x16xbf16> "aten__mm"
    return %163, %165, %167, %168, %170 : tensor<16xbf16>, tensor<16x16xbf16>, tensor<16x32xbf16>, tensor<16x32xbf16>, tensor<32x16xbf16> [unknown]
  } [unknown]
} [unknown]
#loc = [unknown]
#loc11 = "aten__pow"
#loc12 = dumped/model.py:111:0
#loc13 = "aten__div"
#loc14 = dumped/model.py:105:0
#loc15 = dumped/model.py:112:0
#loc16 = site-packages/torch/nn/functional.py:2371:0
#loc17 = dumped/model.py:115:0
#loc18 = "aten__mul.1/aten__mul"
#loc19 = "aten__mul.2/aten__mul"
#loc20 = "xla__cast"
#loc21 = "aten__permute"
#loc22 = "aten__mm"
#loc23 = "aten__mul.3/aten__mul"
#loc24 = "aten__mul.4/aten__mul"
#loc25 = "aten__sub.5/aten__sub"
#loc26 = "aten__mul.6/aten__mul"
#loc27 = "aten__add.7/aten__add"
#loc28 = "aten__mul.8/aten__mul"
#loc29 = "aten__mul.9/aten__mul"
#loc30 = "aten__add.10/aten__add"
#loc31 = "aten__mul.12/aten__mul"
#loc32 = "aten__sum"
#loc33 = "aten__mul.11/aten__mul"
#loc34 = "aten__mul.14/aten__mul"
#loc35 = "aten__mul.13/aten__mul"
#loc36 = "aten__mul.15/aten__mul"
#loc37 = "aten__mul.16/aten__mul"
#loc38 = "aten__expand"
#loc39 = "aten__mul.18/aten__mul"
#loc40 = "aten__add.19/aten__add"
#loc41 = "aten__add.20/aten__add"
#loc42 = "aten__add.21/aten__add"
#loc43 = "aten__view"
#loc44 = "aten__matmul"
#loc45 = "aten___softmax_backward_data"
#loc46 = "aten__add.22/aten__add"
#loc47 = "aten__add.23/aten__add"
#loc48 = "aten__mul.25/aten__mul"
#loc49 = "aten__mul.24/aten__mul"
#loc50 = "xla__select"
#loc51 = "aten__neg"
#loc52 = "aten__cat"
#loc53 = "aten__add.26/aten__add"
#loc54 = "aten__mul.27/aten__mul"
#loc55 = "aten__add.28/aten__add"
#loc65 = "step"(#loc12)
#loc66 = "rotated"(#loc14)
#loc67 = "step"(#loc15)
#loc68 = "silu"(#loc16)
#loc69 = "step"(#loc17)
#loc75 = #loc65
 at #loc71
#loc76 = #loc67
 at #loc71
#loc77 = #loc69
 at #loc71
#loc83 = "aten__softmax"(#loc75)
#loc84 = "aten__mm"(#loc73)
#loc85 = "aten__view"(#loc73)
#loc86 = "aten__permute"(#loc73)
#loc87 = #loc66
 at #loc73
#loc88 = "aten__permute"(#loc75)
#loc89 = "aten__matmul"(#loc75)
#loc90 = "aten__view"(#loc75)
#loc91 = "aten__add.8/aten__add"(#loc75)
#loc92 = #loc61
 at #loc76
#loc93 = #loc56
 at #loc76
#loc94 = "aten__mm"(#loc74)
#loc95 = #loc68
 at #loc74
#loc96 = "xla__cast"(#loc74)
#loc97 = "aten__mul.13/aten__mul"(#loc74)
#loc98 = "aten__add.14/aten__add"(#loc74)
#loc99 = "xla__cast"(#loc77)
#loc103 = "xla__cast"(#loc78)
#loc104 = "aten__mul.4/aten__mul"(#loc78)
#loc105 = "xla__cast"(#loc79)
#loc106 = "aten__mul.1/aten__mul"(#loc78)
#loc107 = "aten__mean"(#loc78)
#loc108 = "aten__add.2/aten__add"(#loc78)
#loc109 = "aten__rsqrt"(#loc78)
#loc110 = "aten__mul.3/aten__mul"(#loc78)
#loc111 = "xla__cast"(#loc81)
#loc112 = "aten__mul.5/aten__mul"(#loc81)
#loc113 = "aten__split"(#loc87)
#loc114 = "aten__neg"(#loc81)
#loc115 = "aten__cat"(#loc81)
#loc116 = "aten__mul.6/aten__mul"(#loc81)
#loc117 = "aten__add.7/aten__add"(#loc81)
#loc118 = "xla__cast"(#loc92)
#loc119 = "aten__mul.9/aten__mul"(#loc93)
#loc120 = "aten__mean"(#loc93)
#loc121 = "aten__add.10/aten__add"(#loc93)
#loc122 = "aten__rsqrt"(#loc93)
#loc123 = "aten__mul.11/aten__mul"(#loc93)
#loc124 = "xla__cast"(#loc93)
#loc125 = "aten__mul.12/aten__mul"(#loc93)
#loc126 = "aten__silu"(#loc95)

#loc1 = dumped/model.py:119:0
#loc2 = dumped/model.py:95:0
#loc3 = dumped/model.py:126:0
#loc4 = "<lambda>"(#loc1)
#loc5 = "dump"(#loc2)
#loc6 = "torch_xla_dumps"(#loc1)
#loc7 = "<module>"(#loc3)
#loc8 = #loc6
 at #loc7
#loc9 = #loc5
 at #loc8
#loc10 = #loc4
 at #loc9
#loc11 = "xla__device_data"(#loc10)
module @IrToHlo.20 attributes {mhlo.cross_program_prefetches = [], mhlo.input_output_alias = [], mhlo.is_dynamic = false, mhlo.use_auto_spmd_partitioning = false} {
  func.func @main(%arg0: tensor<4x64xbf16> "xla__device_data"(#loc10)) -> tensor<4x64xbf16> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<bf16> "aten__softmax"(#loc10)
    %cst_0 = stablehlo.constant dense<0xFF80> : tensor<bf16> "aten__softmax"(#loc10)
    %0 = stablehlo.reduce(%arg0 init: %cst_0) applies stablehlo.maximum across dimensions = [1] : (tensor<4x64xbf16>, tensor<bf16>) -> tensor<4xbf16> "aten__softmax"(#loc10)
    %1 = stablehlo.broadcast_in_dim %0, dims = [0] : (tensor<4xbf16>) -> tensor<4x64xbf16> "aten__softmax"(#loc10)
    %2 = stablehlo.subtract %arg0, %1 : tensor<4x64xbf16> "aten__softmax"(#loc10)
    %3 = stablehlo.exponential %2 : tensor<4x64xbf16> "aten__softmax"(#loc10)
    %4 = stablehlo.reduce(%3 init: %cst) applies stablehlo.add across dimensions = [1] : (tensor<4x64xbf16>, tensor<bf16>) -> tensor<4xbf16> "aten__softmax"(#loc10)
    %5 = stablehlo.broadcast_in_dim %4, dims = [0] : (tensor<4xbf16>) -> tensor<4x64xbf16> "aten__softmax"(#loc10)
    %6 = stablehlo.divide %3, %5 : tensor<4x64xbf16> "aten__softmax"(#loc10)
    return %6 : tensor<4x64xbf16> [unknown]
  } [unknown]
} [unknown]
#loc = [unknown]
#loc12 = "aten__softmax"(#loc10)

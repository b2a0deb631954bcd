#loc1 = dumped/model.py:117:0
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
module @IrToHlo.8 attributes {mhlo.cross_program_prefetches = [], mhlo.input_output_alias = [], mhlo.is_dynamic = false, mhlo.use_auto_spmd_partitioning = false} {
  func.func @main(%arg0: tensor<4x4xbf16> "xla__device_data"(#loc10), %arg1: tensor<4x4xbf16> "xla__device_data"(#loc10)) -> tensor<4x4xbf16> {
    %0 = stablehlo.convert %arg1 : (tensor<4x4xbf16>) -> tensor<4x4xf32> "xla__cast"(#loc10)
    %1 = stablehlo.convert %arg0 : (tensor<4x4xbf16>) -> tensor<4x4xf32> "xla__cast"(#loc10)
    %2 = stablehlo.multiply %0, %1 : tensor<4x4xf32> "aten__mul.1/aten__mul"(#loc10)
    %3 = stablehlo.convert %2 : (tensor<4x4xf32>) -> tensor<4x4xbf16> "xla__cast"(#loc10)
    return %3 : tensor<4x4xbf16> [unknown]
  } [unknown]
} [unknown]
#loc = [unknown]
#loc12 = "xla__cast"(#loc10)
#loc13 = "aten__mul.1/aten__mul"(#loc10)

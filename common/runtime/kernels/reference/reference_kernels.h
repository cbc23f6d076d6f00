#pragma once

// The reference backend, with one registration function for each family of operators. Its kernels
// are plain loops that follow the operators' definitions and accumulate in double, for float32,
// float64 and the integer types. Tests compare the fast kernels with the reference kernels, and a
// fast kernel falls back to the reference kernel for types that need no speed.

#include "common/runtime/kernel/kernel_registry.h"

namespace cohort {

// Registers Add, Sub, Mul, Div, Equal, Neg, Sqrt, Exp, Log, Relu, Sigmoid, Tanh, ReluGrad,
// SigmoidGrad, TanhGrad, Dropout, DropoutGrad and RandomNormalLike.
void RegisterReferenceElementwise(KernelRegistry& registry);
// Registers MatMul and Gemm.
void RegisterReferenceMatMul(KernelRegistry& registry);
// Registers Softmax, LogSoftmax, CategoricalCrossentropy, SparseCategoricalCrossentropy and their
// gradients.
void RegisterReferenceSoftmaxAndLosses(KernelRegistry& registry);
// Registers SoftmaxCrossEntropyLoss and SoftmaxCrossEntropyGrad.
void RegisterReferenceOnnxLoss(KernelRegistry& registry);
// Registers ReduceSum, ReduceMean, ArgMax, ReduceGrad and ReduceToShapeOf.
void RegisterReferenceReduce(KernelRegistry& registry);
// Registers Transpose, Concat, Cast and ConcatGrad.
void RegisterReferenceMovement(KernelRegistry& registry);
// Registers Gather, OneHot and GatherGrad.
void RegisterReferenceIndexing(KernelRegistry& registry);
// Registers ClipByNorm and ClipByValue.
void RegisterReferenceClipping(KernelRegistry& registry);
// Registers Conv, ConvInputGrad and ConvWeightGrad.
void RegisterReferenceConvolution(KernelRegistry& registry);
// Registers MaxPool, AveragePool, GlobalAveragePool, MaxPoolGrad and AveragePoolGrad.
void RegisterReferencePooling(KernelRegistry& registry);
// Registers BatchNormalization and BatchNormalizationGrad.
void RegisterReferenceBatchNormalization(KernelRegistry& registry);
// Registers the functions of one tensor that elementwise.cc lacks, and UnaryGrad.
void RegisterReferenceElementwiseUnary(KernelRegistry& registry);
// Registers comparisons, logic, Where, Clip and the arithmetic that elementwise.cc lacks.
void RegisterReferenceElementwiseBinary(KernelRegistry& registry);
// Registers the reductions that reduce.cc lacks, CumSum and TopK.
void RegisterReferenceReduceMore(KernelRegistry& registry);
// Registers Slice, Pad, Expand, Tile and their gradients.
void RegisterReferenceMovementMore(KernelRegistry& registry);
// Registers Split, Trilu, ReverseSequence, Range and ConstantOfShape.
void RegisterReferenceMovementParts(KernelRegistry& registry);
// Registers GatherElements, GatherND, ScatterElements, ScatterND and GatherNDGrad.
void RegisterReferenceScatter(KernelRegistry& registry);
// Registers Einsum and EinsumGrad.
void RegisterReferenceEinsum(KernelRegistry& registry);
// Registers ConvTranspose and its gradients.
void RegisterReferenceConvTranspose(KernelRegistry& registry);
// Registers Resize and its gradient.
void RegisterReferenceResize(KernelRegistry& registry);
// Registers LayerNormalization, InstanceNormalization, GroupNormalization and their gradients.
void RegisterReferenceLayerNorm(KernelRegistry& registry);
// Registers LSTM, GRU, RNN, Recurrent and RecurrentGrad.
void RegisterReferenceRecurrent(KernelRegistry& registry);
// Registers CtcLoss and its gradient.
void RegisterReferenceCtc(KernelRegistry& registry);

}  // namespace cohort

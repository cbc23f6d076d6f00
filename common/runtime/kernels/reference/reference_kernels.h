#pragma once

// The reference backend, with one registration function for each family of operators. Its kernels
// are plain loops that follow the operators' definitions and accumulate in double, for float32,
// float64 and the integer types. Tests compare the fast kernels with the reference kernels, and a
// fast kernel falls back to the reference kernel for types that need no speed.

#include "common/runtime/kernel/kernel_registry.h"

namespace cohort {

// Registers Add, Sub, Mul, Div, Equal, Neg, Sqrt, Exp, Log, Relu, Sigmoid, Tanh, ReluGrad,
// SigmoidGrad, TanhGrad, Dropout and DropoutGrad.
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

}  // namespace cohort

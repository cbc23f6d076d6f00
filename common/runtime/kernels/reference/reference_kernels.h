#pragma once

// The reference backend, one function per operator family. Plain loops that follow the operators'
// definitions, with double accumulation, for float32, float64 and the integer types: what the fast
// kernels are compared with, and what they fall back to for types that need no speed.

#include "common/runtime/kernel/kernel_registry.h"

namespace cohort {

// Add, Sub, Mul, Div, Equal.
void RegisterReferenceBinary(KernelRegistry& registry);
// Neg, Sqrt, Exp, Log, Relu, Sigmoid, Tanh; ReluGrad, SigmoidGrad, TanhGrad.
void RegisterReferenceUnary(KernelRegistry& registry);
// MatMul, Gemm.
void RegisterReferenceMatMul(KernelRegistry& registry);
// Softmax, LogSoftmax; SoftmaxGrad, LogSoftmaxGrad.
void RegisterReferenceSoftmax(KernelRegistry& registry);
// SoftmaxCrossEntropyLoss; SoftmaxCrossEntropyGrad.
void RegisterReferenceOnnxLoss(KernelRegistry& registry);
// CategoricalCrossentropy, SparseCategoricalCrossentropy and their gradients.
void RegisterReferenceKerasLosses(KernelRegistry& registry);
// ReduceSum, ReduceMean, ArgMax; ReduceGrad, ReduceToShapeOf.
void RegisterReferenceReduce(KernelRegistry& registry);
// Transpose, Concat, Cast; ConcatGrad.
void RegisterReferenceMovement(KernelRegistry& registry);
// Gather, OneHot; GatherGrad.
void RegisterReferenceIndexing(KernelRegistry& registry);
// Dropout; DropoutGrad.
void RegisterReferenceDropout(KernelRegistry& registry);
// ClipByNorm, ClipByValue.
void RegisterReferenceClipping(KernelRegistry& registry);
// Conv; ConvInputGrad, ConvWeightGrad.
void RegisterReferenceConvolution(KernelRegistry& registry);
// MaxPool, AveragePool, GlobalAveragePool; MaxPoolGrad, AveragePoolGrad.
void RegisterReferencePooling(KernelRegistry& registry);
// BatchNormalization; BatchNormalizationGrad.
void RegisterReferenceBatchNormalization(KernelRegistry& registry);

}  // namespace cohort

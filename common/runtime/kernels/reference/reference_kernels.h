#pragma once

// The reference backend, one function per operator family. Plain loops that follow the operators'
// definitions, with double accumulation, for float32, float64 and the integer types: what the fast
// kernels are compared with, and what they fall back to for types that need no speed.

#include "common/runtime/kernel/kernel_registry.h"

namespace cohort {

// Adds Add, Sub, Mul, Div, Equal.
void RegisterReferenceBinary(KernelRegistry& registry);
// Adds Neg, Sqrt, Exp, Log, Relu, Sigmoid, Tanh; ReluGrad, SigmoidGrad, TanhGrad.
void RegisterReferenceUnary(KernelRegistry& registry);
// Adds MatMul, Gemm.
void RegisterReferenceMatMul(KernelRegistry& registry);
// Adds Softmax, LogSoftmax; SoftmaxGrad, LogSoftmaxGrad.
void RegisterReferenceSoftmax(KernelRegistry& registry);
// Adds SoftmaxCrossEntropyLoss; SoftmaxCrossEntropyGrad.
void RegisterReferenceOnnxLoss(KernelRegistry& registry);
// Adds CategoricalCrossentropy, SparseCategoricalCrossentropy and their gradients.
void RegisterReferenceKerasLosses(KernelRegistry& registry);
// Adds ReduceSum, ReduceMean, ArgMax; ReduceGrad, ReduceToShapeOf.
void RegisterReferenceReduce(KernelRegistry& registry);
// Adds Transpose, Concat, Cast; ConcatGrad.
void RegisterReferenceMovement(KernelRegistry& registry);
// Adds Gather, OneHot; GatherGrad.
void RegisterReferenceIndexing(KernelRegistry& registry);
// Adds Dropout; DropoutGrad.
void RegisterReferenceDropout(KernelRegistry& registry);
// Adds ClipByNorm, ClipByValue.
void RegisterReferenceClipping(KernelRegistry& registry);
// Adds Conv; ConvInputGrad, ConvWeightGrad.
void RegisterReferenceConvolution(KernelRegistry& registry);
// Adds MaxPool, AveragePool, GlobalAveragePool; MaxPoolGrad, AveragePoolGrad.
void RegisterReferencePooling(KernelRegistry& registry);
// Adds BatchNormalization; BatchNormalizationGrad.
void RegisterReferenceBatchNormalization(KernelRegistry& registry);

}  // namespace cohort

#include "common/runtime/kernels/reference/register.h"

#include "common/runtime/kernels/reference/reference_kernels.h"
#include "common/runtime/kernels/shape_kernels.h"

namespace cohort {

void RegisterReferenceKernels(KernelRegistry& registry) {
  RegisterShapeKernels(registry);
  RegisterReferenceElementwise(registry);
  RegisterReferenceMatMul(registry);
  RegisterReferenceSoftmaxAndLosses(registry);
  RegisterReferenceOnnxLoss(registry);
  RegisterReferenceReduce(registry);
  RegisterReferenceMovement(registry);
  RegisterReferenceIndexing(registry);
  RegisterReferenceClipping(registry);
  RegisterReferenceConvolution(registry);
  RegisterReferencePooling(registry);
  RegisterReferenceBatchNormalization(registry);
  RegisterReferenceElementwiseUnary(registry);
  RegisterReferenceElementwiseBinary(registry);
  RegisterReferenceReduceMore(registry);
  RegisterReferenceMovementMore(registry);
  RegisterReferenceMovementParts(registry);
  RegisterReferenceScatter(registry);
  RegisterReferenceEinsum(registry);
  RegisterReferenceConvTranspose(registry);
  RegisterReferenceResize(registry);
  RegisterReferenceLayerNorm(registry);
  RegisterReferenceRecurrent(registry);
  RegisterReferenceCtc(registry);
}

}  // namespace cohort

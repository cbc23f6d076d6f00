#pragma once

// The part that the kernels of a device share. A kernel computes float32 (with labels, indices and
// masks beside it); a node of any other type stays on the processor, as it does if the kernel's
// factory answers UNIMPLEMENTED. A kernel posts its work to its replica's stream and returns; the
// stream keeps what fails on the device, and the runner asks the stream. No kernel here touches the
// memory of a device.

#include <string>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/runtime/cuda/cuda_stream.h"
#include "common/runtime/kernels/kernel_support.h"

namespace cohort {

// Returns where the elements of `tensor` lie on the device.
template <typename T>
const T* OnDevice(const Tensor& tensor) {
  COHORT_CHECK(tensor.num_elements() == 0 || IsOnDevice(tensor), "a device reads its own memory");
  return tensor.data<T>();
}
template <typename T>
T* OnDevice(Tensor& tensor) {
  COHORT_CHECK(tensor.num_elements() == 0 || IsOnDevice(tensor), "a device writes its own memory");
  return tensor.mutable_data<T>();
}

inline constexpr DTypeSet kFloat32 = {DType::kFloat32};

// Defines a kernel; `places` has one entry per input like Signature.inputs, and the last one counts
// for all after it.
KernelDefinition DeviceKernel(Signature signature, std::vector<InputPlace> places,
                              absl::Status (*run)(KernelContext&));

template <typename Parameters>
KernelDefinition DeviceKernel(Signature signature, std::vector<InputPlace> places,
                              Parameters (*parse)(AttributeReader&),
                              absl::Status (*run)(KernelContext&, const Parameters&)) {
  KernelDefinition definition = BoundKernel<Parameters>(std::move(signature), parse, run);
  definition.places = std::move(places);
  return definition;
}

// Add the kernels of one file each.
void RegisterCudaBatchNormalization(KernelRegistry& registry);
void RegisterCudaConvolution(KernelRegistry& registry);
void RegisterCudaCopies(KernelRegistry& registry);
void RegisterCudaDropout(KernelRegistry& registry);
void RegisterCudaElementwise(KernelRegistry& registry);
void RegisterCudaLosses(KernelRegistry& registry);
void RegisterCudaPooling(KernelRegistry& registry);
void RegisterCudaProducts(KernelRegistry& registry);
void RegisterCudaReduce(KernelRegistry& registry);
void RegisterCudaShapes(KernelRegistry& registry);
void RegisterCudaSoftmax(KernelRegistry& registry);

}  // namespace cohort

#pragma once

// Helpers that the kernels of a CUDA device share. A kernel computes in float32; labels, indices
// and masks may have other types. A node of any other type runs on the processor, and so does a
// node for which the kernel's factory returns UNIMPLEMENTED. A kernel posts its work to the stream
// of its replica and returns. The stream keeps the device's failures, and the runner reads them
// from the stream. No code in this folder touches a device's memory.

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/check.h"
#include "common/runtime/cuda/cuda_stream.h"
#include "common/runtime/kernels/broadcast.h"
#include "common/runtime/kernels/kernel_support.h"

namespace cohort {

// Returns the elements of `tensor`, which must be in the device's memory.
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

// Defines a kernel of a device. `places` tells for each input whether the kernel wants it in the
// device's or in host memory; the last entry counts for all further inputs.
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

// Converts merged axes to a BroadcastWalk for a device. Errors: INVALID_ARGUMENT for more than
// kWalkAxesMax axes.
absl::StatusOr<BroadcastWalk> MakeWalk(const std::vector<BroadcastAxis>& axes);

// Each of these functions registers the kernels of one file of this folder.
void RegisterCudaBatchNormalization(KernelRegistry& registry);
void RegisterCudaConvolution(KernelRegistry& registry);
void RegisterCudaCopies(KernelRegistry& registry);
void RegisterCudaElementwise(KernelRegistry& registry);
void RegisterCudaPooling(KernelRegistry& registry);
void RegisterCudaProducts(KernelRegistry& registry);
void RegisterCudaReduce(KernelRegistry& registry);
void RegisterCudaSoftmaxAndLosses(KernelRegistry& registry);

}  // namespace cohort

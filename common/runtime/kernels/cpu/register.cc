#include "common/runtime/kernels/cpu/register.h"

#include "common/base/check.h"
#include "common/runtime/kernels/cpu/fast_kernel.h"
#include "common/runtime/kernels/reference/register.h"
#include "common/runtime/kernels/shape_kernels.h"

namespace cohort {

const KernelDefinition& CpuRegistration::Reference(const std::string& domain,
                                                   const std::string& op) const {
  const KernelDefinition* definition = reference.Find(domain, op);
  COHORT_CHECK(definition != nullptr, "the reference has every operator");
  return *definition;
}

void CpuRegistration::KeepOthers() const {
  for (const auto& [domain, op] : reference.Names()) {
    if (registry.Find(domain, op) == nullptr) registry.Add(domain, op, Reference(domain, op));
  }
}

void RegisterCpuKernels(KernelRegistry& registry, int threads) {
  COHORT_CHECK(threads >= 1, "at least one thread computes");
  // The registry with the reference kernels, to which fast kernels fall back; it is needed only
  // during registration.
  KernelRegistry reference;
  RegisterReferenceKernels(reference);
  const CpuRegistration registration = {registry, reference};
  RegisterShapeKernels(registry);
  RegisterCpuElementwise(registration);
  RegisterCpuSoftmaxAndLosses(registration);
  RegisterCpuReduce(registration);
  RegisterCpuClipping(registration);
  RegisterCpuMovement(registration);
  RegisterCpuMatMul(registration, threads);
  RegisterCpuEinsum(registration, threads);
  RegisterCpuConvolution(registration, threads);
  RegisterCpuImage(registration);
  RegisterCpuBatchNormalization(registration);
  RegisterCpuElementwiseUnary(registration);
  RegisterCpuLayerNorm(registration);
  RegisterCpuRecurrent(registration, threads);
  registration.KeepOthers();
}

}  // namespace cohort

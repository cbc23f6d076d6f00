#pragma once

// Fast kernels of the processor. A fast kernel computes the common case (float32, and a layout that
// suits its loop) and returns whether it did. In all other cases, errors included, the operator's
// reference kernel runs.

#include <algorithm>
#include <bit>
#include <memory>
#include <string>
#include <utility>

#include "common/runtime/kernels/kernel_support.h"

namespace cohort {

// The registry to which the processor's kernels are added, and the registry that has the reference
// kernels.
struct CpuRegistration {
  KernelRegistry& registry;
  const KernelRegistry& reference;

  const KernelDefinition& Reference(const std::string& domain, const std::string& op) const;
  // Adds the reference kernel of each operator for which the registry has no kernel. Such operators
  // take little time in training.
  void KeepOthers() const;

  // Adds a fast kernel of an operator. `fast` returns false if the reference kernel has to run
  // instead; `fast` must then not have allocated an output.
  template <typename Parameters>
  void Add(const std::string& domain, const std::string& op, Parameters (*parse)(AttributeReader&),
           bool (*fast)(KernelContext&, const Parameters&)) const {
    // A kernel that calls the fast function, and then the reference kernel if the fast function has
    // returned false. Immutable; thread-safe.
    class Fast : public Kernel {
     public:
      Fast(Parameters parameters, bool (*fast)(KernelContext&, const Parameters&),
           std::unique_ptr<Kernel> reference)
          : parameters_(std::move(parameters)), fast_(fast), reference_(std::move(reference)) {}
      absl::Status Run(KernelContext& context) const override {
        return fast_(context, parameters_) ? absl::OkStatus() : reference_->Run(context);
      }

     private:
      const Parameters parameters_;
      bool (*const fast_)(KernelContext&, const Parameters&);
      const std::unique_ptr<Kernel> reference_;
    };
    const KernelDefinition slow = Reference(domain, op);
    const auto make = [make_slow = slow.make, parse, fast](
                          const onnx::NodeProto& node) -> absl::StatusOr<std::unique_ptr<Kernel>> {
      // The reference kernel's factory has already checked the node's attributes, so Finish is not
      // called on this second AttributeReader.
      ASSIGN_OR_RETURN(std::unique_ptr<Kernel> kernel, make_slow(node));
      AttributeReader reader(node);
      return std::make_unique<Fast>(parse(reader), fast, std::move(kernel));
    };
    registry.Add(domain, op, {slow.signature, make});
  }

  struct NoParameters {};
  static NoParameters ParseNothing(AttributeReader&) { return {}; }
};

inline bool IsFloat32(const Tensor& tensor) { return tensor.dtype() == DType::kFloat32; }
// Returns whether both tensors are float32 and have the same shape.
inline bool AreFloat32Twins(const Tensor& a, const Tensor& b) {
  return IsFloat32(a) && IsFloat32(b) && a.shape() == b.shape();
}

// Returns `bytes` rounded up by at most a quarter, so that similar sizes share buffers of the pool.
inline size_t PooledBytes(size_t bytes) {
  const size_t unit = std::bit_floor(std::max<size_t>(bytes, 256)) / 4;
  return (bytes + unit - 1) / unit * unit;
}

void RegisterCpuElementwise(const CpuRegistration& registration);
void RegisterCpuSoftmaxAndLosses(const CpuRegistration& registration);
void RegisterCpuReduce(const CpuRegistration& registration);
void RegisterCpuClipping(const CpuRegistration& registration);
void RegisterCpuMovement(const CpuRegistration& registration);
void RegisterCpuMatMul(const CpuRegistration& registration, int threads);
void RegisterCpuEinsum(const CpuRegistration& registration, int threads);
void RegisterCpuConvolution(const CpuRegistration& registration, int threads);
void RegisterCpuImage(const CpuRegistration& registration);
void RegisterCpuBatchNormalization(const CpuRegistration& registration);
void RegisterCpuElementwiseUnary(const CpuRegistration& registration);
void RegisterCpuLayerNorm(const CpuRegistration& registration);
void RegisterCpuRecurrent(const CpuRegistration& registration, int threads);

}  // namespace cohort

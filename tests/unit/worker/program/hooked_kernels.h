#pragma once

// Kernels that call a test after each node.

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "common/base/status.h"
#include "common/runtime/kernel/kernel_registry.h"
#include "common/runtime/kernels/reference/register.h"

namespace cohort {

// Gets the node's name; an error is that of the node.
using NodeHook = std::function<absl::Status(const std::string& node)>;

// Immutable; thread-safe if the hook is.
class HookedKernel final : public Kernel {
 public:
  HookedKernel(std::unique_ptr<Kernel> inner, std::string node, NodeHook hook)
      : inner_(std::move(inner)), node_(std::move(node)), hook_(std::move(hook)) {}

  absl::Status Run(KernelContext& context) const override {
    RETURN_IF_ERROR(inner_->Run(context));
    return hook_(node_);
  }

 private:
  const std::unique_ptr<Kernel> inner_;
  const std::string node_;
  const NodeHook hook_;
};

// The reference kernels, hooked.
inline KernelRegistry HookedKernels(const NodeHook& hook) {
  KernelRegistry kernels;
  RegisterReferenceKernels(kernels);
  for (const auto& [domain, op] : kernels.Names()) {
    KernelDefinition definition = *kernels.Find(domain, op);
    definition.make = [inner = definition.make, hook](
                          const onnx::NodeProto& node) -> absl::StatusOr<std::unique_ptr<Kernel>> {
      ASSIGN_OR_RETURN(std::unique_ptr<Kernel> kernel, inner(node));
      return std::make_unique<HookedKernel>(std::move(kernel), node.name(), hook);
    };
    kernels.Replace(domain, op, std::move(definition));
  }
  return kernels;
}

}  // namespace cohort

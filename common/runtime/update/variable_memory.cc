#include "common/runtime/update/variable_memory.h"

#include "common/runtime/update/make_update_kernel.h"

namespace cohort {

namespace {

class HostVariableMemory : public VariableMemory {
 public:
  absl::StatusOr<std::shared_ptr<Buffer>> Allocate(size_t bytes) override {
    return Buffer::Allocate(bytes);
  }
  absl::StatusOr<std::unique_ptr<UpdateKernel>> MakeKernel(const proto::UpdateRule& rule) override {
    return MakeUpdateKernel(rule);
  }
  bool in_one_piece() const override { return false; }
};

}  // namespace

const std::shared_ptr<VariableMemory>& HostMemory() {
  // The object of the host's memory is never destroyed, because kernels and buffers may still use
  // it while the process exits.
  static const auto& memory = *new std::shared_ptr<VariableMemory>(new HostVariableMemory);
  return memory;
}

}  // namespace cohort

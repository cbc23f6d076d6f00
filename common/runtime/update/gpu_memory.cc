#include "common/runtime/update/gpu_memory.h"

#include <cstdlib>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/log.h"
#include "common/base/mutex.h"
#include "common/base/status.h"
#include "common/runtime/cuda/cuda_stream.h"
#include "common/runtime/update/make_update_kernel.h"

namespace cohort {

namespace {

// The stream on which a home (a process that keeps variables) updates the variables in a GPU's
// memory, one update at a time. Thread-safe.
class UpdateStream {
 public:
  explicit UpdateStream(std::shared_ptr<CudaStream> stream) : stream_(std::move(stream)) {}

  absl::StatusOr<std::shared_ptr<Buffer>> Allocate(size_t bytes) {
    MutexLock lock(mutex_);
    std::shared_ptr<Buffer> buffer = stream_->AllocateUnified(bytes);
    // Wait resets the stream's error, so a failed allocation does not break later updates.
    RETURN_IF_ERROR(stream_->Wait());
    return buffer;
  }

  absl::StatusOr<std::unique_ptr<UpdateKernel>> MakeKernel(const proto::UpdateRule& rule) {
    MutexLock lock(mutex_);
    return MakePostedUpdateKernel(rule, *stream_);
  }

  // Runs one update and waits for its end. `kernel` must come from this object's MakeKernel.
  // Errors: RESOURCE_EXHAUSTED if the GPU has no room for a copy of the gradient, in which case
  // nothing was updated; UNAVAILABLE if the GPU has failed.
  absl::Status Apply(const UpdateKernel& kernel, const UpdateStep& step) {
    MutexLock lock(mutex_);
    if (step.gradient.empty() || stream_->Reaches(step.gradient.data())) {
      kernel.Apply(step);
    } else {
      ApplyCopied(kernel, step);
    }
    return stream_->Wait();
  }

 private:
  void ApplyCopied(const UpdateKernel& kernel, const UpdateStep& step)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const size_t count = step.gradient.size();
    const std::shared_ptr<Buffer> copy = stream_->Upload(
        {reinterpret_cast<const std::byte*>(step.gradient.data()), count * sizeof(float)});
    // If there was no room for the copy, the kernel must not start: it would make up for missed
    // steps on the processor, and GpuKernel::Apply, which then updates on the processor, would do
    // so a second time.
    if (!stream_->status().ok()) return;
    UpdateStep there = step;
    there.gradient = {reinterpret_cast<const float*>(copy->data()), count};
    kernel.Apply(there);
  }

  Mutex mutex_;
  std::shared_ptr<CudaStream> stream_ ABSL_GUARDED_BY(mutex_);
};

// Ends the process, because the GPU has failed and the values of its variables are lost.
[[noreturn]] void EndWithout(const absl::Status& status) {
  Log(LogLevel::kError, "variables_lost", {{"error", status.message()}});
  std::abort();
}

// The kernel for variables in a GPU's memory: updates whole slices on the GPU and single rows on
// the processor. Immutable; thread-safe.
class GpuKernel : public UpdateKernel {
 public:
  GpuKernel(std::shared_ptr<UpdateStream> stream, std::unique_ptr<UpdateKernel> posted,
            std::unique_ptr<UpdateKernel> here)
      : stream_(std::move(stream)), posted_(std::move(posted)), here_(std::move(here)) {}

  // Applies the update on the GPU. If the GPU has no room for a copy of the gradient, applies the
  // update on the processor, which reads the gradient in place. If the GPU has failed, ends the
  // process.
  void Apply(const UpdateStep& step) const override {
    const absl::Status status = stream_->Apply(*posted_, step);
    if (absl::IsResourceExhausted(status)) return here_->Apply(step);
    if (!status.ok()) EndWithout(status);
  }

  void ApplyRows(absl::Span<const RowUpdate> rows, UpdateStep& step) const override {
    here_->ApplyRows(rows, step);
  }

 private:
  // The stream, shared with the memory and with the memory's other kernels.
  const std::shared_ptr<UpdateStream> stream_;
  const std::unique_ptr<UpdateKernel> posted_;
  const std::unique_ptr<UpdateKernel> here_;  // the kernel of the same rule on the processor
};

class GpuMemory : public VariableMemory {
 public:
  explicit GpuMemory(std::shared_ptr<UpdateStream> stream) : stream_(std::move(stream)) {}

  absl::StatusOr<std::shared_ptr<Buffer>> Allocate(size_t bytes) override {
    return stream_->Allocate(bytes);
  }
  absl::StatusOr<std::unique_ptr<UpdateKernel>> MakeKernel(const proto::UpdateRule& rule) override {
    ASSIGN_OR_RETURN(std::unique_ptr<UpdateKernel> here, MakeUpdateKernel(rule));
    ASSIGN_OR_RETURN(std::unique_ptr<UpdateKernel> posted, stream_->MakeKernel(rule));
    return std::make_unique<GpuKernel>(stream_, std::move(posted), std::move(here));
  }
  bool in_one_piece() const override { return true; }

 private:
  // The stream, shared with the kernels, which may outlive this memory.
  const std::shared_ptr<UpdateStream> stream_;
};

}  // namespace

absl::StatusOr<std::shared_ptr<VariableMemory>> OpenGpuMemory(const CudaTable& table,
                                                              int32_t device) {
  ASSIGN_OR_RETURN(std::shared_ptr<CudaStream> opened, CudaStream::Open(table, device));
  const auto stream = std::make_shared<UpdateStream>(std::move(opened));
  // A trial allocation, so that a device without unified memory is refused when the memory is
  // opened and not only at the first variable.
  const auto tried = stream->Allocate(1);
  if (!tried.ok()) {
    return absl::FailedPreconditionError(
        absl::StrCat("variables cannot be kept on a GPU: ", tried.status().message(),
                     "; or keep them in host memory"));
  }
  return std::make_shared<GpuMemory>(stream);
}

}  // namespace cohort

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

// The use of one stream by a home's updates, one after the other. Thread-safe.
class UpdateStream {
 public:
  explicit UpdateStream(std::shared_ptr<CudaStream> stream) : stream_(std::move(stream)) {}

  absl::StatusOr<std::shared_ptr<Buffer>> Allocate(size_t bytes) {
    MutexLock lock(mutex_);
    std::shared_ptr<Buffer> buffer = stream_->AllocateUnified(bytes);
    RETURN_IF_ERROR(stream_->Wait());
    return buffer;
  }

  absl::StatusOr<std::unique_ptr<UpdateKernel>> MakeKernel(const proto::UpdateRule& rule) {
    MutexLock lock(mutex_);
    return MakePostedUpdateKernel(rule, *stream_);
  }

  // `kernel` is of this. Errors: RESOURCE_EXHAUSTED when there is no room for the gradient, and
  // nothing was done.
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
    if (!stream_->status().ok()) return;  // or the processor's part would be done
    UpdateStep there = step;
    there.gradient = {reinterpret_cast<const float*>(copy->data()), count};
    kernel.Apply(there);
  }

  Mutex mutex_;
  std::shared_ptr<CudaStream> stream_ ABSL_GUARDED_BY(mutex_);
};

[[noreturn]] void EndWithout(const absl::Status& status) {
  Log(LogLevel::kError, "variables_lost", {{"error", status.message()}});
  std::abort();
}

// Immutable; thread-safe.
class GpuKernel : public UpdateKernel {
 public:
  GpuKernel(std::shared_ptr<UpdateStream> stream, std::unique_ptr<UpdateKernel> posted,
            std::unique_ptr<UpdateKernel> here)
      : stream_(std::move(stream)), posted_(std::move(posted)), here_(std::move(here)) {}

  // The processor needs no room for the gradient.
  void Apply(const UpdateStep& step) const override {
    const absl::Status status = stream_->Apply(*posted_, step);
    if (absl::IsResourceExhausted(status)) return here_->Apply(step);
    if (!status.ok()) EndWithout(status);
  }

  void ApplyRows(absl::Span<const RowUpdate> rows, UpdateStep& step) const override {
    here_->ApplyRows(rows, step);
  }

 private:
  const std::shared_ptr<UpdateStream> stream_;  // shared with the other kernels
  const std::unique_ptr<UpdateKernel> posted_;
  const std::unique_ptr<UpdateKernel> here_;  // the processor's
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
  const std::shared_ptr<UpdateStream> stream_;  // shared with the kernels
};

}  // namespace

absl::StatusOr<std::shared_ptr<VariableMemory>> OpenGpuMemory(const CudaTable& table,
                                                              int32_t device) {
  ASSIGN_OR_RETURN(std::shared_ptr<CudaStream> opened, CudaStream::Open(table, device));
  const auto stream = std::make_shared<UpdateStream>(std::move(opened));
  // A device that has no such memory says so now.
  const auto tried = stream->Allocate(1);
  if (!tried.ok()) {
    return absl::FailedPreconditionError(
        absl::StrCat("variables cannot be kept on a GPU: ", tried.status().message(),
                     "; or keep them in host memory"));
  }
  return std::make_shared<GpuMemory>(stream);
}

}  // namespace cohort

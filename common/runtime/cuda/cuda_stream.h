#pragma once

// A stream of one device, on which one replica computes, and the memory that the stream allocates.
// Posted work runs later and in order. So memory may be released, and reused for later work of the
// same stream, while the device still uses it for earlier work.
//
// The stream keeps its first failure, and posts nothing more until Wait has taken that failure. So
// a kernel need not check whether its launches failed.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/runtime/cuda/cuda_table.h"
#include "common/runtime/kernel/output_pool.h"
#include "common/tensor/tensor.h"

namespace cohort {

// Returns whether the tensor is in memory of a device, which the processor must not touch. Returns
// false for unified memory.
bool IsOnDevice(const Tensor& tensor);

// One stream of a device. Thread-compatible. Tensors in the stream's memory may be dropped on any
// thread, and outlive the stream.
class CudaStream {
 public:
  // Opens a stream. `table` outlives the stream and its memory. Errors: FAILED_PRECONDITION, with
  // the reason, if the device is missing or cannot be used.
  static absl::StatusOr<std::shared_ptr<CudaStream>> Open(const CudaTable& table, int32_t device);
  ~CudaStream();
  CudaStream(const CudaStream&) = delete;
  CudaStream& operator=(const CudaStream&) = delete;

  // Returns the device's name, as in "gpu:1".
  const std::string& name() const { return name_; }

  // Returns the first failure since the last Wait: RESOURCE_EXHAUSTED if the device had no memory
  // left, else UNAVAILABLE with CUDA's words.
  const absl::Status& status() const { return status_; }

  // Returns memory of the device, if possible memory that was dropped before. If no memory is left,
  // status() becomes RESOURCE_EXHAUSTED, and the result is a placeholder without memory. A
  // placeholder may be passed to this stream only, and the stream posts no work that uses it.
  std::shared_ptr<Buffer> Allocate(size_t bytes);
  Tensor NewTensor(DType dtype, const Shape& shape);

  // Returns unified memory that resides on the device. The processor may use it as host memory,
  // except while posted work uses it. If no memory is left, status() becomes RESOURCE_EXHAUSTED,
  // and the result is a placeholder without memory.
  std::shared_ptr<Buffer> AllocateUnified(size_t bytes);

  // Returns whether posted work may use the memory in place: true for memory of this device and for
  // unified memory that resides on this device, no matter which stream allocated the memory.
  bool Reaches(const void* memory);
  // Returns a tensor of the device that shares the bytes of `reached`, for which Reaches() is true.
  // Posted work only reads the tensor. The caller must not change the bytes until Wait.
  Tensor InPlace(const Tensor& reached) const;

  // Copies a tensor from host memory to the device. The stream keeps the host tensor until Wait.
  Tensor Upload(const Tensor& host);
  // Copies bytes to the device. The caller keeps the bytes until Wait.
  std::shared_ptr<Buffer> Upload(absl::Span<const std::byte> host);
  // Copies `host` to the device. The caller must not change `host` until Wait.
  void CopyToDevice(const Tensor& host, Tensor& device);
  // Copies from the device to `host`. The bytes of `host` are valid once Wait has returned.
  void CopyToHost(const Tensor& device, Tensor& host);
  Tensor Clone(const Tensor& device);
  // Copies a tensor of the device into unified memory.
  Tensor CloneUnified(const Tensor& device);
  void FillZeros(Tensor& device);

  // Posts one kernel, as in stream.Launch(&CudaLaunches::elementwise, &ElementwiseLaunches::unary,
  // {...}).
  template <typename Family, typename What>
  void Launch(Family CudaLaunches::*family, Launcher<What> Family::*launch,
              const std::type_identity_t<What>& what) {
    if (!status_.ok()) return;
    Keep((table_.launches.*family.*launch)(context(), what), "starting a kernel");
  }

  // Blocks until all posted work has ended. Returns status() and resets it, so the stream can be
  // used again unless the device is broken.
  absl::Status Wait();

 private:
  class Context;
  class Allocated;
  class Memory;
  class Unified;
  class Reached;
  using AllocateMemory = int32_t (*CudaTable::*)(CudaContext*, uint64_t, void**);

  CudaStream(const CudaTable& table, int32_t device, std::shared_ptr<Context> context);
  CudaContext* context() const;
  void Keep(int32_t code, const char* doing);
  template <typename Kind>
  std::shared_ptr<Buffer> Fresh(AllocateMemory allocate, size_t bytes);
  void NoMemoryFor(size_t bytes, int32_t code);
  void CopyToDevice(void* device, const void* host, size_t bytes);
  Tensor CopyInto(std::shared_ptr<Buffer> buffer, const Tensor& device);

  const CudaTable& table_;
  const std::string name_;
  // The context, shared with the memory that the stream allocated.
  const std::shared_ptr<Context> context_;
  // The pools of device memory and of unified memory. Each is shared with its buffers in use, which
  // refer to their pool.
  const std::shared_ptr<OutputPool> pool_;
  const std::shared_ptr<OutputPool> unified_pool_;
  std::vector<Tensor> uploaded_;  // host tensors that are kept until Wait
  absl::Status status_;

  friend bool IsOnDevice(const Tensor& tensor);
};

}  // namespace cohort

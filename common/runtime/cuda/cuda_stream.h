#pragma once

// A stream of one device, on which one replica computes, and the memory that it uses. Everything
// that is posted runs in order, later; so memory may be given back, and handed out again for later
// work of the same stream, while the device still uses it.
//
// The first thing that fails is kept, and until it was taken nothing more is posted: a kernel need
// not look.

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

// Returns whether the bytes are a device's, which only the device may touch; false for unified
// memory.
bool IsOnDevice(const Tensor& tensor);

// Thread-compatible; tensors of its memory may be dropped on any thread, and outlive it.
class CudaStream {
 public:
  // Opens a stream. `table` outlives the stream and its memory. Errors: FAILED_PRECONDITION for a
  // device that is not there, or cannot be used, saying why.
  static absl::StatusOr<std::shared_ptr<CudaStream>> Open(const CudaTable& table, int32_t device);
  ~CudaStream();
  CudaStream(const CudaStream&) = delete;
  CudaStream& operator=(const CudaStream&) = delete;

  // Returns "gpu:1".
  const std::string& name() const { return name_; }

  // Returns the first failure since TakeStatus: RESOURCE_EXHAUSTED if the device has no memory
  // left, else UNAVAILABLE with CUDA's words.
  const absl::Status& status() const { return status_; }

  // Returns memory of the device, reusing what was dropped. If there is none left, status() says
  // so, and only this stream may use the result, on which it posts nothing.
  std::shared_ptr<Buffer> Allocate(size_t bytes);
  Tensor NewTensor(DType dtype, const Shape& shape);

  // Returns unified memory whose home is the device: for the processor, memory of the host that it
  // does not touch while posted work uses it. Otherwise like Allocate.
  std::shared_ptr<Buffer> AllocateUnified(size_t bytes);

  // Returns whether posted work may use the memory where it lies, whoever made it: memory of this
  // device, and unified memory whose home is the device.
  bool Reaches(const void* memory);
  // Returns the bytes of a tensor within the stream's reach as a tensor of the device. It is read,
  // not written, and stays as it is until Wait.
  Tensor InPlace(const Tensor& reached) const;

  // Copies a tensor in host memory, which lives until Wait, to the device.
  Tensor Upload(const Tensor& host);
  // Copies bytes that the caller keeps until Wait.
  std::shared_ptr<Buffer> Upload(absl::Span<const std::byte> host);
  // Copies `host`, which stays as it is until Wait.
  void CopyToDevice(const Tensor& host, Tensor& device);
  // Copies to `host`, which is written when Wait has returned.
  void CopyToHost(const Tensor& device, Tensor& host);
  Tensor Clone(const Tensor& device);
  // Copies into unified memory.
  Tensor CloneUnified(const Tensor& device);
  void FillZeros(Tensor& device);

  // Posts stream.Launch(&CudaLaunches::elementwise, &ElementwiseLaunches::unary, {...}).
  template <typename Family, typename What>
  void Launch(Family CudaLaunches::*family, int32_t (*Family::*launch)(CudaContext*, const What&),
              const std::type_identity_t<What>& what) {
    if (!status_.ok()) return;
    Keep((table_.launches.*family.*launch)(context(), what), "starting a kernel");
  }

  // Blocks until all that was posted has ended. Returns status(), and takes it: the stream can be
  // used again, unless the device is broken.
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
  const std::shared_ptr<Context> context_;  // shared with the memory
  // Shared: buffers that are out refer to them.
  const std::shared_ptr<OutputPool> pool_;
  const std::shared_ptr<OutputPool> unified_pool_;
  std::vector<Tensor> uploaded_;  // kept until Wait
  absl::Status status_;

  friend bool IsOnDevice(const Tensor& tensor);
};

}  // namespace cohort

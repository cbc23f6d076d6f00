#include "common/runtime/cuda/cuda_stream.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/runtime/cuda/cuda_library.h"

namespace cohort {

namespace {

// The number of free buffers that a pool keeps of each size. A run of a program may have this many
// values of one size at once.
constexpr size_t kMaxFreePerSize = 64;

// Returns an address that stands for missing memory. No work that uses the address is ever posted.
std::byte* Nowhere() { return reinterpret_cast<std::byte*>(uintptr_t{256}); }

// The owner of a placeholder buffer, which has no memory. Such a buffer belongs to no device and is
// not used again.
class NoMemory : public BufferMemory {
 public:
  bool writable() const override { return false; }
};

}  // namespace

// Owns a context of the CUDA module. Lives as long as the stream and any memory allocated by the
// context.
class CudaStream::Context {
 public:
  Context(const CudaTable& table, CudaContext* context) : table(table), context(context) {}
  ~Context() { table.close(context); }
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  const CudaTable& table;
  CudaContext* const context;
};

// Device memory or unified memory that a stream allocated, freed on destruction.
class CudaStream::Allocated : public BufferMemory {
 public:
  Allocated(std::shared_ptr<Context> context, void* memory)
      : context_(std::move(context)), memory_(memory) {}
  ~Allocated() override { context_->table.free(context_->context, memory_); }

 private:
  // The context, shared with the stream and its other memory.
  const std::shared_ptr<Context> context_;
  void* const memory_;
};

class CudaStream::Memory : public Allocated {
  using Allocated::Allocated;
};

// Unified memory, which the processor treats as host memory and not as memory of a device.
class CudaStream::Unified : public Allocated {
  using Allocated::Allocated;
};

// Memory that another owner allocated and that this stream's device uses in place.
class CudaStream::Reached : public BufferMemory {
 public:
  explicit Reached(std::shared_ptr<Buffer> buffer) : buffer_(std::move(buffer)) {}
  bool writable() const override { return false; }

 private:
  const std::shared_ptr<Buffer> buffer_;  // the owner's buffer, shared with all its other readers
};

bool IsOnDevice(const Tensor& tensor) {
  if (tensor.buffer() == nullptr) return false;
  const BufferMemory* const memory = tensor.buffer()->memory().get();
  return dynamic_cast<const CudaStream::Memory*>(memory) != nullptr ||
         dynamic_cast<const CudaStream::Reached*>(memory) != nullptr ||
         dynamic_cast<const NoMemory*>(memory) != nullptr;
}

absl::StatusOr<std::shared_ptr<CudaStream>> CudaStream::Open(const CudaTable& table,
                                                             int32_t device) {
  RETURN_IF_ERROR(CheckCudaDevice(table, device));
  CudaContext* opened = nullptr;
  const int32_t code = table.open(table.self, device, &opened);
  if (code != kCudaDone) {
    return absl::FailedPreconditionError(absl::StrCat(
        CudaStatus(table, code, absl::StrCat("gpu:", device, " cannot be used")).message(),
        "; see with nvidia-smi what else uses it, or build the module for it "
        "(CMAKE_CUDA_ARCHITECTURES), or use cpu devices"));
  }
  return std::shared_ptr<CudaStream>(
      new CudaStream(table, device, std::make_shared<Context>(table, opened)));
}

// Makes the pools of buffers, whose allocators refer to this stream. An allocator runs only inside
// calls of the stream, so it never runs after the stream has ended.
CudaStream::CudaStream(const CudaTable& table, int32_t device, std::shared_ptr<Context> context)
    : table_(table),
      name_(absl::StrCat("gpu:", device)),
      context_(std::move(context)),
      pool_(std::make_shared<OutputPool>(
          [this](size_t bytes) { return Fresh<Memory>(&CudaTable::allocate, bytes); },
          kMaxFreePerSize)),
      unified_pool_(std::make_shared<OutputPool>(
          [this](size_t bytes) { return Fresh<Unified>(&CudaTable::allocate_unified, bytes); },
          kMaxFreePerSize)) {}

// Waits for posted work, which may still use memory that is about to be freed.
CudaStream::~CudaStream() { (void)table_.wait(context()); }

CudaContext* CudaStream::context() const { return context_->context; }

void CudaStream::Keep(int32_t code, const char* doing) {
  // The stream keeps only its first failure, from which later failures usually follow.
  if (code == kCudaDone || !status_.ok()) return;
  status_ = CudaStatus(table_, code, absl::StrCat(name_, ": ", doing));
}

template <typename Kind>
std::shared_ptr<Buffer> CudaStream::Fresh(AllocateMemory allocate, size_t bytes) {
  void* memory = nullptr;
  int32_t code = status_.ok() ? (table_.*allocate)(context(), bytes, &memory) : kCudaDone;
  if (code != kCudaDone) {
    pool_->DropFree();  // makes room: frees unused buffers of all sizes and of both kinds of memory
    unified_pool_->DropFree();
    code = (table_.*allocate)(context(), bytes, &memory);
  }
  if (memory != nullptr) {
    return Buffer::Of(std::make_shared<Kind>(context_, memory),
                      absl::MakeSpan(static_cast<std::byte*>(memory), bytes));
  }
  if (status_.ok()) NoMemoryFor(bytes, code);
  return Buffer::Of(std::make_shared<NoMemory>(), absl::MakeSpan(Nowhere(), bytes));
}

void CudaStream::NoMemoryFor(size_t bytes, int32_t code) {
  uint64_t left = 0;
  uint64_t all = 0;
  (void)table_.memory_left(context(), &left, &all);
  const absl::Status why = CudaStatus(table_, code, "allocating");
  status_ = absl::ResourceExhaustedError(absl::StrCat(
      name_, " has no memory for ", bytes, " bytes more: ", left >> 20, " MiB of ", all >> 20,
      " are free (", why.message(), "); use a smaller batch, or more replicas"));
}

std::shared_ptr<Buffer> CudaStream::Allocate(size_t bytes) {
  // A buffer of zero bytes still needs an address of its own.
  return pool_->Take(std::max<size_t>(bytes, 1));
}

std::shared_ptr<Buffer> CudaStream::AllocateUnified(size_t bytes) {
  return unified_pool_->Take(std::max<size_t>(bytes, 1));
}

bool CudaStream::Reaches(const void* memory) {
  bool yes = false;
  if (status_.ok()) Keep(table_.reaches(context(), memory, &yes), "asking where memory is");
  return yes;
}

Tensor CudaStream::InPlace(const Tensor& reached) const {
  const std::shared_ptr<Buffer>& buffer = reached.buffer();
  return Tensor(
      reached.dtype(), reached.shape(),
      Buffer::Of(std::make_shared<Reached>(buffer), absl::MakeSpan(buffer->data(), buffer->size())),
      reached.offset());
}

Tensor CudaStream::NewTensor(DType dtype, const Shape& shape) {
  const auto elements = static_cast<size_t>(shape.num_elements());
  return Tensor(dtype, shape, Allocate(elements * ElementSize(dtype)), 0);
}

Tensor CudaStream::Upload(const Tensor& host) {
  Tensor device = NewTensor(host.dtype(), host.shape());
  CopyToDevice(host, device);
  uploaded_.push_back(host);
  return device;
}

std::shared_ptr<Buffer> CudaStream::Upload(absl::Span<const std::byte> host) {
  std::shared_ptr<Buffer> device = Allocate(host.size());
  CopyToDevice(device->data(), host.data(), host.size());
  return device;
}

void CudaStream::CopyToDevice(const Tensor& host, Tensor& device) {
  CopyToDevice(device.mutable_raw(), host.raw(), host.num_bytes());
}

// Posts a copy to the device, unless the stream has failed before.
void CudaStream::CopyToDevice(void* device, const void* host, size_t bytes) {
  if (!status_.ok() || bytes == 0) return;
  Keep(table_.copy_to_device(context(), device, host, bytes), "copying to the device");
}

void CudaStream::CopyToHost(const Tensor& device, Tensor& host) {
  if (!status_.ok() || device.num_bytes() == 0) return;
  Keep(table_.copy_to_host(context(), host.mutable_raw(), device.raw(), device.num_bytes()),
       "copying from the device");
}

Tensor CudaStream::Clone(const Tensor& device) {
  return CopyInto(Allocate(device.num_bytes()), device);
}

Tensor CudaStream::CloneUnified(const Tensor& device) {
  return CopyInto(AllocateUnified(device.num_bytes()), device);
}

Tensor CudaStream::CopyInto(std::shared_ptr<Buffer> buffer, const Tensor& device) {
  Tensor copy(device.dtype(), device.shape(), std::move(buffer), 0);
  if (!status_.ok() || device.num_bytes() == 0) return copy;
  Keep(table_.copy_on_device(context(), copy.mutable_raw(), device.raw(), device.num_bytes()),
       "copying on the device");
  return copy;
}

void CudaStream::FillZeros(Tensor& device) {
  if (!status_.ok() || device.num_bytes() == 0) return;
  Keep(table_.fill_zeros(context(), device.mutable_raw(), device.num_bytes()), "filling memory");
}

absl::Status CudaStream::Wait() {
  // All copies that were posted have ended, so the uploaded host tensors are not read any more.
  Keep(table_.wait(context()), "computing");
  uploaded_.clear();
  return std::exchange(status_, absl::OkStatus());
}

}  // namespace cohort

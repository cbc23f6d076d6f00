#pragma once

// A tensor has an element type, a shape and a contiguous, row-major range of bytes in a
// reference-counted buffer. Copying a tensor shares the buffer. The creator of a buffer may write
// to the buffer until the buffer is shared. A shared buffer is immutable, because a transport may
// still be sending its bytes.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/base/check.h"
#include "common/tensor/dtype.h"
#include "common/tensor/shape.h"

namespace cohort {

// The owner of a buffer's memory if that memory is not on the heap but, for example, in a shared
// mapping. A transport that knows the owner's class sends from the memory without a copy.
// Thread-safe.
class BufferMemory {
 public:
  virtual ~BufferMemory() = default;
  // Returns false while a remote reader may still read the memory. During that time, new values
  // must be written to other memory.
  virtual bool writable() const { return true; }
};

// A contiguous range of host memory that holds tensors. Memory from Allocate is aligned to 64 bytes
// and not initialized. Thread-compatible.
class Buffer {
 public:
  static std::shared_ptr<Buffer> Allocate(size_t bytes);
  // Returns a buffer over the memory `bytes`, which is not on the heap but, for example, in a
  // mapping. The buffer keeps `memory`, the owner of `bytes`, alive.
  static std::shared_ptr<Buffer> Of(std::shared_ptr<const BufferMemory> memory,
                                    absl::Span<std::byte> bytes);

  ~Buffer();
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  std::byte* data() { return data_; }
  const std::byte* data() const { return data_; }
  size_t size() const { return size_; }
  // Returns the owner of the buffer's memory, or null if the memory is on the heap. Messages that
  // are sent from this memory keep a reference to the owner.
  const std::shared_ptr<const BufferMemory>& memory() const { return memory_; }

 private:
  Buffer(std::byte* data, size_t size, std::shared_ptr<const BufferMemory> memory)
      : data_(data), size_(size), memory_(std::move(memory)) {}
  std::byte* const data_;
  const size_t size_;
  const std::shared_ptr<const BufferMemory> memory_;  // several buffers may share one owner
};

// The function that allocates buffers of a given size. Thread-safe.
using AllocateBuffer = std::function<std::shared_ptr<Buffer>(size_t bytes)>;

// A typed, shaped view of bytes in a shared buffer. Thread-compatible.
class Tensor {
 public:
  Tensor() = default;  // makes a tensor of type kUndefined, which has no value
  Tensor(DType dtype, Shape shape);
  // Makes a view of `buffer` from the byte `offset` on. The tensor's bytes must lie inside the
  // buffer.
  Tensor(DType dtype, Shape shape, std::shared_ptr<Buffer> buffer, size_t offset);

  static Tensor Zeros(DType dtype, Shape shape);
  template <typename T>
  static Tensor Scalar(T value) {
    Tensor tensor(DTypeOf<T>::value, Shape{});
    *tensor.mutable_data<T>() = value;
    return tensor;
  }
  template <typename T>
  static Tensor FromVector(const std::vector<T>& values, Shape shape) {
    Tensor tensor(DTypeOf<T>::value, std::move(shape));
    COHORT_CHECK(static_cast<int64_t>(values.size()) == tensor.num_elements(),
                 "there are as many values as elements of the shape");
    std::copy(values.begin(), values.end(), tensor.mutable_data<T>());
    return tensor;
  }

  bool has_value() const { return dtype_ != DType::kUndefined; }
  DType dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }
  int64_t num_elements() const { return num_elements_; }
  size_t num_bytes() const { return static_cast<size_t>(num_elements_) * ElementSize(dtype_); }
  const std::shared_ptr<Buffer>& buffer() const { return buffer_; }
  size_t offset() const { return offset_; }

  const std::byte* raw() const { return buffer_ ? buffer_->data() + offset_ : nullptr; }
  std::byte* mutable_raw() { return buffer_ ? buffer_->data() + offset_ : nullptr; }
  template <typename T>
  const T* data() const {
    COHORT_CHECK(DTypeOf<T>::value == dtype_, "wrong element type");
    return reinterpret_cast<const T*>(raw());
  }
  template <typename T>
  T* mutable_data() {
    COHORT_CHECK(DTypeOf<T>::value == dtype_, "wrong element type");
    return reinterpret_cast<T*>(mutable_raw());
  }
  template <typename T>
  absl::Span<const T> span() const {
    // The span is made with parentheses: with braces, Span<const bool> would take the two arguments
    // as a list of bools.
    return absl::Span<const T>(data<T>(), static_cast<size_t>(num_elements_));
  }

  // Returns a tensor with the same buffer and the shape `shape`, which must have the same number of
  // elements.
  Tensor Reshaped(Shape shape) const;
  // Returns the rows [begin, begin + count) along axis 0 as a tensor that shares the buffer. The
  // rank must be at least 1.
  Tensor Rows(int64_t begin, int64_t count) const;
  // Returns a copy of the tensor in a new buffer.
  Tensor Clone() const;

  // Returns the element type and the shape as text, such as "float32[128,784]".
  std::string TypeString() const;

 private:
  DType dtype_ = DType::kUndefined;
  Shape shape_;
  int64_t num_elements_ = 0;
  // The buffer is shared, because a view, a cache and a transport may hold the bytes of one buffer.
  std::shared_ptr<Buffer> buffer_;
  size_t offset_ = 0;
};

}  // namespace cohort

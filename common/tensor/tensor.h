#pragma once

// A tensor is an element type, a shape and a run of bytes in a reference-counted buffer, contiguous
// and row major. Copying a tensor shares the buffer. The maker of a buffer may write it until it is
// shared; after that it is immutable, because a transport may still be sending it.

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

// The owner of a buffer's memory if that is not on the heap: a mapping, say. A transport that knows
// the kind sends from it without a copy. Thread-safe.
class BufferMemory {
 public:
  virtual ~BufferMemory() = default;
  // Returns false if a reader out of reach may still read the memory; new values go elsewhere then.
  virtual bool writable() const { return true; }
};

// Host memory aligned to 64 bytes, not initialised. Thread-compatible.
class Buffer {
 public:
  static std::shared_ptr<Buffer> Allocate(size_t bytes);
  // Wraps memory of another maker, such as a mapping, that lives as long as `memory`.
  static std::shared_ptr<Buffer> Of(std::shared_ptr<const BufferMemory> memory,
                                    absl::Span<std::byte> bytes);

  ~Buffer();
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  std::byte* data() { return data_; }
  const std::byte* data() const { return data_; }
  size_t size() const { return size_; }
  // Returns the owner of the memory, or null if that is the heap. Shared with messages that were
  // sent from it.
  const std::shared_ptr<const BufferMemory>& memory() const { return memory_; }

 private:
  Buffer(std::byte* data, size_t size, std::shared_ptr<const BufferMemory> memory)
      : data_(data), size_(size), memory_(std::move(memory)) {}
  std::byte* const data_;
  const size_t size_;
  const std::shared_ptr<const BufferMemory> memory_;  // shared with others of its maker
};

// Makes the memory of buffers, of any size. Thread-safe.
using AllocateBuffer = std::function<std::shared_ptr<Buffer>(size_t bytes)>;

// Thread-compatible.
class Tensor {
 public:
  Tensor() = default;  // kUndefined: no value
  Tensor(DType dtype, Shape shape);
  // Makes a view of `buffer` from byte `offset` on; the bytes must lie inside it.
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
    COHORT_CHECK(static_cast<int64_t>(values.size()) == tensor.num_elements(), "wrong count");
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
    return absl::Span<const T>(data<T>(), static_cast<size_t>(num_elements_));  // not {}: bool
  }

  // Returns the same bytes under another shape with the same number of elements.
  Tensor Reshaped(Shape shape) const;
  // Rows [begin, begin + count) along axis 0, sharing the buffer. Rank at least 1.
  Tensor Rows(int64_t begin, int64_t count) const;
  // Copies the tensor into a buffer of its own.
  Tensor Clone() const;

  // Returns text such as "float32[128,784]".
  std::string TypeString() const;

 private:
  DType dtype_ = DType::kUndefined;
  Shape shape_;
  int64_t num_elements_ = 0;
  std::shared_ptr<Buffer>
      buffer_;  // shared: a view, a cache and a transport may hold the same bytes
  size_t offset_ = 0;
};

}  // namespace cohort

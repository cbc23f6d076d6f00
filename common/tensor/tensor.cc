#include "common/tensor/tensor.h"

#include <cstdlib>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace cohort {

namespace {
// The alignment of tensors' memory in bytes: the size of a cache line and of the largest vector
// register (AVX-512).
constexpr size_t kAlignment = 64;
}  // namespace

std::shared_ptr<Buffer> Buffer::Allocate(size_t bytes) {
  // aligned_alloc requires a size that is a multiple of the alignment.
  const size_t rounded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  auto* data =
      static_cast<std::byte*>(std::aligned_alloc(kAlignment, std::max(rounded, kAlignment)));
  COHORT_CHECK(data != nullptr, "out of memory");
  return std::shared_ptr<Buffer>(new Buffer(data, bytes, nullptr));
}

std::shared_ptr<Buffer> Buffer::Of(std::shared_ptr<const BufferMemory> memory,
                                   absl::Span<std::byte> bytes) {
  COHORT_CHECK(memory != nullptr, "a buffer of borrowed memory keeps its owner");
  return std::shared_ptr<Buffer>(new Buffer(bytes.data(), bytes.size(), std::move(memory)));
}

Buffer::~Buffer() {
  // If memory_ is null, the bytes are on the heap and belong to this buffer. Otherwise the bytes
  // belong to memory_, whose last reference frees them.
  if (memory_ == nullptr) std::free(data_);
}

Tensor::Tensor(DType dtype, Shape shape)
    : dtype_(dtype), shape_(std::move(shape)), num_elements_(shape_.num_elements()) {
  buffer_ = Buffer::Allocate(num_bytes());
}

Tensor::Tensor(DType dtype, Shape shape, std::shared_ptr<Buffer> buffer, size_t offset)
    : dtype_(dtype),
      shape_(std::move(shape)),
      num_elements_(shape_.num_elements()),
      buffer_(std::move(buffer)),
      offset_(offset) {
  COHORT_CHECK(offset_ + num_bytes() <= buffer_->size(), "a view ends inside its buffer");
}

Tensor Tensor::Zeros(DType dtype, Shape shape) {
  Tensor tensor(dtype, std::move(shape));
  std::memset(tensor.mutable_raw(), 0, tensor.num_bytes());
  return tensor;
}

Tensor Tensor::Reshaped(Shape shape) const {
  COHORT_CHECK(shape.num_elements() == num_elements_, "a reshape keeps the number of elements");
  Tensor result = *this;
  result.shape_ = std::move(shape);
  return result;
}

Tensor Tensor::Rows(int64_t begin, int64_t count) const {
  COHORT_CHECK(shape_.rank() >= 1 && begin >= 0 && count >= 0 && begin + count <= shape_.dim(0),
               "the rows lie inside the tensor");
  absl::InlinedVector<int64_t, 4> dims(shape_.dims().begin(), shape_.dims().end());
  dims[0] = count;
  const size_t row_bytes = static_cast<size_t>(shape_.row_elements()) * ElementSize(dtype_);
  return Tensor(dtype_, Shape(absl::MakeConstSpan(dims)), buffer_,
                offset_ + static_cast<size_t>(begin) * row_bytes);
}

Tensor Tensor::Clone() const {
  Tensor copy(dtype_, shape_);
  if (num_bytes() > 0) std::memcpy(copy.mutable_raw(), raw(), num_bytes());
  return copy;
}

std::string Tensor::TypeString() const {
  return absl::StrCat(DTypeName(dtype_), shape_.ToString());
}

}  // namespace cohort

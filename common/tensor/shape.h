#pragma once

// The sizes of tensors. A dimension that is not known until a batch arrives is not a Shape: graphs
// and job files write it as -1.

#include <cstdint>
#include <initializer_list>
#include <string>

#include "absl/container/inlined_vector.h"
#include "absl/types/span.h"

namespace cohort {

// The size of a tensor along each axis, in row-major order. A scalar has no axes and one element.
// Thread-compatible.
class Shape {
 public:
  Shape() = default;
  Shape(std::initializer_list<int64_t> dims) : dims_(dims) {}
  explicit Shape(absl::Span<const int64_t> dims) : dims_(dims.begin(), dims.end()) {}

  int rank() const { return static_cast<int>(dims_.size()); }
  int64_t dim(int axis) const { return dims_[static_cast<size_t>(axis)]; }
  absl::Span<const int64_t> dims() const { return dims_; }
  // Returns the number of elements: 1 for a scalar, and 0 if the size along any axis is 0.
  int64_t num_elements() const;
  // Returns the number of elements in one row along axis 0, or 1 for a scalar.
  int64_t row_elements() const;
  // Returns the shape as text, such as "[128,784]".
  std::string ToString() const;

  friend bool operator==(const Shape& a, const Shape& b) { return a.dims_ == b.dims_; }
  friend bool operator!=(const Shape& a, const Shape& b) { return !(a == b); }

 private:
  absl::InlinedVector<int64_t, 4> dims_;
};

}  // namespace cohort

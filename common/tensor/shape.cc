#include "common/tensor/shape.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace cohort {

int64_t Shape::num_elements() const {
  int64_t count = 1;
  for (const int64_t dim : dims_) count *= dim;
  return count;
}

int64_t Shape::row_elements() const {
  int64_t count = 1;
  for (size_t axis = 1; axis < dims_.size(); ++axis) count *= dims_[axis];
  return count;
}

std::string Shape::ToString() const { return absl::StrCat("[", absl::StrJoin(dims_, ","), "]"); }

}  // namespace cohort

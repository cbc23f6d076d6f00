#pragma once

// The differences between the values of two files of trained weights.

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "common/base/file_system.h"
#include "common/tensor/tensor.h"

namespace cohort {

struct CheckpointDiff {
  std::string text;  // a line for each difference, and a last one with the counts
  // False: a value is in one file only, differs, or could not be compared because of its type.
  bool same = false;
};

// Compares two files that OpenWeights reads, value by value: two values are in memory at a time.
// Files of one kind are compared by their own names, others by the names of variables
// (value_names.h). Numbers are compared as such, whatever their types; NaN is equal to NaN. Errors:
// those of OpenWeights and WeightSource::Read.
absl::StatusOr<CheckpointDiff> DiffCheckpoints(FileSystem& files, const std::string& a,
                                               const std::string& b);

// The largest difference between elements of two tensors.
struct LargestDifference {
  double difference = 0;  // 0: all are equal; infinite also if only one of two elements is NaN
  int64_t element = -1;   // the first element with that difference
  double a = 0, b = 0;    // its values
};

// Compares two tensors of one shape, whose types are not float16 or bfloat16.
LargestDifference CompareValues(const Tensor& a, const Tensor& b);

}  // namespace cohort

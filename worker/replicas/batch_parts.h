#pragma once

// The division of a batch among the replicas of a program. Of n examples and R replicas, each
// replica gets n / R examples and the first n % R replicas get one more, in order along axis 0.
// With fewer examples than replicas, the last replicas get no example and do not run.

#include <cstdint>
#include <vector>

namespace cohort {

// The examples of one replica, as a range of the batch.
struct BatchPart {
  int64_t begin = 0;
  int64_t count = 0;

  friend bool operator==(const BatchPart&, const BatchPart&) = default;
};

// Returns a part for each replica that has at least one example.
std::vector<BatchPart> SplitBatch(int64_t examples, int64_t replicas);

}  // namespace cohort

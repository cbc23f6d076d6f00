#pragma once

// The sharing of a batch among the replicas of a program: n examples over R replicas, n / R each,
// and the first n % R replicas one more, in order along axis 0. With fewer examples than replicas
// the last ones get none, and do not run.

#include <cstdint>
#include <vector>

namespace cohort {

struct BatchPart {
  int64_t begin = 0;
  int64_t count = 0;

  friend bool operator==(const BatchPart&, const BatchPart&) = default;
};

// Returns a part for each replica that has an example.
std::vector<BatchPart> SplitBatch(int64_t examples, int64_t replicas);

}  // namespace cohort

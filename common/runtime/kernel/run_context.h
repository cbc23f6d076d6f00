#pragma once

// What one run of a program brings with it, beside its inputs: random and context operators read
// it, and the caller takes outputs by it while the run goes on.

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "common/tensor/tensor.h"

namespace cohort {

class ReplicaExchange;  // the worker's: this folder hands it on

// Gets the outputs of a run while later nodes still run. Lives on the strand of the run.
class OutputTaker {
 public:
  virtual ~OutputTaker() = default;
  // Once for each output of the graph, as soon as it has its value, which nothing changes any more.
  // The run gives it at its end, too. An error ends the run, as its error.
  virtual absl::Status Take(size_t output, const Tensor& value) = 0;
};

// What random and context operators see.
struct RunContext {
  uint64_t seed = 0;  // of the job
  uint64_t step = 0;
  int64_t first_example = 0;            // index in the global batch of this batch's first example
  ReplicaExchange* exchange = nullptr;  // of this replica; null where one runs alone. Outlives it
  OutputTaker* taker = nullptr;         // null: outputs are wanted at the end. Outlives the run
};

}  // namespace cohort

#pragma once

// The context of one run of a program, beside its inputs: random and context operators read it, and
// through it the caller takes outputs while the run goes on.

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
  // Takes an output of the graph, once, as soon as its value is final. The run also returns the
  // output at its end. An error ends the run with that error.
  virtual absl::Status Take(size_t output, const Tensor& value) = 0;
};

// The values that random and context operators read.
struct RunContext {
  uint64_t seed = 0;  // the job's
  uint64_t step = 0;
  int64_t first_example = 0;  // index in the global batch of this batch's first example
  // this replica's; null if a replica runs alone. Outlives the context
  ReplicaExchange* exchange = nullptr;
  OutputTaker* taker = nullptr;  // null: outputs are wanted at the end. Outlives the run
};

}  // namespace cohort

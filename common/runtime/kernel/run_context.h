#pragma once

// The context of one run of a program, in addition to the program's inputs: the seed, the step and
// the replica, which random operators and context operators read, and the receiver that takes
// outputs while the run goes on.

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "common/tensor/tensor.h"

namespace cohort {

class ReplicaExchange;  // a type of the worker; the runtime only passes on pointers to it

// A receiver that takes a run's outputs while later nodes still run. Lives on the strand of the
// run.
class OutputTaker {
 public:
  virtual ~OutputTaker() = default;
  // Takes one output of the graph as soon as its value is final. Each output is passed once, and is
  // also among the results that the run returns at its end. An error ends the run with that error.
  virtual absl::Status Take(size_t output, const Tensor& value) = 0;
};

// The values of one run that random operators and context operators read.
struct RunContext {
  uint64_t seed = 0;  // the seed of the job
  uint64_t step = 0;
  // The position in the global batch of the first example of the batch that this replica computes.
  int64_t first_example = 0;
  // The object through which this replica exchanges values with the other replicas; null if the
  // replica runs alone. The exchange outlives the context.
  ReplicaExchange* exchange = nullptr;
  // The receiver of outputs during the run, which outlives the run; null: outputs are wanted only
  // at the end.
  OutputTaker* taker = nullptr;
};

}  // namespace cohort

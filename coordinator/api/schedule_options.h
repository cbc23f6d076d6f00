#pragma once

// Options with which a closure is scheduled.

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/time/time.h"
#include "coordinator/schedule/closure.h"

namespace cohort {

using ProgramHandle = std::shared_ptr<const RegisteredProgram>;
using DatasetHandle = std::shared_ptr<const RegisteredDataset>;
// TensorFlow's per-worker iterator: each worker draws from its own. Making a new one starts the
// data anew.
using IteratorHandle = std::shared_ptr<const RegisteredIterator>;

struct ScheduleOptions {
  std::vector<Argument> arguments;  // tensors, and results of earlier closures
  InputChoice input = {};           // an IteratorHandle, a SplitInput, or nothing
  double learning_rate = 0;
  uint64_t step = 0;  // 0: the closure's own number
  // Further steps of a SplitInput, which follow the first in the same call of the worker. The
  // result has what each step fetches, one after another. Ids, steps and rounds count up by one.
  std::vector<LaterStep> later_steps = {};
  // how long to wait for room in the queue
  absl::Duration queue_timeout = absl::InfiniteDuration();
  // Time from the call on; a closure that is not done then fails with DEADLINE_EXCEEDED.
  absl::Duration timeout = absl::InfiniteDuration();
  // False: the closure must not begin a second time. If a loss would need that, it fails with
  // DATA_LOSS.
  bool replayable = true;
  Round round = {};  // for synchronous training
  // Whether this is a round of one, which begins when the gang before it is done. The round of a
  // program that changes no variable is that of the next update, whose values it reads.
  bool gang = false;
};

}  // namespace cohort

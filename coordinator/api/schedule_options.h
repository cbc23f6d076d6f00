#pragma once

// The options with which a program schedules a closure.

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/time/time.h"
#include "coordinator/schedule/closure.h"

namespace cohort {

using ProgramHandle = std::shared_ptr<const RegisteredProgram>;
using DatasetHandle = std::shared_ptr<const RegisteredDataset>;
// TensorFlow's per-worker iterator: each worker draws from an iterator of its own. A new iterator
// starts from the beginning of the data.
using IteratorHandle = std::shared_ptr<const RegisteredIterator>;

struct ScheduleOptions {
  std::vector<Argument> arguments;  // tensors, and results of earlier closures
  // The source of the closure's batch: an IteratorHandle, a SplitInput, or nothing.
  InputChoice input = {};
  double learning_rate = 0;
  uint64_t step = 0;  // the step number that the program sees; 0: the closure's id
  // Further steps of a closure with a SplitInput, which run after the first step in one call of the
  // worker. The result holds the fetches of all steps, one step after another. Ids, steps and
  // rounds increase by one with each step.
  std::vector<LaterStep> later_steps = {};
  // The time for which Schedule waits for room in the queue.
  absl::Duration queue_timeout = absl::InfiniteDuration();
  // The time that the closure may take, counted from the call of Schedule. A closure that is not
  // done by then fails with DEADLINE_EXCEEDED.
  absl::Duration timeout = absl::InfiniteDuration();
  // True: the closure may run a second time after a loss. False: a loss that would need a second
  // run fails the closure with DATA_LOSS.
  bool replayable = true;
  Round round = {};  // the update that the closure belongs to, in synchronous training
  // True: the closure is a gang, a round of one closure, which begins when the gang before it is
  // done. If the program changes no variable, its round is the next update's, whose values it
  // reads.
  bool gang = false;
};

}  // namespace cohort

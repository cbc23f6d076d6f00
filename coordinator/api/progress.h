#pragma once

// The progress of a training: what its checkpoints say beside the variables.

#include <cstdint>

#include "proto/worker.pb.h"

namespace cohort {

// How far the data were read: an epoch of fit.steps_per_epoch steps is more or less than a pass
// over them, and the next one goes on there.
struct DataPosition {
  int64_t pass = 0;
  int64_t examples = 0;  // read of that pass: another batch size goes on there, too

  friend bool operator==(const DataPosition&, const DataPosition&) = default;
};

// The shape of a pass: data of so many batches (at least one) of this size. BatchAfter returns the
// batch that is read `step` steps after `begin`: the first batch of the next pass follows the last
// one.
struct PassShape {
  int64_t batch_size = 1;
  int64_t batches = 1;
};
proto::IteratorPosition BatchAfter(const DataPosition& begin, int64_t step, const PassShape& pass);

// The progress to go on from.
struct Progress {
  int64_t global_step = 0;
  int64_t epochs_done = 0;
  DataPosition data = {};
};

}  // namespace cohort

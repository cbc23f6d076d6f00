#pragma once

// The progress of a training run. Checkpoints record it beside the variables.

#include <cstdint>

#include "proto/worker.pb.h"

namespace cohort {

// The position in the data up to which a training run has read. A training epoch of
// fit.steps_per_epoch steps may be more or less than one pass over the data; the next training
// epoch continues at this position.
struct DataPosition {
  int64_t pass = 0;
  // The number of examples that were read in pass number `pass`. Examples are counted and not
  // batches, so that a job with another batch size can continue.
  int64_t examples = 0;

  friend bool operator==(const DataPosition&, const DataPosition&) = default;
};

// The shape of one pass over the data: `batches` batches (at least one) of `batch_size` examples.
// BatchAfter returns the position of the batch that is read `step` steps after `begin`. After the
// last batch of a pass comes the first batch of the next pass.
struct PassShape {
  int64_t batch_size = 1;
  int64_t batches = 1;
};
proto::IteratorPosition BatchAfter(const DataPosition& begin, int64_t step, const PassShape& pass);

// The training progress that a checkpoint restores: training steps, training epochs, and the
// position in the data.
struct Progress {
  int64_t global_step = 0;
  int64_t epochs_done = 0;
  DataPosition data = {};

  friend bool operator==(const Progress&, const Progress&) = default;
};

}  // namespace cohort

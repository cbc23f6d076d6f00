#pragma once

// The progress of a training run, which its checkpoints record beside the variables.

#include <cstdint>

#include "proto/worker.pb.h"

namespace cohort {

// The position up to which the data were read. An epoch of fit.steps_per_epoch steps may be more or
// less than one pass over the data, and the next epoch goes on at this position.
struct DataPosition {
  int64_t pass = 0;
  // Examples read of that pass. The unit is not batches, so that a job with another batch size can
  // go on here.
  int64_t examples = 0;

  friend bool operator==(const DataPosition&, const DataPosition&) = default;
};

// The shape of one pass over the data: `batches` batches (at least one) of `batch_size` examples.
// BatchAfter returns the batch that is read `step` steps after `begin`; after the last batch of a
// pass comes the first batch of the next pass.
struct PassShape {
  int64_t batch_size = 1;
  int64_t batches = 1;
};
proto::IteratorPosition BatchAfter(const DataPosition& begin, int64_t step, const PassShape& pass);

// The progress from which a restored training goes on.
struct Progress {
  int64_t global_step = 0;
  int64_t epochs_done = 0;
  DataPosition data = {};
};

}  // namespace cohort

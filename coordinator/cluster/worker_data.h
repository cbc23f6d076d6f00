#pragma once

// The data that the workers read: the length of a data set and the type of its elements, as the
// workers report them (WorkerService.CreateDataset). Any worker may make any batch, so all workers
// have to read the same data.

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/event.h"
#include "common/wire/world.h"
#include "coordinator/cluster/cluster.h"
#include "proto/worker.pb.h"

namespace cohort {

struct DataQuestion {
  uint64_t dataset_id = 0;
  const proto::DatasetSpec& spec;
  absl::Duration timeout;       // how long to wait for the first answer of a worker
  absl::Duration call_timeout;  // how long one worker may take to read its files
};

// Asks one serving worker, then all other serving workers, which compare their data with the first
// worker's. Skips a worker that is lost before it has answered: it will be told the expected data
// when it is back. Blocks. Errors: INVALID_ARGUMENT naming two workers, their lengths and types; an
// error that a worker answers (a missing file); that of Cluster::Abort; UNAVAILABLE when no worker
// has answered in time.
absl::StatusOr<proto::ExpectedData> AskForData(World world, Waiter& waiter, Cluster& cluster,
                                               const DataQuestion& question);

}  // namespace cohort

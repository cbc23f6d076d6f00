#pragma once

// The data that the workers read: the length of a data set and the type of its elements, as the
// workers report them (WorkerService.CreateDataset). Any worker makes any batch, so all have to
// read the same data.

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
  absl::Duration timeout;       // until one worker has answered
  absl::Duration call_timeout;  // for one worker, which reads its files
};

// Asks one worker that serves, then all others, each of which compares what it reads with what the
// first one does. Who is lost before it has answered is passed over: it is told what to expect when
// it is back. Blocks. Errors: INVALID_ARGUMENT that names two workers, their lengths and types;
// what a worker answers (a missing file); that of Cluster::Abort; UNAVAILABLE when none has
// answered in time.
absl::StatusOr<proto::ExpectedData> AskForData(World world, Waiter& waiter, Cluster& cluster,
                                               const DataQuestion& question);

}  // namespace cohort

#pragma once

// Statistics of the training data, for which all workers read parts of the data
// (WorkerService.GatherStatistics). Parts have a fixed number of examples and are joined in their
// order, so the result does not depend on the workers.

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/event.h"
#include "common/preprocessing/column_statistics.h"
#include "common/wire/world.h"
#include "coordinator/cluster/cluster.h"
#include "proto/plan.pb.h"

namespace cohort {

struct StatisticsQuestion {
  uint64_t dataset_id = 0;
  const proto::DatasetSpec& spec;  // its last transform is Adapt
  int64_t examples = 0;            // the examples of the source that count, from the first one on
  absl::Duration timeout;          // how long to wait until some worker has read a part
  absl::Duration call_timeout;     // how long one call may be silent
};

// Returns the statistics in the order of Adapt's. Parts of workers that are lost are read by
// others. Blocks. Errors: a worker's own error, such as a record that cannot be read; the error of
// Cluster::Abort; RESOURCE_EXHAUSTED for too many tokens; UNAVAILABLE if no worker has read a part
// in time.
absl::StatusOr<std::vector<ColumnStatistics>> AskForStatistics(World world, Waiter& waiter,
                                                               Cluster& cluster,
                                                               const StatisticsQuestion& question);

}  // namespace cohort

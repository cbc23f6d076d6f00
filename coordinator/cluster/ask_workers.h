#pragma once

// The questions that the coordinator asks the workers before training, with one answer per worker:
// the data that they read (WorkerService.CreateDataset), and their devices
// (WorkerService.ListDevices). Any worker may make any batch, so all workers have to read the same
// data: its length and the type of its elements are compared.

#include <cstdint>
#include <set>
#include <string>
#include <vector>

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

struct DataOfWorkers {
  proto::ExpectedData expected;  // the data of the worker that was asked first
  std::set<uint64_t> asked;      // incarnations of the workers that were asked
};

// Asks one serving worker to build the data set, and then all other serving workers, which compare
// their data with the first worker's. Skips a worker that is lost before it has answered; such a
// worker learns the expected data when it is back. Blocks. Errors: INVALID_ARGUMENT naming two
// workers, their lengths and types; an error that a worker answers (a missing file); that of
// Cluster::Abort; UNAVAILABLE when no worker has answered in time.
absl::StatusOr<DataOfWorkers> AskForData(World world, Waiter& waiter, Cluster& cluster,
                                         const DataQuestion& question);

// Asks the serving workers that `data`, the result of AskForData, does not name as asked to build
// the data set and to compare it with `data.expected`, and adds them to `data.asked`. Skips a
// worker that is lost or stays silent. Blocks. Errors: those of AskForData, except UNAVAILABLE.
absl::Status AskToCompare(Waiter& waiter, Cluster& cluster, const DataQuestion& question,
                          DataOfWorkers& data);

struct DeviceQuestion {
  std::vector<int> workers;  // task indices of the workers to ask
  absl::Duration timeout;    // how long the whole question may take, for all workers together
  // The time-out of one call. A worker that does not answer in this time is asked again.
  absl::Duration call_timeout;
};

// Returns the devices that each of `question.workers` has, which must be the same on all of them.
// Blocks. All these workers have served before (ClusterCoordinator::WaitForCluster). A worker that
// is lost before it has answered is asked again when it is back. If it stays away for the lease, or
// for half of `timeout`, it is left out, provided that as many workers as the job needs serve; it
// joins later like any late worker. A removed worker is not waited for. Errors: INVALID_ARGUMENT
// naming two workers whose devices differ, with both lists; DEADLINE_EXCEEDED of class WORKER_LOST
// naming the missing workers; Cluster::Abort's; a worker's own error.
absl::StatusOr<std::vector<std::string>> AskForDevices(World world, Waiter& waiter,
                                                       Cluster& cluster,
                                                       const DeviceQuestion& question);

}  // namespace cohort

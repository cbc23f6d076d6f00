#pragma once

// Questions that the coordinator asks all workers before training. One question is about the data
// that they read (WorkerService.CreateDataset), another about their devices
// (WorkerService.ListDevices). Every worker must read the same data, because any worker may be
// given any batch. So the workers' answers about the length of the data set and the type of its
// elements are compared.

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
  absl::Duration timeout;  // how long to wait until some worker has answered
  // The time limit of one call, in which the worker may have to read its files.
  absl::Duration call_timeout;
};

struct DataOfWorkers {
  // The data set as the first worker that answered has described it.
  proto::ExpectedData expected;
  std::set<uint64_t> asked;  // incarnations of the workers that were asked
};

// Asks one serving worker to build the data set, and then all other serving workers, which compare
// their data with the first worker's. Skips a worker that is lost before it has answered. Such a
// worker compares its data once it is back and runs a closure. Blocks. Errors: INVALID_ARGUMENT
// naming two workers with different data, and their lengths and types; an error that a worker
// answers (such as a missing file); the error of Cluster::Abort; UNAVAILABLE if no worker has
// answered in time.
absl::StatusOr<DataOfWorkers> AskForData(World world, Waiter& waiter, Cluster& cluster,
                                         const DataQuestion& question);

// Asks serving workers that are not in `data.asked` to build the data set and to compare it with
// `data.expected`; `data` is the result of AskForData. Adds the asked workers to `data.asked`.
// Skips workers that are lost or stay silent. Blocks. Errors: those of AskForData, except
// UNAVAILABLE.
absl::Status AskToCompare(Waiter& waiter, Cluster& cluster, const DataQuestion& question,
                          DataOfWorkers& data);

struct DeviceQuestion {
  std::vector<int> workers;  // task indices of the workers to ask
  absl::Duration timeout;    // how long the question may take for all workers together
  // The time limit of one call. A worker that has not answered by then is asked again.
  absl::Duration call_timeout;
};

// Asks the workers in `question.workers` for their devices, and returns the devices, which must be
// the same on all of these workers. Blocks. Each of these workers must have served before
// (ClusterCoordinator::WaitForCluster). A worker that is lost before it has answered is asked again
// once it is back. If it stays away for the time of a lease, or for half of `timeout` if that is
// shorter, and enough other workers serve, its answer is not awaited any longer; it joins the job
// later. The answer of a removed worker is not awaited either. Errors: INVALID_ARGUMENT naming two
// workers whose devices differ, with both lists; DEADLINE_EXCEEDED of class WORKER_LOST naming the
// missing workers; the error of Cluster::Abort; a worker's own error.
absl::StatusOr<std::vector<std::string>> AskForDevices(World world, Waiter& waiter,
                                                       Cluster& cluster,
                                                       const DeviceQuestion& question);

}  // namespace cohort

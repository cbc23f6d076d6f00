#pragma once

// The cluster that a worker was started with, in its own TF_CONFIG. The worker calls the homes of
// variables at the addresses that the coordinator gives, so its own addresses may be out of date
// without harm. They may also be the right ones, and the coordinator's TF_CONFIG the old one.

#include <set>
#include <string>
#include <utility>

#include "common/cluster/cluster_spec.h"
#include "google/protobuf/repeated_field.h"
#include "proto/task.pb.h"

namespace cohort {

// Compares the worker's own cluster with the coordinator's. Thread-compatible.
class OwnCluster {
 public:
  // An empty cluster, and a task that `own` does not have, differ from nothing.
  explicit OwnCluster(ClusterSpec own) : own_(std::move(own)) {}

  // Logs a warning for each task that has another address here than with the coordinator, once for
  // each pair of addresses. `peers` are of the coordinator's Attach.
  void Compare(const google::protobuf::RepeatedPtrField<proto::Peer>& peers);

 private:
  const ClusterSpec own_;
  // The differences that were logged: the task, and the coordinator's address of the task.
  std::set<std::pair<TaskId, std::string>> logged_;
};

}  // namespace cohort

#pragma once

// TF_CONFIG is a JSON object that tells a task its cluster and its own place in the cluster:
//   {"cluster": {"worker": ["host:port", ...], "ps": {"3": "host:port"}, ...},
//    "task": {"type": "worker", "index": 0}, "rpc_layer": "grpc", "session_master": "..."}
// A job is a list of addresses, or an object from index to address (a sparse job). Without a
// cluster, the program is local. The forms are TensorFlow's. Beyond TensorFlow's rules, the parser
// refuses every configuration that cannot work, and reports all problems at once with their JSON
// paths.

#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/cluster/cluster_spec.h"
#include "common/cluster/environment.h"

namespace cohort {

struct TfConfig {
  ClusterSpec cluster;
  std::optional<TaskId> task;
  std::string rpc_layer;
  std::optional<std::string> session_master;  // present but empty differs from absent
  std::string cluster_lookalike;  // an unknown key that probably means `cluster`; or empty
};

// Parses the text of a TF_CONFIG. Empty text is an empty configuration, and unknown keys are
// ignored. Port 0 is accepted (see CheckDialable). Errors: INVALID_ARGUMENT with one line "path:
// problem" for each problem.
absl::StatusOr<TfConfig> ParseTfConfig(absl::string_view json);

// Parses the environment variable TF_CONFIG. Errors: the errors of ParseTfConfig, with "TF_CONFIG:
// " before the message.
absl::StatusOr<TfConfig> ReadTfConfig(const Environment& environment);

// Checks the configuration of a program that trains on this machine alone if there is no cluster.
// Errors: INVALID_ARGUMENT for a configuration without a cluster that names a task or has a key
// similar to `cluster`, because its author probably meant to give a cluster.
absl::Status CheckMeantLocal(const TfConfig& config);

// Checks that every task except `self` has a port. Errors: INVALID_ARGUMENT that names every task
// with port 0, because no task can connect to port 0.
absl::Status CheckDialable(const ClusterSpec& cluster, std::optional<TaskId> self);

// The functions below correspond to TensorFlow's multi_worker_util. Their `task` is a task of the
// cluster or the evaluator.

// Returns true if the task is the chief. The chief and the evaluator count as chief, and so does
// worker 0 of a cluster without a chief.
bool IsChief(const ClusterSpec& cluster, TaskId task);
// Returns the number of chiefs and workers, or the number of evaluators if `role` is the evaluator.
// Errors: INVALID_ARGUMENT for a ps.
absl::StatusOr<int> WorkerCount(const ClusterSpec& cluster, Role role);
// Returns the task's id: 0 for the chief, i + number of chiefs for worker i, and the index for an
// evaluator. Errors: INVALID_ARGUMENT for a ps.
absl::StatusOr<int> IdInCluster(const ClusterSpec& cluster, TaskId task);
// Returns the task that leads collective calls: the chief, or else the first worker. Returns
// nothing for a local program or for the evaluator.
std::optional<TaskId> CollectiveLeader(const ClusterSpec& cluster, std::optional<TaskId> task);
// Returns the task that leads the coordination: the first ps, else the chief, else the first
// worker. Returns nothing for a local program.
std::optional<TaskId> CoordinationLeader(const ClusterSpec& cluster);

// Returns TensorFlow's master string: session_master if it is set, "" if the cluster has at most
// one task, and otherwise "rpc_layer://" and the task's own address. Errors: FAILED_PRECONDITION
// without a task, NOT_FOUND if the cluster does not have the task.
absl::StatusOr<std::string> Master(const TfConfig& config);

}  // namespace cohort

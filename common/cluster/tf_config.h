#pragma once

// TF_CONFIG is a JSON object that tells a task the cluster and its own place in it:
//   {"cluster": {"worker": ["host:port", ...], "ps": {"3": "host:port"}, ...},
//    "task": {"type": "worker", "index": 0}, "rpc_layer": "grpc", "session_master": "..."}
// A job is a list, or an object from index to address (a sparse job). No cluster means local. The
// forms are TensorFlow's; beyond its rules, everything that cannot work is refused here, and every
// problem is reported at once with its JSON path.

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
  std::optional<std::string> session_master;  // present and empty is not the same as absent
  std::string cluster_lookalike;  // an unknown key that may be meant to be `cluster`; empty: none
};

// Parses a TF_CONFIG. Empty text is an empty configuration; unknown keys are ignored. Port 0 is
// accepted (CheckDialable). Errors: INVALID_ARGUMENT with one line "path: problem" for each
// problem.
absl::StatusOr<TfConfig> ParseTfConfig(absl::string_view json);

// Parses the variable TF_CONFIG. Errors: those of ParseTfConfig, after "TF_CONFIG: ".
absl::StatusOr<TfConfig> ReadTfConfig(const Environment& environment);

// Checks the configuration of a program that trains by itself if there is no cluster. Errors:
// INVALID_ARGUMENT for a configuration without a cluster that is meant to have one: it names a
// task, or has a key like `cluster`.
absl::Status CheckMeantLocal(const TfConfig& config);

// Checks that every task but `self` has a port. Errors: INVALID_ARGUMENT naming every task whose
// port is 0, because nobody can connect to it.
absl::Status CheckDialable(const ClusterSpec& cluster, std::optional<TaskId> self);

// The questions of TensorFlow's multi_worker_util. A task is one of the cluster or the evaluator.

// Returns whether the task is the chief: chief and evaluator are, and worker 0 of a cluster without
// a chief.
bool IsChief(const ClusterSpec& cluster, TaskId task);
// Counts chief and workers; for the evaluator, the evaluators. Errors: INVALID_ARGUMENT for a ps.
absl::StatusOr<int> WorkerCount(const ClusterSpec& cluster, Role role);
// Returns 0 for the chief, i + number of chiefs for worker i, and the evaluator's index. Errors:
// INVALID_ARGUMENT for a ps.
absl::StatusOr<int> IdInCluster(const ClusterSpec& cluster, TaskId task);
// Returns the chief, else worker 0; nothing for a local program or for the evaluator.
std::optional<TaskId> CollectiveLeader(const ClusterSpec& cluster, std::optional<TaskId> task);
// Returns the first ps, else the chief, else the first worker; nothing for a local program.
std::optional<TaskId> CoordinationLeader(const ClusterSpec& cluster);

// Returns session_master if it is set, "" if the cluster has at most one task, else the task's own
// address with "rpc_layer://" before it. Errors: FAILED_PRECONDITION without a task, NOT_FOUND if
// the cluster does not have the task.
absl::StatusOr<std::string> Master(const TfConfig& config);

}  // namespace cohort

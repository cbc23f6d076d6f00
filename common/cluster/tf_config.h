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

// Empty text is an empty configuration; unknown keys are ignored. Port 0 is accepted
// (CheckDialable). Errors: INVALID_ARGUMENT with one line "path: problem" for each problem.
absl::StatusOr<TfConfig> ParseTfConfig(absl::string_view json);

// ParseTfConfig of the variable TF_CONFIG. Errors: as there, after "TF_CONFIG: ".
absl::StatusOr<TfConfig> ReadTfConfig(const Environment& environment);

// For a program that trains by itself where there is no cluster. Errors: INVALID_ARGUMENT for a
// configuration without a cluster that is meant to have one: it names a task, or a key like
// `cluster`.
absl::Status CheckMeantLocal(const TfConfig& config);

// Errors: INVALID_ARGUMENT naming every task but `self` whose port is 0: nobody can connect to it.
absl::Status CheckDialable(const ClusterSpec& cluster, std::optional<TaskId> self);

// The questions of TensorFlow's multi_worker_util. A task is one of the cluster or the evaluator.

// Chief and evaluator are chief; worker 0 is where there is no chief.
bool IsChief(const ClusterSpec& cluster, TaskId task);
// Chief and workers; for the evaluator the number of evaluators. Errors: INVALID_ARGUMENT for a ps.
absl::StatusOr<int> WorkerCount(const ClusterSpec& cluster, Role role);
// Chief 0, worker i + number of chiefs, the evaluator its index. Errors: INVALID_ARGUMENT for a ps.
absl::StatusOr<int> IdInCluster(const ClusterSpec& cluster, TaskId task);
// Nothing when local or for the evaluator; else the chief, else worker 0.
std::optional<TaskId> CollectiveLeader(const ClusterSpec& cluster, std::optional<TaskId> task);
// Nothing when local; the first ps, else the chief, else the first worker.
std::optional<TaskId> CoordinationLeader(const ClusterSpec& cluster);

// session_master where present; "" when the cluster has at most one task; else the own address with
// "rpc_layer://" before it. Errors: FAILED_PRECONDITION without a task, NOT_FOUND when the cluster
// does not have it.
absl::StatusOr<std::string> Master(const TfConfig& config);

}  // namespace cohort

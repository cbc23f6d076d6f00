#pragma once

// TF_CONFIG is a JSON object that tells a task its cluster and its own place in the cluster:
//   {"cluster": {"worker": ["host:port", ...], "ps": {"3": "host:port"}, ...},
//    "task": {"type": "worker", "index": 0}, "rpc_layer": "grpc", "session_master": "..."}
// Each job of the cluster is a list of addresses, or an object from index to address (a sparse
// job). A process whose TF_CONFIG has no cluster trains on its own machine alone. The format is
// TensorFlow's. Unlike TensorFlow, the parser refuses every configuration that cannot work, and
// reports all problems at once with their JSON paths.

#include <optional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/cluster/cluster_spec.h"
#include "common/cluster/environment.h"

namespace cohort {

struct TfConfig {
  ClusterSpec cluster;
  std::optional<TaskId> task;
  std::string rpc_layer;
  // TensorFlow's session_master. An absent value and "" differ, because "" is a master string.
  std::optional<std::string> session_master;
  std::string cluster_lookalike;  // an unknown key that probably means `cluster`, or ""
};

// Parses the text of a TF_CONFIG. Empty text is an empty configuration, and unknown keys are
// ignored. Port 0 is accepted (see CheckDialable). Errors: INVALID_ARGUMENT with one line "path:
// problem" for each problem.
absl::StatusOr<TfConfig> ParseTfConfig(absl::string_view json);

// Parses the environment variable TF_CONFIG. Errors: the errors of ParseTfConfig, with "TF_CONFIG:
// " before the message.
absl::StatusOr<TfConfig> ReadTfConfig(const Environment& environment);

// Checks the configuration of a process that trains on this machine alone if there is no cluster.
// Errors: INVALID_ARGUMENT for a configuration without a cluster that names a task or has a key
// similar to `cluster`, because its author probably meant to give a cluster.
absl::Status CheckMeantLocal(const TfConfig& config);

// Returns TensorFlow's master string: session_master if that is set; "" if the cluster has at most
// one task; otherwise the task's own address, after "rpc_layer://" if rpc_layer is set. Errors:
// FAILED_PRECONDITION without a task, NOT_FOUND if the cluster does not have the task.
absl::StatusOr<std::string> Master(const TfConfig& config);

// A ClusterResolver tells a process its cluster and its own task, through methods that users of
// tf.distribute know. The configuration is fixed at construction: unlike TensorFlow's resolver, a
// ClusterResolver does not see later changes of the environment. Immutable; thread-safe.
class ClusterResolver {
 public:
  // Wraps the configuration of a cluster that the caller knows, like TensorFlow's
  // SimpleClusterResolver.
  explicit ClusterResolver(TfConfig config) : config_(std::move(config)) {}

  const ClusterSpec& cluster_spec() const { return config_.cluster; }
  std::optional<std::string> task_type() const;
  std::optional<int> task_id() const;
  const std::string& rpc_layer() const { return config_.rpc_layer; }
  const std::optional<TaskId>& task() const { return config_.task; }
  // Returns TensorFlow's master string (Master). Errors: the errors of Master.
  absl::StatusOr<std::string> master() const { return Master(config_); }

 private:
  TfConfig config_;
};

// Returns a resolver for the cluster in this process's TF_CONFIG, like TensorFlow's
// TFConfigClusterResolver. Errors: the errors of ReadTfConfig.
absl::StatusOr<ClusterResolver> TfConfigClusterResolver(const Environment& environment);

}  // namespace cohort

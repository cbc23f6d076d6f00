#pragma once

// A ClusterResolver tells a program its cluster and its own task, through methods that users of
// tf.distribute know. The cluster is resolved once, at construction: unlike TensorFlow's resolver,
// this class does not see a later change of the environment.

#include <optional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "common/cluster/cluster_spec.h"
#include "common/cluster/environment.h"
#include "common/cluster/tf_config.h"

namespace cohort {

// The cluster and the task of this program. Immutable; thread-safe.
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
  // Returns TensorFlow's master string (Master in tf_config.h). Errors: the errors of Master.
  absl::StatusOr<std::string> master() const { return Master(config_); }

 private:
  TfConfig config_;
};

// Returns a resolver for the cluster in this process's TF_CONFIG, like TensorFlow's
// TFConfigClusterResolver. Errors: the errors of ReadTfConfig.
absl::StatusOr<ClusterResolver> TfConfigClusterResolver(const Environment& environment);

}  // namespace cohort

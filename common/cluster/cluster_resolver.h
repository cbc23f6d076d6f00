#pragma once

// A ClusterResolver is where a program learns its cluster from, under the names that users of
// tf.distribute know. It is resolved once, when made: unlike TensorFlow's, it does not see a later
// change of the environment.

#include <optional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "common/cluster/cluster_spec.h"
#include "common/cluster/environment.h"
#include "common/cluster/tf_config.h"

namespace cohort {

// Immutable; thread-safe.
class ClusterResolver {
 public:
  // Wraps a cluster that the caller knows. TensorFlow: SimpleClusterResolver.
  explicit ClusterResolver(TfConfig config) : config_(std::move(config)) {}

  const ClusterSpec& cluster_spec() const { return config_.cluster; }
  std::optional<std::string> task_type() const;
  std::optional<int> task_id() const;
  const std::string& rpc_layer() const { return config_.rpc_layer; }
  const std::optional<TaskId>& task() const { return config_.task; }
  // Errors: those of Master in tf_config.h.
  absl::StatusOr<std::string> master() const { return Master(config_); }

 private:
  TfConfig config_;
};

// Reads TF_CONFIG of the process. TensorFlow: TFConfigClusterResolver. Errors: those of
// ReadTfConfig.
absl::StatusOr<ClusterResolver> TfConfigClusterResolver(const Environment& environment);

}  // namespace cohort

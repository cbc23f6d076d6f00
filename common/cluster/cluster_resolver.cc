#include "common/cluster/cluster_resolver.h"

#include "common/base/status.h"

namespace cohort {

std::optional<std::string> ClusterResolver::task_type() const {
  if (!config_.task) return std::nullopt;
  return std::string(RoleName(config_.task->role));
}

std::optional<int> ClusterResolver::task_id() const {
  if (!config_.task) return std::nullopt;
  return config_.task->index;
}

absl::StatusOr<ClusterResolver> TfConfigClusterResolver(const Environment& environment) {
  ASSIGN_OR_RETURN(TfConfig config, ReadTfConfig(environment));
  return ClusterResolver(std::move(config));
}

}  // namespace cohort

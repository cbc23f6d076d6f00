#include "coordinator/strategy/make_strategy.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status.h"
#include "coordinator/strategy/local_strategy.h"
#include "coordinator/strategy/multi_worker_mirrored_strategy.h"
#include "coordinator/strategy/parameter_server_strategy.h"
#include "coordinator/strategy/partitioner.h"

namespace cohort {

absl::StatusOr<std::unique_ptr<const Strategy>> MakeStrategy(const StrategySpec& spec) {
  const std::vector<std::string>& types = StrategyTypes();
  if (std::find(types.begin(), types.end(), spec.type) == types.end()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "strategy.type is '", spec.type, "'; it must be one of ", absl::StrJoin(types, ", ")));
  }
  if (spec.type == kMultiWorkerMirrored) return MultiWorkerMirroredStrategy::Make(spec);
  // The remaining types, except parameter_server, train in a single worker.
  if (spec.type != kParameterServer) return LocalStrategy::Make(spec);
  std::shared_ptr<const Partitioner> partitioner;
  if (spec.partitioner) {
    ASSIGN_OR_RETURN(partitioner, MakePartitioner(*spec.partitioner));
  }
  ASSIGN_OR_RETURN(const PlacementPolicy policy, PlacementPolicyFromName(spec.placement));
  return std::make_unique<const ParameterServerStrategy>(std::move(partitioner), policy,
                                                         spec.compression, spec.consistency);
}

}  // namespace cohort

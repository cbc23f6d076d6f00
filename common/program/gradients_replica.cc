#include <utility>

#include "common/program/gradient_rules.h"

namespace cohort {
namespace {

// Sets the gradient of an AllReduce, which is an AllReduce of dy with the opposite value of
// of_mean_losses. The x of each replica enters the results of all replicas, so the gradients of all
// results enter the dx of each replica.
absl::Status AllReduce(GradientSite& site) {
  auto attributes = site.CopyAttributes({"reduction"});
  attributes.push_back(IntAttribute("of_mean_losses", 1 - site.Int("of_mean_losses", 0)));
  site.Set(0, site.Cohort("AllReduce", {site.dy()}, std::move(attributes)));
  return absl::OkStatus();
}

absl::Status AllGather(GradientSite& site) {
  site.Set(0, site.Cohort("AllGatherGrad", {site.dy(), site.input(0)},
                          {IntAttribute("axis", site.Int("axis", 0))}));
  return absl::OkStatus();
}

}  // namespace

void AddReplicaGradients(GradientRules& rules) {
  rules["cohort.AllReduce"] = {AllReduce};
  rules["cohort.AllGather"] = {AllGather};
}

}  // namespace cohort

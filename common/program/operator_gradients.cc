#include <set>
#include <string>

#include "common/program/cohort_ops.h"
#include "common/program/gradient_rules.h"

namespace cohort {

GradientRules AllGradientRules() {
  GradientRules rules;
  AddElementwiseGradients(rules);
  AddReduceGradients(rules);
  AddMovementGradients(rules);
  AddProductGradients(rules);
  AddImageGradients(rules);
  AddNormalizationGradients(rules);
  AddRecurrentGradients(rules);
  AddLossGradients(rules);
  AddReplicaGradients(rules);
  return rules;
}

bool StopsGradient(const onnx::NodeProto& node) {
  if (node.domain() == kCohortDomain) {
    return node.op_type() == "ZerosLike" || node.op_type() == "StopGradient";
  }
  // Operators of ONNX that round, draw random numbers or make constants, through which no gradient
  // flows.
  const std::set<std::string> stops = {"Bernoulli",
                                       "Ceil",
                                       "ConstantOfShape",
                                       "EyeLike",
                                       "Floor",
                                       "OneHot",
                                       "RandomNormal",
                                       "RandomNormalLike",
                                       "RandomUniform",
                                       "RandomUniformLike",
                                       "Range",
                                       "Round",
                                       "Sign"};
  return stops.count(node.op_type()) > 0;
}

}  // namespace cohort

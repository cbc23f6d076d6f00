#include "coordinator/model/optimizer.h"

#include "absl/strings/ascii.h"

namespace cohort {

proto::UpdateRule MakeUpdateRule(const OptimizerSpec& optimizer) {
  proto::UpdateRule rule;
  rule.set_op(absl::AsciiStrToLower(optimizer.class_name));
  for (const auto& [name, value] : optimizer.parameters) {
    proto::HyperParameter* parameter = rule.add_parameters();
    parameter->set_name(name);
    parameter->set_value(value);
  }
  return rule;
}

}  // namespace cohort

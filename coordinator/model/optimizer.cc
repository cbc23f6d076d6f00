#include "coordinator/model/optimizer.h"

namespace cohort {

proto::UpdateRule MakeUpdateRule(const OptimizerSpec& optimizer) {
  proto::UpdateRule rule;
  rule.set_op(optimizer.op);
  for (const auto& [name, value] : optimizer.parameters) {
    proto::HyperParameter* parameter = rule.add_parameters();
    parameter->set_name(name);
    parameter->set_value(value);
  }
  return rule;
}

}  // namespace cohort

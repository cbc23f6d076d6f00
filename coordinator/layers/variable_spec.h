#pragma once

// A variable of a model, before a strategy has placed it.

#include <map>
#include <optional>
#include <string>

#include "common/tensor/dtype.h"
#include "common/tensor/shape.h"
#include "proto/plan.pb.h"

namespace cohort {

// tf.VariableSynchronization. With kOnRead, each replica of a strategy that mirrors variables has
// its own value (common/program/aggregation.h); under other strategies kOnRead is like kOnWrite.
// kAuto is like kOnWrite under every strategy. kNone is refused under every strategy.
enum class VariableSynchronization { kAuto, kNone, kOnWrite, kOnRead };

struct VariableSpec {
  std::string name;  // Keras's name: "dense/kernel", "dense_1/bias"
  DType dtype = DType::kFloat32;
  Shape shape;
  proto::Initializer initializer;  // an empty op means no initial value
  bool trainable = true;
  proto::SparseMode sparse = proto::DENSE_EXACT;  // the sparse mode of the variable's update rule
  // The variable's update rule, without the sparse mode; absent: the model's update rule.
  std::optional<proto::UpdateRule> rule = std::nullopt;
  // Set for a variable whose rows have keys; the shape is then [kKeyBuckets, width].
  std::optional<proto::DynamicTable> dynamic = std::nullopt;
  // The aggregation of values that the closures of a synchronous round assign or add to the
  // variable; gradients do not need an aggregation.
  proto::VariableAggregation aggregation = proto::AGGREGATION_NONE;
  VariableSynchronization synchronization = VariableSynchronization::kAuto;
  // Parameters that the update rule of this variable has beside those of the optimizer.
  std::map<std::string, double> rule_parameters = {};
};

}  // namespace cohort

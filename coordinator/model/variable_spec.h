#pragma once

// A variable of a model, before any strategy has placed it.

#include <optional>
#include <string>

#include "common/tensor/dtype.h"
#include "common/tensor/shape.h"
#include "proto/plan.pb.h"

namespace cohort {

// tf.VariableSynchronization. kOnRead: each replica of a strategy that mirrors variables has a
// value of its own (common/program/replica_rows.h); under other strategies it is like kOnWrite,
// which kAuto is everywhere. kNone is refused under every strategy.
enum class VariableSynchronization { kAuto, kNone, kOnWrite, kOnRead };

struct VariableSpec {
  std::string name;  // Keras's: "dense/kernel", "dense_1/bias"
  DType dtype = DType::kFloat32;
  Shape shape;
  proto::Initializer initializer;  // an empty op: no initial value
  bool trainable = true;
  proto::SparseMode sparse = proto::DENSE_EXACT;  // the update rule's mode
  // Rows under keys; the shape is [kKeyBuckets, width].
  std::optional<proto::DynamicTable> dynamic = std::nullopt;
  // The aggregation of what the closures of a synchronous round assign or add to the variable;
  // gradients need none.
  proto::VariableAggregation aggregation = proto::AGGREGATION_NONE;
  VariableSynchronization synchronization = VariableSynchronization::kAuto;
};

}  // namespace cohort

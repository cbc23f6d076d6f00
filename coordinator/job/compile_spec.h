#pragma once

// The arguments of Keras's compile(): optimizer, loss, metrics and steps_per_execution. String
// forms ("rmsprop") are resolved to the class with Keras's defaults when the job is read.

#include <map>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace cohort {

// The clipping of gradients before they are pushed; at most one is set, 0: none.
struct ClippingSpec {
  double clipnorm = 0;         // the largest norm of each variable's gradient
  double global_clipnorm = 0;  // norm of all gradients together
  double clipvalue = 0;        // the largest size of an element

  friend bool operator==(const ClippingSpec&, const ClippingSpec&) = default;
};

// A Keras schedule of the learning rate; without a class name the rate is constant.
struct ScheduleSpec {
  std::string class_name;  // "CosineDecay"
  // Parameters by Keras's names; booleans are 0 or 1. "warmup_target" is absent without a warm-up.
  std::map<std::string, double> parameters;
  std::vector<double> boundaries, values;  // for PiecewiseConstantDecay

  friend bool operator==(const ScheduleSpec&, const ScheduleSpec&) = default;
};

struct OptimizerSpec {
  std::string class_name = "SGD";  // Keras's
  std::string op = "sgd";          // the update rule's
  double learning_rate = 0.01;     // without a schedule
  ScheduleSpec schedule;
  // Every parameter of the class by Keras's name; booleans are 0 or 1.
  std::map<std::string, double> parameters;
  ClippingSpec clipping;
  // Sparse mode ("lazy") by variable, or under "" that of all. Others are dense_exact.
  std::map<std::string, std::string> sparse_updates;

  friend bool operator==(const OptimizerSpec&, const OptimizerSpec&) = default;
};

enum class LossKind { kCategoricalCrossentropy, kSparseCategoricalCrossentropy };

// Keras's function name: "categorical_crossentropy".
absl::string_view LossName(LossKind kind);

struct LossSpec {
  LossKind kind = LossKind::kCategoricalCrossentropy;
  bool from_logits = false;
  double label_smoothing = 0;  // categorical only

  friend bool operator==(const LossSpec&, const LossSpec&) = default;
};

// kAccuracy is resolved by the loss: categorical or sparse.
enum class MetricKind { kAccuracy, kCategoricalAccuracy, kSparseCategoricalAccuracy };

struct MetricSpec {
  MetricKind kind = MetricKind::kAccuracy;
  std::string name = "accuracy";  // the reported name

  friend bool operator==(const MetricSpec&, const MetricSpec&) = default;
};

struct CompileSpec {
  OptimizerSpec optimizer;
  LossSpec loss;
  std::vector<MetricSpec> metrics;
  int64_t steps_per_execution = 1;  // in a closure; the last one of a pass may have fewer

  friend bool operator==(const CompileSpec&, const CompileSpec&) = default;
};

}  // namespace cohort

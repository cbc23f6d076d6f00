#pragma once

// The arguments of Keras's compile(): optimizer, loss, metrics and steps_per_execution. A string
// form ("rmsprop") is resolved, when the job is read, to the class with Keras's defaults.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "coordinator/losses/loss_table.h"
#include "coordinator/metrics/metric_table.h"

namespace cohort {

// The clipping of gradients before they are pushed. At most one member is set; 0 means not set.
struct ClippingSpec {
  double clipnorm = 0;         // upper bound of the norm of each variable's gradient
  double global_clipnorm = 0;  // upper bound of the norm of all gradients together
  double clipvalue = 0;        // upper bound of the absolute value of an element

  friend bool operator==(const ClippingSpec&, const ClippingSpec&) = default;
};

// A Keras schedule of the learning rate. If the class name is empty, the rate is constant.
struct ScheduleSpec {
  std::string class_name;  // Keras's class name, such as "CosineDecay"
  // Parameters by Keras's names; booleans are 0 or 1. "warmup_target" is absent if there is no
  // warm-up.
  std::map<std::string, double> parameters;
  // Lists of PiecewiseConstantDecay; empty for other classes.
  std::vector<double> boundaries, values;

  friend bool operator==(const ScheduleSpec&, const ScheduleSpec&) = default;
};

struct OptimizerSpec {
  std::string class_name = "SGD";  // Keras's class name of the optimizer
  std::string op = "sgd";          // name of the optimizer's update rule
  double learning_rate = 0.01;     // the constant learning rate; used if there is no schedule
  ScheduleSpec schedule;
  // The value of every parameter of the optimizer class, by Keras's name; booleans are 0 or 1. A
  // rare parameter (RuleParameter) is absent while it has its default.
  std::map<std::string, double> parameters;
  // Variables whose names contain one of these texts have no weight decay.
  std::vector<std::string> exclude_from_weight_decay;
  // Muon updates variables whose names contain one of these texts as AdamW does.
  std::vector<std::string> exclude_layers;
  ClippingSpec clipping;
  // The sparse mode ("lazy") of variables by name; the entry "" holds for all variables. A variable
  // without an entry is dense_exact.
  std::map<std::string, std::string> sparse_updates;

  friend bool operator==(const OptimizerSpec&, const OptimizerSpec&) = default;
};

// The loss and the metrics of one output of the model.
struct OutputSpec {
  // The output's name; empty for the only output of a model, unless the file names it.
  std::string name;
  bool has_loss = true;  // false: the output does not count in the loss that is minimized
  LossSpec loss = DefaultLoss("CategoricalCrossentropy");
  double loss_weight = 1;  // factor of this loss in the loss that is minimized
  // The metrics of the key `metrics`, and then those of `weighted_metrics`.
  std::vector<MetricSpec> metrics;

  // Returns whether a step compares the output with labels.
  bool reads_labels() const { return has_loss || !metrics.empty(); }

  friend bool operator==(const OutputSpec&, const OutputSpec&) = default;
};

// Returns the name under which a model with several outputs reports a loss or a metric of one
// output, as in Keras.
inline std::string ReportedName(const OutputSpec& output, const std::string& name) {
  return output.name + "_" + name;
}

struct CompileSpec {
  OptimizerSpec optimizer;
  std::vector<OutputSpec> outputs = {OutputSpec()};  // in the order of the model's outputs
  // Steps in one closure; the last closure of a pass may have fewer.
  int64_t steps_per_execution = 1;

  friend bool operator==(const CompileSpec&, const CompileSpec&) = default;
};

}  // namespace cohort

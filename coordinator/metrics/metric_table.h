#pragma once

// The table of Keras's metrics, one row per class. A metric is a state and a function of the state.
// A step adds nodes that compute the state of its batch: a list of float64, which merges with other
// states by addition. So the states of any steps, on any workers, add up to the state of all their
// examples, and counts are exact up to 2^53. The coordinator computes the metric's value from the
// sum.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "coordinator/losses/loss_reduction.h"
#include "coordinator/losses/loss_table.h"

namespace cohort {

struct MetricSpec {
  std::string class_name = "accuracy";  // class name of a row of the table
  std::string name = "accuracy";        // the name under which the metric is reported
  int keras = kKerasOtherwise;          // 2 or 3: the version of Keras whose formula counts
  bool weighted = false;                // true: sample_weight and class_weight count
  ClassConfig config;

  friend bool operator==(const MetricSpec&, const MetricSpec&) = default;
};

// The arguments of a row's `add`. Lives for one call.
struct MetricSite {
  FormulaNodes& nodes;
  const MetricSpec& spec;
  const LossInputs& in;
  const NodeValue& weight;  // float32; absent: every example counts once

  const ClassConfig& config() const { return spec.config; }
  const std::string& y_true() const { return in.y_true.name; }
  const std::string& y_pred() const { return in.y_pred.name; }
};

using MetricState = absl::Span<const double>;

struct MetricRow {
  std::string class_name;
  // The names that stand for the class; the first is the name under which it is reported.
  std::vector<std::string> names;
  LabelKind labels = LabelKind::kLikeOutput;
  std::vector<ConfigKey> keys;
  // Adds the state of a batch, a list of float64, and returns its name.
  std::string (*add)(const MetricSite& site) = nullptr;
  // Returns the value of a state: one number, or one per class, label or threshold.
  std::vector<double> (*value)(const ClassConfig& config, MetricState state) = nullptr;
  // Returns the number of elements of a state; null: it is 2.
  int64_t (*size)(const ClassConfig& config, const NodeValue& output) = nullptr;
  // Checks a config after its keys were read. Returns the error, or "". May be null.
  std::string (*check)(const ClassConfig& config) = nullptr;
  // Checks the output's shape for this config. Returns the error, or "". May be null.
  std::string (*check_output)(const ClassConfig& config, const NodeValue& output) = nullptr;
  bool only_keras3 = false;
};

const std::vector<MetricRow>& MetricTable();
// Returns the row with this class name, or with this function name; null: there is none.
const MetricRow* FindMetricClass(absl::string_view class_name);
const MetricRow* FindMetricFunction(absl::string_view name);
const MetricRow& RowOf(const MetricSpec& spec);
MetricSpec DefaultMetric(const MetricRow& row, int keras);

// Returns the metric that "accuracy" or "crossentropy" stands for with these labels and this
// output, under the same name. Returns any other metric unchanged.
MetricSpec ResolveMetric(const MetricSpec& spec, const NodeValue& labels, const NodeValue& output);
// Returns whether ResolveMetric may return another metric.
bool IsByShape(const MetricSpec& spec);

// Checks that labels and output fit a resolved metric. Errors: INVALID_ARGUMENT naming the metric.
absl::Status CheckMetricShape(const MetricSpec& spec, const NodeValue& labels,
                              const NodeValue& output);
// Adds the state of a batch for a resolved metric, and returns its name. `inputs.y_true` are the
// labels as the data give them. Errors: those of CheckMetricShape.
absl::StatusOr<std::string> AddMetricState(const MetricSpec& spec, const LossInputs& inputs,
                                           const ExampleWeights& weights, FormulaNodes& nodes);
// Returns the number of elements of a resolved metric's state.
int64_t MetricStateSize(const MetricSpec& spec, const NodeValue& output);
// Returns the value of a resolved metric's state, which has MetricStateSize elements.
std::vector<double> MetricValue(const MetricSpec& spec, MetricState state);
// Returns the names and values of resolved metrics. Their states, of `sizes` elements each, are
// concatenated in `states`; metrics whose states are missing are left out. A metric with several
// values has the names "name_0", "name_1" and so on.
std::vector<std::pair<std::string, double>> NamedMetrics(absl::Span<const MetricSpec> metrics,
                                                         absl::Span<const int64_t> sizes,
                                                         MetricState states);

// Return the rows of one family.
std::vector<MetricRow> MeanMetrics();
std::vector<MetricRow> AccuracyMetrics();
std::vector<MetricRow> ConfusionMetrics();
std::vector<MetricRow> CurveMetrics();
std::vector<MetricRow> ScoreMetrics();
std::vector<MetricRow> OverlapMetrics();

// Adds the state of a weighted mean: sum(w v) and sum(w). A weight for each example holds for all
// values of its example.
std::string AddMeanState(const NodeValue& values, const NodeValue& weight, FormulaNodes& nodes);
std::vector<double> MeanOfState(const ClassConfig& config, MetricState state);
// Returns the weight with an element for each of `values`, in float64; ones if it is absent.
std::string SpreadWeight(const NodeValue& weight, const NodeValue& values, FormulaNodes& nodes);
// Returns a / b, or 0 where b is 0.
double DivideOrZero(double a, double b);

}  // namespace cohort

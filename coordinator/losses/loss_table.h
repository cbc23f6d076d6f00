#pragma once

// The table of Keras's losses, one row per class: the class's names, the keys of its config, the
// labels that it takes, and a function that adds the nodes of the per-example losses.
// loss_reduction.h makes one number of the per-example losses. If Keras 2 and Keras 3 compute
// differently, the version of the file decides.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "coordinator/losses/class_config.h"
#include "coordinator/losses/formula_nodes.h"

namespace cohort {

// The version of Keras whose formulas count if the file does not say its version.
inline constexpr int kKerasOtherwise = 3;

// The ways to make one number of the per-example losses (loss_reduction.h).
enum class LossReduction { kSumOverBatchSize, kSum, kNone, kMeanWithSampleWeight };

struct LossSpec {
  std::string class_name = "CategoricalCrossentropy";  // class name of a row of the table
  int keras = kKerasOtherwise;  // 2 or 3: the version of Keras whose formula counts
  LossReduction reduction = LossReduction::kSumOverBatchSize;
  ClassConfig config;  // values of the row's keys

  friend bool operator==(const LossSpec&, const LossSpec&) = default;
};

// A value of a graph. `dims` are its sizes as far as they are known when the graph is built; -1 is
// unknown. An absent value has an empty name.
struct NodeValue {
  std::string name;
  std::vector<int64_t> dims;
  DType dtype = DType::kFloat32;

  bool has_value() const { return !name.empty(); }
  int rank() const { return static_cast<int>(dims.size()); }
};

// The values from which a loss or a metric is computed. y_true has the shape that the row's
// LabelKind asks for.
struct LossInputs {
  NodeValue y_true;
  NodeValue y_pred;
  // The input of the softmax or sigmoid that computed y_pred; absent if y_pred comes from another
  // operator.
  NodeValue logits;
};

// The per-example losses. `mask` is a bool for each; false: the loss does not count.
struct ExampleLosses {
  NodeValue values;
  NodeValue mask;
};

// The form of the labels that a loss or a metric takes.
enum class LabelKind {
  kLikeOutput,  // float32 in the shape of the output
  kClasses,     // int64 class numbers in the shape of the output without its last axis
  kClassRows,   // int64 class numbers, one for each example
  kSequences,   // int64 labels [N,L] for outputs [N,T,C]
  kAny,         // unchanged
};

// The arguments of a row's `add`. Lives for one call.
struct LossSite {
  FormulaNodes& nodes;
  const LossSpec& spec;
  const LossInputs& in;

  const ClassConfig& config() const { return spec.config; }
  const std::string& y_true() const { return in.y_true.name; }
  const std::string& y_pred() const { return in.y_pred.name; }
};

struct LossRow {
  std::string class_name;
  // The names of the function, the current one first.
  std::vector<std::string> names;
  LabelKind labels = LabelKind::kLikeOutput;
  std::vector<ConfigKey> keys;
  ExampleLosses (*add)(const LossSite& site) = nullptr;
  // Checks a config after its keys were read. Returns the error, or "". May be null.
  std::string (*check)(const ClassConfig& config) = nullptr;
  bool differs_by_version = false;  // true: Keras 2 and Keras 3 compute different numbers
  bool only_keras3 = false;         // true: Keras 2 has no such class
};

// Returns all rows.
const std::vector<LossRow>& LossTable();
// Returns the row with this class name, or with this function name; null: there is none.
const LossRow* FindLossClass(absl::string_view class_name);
const LossRow* FindLossFunction(absl::string_view name);
// Returns the row of a spec, which ReadLoss made.
const LossRow& RowOf(const LossSpec& spec);
// Return the loss of a class with Keras's defaults.
LossSpec DefaultLoss(const LossRow& row, int keras);
LossSpec DefaultLoss(absl::string_view class_name);

// Adds the nodes of the per-example losses.
ExampleLosses AddExampleLosses(const LossSpec& spec, const LossInputs& inputs, FormulaNodes& nodes);

// Changes labels to the form that `kind` asks for beside an output. Labels [N] of an output [N,1]
// become [N,1], as in Keras. Errors: INVALID_ARGUMENT with the labels' type and the type that they
// must have; `what` begins the message.
absl::StatusOr<NodeValue> FitLabels(LabelKind kind, const NodeValue& labels,
                                    const NodeValue& output, absl::string_view what,
                                    FormulaNodes& nodes);
// Checks labels without adding nodes. Errors: those of FitLabels.
absl::Status CheckLabelShape(LabelKind kind, const NodeValue& labels, const NodeValue& output,
                             absl::string_view what);

// Returns the output in the form in which labels of this kind are compared with it: for class
// numbers, the axis of the classes, which the config names, is moved to the end.
NodeValue OutputForLabels(LabelKind kind, const ClassConfig& config, const NodeValue& output);
// Checks that the axes of a config are axes of the output. Errors: INVALID_ARGUMENT; `what` begins
// the message.
absl::Status CheckAxes(const ClassConfig& config, const NodeValue& output, absl::string_view what);

// Returns the axis as a number from 0 on.
int64_t NormalAxisOf(int64_t axis, const NodeValue& value);
// Return the value's sizes without these axes, and without its last axis.
std::vector<int64_t> DimsWithout(const NodeValue& value, absl::Span<const int64_t> axes);

// Return the rows of one family.
std::vector<LossRow> RegressionLosses();
std::vector<LossRow> CrossentropyLosses();
std::vector<LossRow> MarginLosses();
std::vector<LossRow> OverlapLosses();
std::vector<LossRow> EmbeddingLosses();

}  // namespace cohort

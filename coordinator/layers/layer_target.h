#pragma once

// The graph to which layers add their nodes, and the values that layers pass to each other.
//
// Keras's images are [N,rows,columns,channels], and ONNX's are [N,channels,rows,columns]. Between
// layers that compute on images, values stay in ONNX's order (LayerValue::channels_first). A layer
// to which the order of elements matters gets its input in Keras's order. Types are always in
// Keras's order.

#include <map>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "common/program/graph_builder.h"
#include "coordinator/layers/layer_plan.h"

namespace cohort {

// The purpose of a graph. Only training applies dropout and normalizes by the batch. Prediction
// reads tables whole, so that its graph is an ordinary ONNX model.
enum class ModelMode { kTraining, kEvaluation, kPrediction };

// A tensor in a graph: the output of a layer, or of a model.
struct LayerValue {
  std::string value;
  // The input of the final softmax or sigmoid; empty if the value comes from another operator.
  // Keras computes a cross-entropy from this input (its `_keras_logits`), for a sigmoid too.
  std::string logits = "";
  bool channels_first =
      false;  // true: the value is [N,channels,...] where the type is [...,channels]
  TensorType type = {};
  // A bool value [N] or [N,steps,...] that is true for what counts; empty: everything counts.
  std::string mask = "";
};

// The new values of the variables that a training step changes without training them, by the
// variable's name.
using StateValues = std::map<std::string, std::string>;

struct BuiltCall {
  const CallSettings& settings;
  absl::Span<const LayerValue> inputs;
  absl::Span<const TensorType> outputs;  // types that Plan has returned

  const std::string& layer() const { return settings.layer; }
  const LayerValue& input() const { return inputs[0]; }
  const Shape& shape() const { return inputs[0].type.shape; }
  // Returns the name of one of the layer's variables.
  std::string Variable(const char* name) const { return settings.layer + "/" + name; }
};

// The graph and the mode in which layers add their nodes. The nodes get the builder's name prefix.
struct LayerTarget {
  GraphBuilder& graph;
  ModelMode mode;      // kEvaluation in a training step too, for a call with `training` false
  StateValues& state;  // new values of variables, set by all layers so far
  // Float32 scalars that the calls so far add to the loss of the batch's mean example.
  std::vector<std::string>& penalties;
  // Returns the ids of a column as positions in the table, or among the looked-up rows. Requires
  // that the lookup was planned.
  absl::FunctionRef<std::string(const TensorType& ids, const std::string& table)> ids;
};

}  // namespace cohort

#pragma once

// The graph to which layers add their nodes, and the values that layers pass to each other.
//
// Keras's images are [N,rows,columns,channels], and ONNX's are [N,channels,rows,columns]. Between
// layers that compute on images, values stay in ONNX's order (ModelOutput::channels_first). A layer
// to which the order of elements matters gets its input in Keras's order. Shapes are always in
// Keras's order.

#include <map>
#include <string>

#include "absl/types/span.h"
#include "common/program/graph_builder.h"
#include "common/tensor/shape.h"

namespace cohort {

// The use of a graph. Only training applies dropout and normalizes by the batch. Prediction reads
// tables whole, so that its graph is an ordinary ONNX model.
enum class ModelMode { kTraining, kEvaluation, kPrediction };

// The output of a layer, or of a model, in a graph.
struct ModelOutput {
  std::string value;
  // The input of the final softmax or sigmoid; empty if the model ends in another way. Keras
  // computes a cross-entropy from this input (its `_keras_logits`), for a sigmoid too.
  std::string logits;
  bool channels_first = false;  // true: an image whose value is [N,channels,rows,columns]
};

// The new value in a training step of each variable that the step changes without training it.
using StateValues = std::map<std::string, std::string>;

struct LayerInputs {
  absl::Span<const ModelOutput> values;  // for a layer that looks up rows: the ids
  const Shape& first_shape;              // shape of one example of the first input
};

// The graph and the mode in which layers add their nodes. The nodes get the builder's name prefix.
struct LayerTarget {
  GraphBuilder& graph;
  const ModelMode mode;  // kEvaluation in a training step too, for a call with `training` false
  StateValues& state;    // new values of variables, from all layers so far
};

// Returns the output with images in Keras's order. An output with logits is in Keras's order
// already, so it is returned unchanged.
inline ModelOutput ChannelsLast(const ModelOutput& output, GraphBuilder& graph) {
  if (!output.channels_first) return output;
  return {graph.Op("Transpose", {output.value}, {IntsAttribute("perm", {0, 2, 3, 1})}), ""};
}

}  // namespace cohort

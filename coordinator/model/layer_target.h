#pragma once

// The target of the nodes of layers, and what layers hand on to each other.
//
// Keras's images are [N,rows,columns,channels] and ONNX's [N,channels,rows,columns]. Between layers
// that compute on images they stay in ONNX's order (ModelOutput::channels_first); a layer to which
// the order of the elements matters gets them in Keras's. Shapes are Keras's throughout.

#include <map>
#include <string>

#include "absl/types/span.h"
#include "common/program/graph_builder.h"
#include "common/tensor/shape.h"

namespace cohort {

// Training drops out, and normalizes by the batch. Prediction reads tables whole: its graph is an
// ordinary ONNX model.
enum class ModelMode { kTraining, kEvaluation, kPrediction };

// The output of a layer, or a model, in a graph.
struct ModelOutput {
  std::string value;
  // The input of the softmax or sigmoid at the end; empty if the model ends otherwise. Keras
  // computes a cross-entropy from it (its `_keras_logits`), for a sigmoid too.
  std::string logits;
  bool channels_first = false;  // an image, and value is [N,channels,rows,columns]
};

// The value that a training step gives each variable that it does not train but changes.
using StateValues = std::map<std::string, std::string>;

struct LayerInputs {
  absl::Span<const ModelOutput> values;  // the ids, for a layer that looks up
  const Shape& first_shape;              // that of one example
};

// The place where the nodes of layers go. They get the builder's name prefix.
struct LayerTarget {
  GraphBuilder& graph;
  const ModelMode mode;  // kEvaluation also in a training step, of a call with `training` false
  StateValues& state;    // of the layers so far; theirs are added
};

// Returns the output with an image in Keras's order.
ModelOutput ChannelsLast(const ModelOutput& output, GraphBuilder& graph);

}  // namespace cohort

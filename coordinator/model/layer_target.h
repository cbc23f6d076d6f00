#pragma once

// Where the nodes of layers go, and what layers hand on to each other.
//
// Keras's images are [N,rows,columns,channels] and ONNX's [N,channels,rows,columns]. Between layers
// that compute on images they stay as ONNX has them (ModelOutput::channels_first); a layer to which
// the order of the elements matters gets them as Keras has them. Shapes are Keras's throughout.

#include <map>
#include <string>

#include "absl/types/span.h"
#include "common/program/graph_builder.h"
#include "common/tensor/shape.h"

namespace cohort {

// Training drops out, and normalizes by the batch. Prediction reads tables whole: its graph is an
// ordinary ONNX model.
enum class ModelMode { kTraining, kEvaluation, kPrediction };

// What a layer, or a model, left in a graph.
struct ModelOutput {
  std::string value;
  // What the softmax or sigmoid at the end was given; empty when it ends otherwise.
  // Keras computes a cross-entropy from it (its `_keras_logits`), for a sigmoid too.
  std::string logits;
  bool channels_first = false;  // an image, and value is [N,channels,rows,columns]
};

// The value that a training step gives each variable that it does not train but changes.
using StateValues = std::map<std::string, std::string>;

struct LayerInputs {
  absl::Span<const ModelOutput> values;  // of a layer that looks up: the ids
  const Shape& first_shape;              // of one example
};

// Where nodes of layers go. They get the builder's name prefix.
struct LayerTarget {
  GraphBuilder& graph;
  const ModelMode mode;  // kEvaluation also in a training step, of a call with `training` false
  StateValues& state;    // of the layers so far; theirs are added
};

// With an image as Keras has it.
ModelOutput ChannelsLast(const ModelOutput& output, GraphBuilder& graph);

}  // namespace cohort

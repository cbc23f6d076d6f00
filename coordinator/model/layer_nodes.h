#pragma once

// A layer as nodes of a graph.

#include <string>

#include "absl/types/span.h"
#include "common/program/graph_builder.h"
#include "common/tensor/shape.h"
#include "coordinator/job/layer_spec.h"

namespace cohort {

// Training drops out. Prediction reads tables whole: its graph is an ordinary ONNX model.
enum class ModelMode { kTraining, kEvaluation, kPrediction };

// What a layer, or a model, left in a graph.
struct ModelOutput {
  std::string value;
  // What the softmax or sigmoid at the end was given; empty when it ends otherwise.
  // Keras computes a cross-entropy from it (its `_keras_logits`), for a sigmoid too.
  std::string logits;
};

struct LayerInputs {
  absl::Span<const ModelOutput> values;  // of a layer that looks up: the ids
  const Shape& first_shape;              // of one example
};

// The layer is no InputLayer. Nodes get the builder's name prefix.
ModelOutput AddLayerNodes(const LayerSpec& layer, const LayerInputs& inputs, ModelMode mode,
                          GraphBuilder& graph);

}  // namespace cohort

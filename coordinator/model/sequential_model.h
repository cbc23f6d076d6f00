#pragma once

// A Sequential model with its shapes worked out for one type of input, which adds itself to graphs:
// the same layers with or without what only training does (dropout). Values between layers are
// float32 [N, ...].

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/program/graph_builder.h"
#include "coordinator/job/layer_spec.h"
#include "coordinator/model/variable_spec.h"
#include "proto/plan.pb.h"

namespace cohort {

enum class ModelMode { kTraining, kInference };

// What a model left in a graph.
struct ModelOutput {
  std::string value;
  // What the softmax or sigmoid at the model's end was given; empty when the model ends otherwise.
  // Keras computes a cross-entropy from it (its `_keras_logits`), for a sigmoid too.
  std::string logits;
};

// Immutable after construction; thread-compatible.
class SequentialModel {
 public:
  // `x` is the type of a batch of inputs. Errors: INVALID_ARGUMENT naming the layer and the shape
  // that it cannot take.
  static absl::StatusOr<SequentialModel> Create(const ModelSpec& spec, uint64_t seed,
                                                const proto::ComponentSpec& x);

  const std::vector<VariableSpec>& variables() const { return variables_; }
  // Of one example, without the batch.
  const Shape& output_shape() const { return output_shape_; }

  // Declares each variable as a graph input under its own name, in creation order.
  void AddVariableInputs(GraphBuilder& graph) const;
  // `x` is the graph's name of the input batch.
  ModelOutput AddLayers(const std::string& x, ModelMode mode, GraphBuilder& graph) const;

 private:
  SequentialModel() = default;

  absl::Status Apply(const InputLayerSpec& layer, Shape& shape);
  absl::Status Apply(const DenseSpec& layer, Shape& shape);
  absl::Status Apply(const DropoutSpec& layer, Shape& shape);
  absl::Status Apply(const FlattenSpec& layer, Shape& shape);
  absl::Status Apply(const ActivationSpec& layer, Shape& shape);

  std::vector<LayerSpec> layers_;
  std::vector<Shape> input_shapes_;  // of one example, into layer i
  std::vector<VariableSpec> variables_;
  Shape output_shape_;
  DType input_dtype_ = DType::kFloat32;
  uint64_t seed_ = 0;
};

}  // namespace cohort

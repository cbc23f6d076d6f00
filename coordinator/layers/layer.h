#pragma once

// Keras's layers. Each layer class of Keras is one C++ class that implements Layer, in the file of
// its family (core.cc, convolution.cc, ...), and one row of the table of layer classes
// (classes/layer_classes.h). A layer is read once from its config, and never changes after that. A
// model calls its layers: each call gives the layer tensors and gets tensors back. All calls of a
// layer share the layer's variables.
//
// A model is built in two passes over its calls. Plan computes from the types of a call's inputs
// the types of its outputs, and collects the variables; it reports inputs that the layer cannot
// take. Build adds the nodes of the call to a graph. Types have no batch dimension, and are always
// in Keras's order of dimensions.

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/tensor/dtype.h"
#include "common/tensor/shape.h"
#include "coordinator/layers/dynamic_table.h"
#include "coordinator/layers/layer_plan.h"
#include "coordinator/layers/layer_target.h"
#include "coordinator/layers/limits.h"

namespace cohort {

class LayerReader;

// The type that an InputLayer declares for one example.
struct InputType {
  std::vector<int64_t> shape;  // -1: any size, which the data decide
  DType dtype = DType::kFloat32;
  bool has_shape = true;  // false: the data decide the whole shape
};

// Implementations are immutable after Read; thread-compatible.
class Layer {
 public:
  virtual ~Layer() = default;

  // Reads the config. Errors go to the reader, and the layer is then not used.
  virtual void Read(LayerReader& reader) = 0;

  // Returns the types of the outputs of a call, and adds the layer's variables to the plan. Errors:
  // INVALID_ARGUMENT naming the layer and the input that it cannot take.
  virtual absl::StatusOr<std::vector<TensorType>> Plan(const PlannedCall& call,
                                                       LayerPlan& plan) const = 0;

  // Adds the nodes of a call that Plan has accepted. Returns a value for each planned output; the
  // caller sets their types.
  virtual std::vector<LayerValue> Build(const BuiltCall& call, LayerTarget& target) const = 0;

  // Returns what an InputLayer declares, or null for every other layer.
  virtual const InputType* input() const { return nullptr; }

  // Returns what the layer's output adds to the loss, if that is what the layer is for, or null.
  virtual const RegularizerSpec* activity() const { return nullptr; }

  // Returns the dynamic table of an embedding, the first one of a nested model, or null.
  virtual const DynamicTableSpec* dynamic_table() const { return nullptr; }
};

// Returns the error of a layer that cannot take examples of this shape.
absl::Status WrongInput(absl::string_view layer, const Shape& shape, absl::string_view need);

// Base of layers with one input and one output of the same type, and no variables.
// Thread-compatible.
class SameTypeLayer : public Layer {
 public:
  absl::StatusOr<std::vector<TensorType>> Plan(const PlannedCall& call,
                                               LayerPlan& plan) const override;
};

}  // namespace cohort

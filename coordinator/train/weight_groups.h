#pragma once

// The places of a model's variables in Keras's files of weights (keras_writer.h). A layer's group
// follows from its class and its place in the model, and not from its name. Layers that have other
// layers or cells inside keep the variables of these in groups of their own, under the names of
// Keras's attributes: "layers/bidirectional/forward_layer/cell" has the first variables of an LSTM.
// hdf5_weights.cc knows the same names in the other direction.

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "coordinator/network/model_spec.h"

namespace cohort {

// A group, with the names of its own variables in the order of their numbers.
struct WeightGroup {
  std::string path;  // path of the group; "": the model itself
  std::string name;  // the layer's name; empty in files of Keras 2, which have none
  std::vector<std::string> variables;
  // The way to the layer in Keras 2's object graph of the model (tracked_checkpoint.h):
  // "layer_with_weights-0/cell". It counts the layers that have weights. And the attributes of the
  // variables there: "kernel".
  std::string tracked;
  std::vector<std::string> attributes2;
  // The same in Keras 3's, "_operations/3/cell" and "_kernel". It counts all layers and operations.
  std::string tracked3;
  std::vector<std::string> attributes3;
};

// Returns the groups of a model in the order of its layers. `variables` are the names of the
// model's variables; those of one layer are in the layer's order. Errors: INVALID_ARGUMENT for a
// variable for which there is not exactly one place.
absl::StatusOr<std::vector<WeightGroup>> KerasWeightGroups(const ModelSpec& model,
                                                           absl::Span<const std::string> variables);

// Returns why the ways in Keras 3's object graph are not known, for people, or "".
std::string WhyNoKeras3Ways(const ModelSpec& model);

}  // namespace cohort

#pragma once

// The groups of .weights.h5 files: a layer has the name of its class and a counter, in the order of
// the model's layers, not by their names.

#include <map>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace cohort {

// Returns Keras's name for a class in snake case: "conv2d" of Conv2D, "multi_head_attention" of
// MultiHeadAttention, "re_lu" of ReLU, "global_average_pooling1d" of GlobalAveragePooling1D.
std::string KerasSnakeCase(absl::string_view class_name);

// Returns the group of each layer in a file of Keras 2.15 or 3, given the classes of the model's
// layers in the order of its config: "layers/conv2d", "layers/conv2d_1", "layers/dense".
std::vector<std::string> KerasLayerGroups(absl::Span<const std::string> classes);

// Returns the names of the layers of a model, by their groups, given the JSON of its config. Layers
// of nested models are there too, with the names of the models around them: "encoder/dense" of
// "layers/functional/layers/dense". Empty if the text is not the JSON of a model.
std::map<std::string, std::string> KerasLayersByGroup(const std::string& config);

}  // namespace cohort

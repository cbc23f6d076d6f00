#pragma once

// A functional model in the form of Keras 3's get_config: its layers, the inputs of each use of a
// layer, and the model's inputs and output. Private to this folder.

#include <optional>
#include <string>

#include "coordinator/job/layer_spec.h"
#include "coordinator/json/json_reader.h"
#include "nlohmann/json_fwd.hpp"

namespace cohort {

inline constexpr size_t kLayersMax = 1000;

// The program that wrote a model, as far as the model's class form shows it. If neither the version
// nor a module is given, the model was written by hand.
struct KerasFile {
  std::optional<int> major_version;  // the major version in `keras_version`
  bool has_module = false;
};

// Reads `config` into `model`, whose name has been read before, and finishes the reader.
void ReadFunctional(ObjectReader& config, const KerasFile& file, ModelSpec& model);

nlohmann::ordered_json FunctionalToJson(const ModelSpec& model);

}  // namespace cohort

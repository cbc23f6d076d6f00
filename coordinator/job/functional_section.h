#pragma once

// A functional model: which layers there are, what each use of one is given, and what is the
// model's input and output, in the form of Keras 3's get_config. Private to this folder.

#include <optional>
#include <string>

#include "coordinator/job/json_reader.h"
#include "coordinator/job/layer_spec.h"
#include "nlohmann/json_fwd.hpp"

namespace cohort {

inline constexpr size_t kLayersMax = 1000;

// The writer of a model, as far as its class form says. Neither version nor module: written by
// hand.
struct KerasFile {
  std::optional<int> major_version;  // from `keras_version`
  bool has_module = false;
};

// Reads `config` into `model`, whose name is read already, and finishes the reader.
void ReadFunctional(ObjectReader& config, const KerasFile& file, ModelSpec& model);

nlohmann::ordered_json FunctionalToJson(const ModelSpec& model);

}  // namespace cohort

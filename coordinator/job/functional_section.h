#pragma once

// A functional model: which layers there are, what each use of one is given, and what is the
// model's input and output, in the form of Keras 3's get_config. Private to this folder.

#include <string>

#include "coordinator/job/json_reader.h"
#include "coordinator/job/layer_spec.h"
#include "nlohmann/json_fwd.hpp"

namespace cohort {

inline constexpr size_t kLayersMax = 1000;

// Reads `config` into `model`, whose name is read already, and finishes the reader.
void ReadFunctional(ObjectReader& config, ModelSpec& model);

nlohmann::ordered_json FunctionalToJson(const ModelSpec& model);

}  // namespace cohort

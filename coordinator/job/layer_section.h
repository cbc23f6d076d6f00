#pragma once

// Reads a layer of a job's model into its typed form, and writes it back. Private to this folder.

#include <optional>
#include <string>
#include <vector>

#include "coordinator/job/layer_spec.h"
#include "coordinator/json/json_reader.h"
#include "nlohmann/json_fwd.hpp"

namespace cohort {

struct ReadLayerResult {
  std::optional<LayerSpec> layer;  // the layer that was read; empty after an error
  // The shape of an example, if a layer other than an InputLayer gives the shape.
  std::optional<std::vector<int64_t>> input_shape;
  std::string config_path;
};
ReadLayerResult ReadLayer(const JsonPlace& place);

nlohmann::ordered_json LayerToJson(const LayerSpec& layer);

// Returns the name of Keras's class, such as "Dense".
std::string LayerClass(const LayerSpec& layer);

}  // namespace cohort

#pragma once

// Reads a layer of a job's model into its typed form, and writes it back. Private to this folder.

#include <optional>
#include <string>
#include <vector>

#include "coordinator/job/json_reader.h"
#include "coordinator/job/layer_spec.h"
#include "nlohmann/json_fwd.hpp"

namespace cohort {

struct ReadLayerResult {
  std::optional<LayerSpec> layer;  // the layer that was read; empty after an error
  // The shape of an example, if a layer other than an InputLayer gives the shape.
  std::optional<std::vector<int64_t>> input_shape;
  std::string config_path;
};
ReadLayerResult ReadLayer(const nlohmann::json& value, const std::string& path, JsonErrors& errors);

nlohmann::ordered_json LayerToJson(const LayerSpec& layer);

}  // namespace cohort

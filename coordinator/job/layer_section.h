#pragma once

// A layer of a job's model, read into its typed form and written back. Private to this folder.

#include <optional>
#include <string>
#include <vector>

#include "coordinator/job/json_reader.h"
#include "coordinator/job/layer_spec.h"
#include "nlohmann/json_fwd.hpp"

namespace cohort {

struct ReadLayerResult {
  std::optional<LayerSpec> layer;  // empty after an error
  // The shape of an example, where a layer that is no InputLayer gives it.
  std::optional<std::vector<int64_t>> input_shape;
  std::string config_path;
};
ReadLayerResult ReadLayer(const nlohmann::json& value, const std::string& path, JsonErrors& errors);

nlohmann::ordered_json LayerToJson(const LayerSpec& layer);

}  // namespace cohort

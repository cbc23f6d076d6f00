#pragma once

// Reads and writes the layers of image models. Private to this folder.

#include "coordinator/job/image_layer_spec.h"
#include "coordinator/job/layer_reader.h"
#include "nlohmann/json_fwd.hpp"

namespace cohort {

Conv2DSpec ReadConv2D(LayerReader& reader);
Pooling2DSpec ReadPooling2D(PoolKind kind, LayerReader& reader);
GlobalAveragePooling2DSpec ReadGlobalAveragePooling2D(LayerReader& reader);
BatchNormalizationSpec ReadBatchNormalization(LayerReader& reader);
ReshapeSpec ReadReshape(LayerReader& reader);

nlohmann::ordered_json ToJson(const Conv2DSpec& layer);
nlohmann::ordered_json ToJson(const Pooling2DSpec& layer);
nlohmann::ordered_json ToJson(const GlobalAveragePooling2DSpec& layer);
nlohmann::ordered_json ToJson(const BatchNormalizationSpec& layer);
nlohmann::ordered_json ToJson(const ReshapeSpec& layer);

}  // namespace cohort

#pragma once

// Reads a model from what Keras's to_json wrote, of any version, and writes it back in one
// canonical form. The version that wrote the file decides what the layers mean
// (layers/keras_file.h).

#include <string>

#include "coordinator/json/json_reader.h"
#include "coordinator/network/model_spec.h"
#include "nlohmann/json_fwd.hpp"

namespace cohort {

// Upper bound on the layers of one model, and of the calls of all layers.
inline constexpr size_t kLayersMax = 1000;
inline constexpr size_t kCallsMax = 10000;

// Reads the config of a Functional model (`functional`) or of a Sequential model. The model's name
// and version must have been read.
void ReadModelConfig(ObjectReader& config, bool functional, const LayerContext& context,
                     ModelSpec& model);
// Reads a list of layers, which was the config of a Sequential model before Keras 2.2.3.
void ReadLayerList(const nlohmann::json& layers, const std::string& path, JsonErrors& errors,
                   const LayerContext& context, ModelSpec& model);
// Reads a functional model's config.
void ReadFunctional(ObjectReader& config, const LayerContext& context, ModelSpec& model);

// Returns the config without the name, as ReadModelConfig reads it.
nlohmann::ordered_json ModelConfigToJson(const ModelSpec& model);
// Returns the class form of a whole model.
nlohmann::ordered_json ModelToJson(const ModelSpec& model);

}  // namespace cohort

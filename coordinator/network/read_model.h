#pragma once

// Reads a whole model from what Keras's to_json wrote, of any version. The version that wrote the
// file decides what the layers mean (coordinator/layers/keras_file.h).

#include <optional>
#include <string>

#include "coordinator/json/json_reader.h"
#include "coordinator/network/model_spec.h"

namespace cohort {

// Returns the version in a text such as "2.15.0" or "2.2.4-tf", or nullopt if the text is none or
// is one before Keras 2.0, whose files have other keys.
std::optional<KerasVersion> ParseKerasVersion(const std::string& text);

// Reads the class form of a model: {"class_name": "Sequential", "config": {...}}.
void ReadModel(const JsonPlace& place, ModelSpec& model);

}  // namespace cohort

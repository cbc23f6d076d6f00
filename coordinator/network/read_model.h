#pragma once

// Reads a whole model from what Keras's to_json wrote, of any version. The version that wrote the
// file decides what the layers mean (coordinator/layers/keras_file.h).

#include "coordinator/json/json_reader.h"
#include "coordinator/network/model_spec.h"

namespace cohort {

// Reads the class form of a model: {"class_name": "Sequential", "config": {...}}.
void ReadModel(const JsonPlace& place, ModelSpec& model);

}  // namespace cohort

#pragma once

// Reads and writes the layers of image models. Private to this folder.

#include "coordinator/job/image_layer_spec.h"
#include "coordinator/job/layer_reader.h"

namespace cohort {

void ReadConfig(LayerReader& reader, Conv2DSpec& layer);
void ReadConfig(LayerReader& reader, Pooling2DSpec& layer);
void ReadConfig(LayerReader& reader, GlobalAveragePooling2DSpec& layer);
void ReadConfig(LayerReader& reader, BatchNormalizationSpec& layer);
void ReadConfig(LayerReader& reader, ReshapeSpec& layer);

}  // namespace cohort

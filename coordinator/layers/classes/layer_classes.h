#pragma once

// The table of layer classes. Each family of layers has a file of its own, which adds its rows.

#include <vector>

#include "coordinator/layers/layer.h"
#include "coordinator/layers/layer_class.h"

namespace cohort {

// The families' rows.
void AddActivationLayers(std::vector<LayerClass>& classes);
void AddAttentionLayers(std::vector<LayerClass>& classes);
void AddConvolutionLayers(std::vector<LayerClass>& classes);
void AddCoreLayers(std::vector<LayerClass>& classes);
void AddEinsumLayers(std::vector<LayerClass>& classes);
void AddEmbeddingLayers(std::vector<LayerClass>& classes);
void AddExampleNormalizationLayers(std::vector<LayerClass>& classes);
void AddMergingLayers(std::vector<LayerClass>& classes);
void AddNormalizationLayers(std::vector<LayerClass>& classes);
void AddOperations(std::vector<LayerClass>& classes);
void AddPaddingLayers(std::vector<LayerClass>& classes);
void AddPoolingLayers(std::vector<LayerClass>& classes);
void AddRecurrentLayers(std::vector<LayerClass>& classes);
void AddRegularizationLayers(std::vector<LayerClass>& classes);
void AddReshapingLayers(std::vector<LayerClass>& classes);
void AddResizingLayers(std::vector<LayerClass>& classes);
void AddWrapperLayers(std::vector<LayerClass>& classes);

// Returns the rows of all layer classes.
const std::vector<LayerClass>& LayerClasses();

// Makes an InputLayer for a model that has none.
LayerSpec MakeInputLayer(const InputType& input);

}  // namespace cohort

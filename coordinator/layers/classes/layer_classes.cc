#include "coordinator/layers/classes/layer_classes.h"

#include <string>
#include <utility>

#include "common/tensor/dtype.h"
#include "coordinator/json/json_reader.h"
#include "coordinator/layers/keras_file.h"
#include "nlohmann/json.hpp"

namespace cohort {

using nlohmann::json;

const std::vector<LayerClass>& LayerClasses() {
  static const auto* const kClasses = [] {
    auto* const classes = new std::vector<LayerClass>();
    AddCoreLayers(*classes);
    AddEinsumLayers(*classes);
    AddActivationLayers(*classes);
    AddEmbeddingLayers(*classes);
    AddReshapingLayers(*classes);
    AddMergingLayers(*classes);
    AddConvolutionLayers(*classes);
    AddPoolingLayers(*classes);
    AddPaddingLayers(*classes);
    AddResizingLayers(*classes);
    AddNormalizationLayers(*classes);
    AddExampleNormalizationLayers(*classes);
    AddRegularizationLayers(*classes);
    AddRecurrentLayers(*classes);
    AddAttentionLayers(*classes);
    AddWrapperLayers(*classes);
    AddOperations(*classes);
    return classes;
  }();
  return *kClasses;
}

LayerSpec MakeInputLayer(const InputType& input) {
  json shape = {nullptr};
  for (const int64_t dim : input.shape) shape.push_back(dim < 0 ? json() : json(dim));
  const json value = {
      {"class_name", "InputLayer"},
      {"config", {{"batch_shape", shape}, {"dtype", std::string(DTypeName(input.dtype))}}}};
  JsonErrors errors;
  FileNotes notes;
  const LayerContext context{.classes = &LayerClasses(), .notes = &notes};
  return *ReadLayer({"", errors, &value}, context).layer;
}

}  // namespace cohort

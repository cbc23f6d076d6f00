#include "coordinator/job/image_layer_section.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/cluster/json_text.h"
#include "coordinator/job/job_sections.h"
#include "nlohmann/json.hpp"

namespace cohort {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

// Reads the keys that all layers for images have.
void ReadCommon(LayerReader& reader) {
  reader.OnlyFloat32();
  reader.config.OnlyNeutral("data_format", "channels_last");
}

const char* PaddingName(bool same) { return same ? "same" : "valid"; }

ordered_json PairToJson(const Extents& extents) {
  return ordered_json::array({extents[0], extents[1]});
}

// Reads the axis: a number, or Keras 2's list of one number.
void ReadAxis(LayerReader& reader, int64_t* axis) {
  const json* value = reader.config.Find("axis");
  if (value == nullptr) return;
  const json list = value->is_number() ? json::array({*value}) : *value;
  const IntRange range = {.min = -static_cast<int64_t>(kRankMax), .max = kRankMax};
  const auto axes =
      ReadInts(list, JoinPath(reader.config.path(), "axis"), range, reader.config.errors());
  if (!axes) return;
  if (axes->size() == 1) {
    *axis = (*axes)[0];
    return;
  }
  reader.config.AddError("axis",
                         absl::StrCat("is ", JsonExcerpt(*value), "; it must be one number"));
}

}  // namespace

Conv2DSpec ReadConv2D(LayerReader& reader) {
  Conv2DSpec layer;
  layer.name = reader.Name();
  ReadCommon(reader);
  // An absent key is an error here, although the readers below would take a default.
  reader.config.Require("filters");
  reader.config.Require("kernel_size");
  reader.config.Int("filters", {.min = 1, .max = kDimMax}, &layer.filters);
  reader.Pair("kernel_size", &layer.kernel_size);
  reader.Pair("strides", &layer.strides);
  reader.Padding(&layer.same_padding);
  reader.Pair("dilation_rate", &layer.dilation_rate);
  reader.config.Int("groups", {.min = 1, .max = kDimMax}, &layer.groups);
  if (layer.filters % layer.groups != 0) {
    reader.config.AddError("groups", absl::StrCat("is ", layer.groups, ", which does not divide ",
                                                  layer.filters, " filters"));
  }
  const Extents one = {1, 1};
  if (layer.strides != one && layer.dilation_rate != one) {  // Keras refuses this combination, too
    reader.config.AddError("dilation_rate", "stands beside strides; one of the two must be 1");
  }
  layer.activation = reader.ReadActivation();
  reader.config.Bool("use_bias", &layer.use_bias);
  reader.Initializer("kernel_initializer", &layer.kernel_initializer);
  reader.Initializer("bias_initializer", &layer.bias_initializer);
  for (const char* key : {"kernel_regularizer", "bias_regularizer", "activity_regularizer"}) {
    reader.OnlyNeutralRegularizer(key);
  }
  for (const char* key : {"kernel_constraint", "bias_constraint"}) {
    reader.config.OnlyNeutral(key, nullptr);
  }
  return layer;
}

Pooling2DSpec ReadPooling2D(PoolKind kind, LayerReader& reader) {
  Pooling2DSpec layer;
  layer.name = reader.Name();
  layer.kind = kind;
  ReadCommon(reader);
  reader.Pair("pool_size", &layer.pool_size);
  // Without strides the windows of a pooling layer lie side by side.
  layer.strides = layer.pool_size;
  reader.Pair("strides", &layer.strides);
  reader.Padding(&layer.same_padding);
  return layer;
}

GlobalAveragePooling2DSpec ReadGlobalAveragePooling2D(LayerReader& reader) {
  GlobalAveragePooling2DSpec layer;
  layer.name = reader.Name();
  ReadCommon(reader);
  reader.config.Bool("keepdims", &layer.keepdims);
  return layer;
}

BatchNormalizationSpec ReadBatchNormalization(LayerReader& reader) {
  BatchNormalizationSpec layer;
  layer.name = reader.Name();
  reader.OnlyFloat32();
  ReadAxis(reader, &layer.axis);
  reader.config.Number("momentum", {.min = 0, .max = 1}, &layer.momentum);
  reader.config.Number("epsilon", {.min = 0}, &layer.epsilon);
  reader.config.Bool("center", &layer.center);
  reader.config.Bool("scale", &layer.scale);
  reader.Initializer("beta_initializer", &layer.beta_initializer);
  reader.Initializer("gamma_initializer", &layer.gamma_initializer);
  reader.Initializer("moving_mean_initializer", &layer.moving_mean_initializer);
  reader.Initializer("moving_variance_initializer", &layer.moving_variance_initializer);
  reader.config.Bool("synchronized", &layer.synchronized);
  for (const char* key : {"beta_regularizer", "gamma_regularizer"}) {
    reader.OnlyNeutralRegularizer(key);
  }
  for (const char* key : {"beta_constraint", "gamma_constraint"}) {
    reader.config.OnlyNeutral(key, nullptr);
  }
  // renorm is from Keras 2, which writes the parameters of renorm even if renorm is off.
  reader.config.OnlyNeutral("renorm", false);
  reader.config.OnlyNeutral("renorm_clipping", nullptr);
  reader.config.Ignore("renorm_momentum");
  return layer;
}

ReshapeSpec ReadReshape(LayerReader& reader) {
  ReshapeSpec layer;
  layer.name = reader.Name();
  reader.OnlyFloat32();
  const json* shape = reader.config.Require("target_shape");
  if (shape == nullptr) return layer;
  const auto dims = ReadInts(*shape, JoinPath(reader.config.path(), "target_shape"),
                             {.min = -1, .max = kDimMax}, reader.config.errors());
  if (!dims) return layer;
  // Only one dimension of the target shape can be computed from the other dimensions.
  const bool bad = dims->size() > kRankMax || std::count(dims->begin(), dims->end(), 0) > 0 ||
                   std::count(dims->begin(), dims->end(), -1) > 1;
  if (bad) {
    reader.config.AddError(
        "target_shape", absl::StrCat("is ", JsonExcerpt(*shape), "; it must be at most ", kRankMax,
                                     " numbers from 1 on, of which one may be -1"));
    return layer;
  }
  layer.target_shape = *dims;
  return layer;
}

ordered_json ToJson(const Conv2DSpec& layer) {
  return ClassFormToJson("Conv2D",
                         {{"name", layer.name},
                          {"filters", layer.filters},
                          {"kernel_size", PairToJson(layer.kernel_size)},
                          {"strides", PairToJson(layer.strides)},
                          {"padding", PaddingName(layer.same_padding)},
                          {"dilation_rate", PairToJson(layer.dilation_rate)},
                          {"groups", layer.groups},
                          {"activation", std::string(ActivationName(layer.activation))},
                          {"use_bias", layer.use_bias},
                          {"kernel_initializer", InitializerToJson(layer.kernel_initializer)},
                          {"bias_initializer", InitializerToJson(layer.bias_initializer)}});
}

ordered_json ToJson(const Pooling2DSpec& layer) {
  const char* name = layer.kind == PoolKind::kMax ? "MaxPooling2D" : "AveragePooling2D";
  return ClassFormToJson(name, {{"name", layer.name},
                                {"pool_size", PairToJson(layer.pool_size)},
                                {"strides", PairToJson(layer.strides)},
                                {"padding", PaddingName(layer.same_padding)}});
}

ordered_json ToJson(const GlobalAveragePooling2DSpec& layer) {
  return ClassFormToJson("GlobalAveragePooling2D",
                         {{"name", layer.name}, {"keepdims", layer.keepdims}});
}

ordered_json ToJson(const BatchNormalizationSpec& layer) {
  return ClassFormToJson(
      "BatchNormalization",
      {{"name", layer.name},
       {"axis", layer.axis},
       {"momentum", layer.momentum},
       {"epsilon", layer.epsilon},
       {"center", layer.center},
       {"scale", layer.scale},
       {"beta_initializer", InitializerToJson(layer.beta_initializer)},
       {"gamma_initializer", InitializerToJson(layer.gamma_initializer)},
       {"moving_mean_initializer", InitializerToJson(layer.moving_mean_initializer)},
       {"moving_variance_initializer", InitializerToJson(layer.moving_variance_initializer)},
       {"synchronized", layer.synchronized}});
}

ordered_json ToJson(const ReshapeSpec& layer) {
  return ClassFormToJson("Reshape", {{"name", layer.name}, {"target_shape", layer.target_shape}});
}

}  // namespace cohort

#include "coordinator/job/image_layer_section.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/cluster/json_text.h"

namespace cohort {
namespace {

// Reads the keys that all layers for images have.
void ReadCommon(LayerReader& reader) {
  reader.OnlyFloat32();
  reader.config.OnlyNeutral("data_format", "channels_last");
}

// Reads the axis: a number, or Keras 2's list of one number.
void ReadAxis(ObjectReader& config, int64_t* axis) {
  if (config.recording()) return config.Int("axis", {}, axis);
  std::vector<int64_t> axes = {*axis};
  config.Ints("axis", {.min = -static_cast<int64_t>(kRankMax), .max = kRankMax}, 1, &axes);
  if (axes.size() == 1) {
    *axis = axes[0];
    return;
  }
  config.AddError(
      "axis", absl::StrCat("is ", JsonExcerpt(*config.Find("axis")), "; it must be one number"));
}

}  // namespace

void ReadConfig(LayerReader& reader, Conv2DSpec& layer) {
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
  reader.KernelAndBias(layer);
}

void ReadConfig(LayerReader& reader, Pooling2DSpec& layer) {
  ReadCommon(reader);
  reader.Pair("pool_size", &layer.pool_size);
  // Without strides the windows of a pooling layer lie side by side.
  if (!reader.config.recording()) layer.strides = layer.pool_size;
  reader.Pair("strides", &layer.strides);
  reader.Padding(&layer.same_padding);
}

void ReadConfig(LayerReader& reader, GlobalAveragePooling2DSpec& layer) {
  ReadCommon(reader);
  reader.config.Bool("keepdims", &layer.keepdims);
}

void ReadConfig(LayerReader& reader, BatchNormalizationSpec& layer) {
  reader.OnlyFloat32();
  ReadAxis(reader.config, &layer.axis);
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
}

void ReadConfig(LayerReader& reader, ReshapeSpec& layer) {
  reader.OnlyFloat32();
  ObjectReader& config = reader.config;
  config.Require("target_shape");
  std::vector<int64_t> dims = layer.target_shape;
  config.Ints("target_shape", {.min = -1, .max = kDimMax}, 0, &dims);
  // Only one dimension of the target shape can be computed from the other dimensions.
  const bool bad = dims.size() > kRankMax || std::count(dims.begin(), dims.end(), 0) > 0 ||
                   std::count(dims.begin(), dims.end(), -1) > 1;
  if (!bad || config.recording()) {
    layer.target_shape = dims;
    return;
  }
  config.AddError("target_shape", absl::StrCat("is ", JsonExcerpt(*config.Find("target_shape")),
                                               "; it must be at most ", kRankMax,
                                               " numbers from 1 on, of which one may be -1"));
}

}  // namespace cohort

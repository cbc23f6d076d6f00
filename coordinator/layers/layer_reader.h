#pragma once

// Reads the config of one layer: the keys that Keras's layers have in common. What is read is
// recorded at the same time (json_reader.h), which gives the layer its canonical config.

#include <optional>
#include <string>
#include <vector>

#include "common/program/product_precision.h"
#include "common/tensor/dtype.h"
#include "coordinator/json/json_reader.h"
#include "coordinator/layers/activation.h"
#include "coordinator/layers/initializer.h"
#include "coordinator/layers/keras_file.h"
#include "coordinator/layers/layer_plan.h"

namespace cohort {

// Thread-compatible.
class LayerReader {
 public:
  // Makes a reader of a layer's config, which must outlive it.
  LayerReader(ObjectReader& layer, const LayerContext& context)
      : config(layer), context_(context) {}

  // Returns the version that wrote the file, and notes that the layer depends on it.
  const KerasVersion& Keras();
  const LayerContext& context() const { return context_; }

  void Name(std::string* out);
  // Reads the layer's element type, as "float32" or as Keras 3's {"class_name": "DTypePolicy",
  // "config": {"name": "float32"}}.
  DType ElementType();
  // Reads the layer's policy: "float32", or one that computes products in bfloat16. Processors have
  // no products in float16, so "mixed_float16" is the same as "mixed_bfloat16". Notes a policy
  // other than float32.
  void FloatPolicy();
  // Returns the precision of the policy that was read.
  ProductPrecision precision() const { return precision_; }
  void ReadActivation(Activation* out);
  void ReadActivation(const std::string& key, Activation* out);
  // Reads an initializer; leaves `out` unchanged if the key is absent.
  void Initializer(const char* key, KerasInitializerSpec* out);
  // Reads the rules of a weight: for "kernel", the keys kernel_initializer, kernel_regularizer and
  // kernel_constraint.
  void Weight(const std::string& name, WeightRules* out);
  // Reads a regularizer. One that adds nothing is not recorded.
  void Regularizer(const std::string& key, RegularizerSpec* out);
  // Reads the extents of a window along each of `out`'s axes: a list, or one number for all of
  // them.
  void Extents(const char* key, std::vector<int64_t>* out);
  // Reads the padding, which is "valid" or "same".
  void Padding(bool* same);
  // Reads where the channels are: "channels_last", the default, or "channels_first".
  void DataFormat(bool* channels_first);
  // Accepts only "channels_last", for classes that have no other order in any version of Keras.
  void OnlyChannelsLast();
  // Reads an axis, where 0 is the batch: a number, or Keras 2's list of one number.
  void Axis(int64_t* axis);
  // Returns the shape of one example, under any of Keras's names for this key. `input_dim` is one
  // of these names, except for a table, where the key `input_dim` counts rows.
  enum class InputDim { kShape, kRows };
  std::optional<std::vector<int64_t>> ExampleShape(InputDim input_dim);
  // Accepts each of these keys only if it is absent or null, because Cohort does not support them.
  void OnlyNull(std::initializer_list<const char*> keys);

  ObjectReader& config;

 private:
  const LayerContext& context_;
  ProductPrecision precision_ = ProductPrecision::kFloat32;
  std::optional<std::vector<int64_t>> WithoutBatch(const char* key, const nlohmann::json& value);
};

}  // namespace cohort

#pragma once

// Reads the config of one layer: the keys that Keras's layers have in common. Private to this
// folder.

#include <optional>
#include <string>
#include <vector>

#include "common/tensor/dtype.h"
#include "coordinator/job/image_layer_spec.h"
#include "coordinator/job/layer_parts.h"
#include "coordinator/json/json_reader.h"

namespace cohort {

// Upper bounds of one dimension, and of the number of dimensions of an example.
inline constexpr int64_t kDimMax = int64_t{1} << 24;
inline constexpr size_t kRankMax = 8;

// Thread-compatible.
class LayerReader {
 public:
  // Makes a reader of a layer's config, which must outlive it.
  explicit LayerReader(ObjectReader& layer);

  void Name(std::string* out);
  // Reads the layer's element type, as "float32" or as Keras 3's {"class_name": "DTypePolicy",
  // "config": {"name": "float32"}}.
  DType ElementType();
  void OnlyFloat32();
  void ReadActivation(Activation* out);
  // Reads an initializer; leaves `out` unchanged if the key is absent.
  void Initializer(const char* key, KerasInitializerSpec* out);
  // Reads a list of two numbers, or one number that stands for both.
  void Pair(const char* key, Extents* out);
  // Reads the padding, which is "valid" or "same".
  void Padding(bool* same);
  // Returns the shape of one example, under any of Keras's names for this key. `input_dim` is one
  // of these names, except for a table, where the key `input_dim` counts rows.
  enum class InputDim { kShape, kRows };
  std::optional<std::vector<int64_t>> ExampleShape(InputDim input_dim);
  // Reads the shape of one example and its element type into an InputLayer.
  void Input(std::vector<int64_t>* shape, DType* dtype);
  // Accepts only an absent key, null, or a regularizer that adds nothing, for a key of Keras's form
  // that is not supported.
  void OnlyNeutralRegularizer(const char* key);
  // Reads the keys of a layer with a kernel, a bias and an activation.
  template <typename Spec>
  void KernelAndBias(Spec& layer) {
    ReadActivation(&layer.activation);
    config.Bool("use_bias", &layer.use_bias);
    Initializer("kernel_initializer", &layer.kernel_initializer);
    Initializer("bias_initializer", &layer.bias_initializer);
    for (const char* key : {"kernel_regularizer", "bias_regularizer", "activity_regularizer"}) {
      OnlyNeutralRegularizer(key);
    }
    for (const char* key : {"kernel_constraint", "bias_constraint"}) {
      config.OnlyNeutral(key, nullptr);
    }
  }

  ObjectReader& config;

 private:
  std::optional<std::vector<int64_t>> WithoutBatch(const char* key, const nlohmann::json& value);
};

}  // namespace cohort

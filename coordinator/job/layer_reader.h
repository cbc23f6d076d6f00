#pragma once

// The config of one layer, with the keys that Keras's layers share. Private to this folder.

#include <optional>
#include <string>
#include <vector>

#include "common/tensor/dtype.h"
#include "coordinator/job/image_layer_spec.h"
#include "coordinator/job/json_reader.h"
#include "coordinator/job/layer_parts.h"

namespace cohort {

// Limits of one dimension, and of the shape of an example.
inline constexpr int64_t kDimMax = int64_t{1} << 24;
inline constexpr size_t kRankMax = 8;

// Thread-compatible.
class LayerReader {
 public:
  LayerReader(const ClassForm& form, JsonErrors& errors);

  std::string Name();
  // Reads "float32", or Keras 3's {"class_name": "DTypePolicy", "config": {"name": "float32"}}.
  DType ElementType();
  void OnlyFloat32();
  Activation ReadActivation();
  // Leaves `out` as it is where the key is absent.
  void Initializer(const char* key, KerasInitializerSpec* out);
  // Reads a number for both, or a list of two.
  void Pair(const char* key, Extents* out);
  // Reads "valid" or "same".
  void Padding(bool* same);
  // Returns the shape of one example under any of Keras's names for it; `input_dim` is one of them,
  // but not for a table, where that key counts rows.
  enum class InputDim { kShape, kRows };
  std::optional<std::vector<int64_t>> ExampleShape(InputDim input_dim);
  // Accepts only absent, null, or a regularizer that adds nothing, for a part of Keras's form that
  // is not supported.
  void OnlyNeutralRegularizer(const char* key);

  ObjectReader config;

 private:
  std::optional<std::vector<int64_t>> WithoutBatch(const char* key, const nlohmann::json& value);
};

}  // namespace cohort

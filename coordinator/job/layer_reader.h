#pragma once

// One layer's config, with what Keras's layers have in common. Private to this folder.

#include <optional>
#include <string>
#include <vector>

#include "common/tensor/dtype.h"
#include "coordinator/job/image_layer_spec.h"
#include "coordinator/job/json_reader.h"
#include "coordinator/job/layer_parts.h"

namespace cohort {

// Of the shape of an example, and of one dimension.
inline constexpr int64_t kDimMax = int64_t{1} << 24;
inline constexpr size_t kRankMax = 8;

// Thread-compatible.
class LayerReader {
 public:
  LayerReader(const ClassForm& form, JsonErrors& errors);

  std::string Name();
  // "float32", or Keras 3's {"class_name": "DTypePolicy", "config": {"name": "float32"}}.
  DType ElementType();
  void OnlyFloat32();
  Activation ReadActivation();
  // Leaves `out` as it is where the key is absent.
  void Initializer(const char* key, KerasInitializerSpec* out);
  // A number for both, or a list of two.
  void Pair(const char* key, Extents* out);
  // "valid" or "same".
  void Padding(bool* same);
  // The shape of one example under any of Keras's names for it; `input_dim` is one of them, but for
  // a table, whose rows that key counts.
  enum class InputDim { kShape, kRows };
  std::optional<std::vector<int64_t>> ExampleShape(InputDim input_dim);
  // Part of Keras's form that is not supported: absent, null, or a regularizer that adds nothing.
  void OnlyNeutralRegularizer(const char* key);

  ObjectReader config;

 private:
  std::optional<std::vector<int64_t>> WithoutBatch(const char* key, const nlohmann::json& value);
};

}  // namespace cohort

#pragma once

// The layers of a Sequential model, as plain values. Each mirrors the `config` of the Keras layer
// of that name, with Keras's defaults; names are already unique within the model ("dense",
// "dense_1", ...).

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/tensor/dtype.h"

namespace cohort {

enum class Activation { kLinear, kRelu, kSigmoid, kTanh, kSoftmax };

// Keras's name: "linear", "relu", "sigmoid", "tanh", "softmax".
absl::string_view ActivationName(Activation activation);

// A start value by rule: "Zeros", "Ones", "Constant", "RandomUniform", "RandomNormal",
// "TruncatedNormal", "GlorotUniform", "GlorotNormal", "HeUniform", "HeNormal", "LecunUniform",
// "LecunNormal" (Keras's class names).
struct KerasInitializerSpec {
  std::string class_name = "Zeros";
  // Constant: value; RandomUniform: minval; RandomNormal, TruncatedNormal: mean.
  double a = 0;
  double b = 0;  // RandomUniform: maxval; RandomNormal, TruncatedNormal: stddev
  std::optional<uint64_t> seed = {};  // absent: the job's seed

  friend bool operator==(const KerasInitializerSpec&, const KerasInitializerSpec&) = default;
};

// Only as the first layer. `shape` is that of one example, without the batch.
struct InputLayerSpec {
  std::string name;
  std::vector<int64_t> shape;
  DType dtype = DType::kFloat32;

  friend bool operator==(const InputLayerSpec&, const InputLayerSpec&) = default;
};

struct DenseSpec {
  std::string name;
  int64_t units = 1;
  Activation activation = Activation::kLinear;
  bool use_bias = true;
  KerasInitializerSpec kernel_initializer{.class_name = "GlorotUniform"};
  KerasInitializerSpec bias_initializer{.class_name = "Zeros"};

  friend bool operator==(const DenseSpec&, const DenseSpec&) = default;
};

struct DropoutSpec {
  std::string name;
  double rate = 0;
  std::optional<uint64_t> seed;

  friend bool operator==(const DropoutSpec&, const DropoutSpec&) = default;
};

struct FlattenSpec {
  std::string name;

  friend bool operator==(const FlattenSpec&, const FlattenSpec&) = default;
};

struct ActivationSpec {
  std::string name;
  Activation activation = Activation::kLinear;

  friend bool operator==(const ActivationSpec&, const ActivationSpec&) = default;
};

using LayerSpec = std::variant<InputLayerSpec, DenseSpec, DropoutSpec, FlattenSpec, ActivationSpec>;

const std::string& LayerName(const LayerSpec& layer);

// An `input_shape` or `batch_input_shape` in the first layer's config becomes an InputLayer in
// front of it.
struct ModelSpec {
  std::string name = "sequential";
  std::vector<LayerSpec> layers;

  friend bool operator==(const ModelSpec&, const ModelSpec&) = default;
};

}  // namespace cohort

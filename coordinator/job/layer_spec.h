#pragma once

// The layers of a model and how they are put together, as plain values. Each layer mirrors the
// `config` of the Keras layer of that name, with Keras's defaults; names are already unique within
// the model ("dense", "dense_1", ...).

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/tensor/dtype.h"
#include "coordinator/job/image_layer_spec.h"
#include "coordinator/job/layer_parts.h"

namespace cohort {

// An input, only the first layer in a Sequential model. `shape` is that of one example, without the
// batch.
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

// Joins what it is given along `axis`, which counts the batch as 0.
struct ConcatenateSpec {
  std::string name;
  int64_t axis = -1;

  friend bool operator==(const ConcatenateSpec&, const ConcatenateSpec&) = default;
};

// Cohort's own: a table without a number of rows. Ids are keys, any integers; a key's row begins
// when it is first pushed, or when the table admits it.
struct DynamicTableSpec {
  int64_t admit_after = 1;                                 // pushes of a key until it has a row
  double admit_probability = 1;                            // applies to each such push
  std::optional<double> ttl_seconds = std::nullopt;        // without a push; absent: for ever
  std::optional<int64_t> max_bytes_per_ps = std::nullopt;  // absent: no limit
  std::string evict = "lru";                               // at the limit; or "lfu"
  DType dtype = DType::kFloat32;                           // type of rows; also the 16-bit floats

  friend bool operator==(const DynamicTableSpec&, const DynamicTableSpec&) = default;
};

// A row of a table for each id.
struct EmbeddingSpec {
  std::string name;
  int64_t input_dim = 1;  // rows; kKeyBuckets of a dynamic table
  int64_t output_dim = 1;
  KerasInitializerSpec embeddings_initializer{.class_name = "RandomUniform", .a = -0.05, .b = 0.05};
  std::optional<DynamicTableSpec> dynamic = std::nullopt;

  friend bool operator==(const EmbeddingSpec&, const EmbeddingSpec&) = default;
};

// The rows of an example's ids in one; Keras has no such layer. A negative id is none, so that
// examples may have different numbers of them; an example without ids gives zeros.
enum class Combiner { kSum, kMean, kSqrtn };

struct EmbeddingBagSpec {
  std::string name;
  int64_t input_dim = 1;
  int64_t output_dim = 1;
  Combiner combiner = Combiner::kMean;
  KerasInitializerSpec embeddings_initializer{.class_name = "RandomUniform", .a = -0.05, .b = 0.05};
  std::optional<DynamicTableSpec> dynamic = std::nullopt;

  friend bool operator==(const EmbeddingBagSpec&, const EmbeddingBagSpec&) = default;
};

// Returns "sum", "mean", "sqrtn".
absl::string_view CombinerName(Combiner combiner);

using LayerSpec =
    std::variant<InputLayerSpec, DenseSpec, DropoutSpec, FlattenSpec, ActivationSpec,
                 ConcatenateSpec, EmbeddingSpec, EmbeddingBagSpec, Conv2DSpec, Pooling2DSpec,
                 GlobalAveragePooling2DSpec, BatchNormalizationSpec, ReshapeSpec>;

const std::string& LayerName(const LayerSpec& layer);
// Returns the dynamic table of an embedding; null for all other layers.
const DynamicTableSpec* DynamicTableOf(const LayerSpec& layer);

// A use of a layer. A layer that is used twice has the same variables in both.
struct LayerCall {
  size_t layer = 0;
  std::vector<size_t> inputs;  // calls before this one, in the order in which the layer takes them
  bool training = true;        // false: in a training step the layer computes as in evaluation

  friend bool operator==(const LayerCall&, const LayerCall&) = default;
};

// A model. In a Sequential model each layer takes the output of the one before it; an `input_shape`
// or `batch_input_shape` in the first layer's config becomes an InputLayer in front of it. A
// functional model names the inputs of each use of a layer.
struct ModelSpec {
  std::string name = "sequential";
  std::vector<LayerSpec> layers;
  // Set for a functional model only, in an order in which the calls can be computed.
  std::vector<LayerCall> calls;
  std::vector<size_t> inputs;  // calls of InputLayers, in the order of the model's inputs
  size_t output = 0;           // call

  bool functional() const { return !calls.empty(); }

  friend bool operator==(const ModelSpec&, const ModelSpec&) = default;
};

}  // namespace cohort

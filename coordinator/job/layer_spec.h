#pragma once

// The layers of a model and their connections, as plain values. Each layer mirrors the `config` of
// the Keras layer of the same name, with Keras's defaults. Names are already unique within the
// model ("dense", "dense_1", ...).

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

// An input of the model; in a Sequential model only the first layer is one. `shape` is the shape of
// one example, without the batch.
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

// Concatenates the inputs of the layer along `axis`, where axis 0 is the batch.
struct ConcatenateSpec {
  std::string name;
  int64_t axis = -1;

  friend bool operator==(const ConcatenateSpec&, const ConcatenateSpec&) = default;
};

// A table without a fixed number of rows, which only Cohort has. Ids are keys, and may be any
// integers. A key's row begins when the key is first pushed, or when the table admits the key.
struct DynamicTableSpec {
  int64_t admit_after = 1;       // the number of pushes after which a key gets a row
  double admit_probability = 1;  // the probability with which each such push admits the key
  // How long a row is kept without a push; absent: for ever.
  std::optional<double> ttl_seconds = std::nullopt;
  // Memory limit of the table on each ps; absent: no limit.
  std::optional<int64_t> max_bytes_per_ps = std::nullopt;
  std::string evict = "lru";      // which row is removed at the limit: "lru" or "lfu"
  DType dtype = DType::kFloat32;  // element type of the rows; the 16-bit floats are allowed too

  friend bool operator==(const DynamicTableSpec&, const DynamicTableSpec&) = default;
};

// A table and the lookup of one row for each id.
struct EmbeddingSpec {
  std::string name;
  int64_t input_dim = 1;  // number of rows; kKeyBuckets for a dynamic table
  int64_t output_dim = 1;
  KerasInitializerSpec embeddings_initializer{.class_name = "RandomUniform", .a = -0.05, .b = 0.05};
  std::optional<DynamicTableSpec> dynamic = std::nullopt;

  friend bool operator==(const EmbeddingSpec&, const EmbeddingSpec&) = default;
};

// The way in which the rows of an example's ids are combined into one row; Keras has no such layer.
// A negative id stands for no id, so that examples may have different numbers of ids. An example
// without ids gives zeros.
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

// Returns the name of the combiner: "sum", "mean", "sqrtn".
absl::string_view CombinerName(Combiner combiner);

using LayerSpec =
    std::variant<InputLayerSpec, DenseSpec, DropoutSpec, FlattenSpec, ActivationSpec,
                 ConcatenateSpec, EmbeddingSpec, EmbeddingBagSpec, Conv2DSpec, Pooling2DSpec,
                 GlobalAveragePooling2DSpec, BatchNormalizationSpec, ReshapeSpec>;

const std::string& LayerName(const LayerSpec& layer);
// Returns the dynamic table of an embedding, or null for any other layer.
const DynamicTableSpec* DynamicTableOf(const LayerSpec& layer);

// A use of a layer. All uses of a layer share the layer's variables.
struct LayerCall {
  size_t layer = 0;
  std::vector<size_t> inputs;  // earlier calls whose outputs the layer takes, in order
  bool training = true;  // false: even in a training step, the layer computes as in evaluation

  friend bool operator==(const LayerCall&, const LayerCall&) = default;
};

// How the job file writes a model, for messages that name its keys, and who wrote it. It says
// nothing about the model itself, so all values are equal.
struct ModelFileForm {
  // True: the file has no InputLayer, and the first of its layers gives the shape of the input.
  bool implies_input = false;
  bool config_is_list = false;  // true: `config` is the list of layers, as before Keras 2.2.3
  int keras = 0;  // the major version of Keras that wrote the model; 0: the file does not say it

  friend bool operator==(const ModelFileForm&, const ModelFileForm&) { return true; }
};

// A model. In a Sequential model each layer takes the output of the layer before it; an
// `input_shape` or `batch_input_shape` in the first layer's config becomes an InputLayer before
// that layer. A functional model names the inputs of each use of a layer.
struct ModelSpec {
  std::string name = "sequential";
  std::vector<LayerSpec> layers;
  // The uses of layers in a functional model, in an order in which they can be computed; empty for
  // a Sequential model.
  std::vector<LayerCall> calls;
  std::vector<size_t> inputs;  // calls of InputLayers, in the order of the model's inputs
  size_t output = 0;           // the call whose output is the model's output
  ModelFileForm file_form;

  bool functional() const { return !calls.empty(); }

  friend bool operator==(const ModelSpec&, const ModelSpec&) = default;
};

}  // namespace cohort

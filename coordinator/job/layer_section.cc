#include "coordinator/job/layer_section.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/tensor/slice_spec.h"
#include "coordinator/job/image_layer_section.h"
#include "coordinator/job/job_sections.h"
#include "coordinator/job/layer_reader.h"
#include "nlohmann/json.hpp"

namespace cohort {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr int64_t kRowsMax = int64_t{1} << 40;
constexpr int64_t kDynamicWidthMax = 4096;

// The order is that of the enum Combiner.
const std::vector<std::string>& CombinerNames() {
  static const auto* const kNames = new std::vector<std::string>{"sum", "mean", "sqrtn"};
  return *kNames;
}

InputLayerSpec ReadInputLayer(LayerReader& reader) {
  InputLayerSpec layer;
  layer.name = reader.Name();
  layer.dtype = reader.ElementType();
  std::optional<std::vector<int64_t>> shape = reader.ExampleShape(LayerReader::InputDim::kShape);
  if (shape) layer.shape = *std::move(shape);
  reader.config.OnlyNeutral("sparse", false);
  reader.config.OnlyNeutral("ragged", false);
  reader.config.OnlyNeutral("optional", false);
  return layer;
}

DenseSpec ReadDense(LayerReader& reader) {
  DenseSpec layer;
  layer.name = reader.Name();
  reader.OnlyFloat32();
  // Int() accepts an absent key, so Require() reports it.
  reader.config.Require("units");
  reader.config.Int("units", {.min = 1, .max = kDimMax}, &layer.units);
  layer.activation = reader.ReadActivation();
  reader.config.Bool("use_bias", &layer.use_bias);
  reader.Initializer("kernel_initializer", &layer.kernel_initializer);
  reader.Initializer("bias_initializer", &layer.bias_initializer);
  for (const char* key : {"kernel_regularizer", "bias_regularizer", "activity_regularizer"}) {
    reader.OnlyNeutralRegularizer(key);
  }
  for (const char* key :
       {"kernel_constraint", "bias_constraint", "lora_rank", "quantization_config"}) {
    reader.config.OnlyNeutral(key, nullptr);
  }
  return layer;
}

DropoutSpec ReadDropout(LayerReader& reader) {
  DropoutSpec layer;
  layer.name = reader.Name();
  reader.OnlyFloat32();
  reader.config.Require("rate");
  reader.config.Number("rate", {.min = 0, .max = 1, .max_excluded = true}, &layer.rate);
  reader.config.OptionalSeed("seed", &layer.seed);
  reader.config.OnlyNeutral("noise_shape", nullptr);
  return layer;
}

FlattenSpec ReadFlatten(LayerReader& reader) {
  FlattenSpec layer;
  layer.name = reader.Name();
  reader.config.OnlyNeutral("data_format", "channels_last");
  reader.OnlyFloat32();
  return layer;
}

ActivationSpec ReadActivationLayer(LayerReader& reader) {
  ActivationSpec layer;
  layer.name = reader.Name();
  reader.OnlyFloat32();
  reader.config.Require("activation");
  layer.activation = reader.ReadActivation();
  return layer;
}

ConcatenateSpec ReadConcatenate(LayerReader& reader) {
  ConcatenateSpec layer;
  layer.name = reader.Name();
  reader.OnlyFloat32();
  reader.config.Int("axis", {.min = -static_cast<int64_t>(kRankMax), .max = kRankMax}, &layer.axis);
  return layer;
}

// Reads the key `dynamic` of a table's config. Beside `dynamic`, the key `input_dim` and
// initializers that need `input_dim` are errors.
template <typename Spec>
void TakeDynamic(const json& value, LayerReader& reader, Spec& layer) {
  layer.dynamic =
      ReadDynamicTable(value, JoinPath(reader.config.path(), "dynamic"), reader.config.errors());
  if (reader.config.Find("input_dim") != nullptr) {
    reader.config.AddError("dynamic", "stands beside input_dim; a table has one of the two");
  }
  if (NeedsInputDim(layer.embeddings_initializer)) {
    reader.config.AddError(
        "embeddings_initializer",
        absl::StrCat("is ", layer.embeddings_initializer.class_name,
                     ", which is scaled by the "
                     "number of rows, and a dynamic table has none; use RandomUniform, "
                     "RandomNormal, TruncatedNormal, Zeros, Ones or Constant"));
  }
  // Keys are spread over this many buckets, which are the rows that slices share out.
  layer.input_dim = kKeyBuckets;
}

// Reads the keys that Embedding and EmbeddingBag have in common.
template <typename Spec>
Spec ReadTable(LayerReader& reader) {
  Spec layer;
  layer.name = reader.Name();
  reader.OnlyFloat32();
  const json* const dynamic = reader.config.Find("dynamic");
  if (dynamic == nullptr) reader.config.Require("input_dim");
  reader.config.Require("output_dim");
  reader.config.Int("input_dim", {.min = 1, .max = kRowsMax}, &layer.input_dim);
  reader.config.Int("output_dim", {.min = 1, .max = dynamic ? kDynamicWidthMax : kDimMax},
                    &layer.output_dim);
  reader.Initializer("embeddings_initializer", &layer.embeddings_initializer);
  if (dynamic != nullptr) TakeDynamic(*dynamic, reader, layer);
  for (const char* key : {"embeddings_regularizer", "activity_regularizer"}) {
    reader.OnlyNeutralRegularizer(key);
  }
  for (const char* key : {"embeddings_constraint", "weights", "lora_rank", "quantization_config"}) {
    reader.config.OnlyNeutral(key, nullptr);
  }
  // Layers have no masks, so mask_zero must be off.
  reader.config.OnlyNeutral("mask_zero", false);
  reader.config.Ignore("input_length");
  return layer;
}

EmbeddingBagSpec ReadEmbeddingBag(LayerReader& reader) {
  auto layer = ReadTable<EmbeddingBagSpec>(reader);
  std::string name(CombinerName(layer.combiner));
  reader.config.Choice("combiner", CombinerNames(), &name);
  const std::vector<std::string>& names = CombinerNames();
  layer.combiner =
      static_cast<Combiner>(std::find(names.begin(), names.end(), name) - names.begin());
  return layer;
}

const std::vector<std::string>& LayerClasses() {
  static const auto* const kNames = new std::vector<std::string>{"InputLayer",
                                                                 "Dense",
                                                                 "Dropout",
                                                                 "Flatten",
                                                                 "Activation",
                                                                 "Concatenate",
                                                                 "Embedding",
                                                                 "EmbeddingBag",
                                                                 "Conv2D",
                                                                 "MaxPooling2D",
                                                                 "AveragePooling2D",
                                                                 "GlobalAveragePooling2D",
                                                                 "BatchNormalization",
                                                                 "Reshape"};
  return *kNames;
}

std::optional<LayerSpec> ReadLayerOfClass(const std::string& class_name, LayerReader& reader) {
  if (class_name == "InputLayer") return ReadInputLayer(reader);
  if (class_name == "Dense") return ReadDense(reader);
  if (class_name == "Dropout") return ReadDropout(reader);
  if (class_name == "Flatten") return ReadFlatten(reader);
  if (class_name == "Activation") return ReadActivationLayer(reader);
  if (class_name == "Concatenate") return ReadConcatenate(reader);
  if (class_name == "Embedding") return ReadTable<EmbeddingSpec>(reader);
  if (class_name == "EmbeddingBag") return ReadEmbeddingBag(reader);
  if (class_name == "Conv2D") return ReadConv2D(reader);
  if (class_name == "MaxPooling2D") return ReadPooling2D(PoolKind::kMax, reader);
  if (class_name == "AveragePooling2D") return ReadPooling2D(PoolKind::kAverage, reader);
  if (class_name == "GlobalAveragePooling2D") return ReadGlobalAveragePooling2D(reader);
  if (class_name == "BatchNormalization") return ReadBatchNormalization(reader);
  if (class_name == "Reshape") return ReadReshape(reader);
  return std::nullopt;
}

// Writes an InputLayer. The first dimension is the batch, which Keras writes as null.
ordered_json ToJson(const InputLayerSpec& layer) {
  ordered_json shape = ordered_json::array({nullptr});
  for (const int64_t dim : layer.shape) shape.push_back(dim);
  return ClassFormToJson("InputLayer", {{"name", layer.name},
                                        {"batch_input_shape", std::move(shape)},
                                        {"dtype", std::string(DTypeName(layer.dtype))}});
}

ordered_json ToJson(const DenseSpec& layer) {
  return ClassFormToJson("Dense",
                         {{"name", layer.name},
                          {"units", layer.units},
                          {"activation", std::string(ActivationName(layer.activation))},
                          {"use_bias", layer.use_bias},
                          {"kernel_initializer", InitializerToJson(layer.kernel_initializer)},
                          {"bias_initializer", InitializerToJson(layer.bias_initializer)}});
}

ordered_json ToJson(const DropoutSpec& layer) {
  ordered_json config = {{"name", layer.name}, {"rate", layer.rate}};
  if (layer.seed) config["seed"] = *layer.seed;
  return ClassFormToJson("Dropout", std::move(config));
}

ordered_json ToJson(const FlattenSpec& layer) {
  return ClassFormToJson("Flatten", {{"name", layer.name}});
}

ordered_json ToJson(const ActivationSpec& layer) {
  return ClassFormToJson(
      "Activation",
      {{"name", layer.name}, {"activation", std::string(ActivationName(layer.activation))}});
}

ordered_json ToJson(const ConcatenateSpec& layer) {
  return ClassFormToJson("Concatenate", {{"name", layer.name}, {"axis", layer.axis}});
}

// Returns the config of an Embedding or EmbeddingBag, without the combiner.
template <typename Spec>
ordered_json TableConfig(const Spec& layer) {
  ordered_json config = {{"name", layer.name}};
  if (layer.dynamic) {
    config["dynamic"] = DynamicTableToJson(*layer.dynamic);
  } else {
    config["input_dim"] = layer.input_dim;
  }
  config["output_dim"] = layer.output_dim;
  config["embeddings_initializer"] = InitializerToJson(layer.embeddings_initializer);
  return config;
}

ordered_json ToJson(const EmbeddingSpec& layer) {
  return ClassFormToJson("Embedding", TableConfig(layer));
}

ordered_json ToJson(const EmbeddingBagSpec& layer) {
  ordered_json config = TableConfig(layer);
  config["combiner"] = std::string(CombinerName(layer.combiner));
  return ClassFormToJson("EmbeddingBag", std::move(config));
}

}  // namespace

ReadLayerResult ReadLayer(const json& value, const std::string& path, JsonErrors& errors) {
  ReadLayerResult result;
  const ClassForm form = ReadClassForm(value, path, errors);
  if (form.class_name.empty() && !form.is_name_only) return result;
  const std::vector<std::string>& known = LayerClasses();
  if (std::find(known.begin(), known.end(), form.class_name) == known.end()) {
    errors.Add(path, UnknownName("layer", form.class_name, known));
    return result;
  }
  LayerReader reader(form, errors);
  result.layer = ReadLayerOfClass(form.class_name, reader);
  // The caller reports errors of the input's shape with this path.
  result.config_path = form.config_path;
  const bool is_table = form.class_name == "Embedding" || form.class_name == "EmbeddingBag";
  if (form.class_name != "InputLayer") {
    result.input_shape = reader.ExampleShape(is_table ? LayerReader::InputDim::kRows
                                                      : LayerReader::InputDim::kShape);
  }
  reader.config.Finish();
  return result;
}

ordered_json LayerToJson(const LayerSpec& layer) {
  return std::visit([](const auto& one) { return ToJson(one); }, layer);
}

absl::string_view CombinerName(Combiner combiner) {
  return CombinerNames()[static_cast<size_t>(combiner)];
}

const std::string& LayerName(const LayerSpec& layer) {
  return std::visit([](const auto& one) -> const std::string& { return one.name; }, layer);
}

const DynamicTableSpec* DynamicTableOf(const LayerSpec& layer) {
  const auto of = [](const auto* table) -> const DynamicTableSpec* {
    return table != nullptr && table->dynamic ? &*table->dynamic : nullptr;
  };
  if (const auto* bag = std::get_if<EmbeddingBagSpec>(&layer)) return of(bag);
  return of(std::get_if<EmbeddingSpec>(&layer));
}

}  // namespace cohort

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

using nlohmann::ordered_json;

constexpr int64_t kRowsMax = int64_t{1} << 40;
constexpr int64_t kDynamicWidthMax = 4096;

// The order is that of the enum Combiner.
const std::vector<std::string>& CombinerNames() {
  static const auto* const kNames = new std::vector<std::string>{"sum", "mean", "sqrtn"};
  return *kNames;
}

void ReadConfig(LayerReader& reader, InputLayerSpec& layer) {
  reader.Input(&layer.shape, &layer.dtype);
  reader.config.OnlyNeutral("sparse", false);
  reader.config.OnlyNeutral("ragged", false);
  reader.config.OnlyNeutral("optional", false);
}

void ReadConfig(LayerReader& reader, DenseSpec& layer) {
  reader.OnlyFloat32();
  // Int() accepts an absent key, so Require() reports it.
  reader.config.Require("units");
  reader.config.Int("units", {.min = 1, .max = kDimMax}, &layer.units);
  reader.KernelAndBias(layer);
  reader.config.OnlyNeutral("lora_rank", nullptr);
  reader.config.OnlyNeutral("quantization_config", nullptr);
}

void ReadConfig(LayerReader& reader, DropoutSpec& layer) {
  reader.OnlyFloat32();
  reader.config.Require("rate");
  reader.config.Number("rate", {.min = 0, .max = 1, .max_excluded = true}, &layer.rate);
  reader.config.OptionalSeed("seed", &layer.seed);
  reader.config.OnlyNeutral("noise_shape", nullptr);
}

void ReadConfig(LayerReader& reader, FlattenSpec& layer) {
  reader.config.OnlyNeutral("data_format", "channels_last");
  reader.OnlyFloat32();
}

void ReadConfig(LayerReader& reader, ActivationSpec& layer) {
  reader.OnlyFloat32();
  reader.config.Require("activation");
  reader.ReadActivation(&layer.activation);
}

void ReadConfig(LayerReader& reader, ConcatenateSpec& layer) {
  reader.OnlyFloat32();
  reader.config.Int("axis", {.min = -static_cast<int64_t>(kRankMax), .max = kRankMax}, &layer.axis);
}

// Reads what gives a table its rows: the number `input_dim`, or the key `dynamic`.
template <typename Spec>
void ReadRows(ObjectReader& config, Spec& layer) {
  if (!config.Given("dynamic", layer.dynamic.has_value())) {
    config.Require("input_dim");
    return config.Int("input_dim", {.min = 1, .max = kRowsMax}, &layer.input_dim);
  }
  if (!layer.dynamic) layer.dynamic.emplace();
  config.Object("dynamic", ReadDynamicTable, &*layer.dynamic);
  if (config.Find("input_dim") != nullptr) {
    config.AddError("dynamic", "stands beside input_dim; a table has one of the two");
  }
  // Keys are spread over this many buckets, which are the rows that slices share out.
  layer.input_dim = kKeyBuckets;
}

// Reads the keys that Embedding and EmbeddingBag have in common.
template <typename Spec>
void ReadTable(LayerReader& reader, Spec& layer) {
  ObjectReader& config = reader.config;
  reader.OnlyFloat32();
  ReadRows(config, layer);
  config.Require("output_dim");
  config.Int("output_dim", {.min = 1, .max = layer.dynamic ? kDynamicWidthMax : kDimMax},
             &layer.output_dim);
  reader.Initializer("embeddings_initializer", &layer.embeddings_initializer);
  if (layer.dynamic && NeedsInputDim(layer.embeddings_initializer)) {
    config.AddError("embeddings_initializer",
                    absl::StrCat("is ", layer.embeddings_initializer.class_name,
                                 ", which is scaled by the "
                                 "number of rows, and a dynamic table has none; use RandomUniform, "
                                 "RandomNormal, TruncatedNormal, Zeros, Ones or Constant"));
  }
  for (const char* key : {"embeddings_regularizer", "activity_regularizer"}) {
    reader.OnlyNeutralRegularizer(key);
  }
  for (const char* key : {"embeddings_constraint", "weights", "lora_rank", "quantization_config"}) {
    config.OnlyNeutral(key, nullptr);
  }
  // Layers have no masks, so mask_zero must be off.
  config.OnlyNeutral("mask_zero", false);
  config.Ignore("input_length");
}

void ReadConfig(LayerReader& reader, EmbeddingSpec& layer) { ReadTable(reader, layer); }

void ReadConfig(LayerReader& reader, EmbeddingBagSpec& layer) {
  ReadTable(reader, layer);
  std::string name(CombinerName(layer.combiner));
  const std::vector<std::string>& names = CombinerNames();
  reader.config.Choice("combiner", names, &name);
  layer.combiner =
      static_cast<Combiner>(std::find(names.begin(), names.end(), name) - names.begin());
}

Pooling2DSpec Pooling(PoolKind kind) {
  Pooling2DSpec layer;
  layer.kind = kind;
  return layer;
}

const std::vector<ClassChoice<LayerSpec>>& LayerClasses() {
  static const auto* const kClasses = new std::vector<ClassChoice<LayerSpec>>{
      {"InputLayer", InputLayerSpec()},
      {"Dense", DenseSpec()},
      {"Dropout", DropoutSpec()},
      {"Flatten", FlattenSpec()},
      {"Activation", ActivationSpec()},
      {"Concatenate", ConcatenateSpec()},
      {"Embedding", EmbeddingSpec()},
      {"EmbeddingBag", EmbeddingBagSpec()},
      {"Conv2D", Conv2DSpec()},
      {"MaxPooling2D", Pooling(PoolKind::kMax)},
      {"AveragePooling2D", Pooling(PoolKind::kAverage)},
      {"GlobalAveragePooling2D", GlobalAveragePooling2DSpec()},
      {"BatchNormalization", BatchNormalizationSpec()},
      {"Reshape", ReshapeSpec()}};
  return *kClasses;
}

// Reads the config of a layer. Returns the shape of an example, if a layer other than an InputLayer
// gives it.
std::optional<std::vector<int64_t>> ReadLayerConfig(ObjectReader& config, LayerSpec& layer) {
  LayerReader reader(config);
  std::visit(
      [&](auto& one) {
        reader.Name(&one.name);
        ReadConfig(reader, one);
      },
      layer);
  if (std::holds_alternative<InputLayerSpec>(layer)) return std::nullopt;
  const bool is_table = std::holds_alternative<EmbeddingSpec>(layer) ||
                        std::holds_alternative<EmbeddingBagSpec>(layer);
  return reader.ExampleShape(is_table ? LayerReader::InputDim::kRows
                                      : LayerReader::InputDim::kShape);
}

}  // namespace

ReadLayerResult ReadLayer(const JsonPlace& place) {
  ReadLayerResult result;
  LayerSpec layer;
  const auto fields = [&](ObjectReader& config, LayerSpec& found) {
    result.input_shape = ReadLayerConfig(config, found);
    // The caller reports errors of the input's shape with this path.
    result.config_path = config.path();
  };
  if (ReadClass(place, "layer", LayerClasses(), "", fields, layer)) result.layer = std::move(layer);
  return result;
}

ordered_json LayerToJson(const LayerSpec& layer) {
  ordered_json record;
  JsonErrors errors;
  LayerSpec same = layer;
  ReadClass({"", errors, nullptr, &record}, "layer", LayerClasses(), LayerClass(layer),
            ReadLayerConfig, same);
  return record;
}

std::string LayerClass(const LayerSpec& layer) {
  const auto* const pooling = std::get_if<Pooling2DSpec>(&layer);
  // MaxPooling2D and AveragePooling2D are classes of one type.
  const auto found = std::find_if(
      LayerClasses().begin(), LayerClasses().end(), [&](const ClassChoice<LayerSpec>& one) {
        return one.start.index() == layer.index() &&
               (!pooling || std::get<Pooling2DSpec>(one.start).kind == pooling->kind);
      });
  return found->name;
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

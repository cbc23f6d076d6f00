#include <utility>

#include "absl/strings/str_cat.h"
#include "common/cluster/json_text.h"
#include "coordinator/job/job_sections.h"
#include "nlohmann/json.hpp"

namespace cohort {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr int64_t kExamplesMax = int64_t{1} << 40;
constexpr int64_t kClassesMax = int64_t{1} << 20;
constexpr size_t kTransformsMax = 100;

MnistSpec ReadMnist(ObjectReader& config, const std::string& split) {
  MnistSpec source;
  source.split = split;
  config.Choice("split", {"train", "test"}, &source.split);
  config.String("images", &source.images);
  config.String("labels", &source.labels);
  if (source.images.empty() != source.labels.empty()) {
    config.AddError(source.images.empty() ? "images" : "labels",
                    "is missing; give the paths of both images and labels, or neither");
  }
  return source;
}

IdxSpec ReadIdx(ObjectReader& config) {
  IdxSpec source;
  const json* paths = config.Require("paths");
  if (paths == nullptr) return source;
  bool valid = paths->is_array() && !paths->empty();
  if (valid) {
    for (const json& path : *paths) {
      valid = valid && path.is_string();
      if (valid) source.paths.push_back(path.get<std::string>());
    }
  }
  if (!valid) {
    config.AddError("paths",
                    absl::StrCat("is ", JsonExcerpt(*paths), "; it must be a list of file names"));
  }
  return source;
}

DataSourceSpec ReadSource(const json& value, const std::string& path, const std::string& split,
                          JsonErrors& errors) {
  const ClassForm form = ReadClassForm(value, path, errors);
  if (form.class_name.empty() && !form.is_name_only) return MnistSpec{};
  ObjectReader config(form.config ? *form.config : EmptyJsonObject(), form.config_path, errors);
  DataSourceSpec source;
  if (form.class_name == "MNIST") {
    source = ReadMnist(config, split);
  } else if (form.class_name == "IDX") {
    source = ReadIdx(config);
  } else if (form.class_name == "SyntheticDigits") {
    SyntheticDigitsSpec digits;
    config.Seed("seed", &digits.seed);
    config.Int("count", {.min = 1, .max = kExamplesMax}, &digits.count);
    source = digits;
  } else {
    errors.Add(path, UnknownName("data set", form.class_name, {"MNIST", "IDX", "SyntheticDigits"}));
    return source;
  }
  config.Finish();
  return source;
}

std::optional<TransformSpec> ReadTransform(const json& value, const std::string& path,
                                           JsonErrors& errors) {
  const ClassForm form = ReadClassForm(value, path, errors);
  if (form.class_name.empty() && !form.is_name_only) return std::nullopt;
  TransformSpec transform;
  ObjectReader config(form.config ? *form.config : EmptyJsonObject(), form.config_path, errors);
  std::string component = "x";
  if (form.class_name == "Flatten") {
    transform.kind = TransformSpec::Kind::kFlatten;
  } else if (form.class_name == "Rescaling") {
    transform.kind = TransformSpec::Kind::kRescaling;
    config.Require("scale");
    config.Number("scale", {}, &transform.scale);
    config.Number("offset", {}, &transform.offset);
  } else if (form.class_name == "CategoryEncoding") {
    transform.kind = TransformSpec::Kind::kCategoryEncoding;
    component = "y";
    config.Require("num_tokens");
    config.Int("num_tokens", {.min = 1, .max = kClassesMax}, &transform.num_tokens);
    std::string mode = "one_hot";
    config.Choice("output_mode", {"one_hot"}, &mode);
  } else {
    errors.Add(path, UnknownName("transform", form.class_name,
                                 {"Flatten", "Rescaling", "CategoryEncoding"}));
    return std::nullopt;
  }
  config.Choice("component", {"x", "y"}, &component);
  transform.component = component == "x" ? 0 : 1;
  config.Ignore("name");
  config.Finish();
  return transform;
}

ordered_json ToJson(const MnistSpec& source) {
  ordered_json config = {{"split", source.split}};
  if (!source.images.empty()) config["images"] = source.images;
  if (!source.labels.empty()) config["labels"] = source.labels;
  return ClassFormToJson("MNIST", std::move(config));
}

ordered_json ToJson(const IdxSpec& source) {
  return ClassFormToJson("IDX", {{"paths", source.paths}});
}

ordered_json ToJson(const SyntheticDigitsSpec& source) {
  return ClassFormToJson("SyntheticDigits", {{"seed", source.seed}, {"count", source.count}});
}

ordered_json ToJson(const TransformSpec& transform) {
  ordered_json config = {{"component", transform.component == 0 ? "x" : "y"}};
  switch (transform.kind) {
    case TransformSpec::Kind::kFlatten:
      return ClassFormToJson("Flatten", std::move(config));
    case TransformSpec::Kind::kRescaling:
      config["scale"] = transform.scale;
      config["offset"] = transform.offset;
      return ClassFormToJson("Rescaling", std::move(config));
    case TransformSpec::Kind::kCategoryEncoding:
      config["num_tokens"] = transform.num_tokens;
      config["output_mode"] = "one_hot";
      return ClassFormToJson("CategoryEncoding", std::move(config));
  }
  return config;
}

ordered_json SourceToJson(const DataSourceSpec& source) {
  return std::visit([](const auto& one) { return ToJson(one); }, source);
}

}  // namespace

DataSpec ReadData(const json& value, const std::string& path, JsonErrors& errors) {
  DataSpec data;
  ObjectReader reader(value, path, errors);
  if (const json* train = reader.Require("train")) {
    data.train = ReadSource(*train, JoinPath(path, "train"), "train", errors);
  }
  if (const json* test = reader.Find("test")) {
    data.test = ReadSource(*test, JoinPath(path, "test"), "test", errors);
  }
  if (const json* pipeline = reader.Find("pipeline")) {
    const std::string list_path = JoinPath(path, "pipeline");
    if (!pipeline->is_array() || pipeline->size() > kTransformsMax) {
      errors.Add(list_path,
                 absl::StrCat("is ", JsonExcerpt(*pipeline), "; it must be a list of at most ",
                              kTransformsMax, " transforms"));
    } else {
      for (size_t i = 0; i < pipeline->size(); ++i) {
        const std::string item_path = JoinPath(list_path, absl::StrCat(i));
        std::optional<TransformSpec> transform = ReadTransform((*pipeline)[i], item_path, errors);
        if (transform) data.pipeline.push_back(*transform);
      }
    }
  }
  reader.Finish();
  return data;
}

ordered_json DataToJson(const DataSpec& data) {
  ordered_json pipeline = ordered_json::array();
  for (const TransformSpec& transform : data.pipeline) pipeline.push_back(ToJson(transform));
  ordered_json section = ordered_json::object();
  section["train"] = SourceToJson(data.train);
  if (data.test) section["test"] = SourceToJson(*data.test);
  section["pipeline"] = std::move(pipeline);
  return section;
}

}  // namespace cohort

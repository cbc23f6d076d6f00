#include <algorithm>
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
constexpr size_t kCategories = 26;  // categories of an example of a click log

MnistSpec ReadMnist(ObjectReader& config, const std::string& split) {
  MnistSpec source;
  source.split = split;
  config.Choice("split", {"train", "test"}, &source.split);
  config.String("images", &source.images);
  config.String("labels", &source.labels);
  // Labels must belong to their images, so one path without the other is an error.
  if (source.images.empty() != source.labels.empty()) {
    config.AddError(source.images.empty() ? "images" : "labels",
                    "is missing; give the paths of both images and labels, or neither");
  }
  std::string otherwise;
  config.Choice("otherwise", {"synthetic_digits"}, &otherwise);
  source.or_synthetic_digits = !otherwise.empty();
  // The fallback is only for MNIST files that the daemon searches for.
  if (source.or_synthetic_digits && !source.images.empty()) {
    config.AddError("otherwise",
                    "stands beside images, the files to train on; leave one of the "
                    "two out");
  }
  return source;
}

std::vector<std::string> ReadPaths(ObjectReader& config) {
  std::vector<std::string> names;
  const json* paths = config.Require("paths");
  if (paths == nullptr) return names;
  // The whole list is refused if one of its items is not a string.
  bool valid = paths->is_array() && !paths->empty();
  if (valid) {
    for (const json& path : *paths) {
      valid = valid && path.is_string();
      if (valid) names.push_back(path.get<std::string>());
    }
  }
  if (!valid) {
    config.AddError("paths",
                    absl::StrCat("is ", JsonExcerpt(*paths), "; it must be a list of file names"));
  }
  return names;
}

// Reads one number that holds for all categories, or a list with one number for each.
std::vector<int64_t> ReadBuckets(ObjectReader& config) {
  constexpr IntRange kBuckets = {.min = 1, .max = INT32_MAX};
  const std::vector<int64_t> otherwise(kCategories, 1000);
  const json* value = config.Find("hash_buckets");
  if (value == nullptr) return otherwise;
  if (!value->is_array()) {
    int64_t each = otherwise[0];
    config.Int("hash_buckets", kBuckets, &each);
    return std::vector<int64_t>(kCategories, each);
  }
  const std::string path = JoinPath(config.path(), "hash_buckets");
  const std::optional<std::vector<int64_t>> all = ReadInts(*value, path, kBuckets, config.errors());
  // ReadInts has reported the error; the default stands in for the list.
  if (!all) return otherwise;
  if (all->size() == kCategories) return *all;
  config.AddError("hash_buckets", absl::StrCat("has ", all->size(),
                                               " numbers; it must be one, or "
                                               "one for each of the 26 categories"));
  return otherwise;
}

ClickLogSpec ReadClickLog(const std::string& class_name, ObjectReader& config) {
  ClickLogSpec source;
  if (class_name == "ClickLog") {
    source.paths = ReadPaths(config);
  } else {
    config.Seed("seed", &source.seed);
    config.Int("count", {.min = 1, .max = kExamplesMax}, &source.count);
  }
  source.hash_buckets = ReadBuckets(config);
  return source;
}

// Reads a data set. `split` is the part of MNIST that is taken if the job names none.
DataSourceSpec ReadSource(const json& value, const std::string& path, const std::string& split,
                          JsonErrors& errors) {
  const ClassForm form = ReadClassForm(value, path, errors);
  if (form.class_name.empty() && !form.is_name_only) return MnistSpec{};
  ObjectReader config(form.config ? *form.config : EmptyJsonObject(), form.config_path, errors);
  DataSourceSpec source;
  if (form.class_name == "MNIST") {
    source = ReadMnist(config, split);
  } else if (form.class_name == "IDX") {
    source = IdxSpec{ReadPaths(config)};
  } else if (form.class_name == "SyntheticDigits") {
    SyntheticDigitsSpec digits;
    config.Seed("seed", &digits.seed);
    config.Int("count", {.min = 1, .max = kExamplesMax}, &digits.count);
    source = digits;
  } else if (form.class_name == "ClickLog" || form.class_name == "SyntheticClickLog") {
    source = ReadClickLog(form.class_name, config);
  } else {
    errors.Add(path,
               UnknownName("data set", form.class_name,
                           {"MNIST", "IDX", "SyntheticDigits", "ClickLog", "SyntheticClickLog"}));
    return source;
  }
  config.Finish();
  return source;
}

std::optional<TransformSpec> ReadTransform(const json& value, const std::string& path,
                                           const std::vector<std::string>& columns,
                                           JsonErrors& errors) {
  const ClassForm form = ReadClassForm(value, path, errors);
  if (form.class_name.empty() && !form.is_name_only) return std::nullopt;
  TransformSpec transform;
  ObjectReader config(form.config ? *form.config : EmptyJsonObject(), form.config_path, errors);
  // By default a transform changes the first column, which holds x or the dense values.
  std::string component = columns.front();
  if (form.class_name == "Flatten") {
    transform.kind = TransformSpec::Kind::kFlatten;
  } else if (form.class_name == "Rescaling") {
    transform.kind = TransformSpec::Kind::kRescaling;
    config.Require("scale");
    config.Number("scale", {}, &transform.scale);
    config.Number("offset", {}, &transform.offset);
  } else if (form.class_name == "CategoryEncoding") {
    transform.kind = TransformSpec::Kind::kCategoryEncoding;
    // By default the labels, which are the last column, are encoded.
    component = columns.back();
    config.Require("num_tokens");
    config.Int("num_tokens", {.min = 1, .max = kClassesMax}, &transform.num_tokens);
    std::string mode = "one_hot";
    config.Choice("output_mode", {"one_hot"}, &mode);
  } else {
    errors.Add(path, UnknownName("transform", form.class_name,
                                 {"Flatten", "Rescaling", "CategoryEncoding"}));
    return std::nullopt;
  }
  config.Choice("component", columns, &component);
  // Choice() accepted `component`, or left the default, so it is one of the columns.
  transform.component =
      static_cast<uint32_t>(std::find(columns.begin(), columns.end(), component) - columns.begin());
  config.Ignore("name");
  config.Finish();
  return transform;
}

ordered_json ToJson(const MnistSpec& source) {
  ordered_json config = {{"split", source.split}};
  if (!source.images.empty()) config["images"] = source.images;
  if (!source.labels.empty()) config["labels"] = source.labels;
  if (source.or_synthetic_digits) config["otherwise"] = "synthetic_digits";
  return ClassFormToJson("MNIST", std::move(config));
}

ordered_json ToJson(const IdxSpec& source) {
  return ClassFormToJson("IDX", {{"paths", source.paths}});
}

ordered_json ToJson(const SyntheticDigitsSpec& source) {
  return ClassFormToJson("SyntheticDigits", {{"seed", source.seed}, {"count", source.count}});
}

ordered_json ToJson(const ClickLogSpec& source) {
  ordered_json config = ordered_json::object();
  if (source.paths.empty()) {
    config["seed"] = source.seed;
    config["count"] = source.count;
  } else {
    config["paths"] = source.paths;
  }
  config["hash_buckets"] = source.hash_buckets;
  // The class name tells log files from generated rows.
  return ClassFormToJson(source.paths.empty() ? "SyntheticClickLog" : "ClickLog",
                         std::move(config));
}

ordered_json ToJson(const TransformSpec& transform, const std::vector<std::string>& columns) {
  ordered_json config = {{"component", columns.at(transform.component)}};
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
    // Columns are those of the training data; the test data must have the same.
    const std::string list_path = JoinPath(path, "pipeline");
    if (!pipeline->is_array() || pipeline->size() > kTransformsMax) {
      errors.Add(list_path,
                 absl::StrCat("is ", JsonExcerpt(*pipeline), "; it must be a list of at most ",
                              kTransformsMax, " transforms"));
    } else {
      for (size_t i = 0; i < pipeline->size(); ++i) {
        const std::string item_path = JoinPath(list_path, absl::StrCat(i));
        std::optional<TransformSpec> transform =
            ReadTransform((*pipeline)[i], item_path, ColumnNames(data.train), errors);
        if (transform) data.pipeline.push_back(*transform);
      }
    }
  }
  reader.Finish();
  return data;
}

ordered_json DataToJson(const DataSpec& data) {
  ordered_json pipeline = ordered_json::array();
  const std::vector<std::string> columns = ColumnNames(data.train);
  for (const TransformSpec& transform : data.pipeline) {
    pipeline.push_back(ToJson(transform, columns));
  }
  ordered_json section = ordered_json::object();
  section["train"] = SourceToJson(data.train);
  if (data.test) section["test"] = SourceToJson(*data.test);
  section["pipeline"] = std::move(pipeline);
  return section;
}

}  // namespace cohort

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/excerpt.h"
#include "common/cluster/json_text.h"
#include "coordinator/job/job_sections.h"
#include "nlohmann/json.hpp"

namespace cohort {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr int64_t kExamplesMax = int64_t{1} << 40;
constexpr int64_t kClassesMax = int64_t{1} << 20;
constexpr size_t kTransformsMax = 1000;
constexpr int64_t kBucketsDefault = 1000;
constexpr int64_t kImageSideMax = int64_t{1} << 15;
constexpr int64_t kBlockMax = int64_t{1} << 24;
constexpr int64_t kMixedBlocksMax = int64_t{1} << 16;
constexpr size_t kCategories = 26;  // categories of an example of a click log

void ReadConfig(ObjectReader& config, MnistSpec& source) {
  config.Choice("split", {"train", "test"}, &source.split);
  if (config.Given("images", !source.images.empty())) config.String("images", &source.images);
  if (config.Given("labels", !source.labels.empty())) config.String("labels", &source.labels);
  // Labels must belong to their images, so one path without the other is an error.
  if (source.images.empty() != source.labels.empty()) {
    config.AddError(source.images.empty() ? "images" : "labels",
                    "is missing; give the paths of both images and labels, or neither");
  }
  std::string otherwise = source.or_synthetic_digits ? "synthetic_digits" : "";
  config.Choice("otherwise", {"synthetic_digits"}, &otherwise);
  source.or_synthetic_digits = !otherwise.empty();
  // The fallback is only for MNIST files that the daemon searches for.
  if (source.or_synthetic_digits && !source.images.empty()) {
    config.AddError("otherwise",
                    "stands beside images, the files to train on; leave one of the "
                    "two out");
  }
}

void ReadPaths(ObjectReader& config, std::vector<std::string>& paths) {
  config.Require("paths");
  config.Strings("paths", 1, "file names", &paths);
}

void ReadConfig(ObjectReader& config, IdxSpec& source) { ReadPaths(config, source.paths); }

void ReadConfig(ObjectReader& config, NumpySpec& source) {
  ReadPaths(config, source.paths);
  if (config.Given("keys", !source.keys.empty())) {
    config.Strings("keys", 1, "names of arrays", &source.keys);
  }
  if (!source.keys.empty() && source.paths.size() > 1) {
    config.AddError("keys", "name the arrays of one .npz file, and paths has several files");
  }
  for (const std::string& path : source.paths) {
    if (!absl::EndsWith(path, ".npz") || !source.keys.empty()) continue;
    config.AddError("keys", absl::StrCat("is missing; name the arrays of ", Excerpt(path)));
  }
}

void ReadConfig(ObjectReader& config, ImageDirectorySpec& images) {
  config.Require("directory");
  config.String("directory", &images.directory);
  if (config.Given("class_names", !images.class_names.empty())) {
    config.Strings("class_names", 1, "names of directories", &images.class_names);
  }
  config.Ints("image_size", {.min = 1, .max = kImageSideMax}, 2, &images.image_size);
  if (images.image_size.size() != 2) {
    config.AddError("image_size", "must be two numbers, height and width");
    images.image_size = {1, 1};
  }
  config.Choice("color_mode", {"rgb", "grayscale", "rgba"}, &images.color_mode);
  config.Choice("interpolation", {"bilinear", "nearest", "bicubic"}, &images.interpolation);
}

void ReadConfig(ObjectReader& config, SyntheticDigitsSpec& digits) {
  config.Seed("seed", &digits.seed);
  config.Int("count", {.min = 1, .max = kExamplesMax}, &digits.count);
}

// Reads one number that holds for all categories, or a list with one number for each.
void ReadBuckets(ObjectReader& config, std::vector<int64_t>& buckets) {
  constexpr IntRange kBuckets = {.min = 1, .max = INT32_MAX};
  if (!config.recording()) buckets.assign(kCategories, kBucketsDefault);
  if (config.recording() || config.HoldsList("hash_buckets")) {
    config.Ints("hash_buckets", kBuckets, 0, &buckets);
  } else {
    config.Int("hash_buckets", kBuckets, &buckets[0]);
    buckets.assign(kCategories, buckets[0]);
  }
  if (buckets.size() == kCategories) return;
  config.AddError("hash_buckets", absl::StrCat("has ", buckets.size(),
                                               " numbers; it must be one, or "
                                               "one for each of the 26 categories"));
}

void ReadConfig(ObjectReader& config, ClickLogSpec& source) {
  // A click log with paths is read from files; one without paths is generated.
  if (!source.paths.empty()) {
    ReadPaths(config, source.paths);
  } else {
    config.Seed("seed", &source.seed);
    config.Int("count", {.min = 1, .max = kExamplesMax}, &source.count);
  }
  ReadBuckets(config, source.hash_buckets);
}

void ReadConfig(ObjectReader& config, RecordSpec& source) { ReadRecords(config, source); }

// Reads a data set. `split` is the part of MNIST that is taken if the job names none.
void ReadSource(const JsonPlace& place, const std::string& split, DataSourceSpec& source) {
  ClickLogSpec from_files;
  from_files.paths = {""};
  const std::vector<ClassChoice<DataSourceSpec>> choices = {
      {"MNIST", MnistSpec{split, "", ""}},
      {"IDX", IdxSpec()},
      {"SyntheticDigits", SyntheticDigitsSpec()},
      {"ClickLog", from_files},
      {"SyntheticClickLog", ClickLogSpec()},
      {"CSV", RecordSpec{.kind = RecordSpec::Kind::kCsv}},
      {"TFRecord", RecordSpec{.kind = RecordSpec::Kind::kTfRecord}},
      {"TextLine", RecordSpec{.kind = RecordSpec::Kind::kTextLines}},
      {"NumPy", NumpySpec()},
      {"ImageDirectory", ImageDirectorySpec()}};
  // The classes of click logs are two for one type, and those of records three.
  size_t recorded = source.index();
  if (const auto* log = std::get_if<ClickLogSpec>(&source)) recorded += log->paths.empty() ? 1 : 0;
  if (const auto* records = std::get_if<RecordSpec>(&source)) {
    recorded += 1 + static_cast<size_t>(records->kind);
  }
  if (std::holds_alternative<NumpySpec>(source) ||
      std::holds_alternative<ImageDirectorySpec>(source)) {
    recorded += 3;
  }
  const auto fields = [](ObjectReader& config, DataSourceSpec& found) {
    std::visit([&](auto& one) { ReadConfig(config, one); }, found);
  };
  ReadClass(place, "data set", choices, choices[recorded].name, fields, source);
}

bool ReadTransform(const JsonPlace& place, const std::vector<std::string>& columns,
                   TransformSpec& transform) {
  using Kind = TransformSpec::Kind;
  // The default is the first component (x, or the dense columns). Only CategoryEncoding's default
  // is the labels: "y", or the last column of a click log.
  const bool is_pair = columns[1] == "y";
  const auto labels = static_cast<uint32_t>(is_pair ? 1 : columns.size() - 1);
  const std::vector<ClassChoice<TransformSpec>> choices = {
      {"Flatten", {.kind = Kind::kFlatten}},
      {"Rescaling", {.kind = Kind::kRescaling}},
      {"CategoryEncoding", {.kind = Kind::kCategoryEncoding, .component = labels}}};
  const auto fields = [&](ObjectReader& config, TransformSpec& found) {
    std::string component = columns.at(found.component);
    config.Choice("component", columns, &component);
    // `component` is one of the columns: Choice() accepted it, or it is the default.
    found.component = static_cast<uint32_t>(std::find(columns.begin(), columns.end(), component) -
                                            columns.begin());
    if (found.kind == Kind::kRescaling) {
      config.Require("scale");
      config.Number("scale", {}, &found.scale);
      config.Number("offset", {}, &found.offset);
    } else if (found.kind == Kind::kCategoryEncoding) {
      config.Require("num_tokens");
      config.Int("num_tokens", {.min = 1, .max = kClassesMax}, &found.num_tokens);
      std::string mode = "one_hot";
      config.Choice("output_mode", {"one_hot"}, &mode);
    }
    config.Ignore("name");
  };
  const std::string& recorded = choices[static_cast<size_t>(transform.kind)].name;
  return ReadClass(place, "transform", choices, recorded, fields, transform);
}

// Reads a transform of files of records, and changes the names of the columns as it does.
bool ReadRecordTransform(const JsonPlace& place, std::vector<std::string>& columns,
                         TransformSpec& transform) {
  transform.kind = TransformSpec::Kind::kMap;
  if (!ReadMap(place, columns, transform.map)) return false;
  ApplyToNames(transform.map, columns);
  return true;
}

// Reads the name of an order, or its class form.
void ReadOrder(ObjectReader& reader, OrderSpec& order) {
  const std::vector<ClassChoice<OrderSpec>> choices = {{"global", {.name = "global"}},
                                                       {"blocks", {.name = "blocks"}}};
  const auto fields = [](ObjectReader& config, OrderSpec& found) {
    if (found.name != "blocks") return;
    config.Int("block_size", {.min = 1, .max = kBlockMax}, &found.block_size);
    config.Int("mixed_blocks", {.min = 1, .max = kMixedBlocksMax}, &found.mixed_blocks);
  };
  ReadClass(*reader.Place("order"), "order", choices, order.name, fields, order);
}

// The names that keys of the job file have for the components of a data set: names of columns or,
// if the data set has no named columns, numbers of files. Thread-compatible.
class ComponentNames {
 public:
  explicit ComponentNames(const DataSpec& data)
      : columns_(FinalColumns(data)), arrays_(NumArrays(data.train)) {}

  std::optional<uint32_t> Read(const JsonPlace& place) const {
    const json& value = *place.value;
    if (arrays_.has_value()) {
      const bool fits = value.is_number_unsigned() && value.get<uint64_t>() < *arrays_;
      if (fits) return value.get<uint32_t>();
      place.errors.Add(place.path, absl::StrCat("is ", JsonExcerpt(value),
                                                "; it must be the "
                                                "number of an array of data.train, from 0 to ",
                                                *arrays_ - 1));
      return std::nullopt;
    }
    const auto found = value.is_string()
                           ? std::find(columns_.begin(), columns_.end(), value.get<std::string>())
                           : columns_.end();
    if (found != columns_.end()) return static_cast<uint32_t>(found - columns_.begin());
    place.errors.Add(
        place.path, absl::StrCat("is ", JsonExcerpt(value), "; it must be a column of data.train: ",
                                 absl::StrJoin(columns_, ", ")));
    return std::nullopt;
  }

  ordered_json Name(uint32_t component) const {
    if (arrays_.has_value()) return component;
    return columns_.at(component);
  }

 private:
  const std::vector<std::string> columns_;
  const std::optional<size_t> arrays_;  // the number of numbered arrays
};

ordered_json Recorded(const OutputComponents& components, const ComponentNames& names) {
  if (components.all.has_value()) return names.Name(*components.all);
  ordered_json list = ordered_json::array();
  for (const std::optional<uint32_t>& one : components.in_order) {
    list.push_back(one.has_value() ? names.Name(*one) : ordered_json());
  }
  if (!components.in_order.empty()) return list;
  ordered_json object = ordered_json::object();
  for (const auto& [output, one] : components.by_name) object[output] = names.Name(one);
  return object;
}

// Reads a component for all outputs of the model, a list with one for each, or an object by their
// names; null stands for none.
void ReadComponents(const JsonPlace& place, const DataSpec& data, OutputComponents& components) {
  const ComponentNames names(data);
  if (place.record != nullptr) {
    *place.record = Recorded(components, names);
    return;
  }
  const json& value = *place.value;
  if (!value.is_structured()) {
    components.all = names.Read(place);
    return;
  }
  for (const auto& [key, one] : value.items()) {
    std::optional<uint32_t> component;
    if (!one.is_null()) {
      component = names.Read({JoinKeys(place.path, Excerpt(key)), place.errors, &one});
    }
    if (value.is_array()) components.in_order.push_back(component);
    if (value.is_object() && component.has_value()) components.by_name[key] = *component;
  }
  if (value.empty()) place.errors.Add(place.path, "is empty; leave it out");
}

}  // namespace

void ReadPipeline(const JsonPlace& place, const DataSourceSpec& source,
                  std::vector<TransformSpec>& pipeline) {
  std::vector<std::string> columns = ColumnNames(source);
  const bool of_records = HasColumnFunctions(source);
  const auto read_one = [&](const JsonPlace& item, TransformSpec& transform) {
    return of_records ? ReadRecordTransform(item, columns, transform)
                      : ReadTransform(item, columns, transform);
  };
  if (place.record != nullptr) {
    *place.record = ordered_json::array();
    for (TransformSpec& transform : pipeline) {
      ordered_json& record = place.record->emplace_back();
      read_one({place.path, place.errors, nullptr, &record}, transform);
    }
    return;
  }
  const json& list = *place.value;
  if (!list.is_array() || list.size() > kTransformsMax) {
    return place.errors.Add(
        place.path, absl::StrCat("is ", JsonExcerpt(list), "; it must be a list of at most ",
                                 kTransformsMax, " transforms"));
  }
  for (size_t i = 0; i < list.size(); ++i) {
    const JsonPlace item = {JoinKeys(place.path, absl::StrCat(i)), place.errors, &list[i]};
    TransformSpec transform;
    if (read_one(item, transform)) pipeline.push_back(transform);
  }
}

void ReadData(ObjectReader& reader, DataSpec& data) {
  reader.Require("train");
  if (const auto train = reader.Place("train")) ReadSource(*train, "train", data.train);
  if (reader.Given("test", data.test.has_value())) {
    ReadSource(*reader.Place("test"), "test", data.test ? *data.test : data.test.emplace());
  }
  if (const auto pipeline = reader.Place("pipeline")) {
    ReadPipeline(*pipeline, data.train, data.pipeline);
  }
  if (reader.Given("order", data.order != OrderSpec())) ReadOrder(reader, data.order);
  if (reader.Given("labels", !data.labels.empty())) {
    ReadComponents(*reader.Place("labels"), data, data.labels);
  }
  if (reader.Given("sample_weight", !data.sample_weight.empty())) {
    ReadComponents(*reader.Place("sample_weight"), data, data.sample_weight);
  }
}

}  // namespace cohort

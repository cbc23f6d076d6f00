// Files of records in the section `data`.

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/excerpt.h"
#include "common/cluster/json_text.h"
#include "coordinator/job/job_sections.h"
#include "nlohmann/json.hpp"

namespace cohort {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr size_t kFieldsMax = 4096;

const std::vector<std::string>& DTypes() {
  static const auto* const kDTypes =
      new std::vector<std::string>{"int64", "int32", "float32", "float64", "string"};
  return *kDTypes;
}

// Reads a default of the field's type.
void ReadDefault(ObjectReader& config, RecordField& field) {
  const bool is_text = field.dtype == "string";
  const bool is_float = field.dtype == "float32" || field.dtype == "float64";
  if (const json* const value = config.Find("default")) {
    if (is_text && value->is_string()) {
      field.default_value = value->get<std::string>();
    } else if (is_float && value->is_number()) {
      field.default_value = value->get<double>();
    } else if (!is_text && !is_float && value->is_number_integer()) {
      field.default_value = value->get<int64_t>();
    } else {
      config.AddError("default",
                      absl::StrCat("is ", JsonExcerpt(*value), "; it must be a ", field.dtype));
    }
  }
  if (!field.default_value) return;
  std::visit([&](const auto& value) { config.RecordAs("default", value); }, *field.default_value);
}

void ReadField(ObjectReader& config, RecordField& field, bool of_csv) {
  config.Require("name");
  config.String("name", &field.name);
  config.Choice("dtype", DTypes(), &field.dtype);
  if (of_csv) {
    if (config.Given("read", !field.is_read)) config.Bool("read", &field.is_read);
  } else if (config.Given("shape", !field.shape.empty())) {
    config.NullableInts("shape", {.min = 0, .max = int64_t{1} << 28}, &field.shape);
    if (std::count(field.shape.begin(), field.shape.end(), -1) > 0 &&
        (field.shape[0] != -1 || std::count(field.shape.begin() + 1, field.shape.end(), -1) > 0)) {
      config.AddError("shape", "may have null in the first place alone");
    }
  }
  ReadDefault(config, field);
}

// Reads a list of objects, each by `read`.
template <typename Item, typename Read>
void ReadList(ObjectReader& config, const std::string& key, const char* what, size_t count_max,
              std::vector<Item>& items, Read read) {
  const std::optional<JsonPlace> place = config.Place(key);
  if (!place) return;
  if (place->value != nullptr) {
    items.clear();
    if (!place->value->is_array() || place->value->size() > count_max) {
      return config.AddError(
          key, absl::StrCat("is ", JsonExcerpt(*place->value), "; it must be a list of at most ",
                            count_max, " ", what));
    }
    items.resize(place->value->size());
  }
  if (place->record != nullptr) *place->record = ordered_json::array();
  for (size_t i = 0; i < items.size(); ++i) {
    JsonPlace item = {JoinKeys(place->path, absl::StrCat(i)), place->errors};
    if (place->value != nullptr) item.value = &(*place->value)[i];
    if (place->record != nullptr) item.record = &place->record->emplace_back();
    ObjectReader reader(item);
    read(reader, items[i]);
    reader.Finish();
  }
}

void CheckFields(ObjectReader& config, const char* key, const RecordSpec& spec) {
  if (FieldNames(spec).empty()) config.AddError(key, "names no column that is read");
  for (const RecordField& field : spec.fields) {
    const auto is_same = [&](const RecordField& other) { return other.name == field.name; };
    if (std::count_if(spec.fields.begin(), spec.fields.end(), is_same) < 2) continue;
    return config.AddError(key, absl::StrCat("names '", Excerpt(field.name), "' twice"));
  }
}

void ReadCompression(ObjectReader& config, RecordSpec& spec) {
  config.Choice("compression", {"auto", "none", "gzip", "zlib"}, &spec.compression);
}

}  // namespace

void ReadRecords(ObjectReader& config, RecordSpec& spec) {
  config.Require("paths");
  config.Strings("paths", 1, "file names", &spec.paths);
  ReadCompression(config, spec);
  if (spec.kind == RecordSpec::Kind::kTextLines) return config.String("column", &spec.column);
  const bool of_csv = spec.kind == RecordSpec::Kind::kCsv;
  const char* const key = of_csv ? "columns" : "features";
  config.Require(key);
  ReadList(
      config, key, key, kFieldsMax, spec.fields,
      [of_csv](ObjectReader& reader, RecordField& field) { ReadField(reader, field, of_csv); });
  CheckFields(config, key, spec);
  if (!of_csv) return;
  config.Bool("header", &spec.header);
  config.String("delimiter", &spec.delimiter);
  if (spec.delimiter.size() != 1) config.AddError("delimiter", "must be one byte");
  config.String("na_value", &spec.na_value);
  config.Bool("trim", &spec.trim);
  config.String("comment", &spec.comment);
  config.Bool("skip_blank_lines", &spec.skip_blank_lines);
}

}  // namespace cohort

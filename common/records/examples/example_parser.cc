#include "common/records/examples/example_parser.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/excerpt.h"
#include "common/base/status.h"
#include "common/records/examples/feature_reader.h"
#include "common/records/examples/wire_reader.h"

namespace cohort {

namespace {

// The fields of Example, of Features, and of an entry of its map.
constexpr uint32_t kFeatures = WireTag(1, WireReader::kBytes);
constexpr uint32_t kEntry = WireTag(1, WireReader::kBytes);
constexpr uint32_t kKey = WireTag(1, WireReader::kBytes);
constexpr uint32_t kValue = WireTag(2, WireReader::kBytes);

// Upper bound on the places of keys that are expected, against records of very many keys.
constexpr size_t kExpectedMax = 4096;

absl::Status NoExample() {
  return absl::DataLossError("the record is no tf.train.Example: its bytes are malformed");
}

size_t SizeOf(const ColumnValues& values, FeatureType type) {
  switch (type) {
    case FeatureType::kInt64:
      return values.ints.size();
    case FeatureType::kFloat:
      return values.floats.size();
    case FeatureType::kBytes:
      return values.strings.size();
  }
  return 0;
}

absl::Status WrongCount(const FeatureSpec& feature, size_t count, size_t size) {
  if (feature.length == FeatureSpec::Length::kFixed) {
    return absl::InvalidArgumentError(absl::StrCat("the record has ", count, " values, its shape ",
                                                   feature.shape.ToString(), " has ", size));
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "the record has ", count, " values, not a multiple of the ", size, " of a step"));
}

}  // namespace

ExampleParser::ExampleParser(std::vector<FeatureSpec> features) : features_(std::move(features)) {
  row_.resize(features_.size());
  for (size_t i = 0; i < features_.size(); ++i) {
    sizes_.push_back(static_cast<size_t>(features_[i].shape.num_elements()));
    by_key_.emplace(features_[i].key, static_cast<int>(i));
  }
}

absl::StatusOr<ExampleParser> ExampleParser::Make(std::vector<FeatureSpec> features) {
  ExampleParser parser(std::move(features));
  if (parser.by_key_.size() < parser.features_.size()) {
    return absl::InvalidArgumentError("a feature is given twice");
  }
  for (size_t i = 0; i < parser.features_.size(); ++i) {
    FeatureSpec& feature = parser.features_[i];
    if (feature.length == FeatureSpec::Length::kVaries && parser.sizes_[i] == 0) {
      return absl::InvalidArgumentError(absl::StrCat("feature '", Excerpt(feature.key),
                                                     "': a step of shape ",
                                                     feature.shape.ToString(), " has no values"));
    }
    if (!feature.default_values) continue;
    ColumnValues& values = *feature.default_values;
    const size_t count = SizeOf(values, feature.type);
    const bool fits = count == values.size() && (count == parser.sizes_[i] || count == 1) &&
                      feature.length == FeatureSpec::Length::kFixed;
    if (!fits) {
      return absl::InvalidArgumentError(absl::StrCat(
          "feature '", Excerpt(feature.key), "': its default is ", values.size(),
          " values that do not fit ", FeatureTypeName(feature.type), feature.shape.ToString()));
    }
    // One value stands for all.
    const ColumnValues one = values;
    while (SizeOf(values, feature.type) < parser.sizes_[i]) values.Append(one);
    values.Truncate(parser.sizes_[i]);
  }
  return parser;
}

std::vector<FeatureColumn> ExampleParser::NewColumns() const {
  std::vector<FeatureColumn> columns(features_.size());
  for (size_t i = 0; i < columns.size(); ++i) {
    if (features_[i].length == FeatureSpec::Length::kVaries) columns[i].row_splits = {0};
  }
  return columns;
}

absl::Status ExampleParser::Append(absl::string_view record, absl::Span<FeatureColumn> columns) {
  for (size_t i = 0; i < features_.size(); ++i) {
    row_[i] = {SizeOf(columns[i].values, features_[i].type), false};
  }
  place_ = 0;
  absl::Status status = ParseRecord(record, columns);
  if (status.ok()) return status;
  for (size_t i = 0; i < features_.size(); ++i) columns[i].values.Truncate(row_[i].begin);
  return status;
}

absl::Status ExampleParser::ParseRecord(absl::string_view record,
                                        absl::Span<FeatureColumn> columns) {
  WireReader example(record);
  while (!example.at_end()) {
    uint32_t tag = 0;
    absl::string_view features;
    if (!example.ReadTag(&tag)) return NoExample();
    if (tag != kFeatures) {
      if (!example.Skip(tag)) return NoExample();
      continue;
    }
    if (!example.ReadBytes(&features)) return NoExample();
    RETURN_IF_ERROR(ParseFeatures(features, columns));
  }
  // Nothing is appended to row_splits before all features are known to be good.
  for (size_t i = 0; i < features_.size(); ++i) {
    absl::Status ended = EndRow(i, columns[i]);
    if (!ended.ok()) {
      return Annotate(ended, absl::StrCat("feature '", Excerpt(features_[i].key), "'"));
    }
  }
  for (size_t i = 0; i < features_.size(); ++i) {
    if (features_[i].length == FeatureSpec::Length::kFixed) continue;
    const size_t values = SizeOf(columns[i].values, features_[i].type);
    const size_t steps = (values - row_[i].begin) / sizes_[i];
    columns[i].row_splits.push_back(columns[i].row_splits.back() + static_cast<int64_t>(steps));
  }
  return absl::OkStatus();
}

absl::Status ExampleParser::ParseFeatures(absl::string_view features,
                                          absl::Span<FeatureColumn> columns) {
  WireReader reader(features);
  while (!reader.at_end()) {
    uint32_t tag = 0;
    absl::string_view entry;
    if (!reader.ReadTag(&tag)) return NoExample();
    if (tag != kEntry) {
      if (!reader.Skip(tag)) return NoExample();
      continue;
    }
    if (!reader.ReadBytes(&entry)) return NoExample();
    RETURN_IF_ERROR(ParseEntry(entry, columns));
  }
  return absl::OkStatus();
}

absl::Status ExampleParser::ParseEntry(absl::string_view entry, absl::Span<FeatureColumn> columns) {
  absl::string_view key;
  absl::string_view value;
  bool has_key = false;
  WireReader reader(entry);
  while (!reader.at_end()) {
    uint32_t tag = 0;
    if (!reader.ReadTag(&tag)) return NoExample();
    if (tag == kKey) {
      if (!reader.ReadBytes(&key)) return NoExample();
      has_key = true;
    } else if (tag == kValue) {
      if (!reader.ReadBytes(&value)) return NoExample();
    } else if (!reader.Skip(tag)) {
      return NoExample();
    }
  }
  if (!has_key) return absl::DataLossError("a feature of the record has no key");
  const int found = Find(key);
  if (found < 0) return absl::OkStatus();
  const auto number = static_cast<size_t>(found);
  const FeatureSpec& feature = features_[number];
  ColumnValues& values = columns[number].values;
  RowState& row = row_[number];
  // The last entry of a key counts.
  if (row.is_set) values.Truncate(row.begin);
  const absl::Status read = AppendFeature(value, feature.type, values, &row.is_set);
  if (!read.ok()) return Annotate(read, absl::StrCat("feature '", Excerpt(feature.key), "'"));
  return absl::OkStatus();
}

// Checks the number of the record's values, and appends the default of a feature that it lacks.
absl::Status ExampleParser::EndRow(size_t feature, FeatureColumn& column) const {
  const FeatureSpec& spec = features_[feature];
  const RowState& row = row_[feature];
  const bool is_fixed = spec.length == FeatureSpec::Length::kFixed;
  if (!row.is_set) {
    if (!is_fixed) return absl::OkStatus();
    if (!spec.default_values) {
      return absl::InvalidArgumentError(absl::StrCat("the record has no ",
                                                     FeatureTypeName(spec.type),
                                                     " values for it, and no default is given"));
    }
    column.values.Append(*spec.default_values);
    return absl::OkStatus();
  }
  const size_t count = SizeOf(column.values, spec.type) - row.begin;
  const bool fits = is_fixed ? count == sizes_[feature] : count % sizes_[feature] == 0;
  return fits ? absl::OkStatus() : WrongCount(spec, count, sizes_[feature]);
}

int ExampleParser::Find(absl::string_view key) {
  const size_t place = place_++;
  if (place < order_.size() && order_[place].key == key) return order_[place].feature;
  const auto found = by_key_.find(key);
  const int feature = found == by_key_.end() ? -1 : found->second;
  if (place < kExpectedMax) {
    if (place >= order_.size()) order_.resize(place + 1);
    order_[place] = {std::string(key), feature};
  }
  return feature;
}

}  // namespace cohort

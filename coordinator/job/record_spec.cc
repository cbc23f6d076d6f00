#include "coordinator/job/record_spec.h"

#include <utility>

namespace cohort {

namespace {

// enum RecordFormat::Kind of common/records/record_format.h.
constexpr uint32_t kTfRecords = 0;
constexpr uint32_t kTextLines = 1;
constexpr uint32_t kCsv = 2;

proto::ColumnType TypeOf(const std::string& dtype) {
  if (dtype == "int64") return proto::COLUMN_INT64;
  if (dtype == "int32") return proto::COLUMN_INT32;
  if (dtype == "float64") return proto::COLUMN_FLOAT64;
  return dtype == "string" ? proto::COLUMN_STRING : proto::COLUMN_FLOAT32;
}

void AddField(const RecordField& field, proto::DataField& out) {
  out.set_name(field.name);
  out.set_type(TypeOf(field.dtype));
  out.set_passed_over(!field.is_read);
  out.set_varies(!field.shape.empty() && field.shape[0] == -1);
  for (size_t i = out.varies() ? 1 : 0; i < field.shape.size(); ++i) out.add_dims(field.shape[i]);
  if (!field.default_value) return;
  proto::DataValues& values = *out.mutable_default_values();
  const bool is_float = field.dtype == "float32" || field.dtype == "float64";
  if (const auto* text = std::get_if<std::string>(&*field.default_value)) values.add_strings(*text);
  if (const auto* number = std::get_if<double>(&*field.default_value)) values.add_floats(*number);
  if (const auto* whole = std::get_if<int64_t>(&*field.default_value)) {
    if (is_float) {
      values.add_floats(static_cast<double>(*whole));
    } else {
      values.add_ints(*whole);
    }
  }
}

}  // namespace

std::vector<std::string> FieldNames(const RecordSpec& spec) {
  if (spec.kind == RecordSpec::Kind::kTextLines) return {spec.column};
  std::vector<std::string> names;
  for (const RecordField& field : spec.fields) {
    if (field.is_read) names.push_back(field.name);
  }
  return names;
}

proto::RecordFiles ToProto(const RecordSpec& spec) {
  proto::RecordFiles files;
  files.mutable_paths()->Assign(spec.paths.begin(), spec.paths.end());
  files.set_compression(spec.compression);
  proto::RecordFormat& format = *files.mutable_format();
  switch (spec.kind) {
    case RecordSpec::Kind::kCsv: {
      format.set_kind(kCsv);
      format.set_quotes(true);
      format.set_comment(spec.comment);
      format.set_skip_blank(spec.skip_blank_lines);
      files.set_header_records(spec.header ? 1 : 0);
      proto::CsvContent& csv = *files.mutable_csv();
      csv.set_delimiter(spec.delimiter);
      csv.set_na_value(spec.na_value);
      csv.set_trim(spec.trim);
      for (const RecordField& field : spec.fields) AddField(field, *csv.add_fields());
      break;
    }
    case RecordSpec::Kind::kTfRecord:
      format.set_kind(kTfRecords);
      for (const RecordField& field : spec.fields) {
        AddField(field, *files.mutable_example()->add_fields());
      }
      break;
    case RecordSpec::Kind::kTextLines:
      format.set_kind(kTextLines);
      files.mutable_raw()->set_name(spec.column);
      break;
  }
  return files;
}

}  // namespace cohort

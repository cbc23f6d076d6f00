#include "worker/data/record_examples.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/crc32c.h"
#include "common/base/excerpt.h"
#include "common/base/status.h"
#include "common/records/index_store.h"

namespace cohort {

namespace {

constexpr int kFieldsMax = 4096;
constexpr int64_t kFieldValuesMax = int64_t{1} << 28;

absl::Status NameField(const absl::Status& status, const proto::DataField& field) {
  return Annotate(status, absl::StrCat("field '", Excerpt(field.name()), "'"));
}

absl::StatusOr<RecordFormat> FormatOf(const proto::RecordFormat& given) {
  RecordFormat format;
  if (given.kind() > static_cast<uint32_t>(RecordFormat::Kind::kFixedLength)) {
    return absl::InvalidArgumentError(absl::StrCat(given.kind(), " is no format of records"));
  }
  format.kind = static_cast<RecordFormat::Kind>(given.kind());
  format.bytes = given.bytes();
  format.header_bytes = given.header_bytes();
  format.footer_bytes = given.footer_bytes();
  format.quotes = given.quotes();
  format.comment = given.comment();
  format.skip_blank = given.skip_blank();
  if (format.kind == RecordFormat::Kind::kFixedLength && format.bytes == 0) {
    return absl::InvalidArgumentError("records of a fixed length have at least one byte");
  }
  return format;
}

// Returns the shape of a field. Errors: INVALID_ARGUMENT for a negative or very large extent.
absl::StatusOr<Shape> ShapeOf(const proto::DataField& field) {
  int64_t values = 1;
  for (const int64_t dim : field.dims()) {
    if (dim < 0 || __builtin_mul_overflow(values, std::max<int64_t>(dim, 1), &values) ||
        values > kFieldValuesMax) {
      return absl::InvalidArgumentError(absl::StrCat("its extent ", dim, " cannot be"));
    }
  }
  return Shape(absl::MakeConstSpan(field.dims().data(), static_cast<size_t>(field.dims_size())));
}

// The strings of the result are views of `given`.
ColumnValues ValuesOf(const proto::DataValues& given, proto::ColumnType type) {
  ColumnValues values;
  values.ints.assign(given.ints().begin(), given.ints().end());
  if (type == proto::COLUMN_FLOAT64) {
    values.doubles.assign(given.floats().begin(), given.floats().end());
  } else {
    for (const double value : given.floats()) values.floats.push_back(static_cast<float>(value));
  }
  values.strings.assign(given.strings().begin(), given.strings().end());
  return values;
}

absl::StatusOr<proto::DataFile> DescribeOpen(const ReadableFile& file, const std::string& path) {
  ASSIGN_OR_RETURN(const proto::FileFingerprint fingerprint, FingerprintOf(file));
  proto::DataFile described;
  described.set_path(path);
  described.set_bytes(fingerprint.bytes());
  // The whole file is not read for its checksum.
  described.set_crc32c(
      Crc32c(absl::StrCat(fingerprint.head_crc32c(), ":", fingerprint.tail_crc32c())));
  return described;
}

CsvType CsvTypeOf(proto::ColumnType type) {
  switch (type) {
    case proto::COLUMN_INT32:
      return CsvType::kInt32;
    case proto::COLUMN_FLOAT32:
      return CsvType::kFloat32;
    case proto::COLUMN_FLOAT64:
      return CsvType::kFloat64;
    case proto::COLUMN_STRING:
      return CsvType::kString;
    default:
      return CsvType::kInt64;
  }
}

}  // namespace

absl::StatusOr<std::shared_ptr<const RecordExamples>> RecordExamples::Open(
    const proto::RecordFiles& spec, FileSystem& files, std::shared_ptr<SpanCache> cache) {
  std::shared_ptr<RecordExamples> examples(new RecordExamples);
  examples->header_records_ = spec.header_records();
  if (spec.paths().empty()) return absl::InvalidArgumentError("the source names no file");
  if (spec.has_csv()) {
    RETURN_IF_ERROR(examples->PlanCsv(spec.csv()));
  } else if (spec.has_example()) {
    RETURN_IF_ERROR(examples->PlanExample(spec.example()));
  } else {
    examples->columns_ = {{spec.raw().name(), proto::COLUMN_STRING, Shape()}};
  }
  for (const std::string& path : spec.paths()) {
    RETURN_IF_ERROR(examples->OpenFile(spec, path, files, cache));
  }
  return examples;
}

absl::StatusOr<proto::DataFile> RecordExamples::Describe(FileSystem& files,
                                                         const std::string& path) {
  ASSIGN_OR_RETURN(const std::unique_ptr<ReadableFile> file, files.Open(path));
  return DescribeOpen(*file, path);
}

absl::Status RecordExamples::OpenFile(const proto::RecordFiles& spec, const std::string& path,
                                      FileSystem& files, const std::shared_ptr<SpanCache>& cache) {
  ASSIGN_OR_RETURN(const RecordFormat format, FormatOf(spec.format()));
  ASSIGN_OR_RETURN(const FileCompression compression, CompressionFromName(spec.compression()));
  ASSIGN_OR_RETURN(std::unique_ptr<ReadableFile> file, files.Open(path));
  ASSIGN_OR_RETURN(described_.emplace_back(), DescribeOpen(*file, path));
  IndexStore indexes(files, spec.index_directory());
  ASSIGN_OR_RETURN(FileIndex index, indexes.Get(*file, path, format, compression));
  const auto records = static_cast<int64_t>(index.records.records);
  if (records < header_records_) {
    return absl::DataLossError(
        absl::StrCat(path, ": has ", records, " records, and its header ", header_records_));
  }
  begins_.push_back(size_);
  size_ += records - header_records_;
  files_.push_back(
      std::make_unique<const RecordFile>(std::move(file), path, format, std::move(index), cache));
  return header_records_ == 0 ? absl::OkStatus() : CheckHeader(*files_.back());
}

// Refuses a header of CSV that has a column's name at another place than the columns.
absl::Status RecordExamples::CheckHeader(const RecordFile& file) const {
  if (!csv_) return absl::OkStatus();
  RecordBatch read;
  RETURN_IF_ERROR(file.Read({0}, read));
  ASSIGN_OR_RETURN(const CsvParser texts, HeaderParser());
  std::vector<ColumnValues> names(csv_->columns().size());
  StringArena arena;
  // A header that is no record of as many fields says nothing of their order.
  if (!texts.Append(read.records[0], absl::MakeSpan(names), arena).ok()) return absl::OkStatus();
  for (size_t i = 0; i < names.size(); ++i) {
    const std::string& declared = csv_->columns()[i].name;
    for (size_t j = 0; j < names.size(); ++j) {
      if (i == j || names[j].strings[0] != declared || names[i].strings[0] == declared) continue;
      return absl::InvalidArgumentError(
          absl::StrCat(file.path(), ": its header has '", Excerpt(declared), "' as field ", j,
                       ", and columns has it as field ", i, "; give columns in the file's order"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<CsvParser> RecordExamples::HeaderParser() const {
  std::vector<CsvColumn> fields;
  for (const CsvColumn& column : csv_->columns()) {
    fields.push_back({column.name, CsvType::kString, true, ColumnValues{.strings = {""}}});
  }
  CsvOptions options = csv_->options();
  options.trim = true;
  return CsvParser::Make(std::move(fields), std::move(options));
}

absl::Status RecordExamples::PlanCsv(const proto::CsvContent& csv) {
  if (csv.fields_size() > kFieldsMax) return absl::InvalidArgumentError("too many fields");
  std::vector<CsvColumn> fields;
  for (const proto::DataField& field : csv.fields()) {
    CsvColumn& column = fields.emplace_back();
    column.name = field.name();
    column.type = CsvTypeOf(field.type());
    column.is_read = !field.passed_over();
    if (field.has_default_values()) {
      column.default_value = ValuesOf(field.default_values(), field.type());
    }
    csv_columns_.push_back(columns_.size());
    if (column.is_read) columns_.push_back({field.name(), field.type(), Shape()});
  }
  CsvOptions options;
  if (csv.delimiter().size() > 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("the delimiter '", Excerpt(csv.delimiter()), "' is no single byte"));
  }
  if (!csv.delimiter().empty()) options.delimiter = csv.delimiter()[0];
  options.na_value = csv.na_value();
  options.trim = csv.trim();
  ASSIGN_OR_RETURN(CsvParser parser, CsvParser::Make(std::move(fields), std::move(options)));
  csv_.emplace(std::move(parser));
  return absl::OkStatus();
}

absl::Status RecordExamples::PlanExample(const proto::ExampleContent& example) {
  if (example.fields_size() > kFieldsMax) return absl::InvalidArgumentError("too many features");
  std::vector<FeatureSpec> features;
  for (const proto::DataField& field : example.fields()) {
    FeatureSpec& feature = features.emplace_back();
    feature.key = field.name();
    switch (field.type()) {
      case proto::COLUMN_INT64:
        feature.type = FeatureType::kInt64;
        break;
      case proto::COLUMN_FLOAT32:
        feature.type = FeatureType::kFloat;
        break;
      case proto::COLUMN_STRING:
        feature.type = FeatureType::kBytes;
        break;
      default:
        return NameField(
            absl::InvalidArgumentError("a tf.train.Example has int64, float32 or string"), field);
    }
    if (field.varies()) feature.length = FeatureSpec::Length::kVaries;
    const absl::StatusOr<Shape> shape = ShapeOf(field);
    if (!shape.ok()) return NameField(shape.status(), field);
    feature.shape = *shape;
    if (field.has_default_values()) {
      feature.default_values = ValuesOf(field.default_values(), field.type());
    }
    columns_.push_back({field.name(), field.type(), *shape, field.varies()});
  }
  ASSIGN_OR_RETURN(example_, ExampleParser::Make(std::move(features)));
  return absl::OkStatus();
}

size_t RecordExamples::FileOf(int64_t number) const {
  // A file without examples begins where the next one does; the search finds the last one of them.
  const auto after = std::upper_bound(begins_.begin(), begins_.end(), number);
  return static_cast<size_t>(after - begins_.begin()) - 1;
}

std::string RecordExamples::NameOf(int64_t number) const {
  const size_t file = FileOf(number);
  return absl::StrCat("record ", number - begins_[file] + header_records_, " of ",
                      files_[file]->path());
}

absl::StatusOr<ColumnBatch> RecordExamples::Read(absl::Span<const int64_t> numbers) const {
  ColumnBatch batch;
  batch.rows = static_cast<int64_t>(numbers.size());
  // The examples of each file are read together, and put back in the order of `numbers`.
  std::vector<std::vector<size_t>> rows_of(files_.size());
  for (size_t row = 0; row < numbers.size(); ++row) {
    if (numbers[row] < 0 || numbers[row] >= size_) {
      return absl::OutOfRangeError(absl::StrCat("there is no example ", numbers[row]));
    }
    rows_of[FileOf(numbers[row])].push_back(row);
  }
  std::vector<absl::string_view> records(numbers.size());
  for (size_t file = 0; file < files_.size(); ++file) {
    if (rows_of[file].empty()) continue;
    std::vector<uint64_t> wanted;
    for (const size_t row : rows_of[file]) {
      wanted.push_back(static_cast<uint64_t>(numbers[row] - begins_[file] + header_records_));
    }
    RecordBatch read;
    RETURN_IF_ERROR(files_[file]->Read(wanted, read));
    for (size_t i = 0; i < wanted.size(); ++i) records[rows_of[file][i]] = read.records[i];
    for (auto& memory : read.memory) batch.memory.push_back(std::move(memory));
  }
  RETURN_IF_ERROR(Parse(records, numbers, batch));
  return batch;
}

absl::Status RecordExamples::Parse(absl::Span<const absl::string_view> records,
                                   absl::Span<const int64_t> numbers, ColumnBatch& batch) const {
  for (const ColumnSpec& spec : columns_) batch.columns.push_back({spec, {}});
  if (csv_) {
    std::vector<ColumnValues> values(csv_->columns().size());
    for (size_t field = 0; field < values.size(); ++field) {
      const size_t column = csv_columns_[field];
      if (!csv_->columns()[field].is_read) continue;
      ReserveValues(columns_[column].type, records.size(), values[field]);
    }
    for (size_t row = 0; row < records.size(); ++row) {
      const absl::Status parsed = csv_->Append(records[row], absl::MakeSpan(values), batch.arena);
      if (!parsed.ok()) return Annotate(parsed, NameOf(numbers[row]));
    }
    for (size_t field = 0; field < values.size(); ++field) {
      if (!csv_->columns()[field].is_read) continue;
      batch.columns[csv_columns_[field]].values = std::move(values[field]);
    }
  } else if (example_) {
    // A parser remembers the order of the keys, so each batch has its own.
    ExampleParser parser = *example_;
    std::vector<FeatureColumn> columns = parser.NewColumns();
    for (size_t i = 0; i < columns.size(); ++i) {
      const auto values = static_cast<size_t>(columns_[i].shape.num_elements());
      ReserveValues(columns_[i].type, records.size() * values, columns[i].values);
    }
    for (size_t row = 0; row < records.size(); ++row) {
      const absl::Status parsed = parser.Append(records[row], absl::MakeSpan(columns));
      if (!parsed.ok()) return Annotate(parsed, NameOf(numbers[row]));
    }
    for (size_t i = 0; i < columns.size(); ++i) {
      batch.columns[i].values = std::move(columns[i].values);
      batch.columns[i].row_splits = std::move(columns[i].row_splits);
    }
  } else {
    batch.columns[0].values.strings.assign(records.begin(), records.end());
  }
  return absl::OkStatus();
}

}  // namespace cohort

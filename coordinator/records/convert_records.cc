#include "coordinator/records/convert_records.h"

#include <algorithm>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "common/base/excerpt.h"
#include "common/base/path_check.h"
#include "common/base/status.h"
#include "common/records/record_writer.h"
#include "coordinator/records/data_file.h"
#include "coordinator/records/record_values.h"

namespace cohort {

namespace {

// The type that a column of CSV is given: each holds the values of those before it.
enum class ColumnKind { kInt64, kFloat, kBytes };

struct CsvTable {
  std::vector<std::string> names;
  std::vector<ColumnKind> kinds;
};

// Returns the first kind that keeps the value. Integers that are not written as they are printed,
// such as 007, or that int64 cannot hold, stay texts.
ColumnKind KindOf(const std::string& value) {
  int64_t whole = 0;
  float number = 0;
  const bool is_whole = value.find_first_not_of("+-0123456789") == std::string::npos;
  if (is_whole) {
    const bool keeps = absl::SimpleAtoi(value, &whole) && absl::StrCat(whole) == value;
    return keeps ? ColumnKind::kInt64 : ColumnKind::kBytes;
  }
  return absl::SimpleAtof(value, &number) ? ColumnKind::kFloat : ColumnKind::kBytes;
}

// Returns whether float32 holds an integer of a column that also has fractions.
bool FitsFloat(const std::string& value) {
  int64_t whole = 0;
  return !absl::SimpleAtoi(value, &whole) ||
         static_cast<int64_t>(static_cast<float>(whole)) == whole;
}

std::string RecordName(const DataFile& file, uint64_t number) {
  return absl::StrCat(file.path, ": record ", number);
}

// Calls `take` with the content of each record, until its first error.
absl::Status ForEach(
    FileSystem& files, const DataFile& file,
    absl::FunctionRef<absl::Status(uint64_t number, absl::string_view content)> take) {
  absl::Status status;
  RETURN_IF_ERROR(file.Scan(files, [&](const ScannedRecord& record) {
    status = record.content.ok() ? take(record.number, *record.content) : record.content.status();
    if (!status.ok()) status = Annotate(status, RecordName(file, record.number));
    return status.ok();
  }));
  return status;
}

// Calls `take` with the fields of each record of CSV behind the first one, which names the columns.
absl::Status ForEachRow(FileSystem& files, const DataFile& file, std::vector<std::string>& names,
                        absl::FunctionRef<absl::Status(std::vector<std::string> fields)> take) {
  names.clear();
  return ForEach(files, file, [&](uint64_t number, absl::string_view content) -> absl::Status {
    ASSIGN_OR_RETURN(std::vector<std::string> fields, FieldsOfCsv(content, file.delimiter));
    if (number == 0) {
      names = std::move(fields);
      // A byte order mark, which some programs write, is no part of a name.
      names[0] = std::string(absl::StripPrefix(names[0], "\xef\xbb\xbf"));
      if (std::count(names.begin(), names.end(), "") > 0) {
        return absl::InvalidArgumentError("has a column without a name; it must name the columns");
      }
      const std::set<std::string> distinct(names.begin(), names.end());
      if (distinct.size() == names.size()) return absl::OkStatus();
      return absl::InvalidArgumentError("names a column twice; it must name the columns");
    }
    if (fields.size() != names.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("has ", fields.size(), " fields, and the first record ", names.size()));
    }
    return take(std::move(fields));
  });
}

absl::StatusOr<CsvTable> InferCsv(FileSystem& files, const DataFile& file) {
  CsvTable table;
  std::vector<bool> fit_floats;
  RETURN_IF_ERROR(ForEachRow(files, file, table.names, [&](std::vector<std::string> fields) {
    table.kinds.resize(table.names.size(), ColumnKind::kInt64);
    fit_floats.resize(table.names.size(), true);
    for (size_t i = 0; i < fields.size(); ++i) {
      if (fields[i].empty()) continue;
      table.kinds[i] = std::max(table.kinds[i], KindOf(fields[i]));
      fit_floats[i] = fit_floats[i] && FitsFloat(fields[i]);
    }
    return absl::OkStatus();
  }));
  for (size_t i = 0; i < table.kinds.size(); ++i) {
    if (table.kinds[i] == ColumnKind::kFloat && !fit_floats[i]) {
      table.kinds[i] = ColumnKind::kBytes;
    }
  }
  return table;
}

RecordValues ValuesOfRow(const CsvTable& table, const std::vector<std::string>& fields) {
  RecordValues values;
  for (size_t i = 0; i < fields.size(); ++i) {
    if (fields[i].empty()) continue;
    int64_t whole = 0;
    float number = 0;
    FeatureValues& value = values[table.names[i]];
    // InferCsv has read all values, so they are of the column's kind.
    if (table.kinds[i] == ColumnKind::kInt64 && absl::SimpleAtoi(fields[i], &whole)) {
      value = std::vector<int64_t>{whole};
    } else if (table.kinds[i] == ColumnKind::kFloat && absl::SimpleAtof(fields[i], &number)) {
      value = std::vector<float>{number};
    } else {
      value = std::vector<std::string>{fields[i]};
    }
  }
  return values;
}

absl::Status ToTfRecords(FileSystem& files, const DataFile& from, TfRecordWriter& writer,
                         int64_t& count) {
  const auto write = [&](absl::string_view record) {
    ++count;
    return writer.Write(record);
  };
  if (from.kind == DataKind::kCsv) {
    ASSIGN_OR_RETURN(CsvTable table, InferCsv(files, from));
    return ForEachRow(files, from, table.names, [&](std::vector<std::string> fields) {
      return write(ToExample(ValuesOfRow(table, fields)).SerializeAsString());
    });
  }
  return ForEach(files, from, [&](uint64_t, absl::string_view content) {
    if (from.kind == DataKind::kTfRecord) return write(content);
    const RecordValues values = {{"text", std::vector<std::string>{std::string(content)}}};
    return write(ToExample(values).SerializeAsString());
  });
}

// Returns the only value of a feature as text. Errors: INVALID_ARGUMENT for several values.
absl::StatusOr<std::string> OnlyValue(const std::string& name, const FeatureValues& values) {
  const size_t count = std::visit([](const auto& all) { return all.size(); }, values);
  if (count == 0) return "";
  if (count > 1) {
    return absl::InvalidArgumentError(absl::StrCat("its feature '", Excerpt(name), "' has ", count,
                                                   " values, and a field of CSV has one"));
  }
  if (const auto* ints = std::get_if<std::vector<int64_t>>(&values))
    return absl::StrCat((*ints)[0]);
  if (const auto* floats = std::get_if<std::vector<float>>(&values)) {
    return NumberText((*floats)[0]);
  }
  return std::get<std::vector<std::string>>(values)[0];
}

absl::Status ExamplesToCsv(FileSystem& files, const DataFile& from, char delimiter,
                           PackedWriter& writer, int64_t& count) {
  std::set<std::string> names;
  const auto parse = [&](absl::string_view content,
                         absl::FunctionRef<absl::Status(const RecordValues&)> take) {
    const absl::StatusOr<RecordValues> values = ValuesOfExample(content);
    return values.ok() ? take(*values) : values.status();
  };
  RETURN_IF_ERROR(ForEach(files, from, [&](uint64_t, absl::string_view content) {
    return parse(content, [&](const RecordValues& values) {
      for (const auto& [name, feature] : values) names.insert(name);
      return absl::OkStatus();
    });
  }));
  const auto line = [&](std::vector<std::string> fields) {
    for (std::string& field : fields) field = CsvField(field, delimiter);
    return writer.Append(
        absl::StrCat(absl::StrJoin(fields, absl::string_view(&delimiter, 1)), "\n"));
  };
  RETURN_IF_ERROR(line({names.begin(), names.end()}));
  return ForEach(files, from, [&](uint64_t, absl::string_view content) {
    return parse(content, [&](const RecordValues& values) -> absl::Status {
      std::vector<std::string> fields;
      for (const std::string& name : names) {
        const auto found = values.find(name);
        if (found == values.end()) {
          fields.emplace_back();
          continue;
        }
        ASSIGN_OR_RETURN(fields.emplace_back(), OnlyValue(name, found->second));
      }
      ++count;
      return line(std::move(fields));
    });
  });
}

// Writes the same records to a file of the same kind, packed otherwise or with another delimiter.
absl::Status Copy(FileSystem& files, const DataFile& from, const DataFile& to, PackedWriter& writer,
                  int64_t& count) {
  return ForEach(files, from, [&](uint64_t, absl::string_view content) -> absl::Status {
    ++count;
    if (from.kind != DataKind::kCsv || from.delimiter == to.delimiter) {
      return writer.Append(absl::StrCat(content, "\n"));
    }
    ASSIGN_OR_RETURN(std::vector<std::string> fields, FieldsOfCsv(content, from.delimiter));
    for (std::string& field : fields) field = CsvField(field, to.delimiter);
    return writer.Append(
        absl::StrCat(absl::StrJoin(fields, absl::string_view(&to.delimiter, 1)), "\n"));
  });
}

}  // namespace

absl::StatusOr<int64_t> ConvertRecords(FileSystem& files, const std::string& from,
                                       const std::string& to) {
  ASSIGN_OR_RETURN(const DataFile source, RecognizeDataFile(files, from));
  ASSIGN_OR_RETURN(const DataFile target, DataFileToWrite(to));
  if (FilePlace(to).IsSame(FilePlace(from))) {
    return absl::InvalidArgumentError(absl::StrCat(to, ": is the file that is converted"));
  }
  int64_t count = 0;
  if (target.kind == DataKind::kTfRecord) {
    ASSIGN_OR_RETURN(const std::unique_ptr<TfRecordWriter> writer,
                     TfRecordWriter::Create(files, to, target.compression));
    RETURN_IF_ERROR(ToTfRecords(files, source, *writer, count));
    RETURN_IF_ERROR(writer->Close());
    return count;
  }
  const bool is_copy = source.kind == target.kind;
  if (!is_copy && !(source.kind == DataKind::kTfRecord && target.kind == DataKind::kCsv)) {
    return absl::InvalidArgumentError(absl::StrCat(
        DataKindName(source.kind), " is not converted to ", DataKindName(target.kind)));
  }
  ASSIGN_OR_RETURN(const std::unique_ptr<PackedWriter> writer,
                   PackedWriter::Create(files, to, target.compression));
  RETURN_IF_ERROR(is_copy ? Copy(files, source, target, *writer, count)
                          : ExamplesToCsv(files, source, target.delimiter, *writer, count));
  RETURN_IF_ERROR(writer->Close());
  return count;
}

}  // namespace cohort

#pragma once

// The examples of a source of record files (proto::RecordFiles): the records of all files, one file
// after another, read by number and parsed into columns.

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/base/file_system.h"
#include "common/records/csv/csv_parser.h"
#include "common/records/examples/example_parser.h"
#include "common/records/record_file.h"
#include "proto/data.pb.h"
#include "proto/plan.pb.h"
#include "worker/data/column.h"

namespace cohort {

// Immutable; thread-safe.
class RecordExamples {
 public:
  // Opens the files, whose paths are full ones, and finds their records, which is slow for a file
  // without an index. Errors: INVALID_ARGUMENT naming a field of `spec` that cannot be; NOT_FOUND,
  // DATA_LOSS and others naming the file.
  static absl::StatusOr<std::shared_ptr<const RecordExamples>> Open(const proto::RecordFiles& spec,
                                                                    FileSystem& files);

  int64_t size() const { return size_; }
  const std::vector<ColumnSpec>& columns() const { return columns_; }
  // The files, in order, with a checksum of their beginnings and ends.
  const std::vector<proto::DataFile>& files() const { return described_; }

  // Reads the examples with these numbers, in this order. Errors: those of RecordFile::Read;
  // INVALID_ARGUMENT or DATA_LOSS naming the file, the record and what is wrong with it.
  absl::StatusOr<ColumnBatch> Read(absl::Span<const int64_t> numbers) const;

  // Returns a name for an example, for messages: "record 17 of /data/a.csv".
  std::string NameOf(int64_t number) const;

 private:
  RecordExamples() = default;
  absl::Status OpenFile(const proto::RecordFiles& spec, const std::string& path, FileSystem& files);
  absl::Status PlanCsv(const proto::CsvContent& csv);
  absl::Status PlanExample(const proto::ExampleContent& example);
  absl::Status Parse(absl::Span<const absl::string_view> records, absl::Span<const int64_t> numbers,
                     ColumnBatch& batch) const;
  size_t FileOf(int64_t number) const;

  int64_t header_records_ = 0;
  int64_t size_ = 0;
  std::vector<std::unique_ptr<const RecordFile>> files_;
  std::vector<int64_t> begins_;  // for each file: the number of its first example
  std::vector<proto::DataFile> described_;
  std::vector<ColumnSpec> columns_;
  // The parser of the content; none of both: the record is the value of the only column.
  std::optional<CsvParser> csv_;
  std::vector<size_t> csv_columns_;  // for each field: its column, or the number of columns
  std::optional<ExampleParser> example_;
};

}  // namespace cohort

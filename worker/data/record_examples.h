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
#include "common/records/unpacked/span_cache.h"
#include "proto/data.pb.h"
#include "proto/plan.pb.h"
#include "worker/data/columns/column.h"
#include "worker/data/examples.h"

namespace cohort {

// Immutable; thread-safe.
class RecordExamples final : public Examples {
 public:
  // Opens the files, whose paths are full ones, and finds their records, which is slow for a file
  // without an index. Errors: INVALID_ARGUMENT naming a field of `spec` that cannot be; NOT_FOUND,
  // DATA_LOSS and others naming the file.
  // `cache` keeps what is unpacked of compressed files.
  static absl::StatusOr<std::shared_ptr<const RecordExamples>> Open(
      const proto::RecordFiles& spec, FileSystem& files, std::shared_ptr<SpanCache> cache);

  // Returns a file's path, length and checksum. Errors: those of the file.
  static absl::StatusOr<proto::DataFile> Describe(FileSystem& files, const std::string& path);

  int64_t size() const override { return size_; }
  const std::vector<ColumnSpec>& columns() const override { return columns_; }
  // Returns the files with a checksum of their beginnings and ends.
  const std::vector<proto::DataFile>& files() const override { return described_; }
  absl::StatusOr<ColumnBatch> Read(absl::Span<const int64_t> numbers) const override;
  std::string NameOf(int64_t number) const override;

 private:
  RecordExamples() = default;
  absl::Status OpenFile(const proto::RecordFiles& spec, const std::string& path, FileSystem& files,
                        const std::shared_ptr<SpanCache>& cache);
  absl::Status CheckHeader(const RecordFile& file) const;
  // Returns a parser of the same fields that reads them all as texts.
  absl::StatusOr<CsvParser> HeaderParser() const;
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

#pragma once

// Writes files of records, packed or not, that TensorFlow reads: TFRecords, or text of any form.

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/base/file_system.h"
#include "common/base/temporary_file.h"
#include "common/records/unpacked/compression.h"
#include "common/records/unpacked/deflater.h"

namespace cohort {

// The file has its name only after Close(); one that is not closed is removed. Thread-compatible.
class PackedWriter {
 public:
  // `compression` is kNone, kGzip or kZlib. Errors: those of TemporaryFile::Create.
  static absl::StatusOr<std::unique_ptr<PackedWriter>> Create(FileSystem& files,
                                                              const std::string& path,
                                                              FileCompression compression);
  ~PackedWriter();

  // Appends bytes. Errors: those of the file; the writer must not be used after one.
  absl::Status Append(absl::string_view bytes);
  // Makes the file durable under its name.
  absl::Status Close();

 private:
  PackedWriter(std::unique_ptr<TemporaryFile> file, std::unique_ptr<Deflater> deflater);
  // Writes the packed bytes if there are at least so many.
  absl::Status Flush(size_t bytes_min);

  std::unique_ptr<TemporaryFile> file_;       // null after an error, and after Close()
  const std::unique_ptr<Deflater> deflater_;  // null: the file is not packed
  std::string buffer_;
};

// Writes a file of TFRecords, as tf.io.TFRecordWriter. Thread-compatible.
class TfRecordWriter {
 public:
  // Errors: those of PackedWriter::Create.
  static absl::StatusOr<std::unique_ptr<TfRecordWriter>> Create(FileSystem& files,
                                                                const std::string& path,
                                                                FileCompression compression);

  // Appends a record. Errors: those of PackedWriter::Append; INVALID_ARGUMENT above
  // kTfRecordBytesMax.
  absl::Status Write(absl::string_view record);
  absl::Status Close() { return writer_->Close(); }

 private:
  explicit TfRecordWriter(std::unique_ptr<PackedWriter> writer) : writer_(std::move(writer)) {}

  const std::unique_ptr<PackedWriter> writer_;
};

}  // namespace cohort

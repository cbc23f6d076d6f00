#include "common/records/record_writer.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/records/tfrecord.h"

namespace cohort {

namespace {

// Bytes are written in pieces of at least so many, as small writes cost a system call each.
constexpr size_t kBufferBytes = 256 << 10;

}  // namespace

PackedWriter::PackedWriter(std::unique_ptr<TemporaryFile> file, std::unique_ptr<Deflater> deflater)
    : file_(std::move(file)), deflater_(std::move(deflater)) {}

PackedWriter::~PackedWriter() {
  if (file_ != nullptr) file_->Discard();
}

absl::StatusOr<std::unique_ptr<PackedWriter>> PackedWriter::Create(FileSystem& files,
                                                                   const std::string& path,
                                                                   FileCompression compression) {
  std::unique_ptr<Deflater> deflater;
  if (compression == FileCompression::kGzip || compression == FileCompression::kZlib) {
    ASSIGN_OR_RETURN(deflater, Deflater::Create(compression));
  }
  ASSIGN_OR_RETURN(std::unique_ptr<TemporaryFile> file, TemporaryFile::Create(files, path));
  return std::unique_ptr<PackedWriter>(new PackedWriter(std::move(file), std::move(deflater)));
}

absl::Status PackedWriter::Append(absl::string_view bytes) {
  if (deflater_ != nullptr) {
    deflater_->Add(bytes, buffer_);
  } else {
    buffer_.append(bytes.data(), bytes.size());
  }
  return Flush(kBufferBytes);
}

absl::Status PackedWriter::Flush(size_t bytes_min) {
  if (file_ == nullptr) return absl::FailedPreconditionError("the file is closed");
  if (buffer_.size() < bytes_min) return absl::OkStatus();
  absl::Status written = file_->Append(buffer_);
  if (!written.ok()) file_ = nullptr;  // Append has removed the file
  buffer_.clear();
  return written;
}

absl::Status PackedWriter::Close() {
  if (deflater_ != nullptr) deflater_->Finish(buffer_);
  RETURN_IF_ERROR(Flush(0));
  const std::unique_ptr<TemporaryFile> file = std::move(file_);
  RETURN_IF_ERROR(file->Seal());
  return file->Commit();
}

absl::StatusOr<std::unique_ptr<TfRecordWriter>> TfRecordWriter::Create(
    FileSystem& files, const std::string& path, FileCompression compression) {
  ASSIGN_OR_RETURN(std::unique_ptr<PackedWriter> writer,
                   PackedWriter::Create(files, path, compression));
  return std::unique_ptr<TfRecordWriter>(new TfRecordWriter(std::move(writer)));
}

absl::Status TfRecordWriter::Write(absl::string_view record) {
  if (record.size() > kTfRecordBytesMax) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a record has ", record.size(), " bytes; TFRecords have at most ", kTfRecordBytesMax));
  }
  std::string framed;
  AppendTfRecord(record, framed);
  return writer_->Append(framed);
}

}  // namespace cohort

#include "worker/data/byte_stream.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/records/unpacked/inflater.h"

namespace cohort {

namespace {

// The largest factor by which deflate can expand data.
constexpr uint64_t kDeflateExpansionMax = 1032;

absl::Status Damaged(const std::string& path, absl::string_view what) {
  return absl::DataLossError(
      absl::StrCat(path, ": ", what, "; the file is damaged: fetch it again"));
}

// A stream whose bytes are those of a plain file. Thread-compatible.
class PlainStream final : public ByteStream {
 public:
  PlainStream(std::string path, std::unique_ptr<ReadableFile> file)
      : path_(std::move(path)), file_(std::move(file)) {}

  absl::Status Read(absl::Span<char> out) override {
    // The length is checked first, so that no byte is read from a file that is too short.
    if (out.size() > file_->size() - offset_) {
      return Damaged(path_, absl::StrCat("ends at byte ", file_->size(), ", ",
                                         out.size() - (file_->size() - offset_), " bytes early"));
    }
    RETURN_IF_ERROR(file_->Read(offset_, out));
    offset_ += out.size();
    return absl::OkStatus();
  }

  absl::Status ExpectEnd() override {
    if (offset_ == file_->size()) return absl::OkStatus();
    return Damaged(path_, absl::StrCat(file_->size() - offset_, " bytes follow the data"));
  }

  uint64_t max_bytes() const override { return file_->size(); }

 private:
  const std::string path_;
  const std::unique_ptr<ReadableFile> file_;
  uint64_t offset_ = 0;
};

// A stream of the bytes that unpack from the members of a gzip file. Thread-compatible.
class GzipStream final : public ByteStream {
 public:
  GzipStream(std::string path, std::unique_ptr<ReadableFile> file)
      : path_(std::move(path)), file_(std::move(file)) {}

  absl::Status Init() {
    ASSIGN_OR_RETURN(inflater_, Inflater::AtStart(*file_, path_, FileCompression::kGzip,
                                                  /*points=*/nullptr));
    return absl::OkStatus();
  }

  absl::Status Read(absl::Span<char> out) override {
    ASSIGN_OR_RETURN(const size_t got, inflater_->Read(out));
    if (got < out.size()) return Damaged(path_, "the unpacked data ends early");
    return absl::OkStatus();
  }

  absl::Status ExpectEnd() override {
    // To unpack one byte more, the inflater must read the trailer of the last member, and so checks
    // the checksum.
    char extra = 0;
    ASSIGN_OR_RETURN(const size_t got, inflater_->Read(absl::MakeSpan(&extra, 1)));
    if (got > 0) return Damaged(path_, "more data unpacks than the header says");
    return absl::OkStatus();
  }

  uint64_t max_bytes() const override {
    // The bound is the largest 64-bit number if the product of file size and expansion overflows.
    return file_->size() > kUnlimited / kDeflateExpansionMax ? kUnlimited
                                                             : file_->size() * kDeflateExpansionMax;
  }

 private:
  static constexpr uint64_t kUnlimited = ~uint64_t{0};

  const std::string path_;
  const std::unique_ptr<ReadableFile> file_;
  std::unique_ptr<Inflater> inflater_;  // reads file_
};

}  // namespace

absl::StatusOr<std::unique_ptr<ByteStream>> OpenByteStream(FileSystem& files,
                                                           const std::string& path) {
  ASSIGN_OR_RETURN(std::unique_ptr<ReadableFile> file, files.Open(path));
  if (file->size() < 2) return Damaged(path, absl::StrCat("only ", file->size(), " bytes long"));
  // The first two bytes tell a gzip file from a plain one; the name of the file does not count.
  ASSIGN_OR_RETURN(const FileCompression compression, DetectCompression(*file));
  if (compression != FileCompression::kGzip) {
    return std::make_unique<PlainStream>(path, std::move(file));
  }
  auto stream = std::make_unique<GzipStream>(path, std::move(file));
  RETURN_IF_ERROR(stream->Init());
  return stream;
}

}  // namespace cohort

#include "worker/data/byte_stream.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/str_cat.h"

namespace cohort {

namespace {

// The number of compressed bytes that one read of the file fetches.
constexpr size_t kInputChunkBytes = 256 << 10;
// The largest number of bytes that one call of inflate() unpacks, because zlib counts in 32 bits.
constexpr size_t kOutputChunkBytes = 64 << 20;
// The largest factor by which deflate can expand data.
constexpr uint64_t kDeflateExpansionMax = 1032;
// The window bits for inflateInit2(): with +16, it accepts only streams with gzip's header and
// checksum.
constexpr int kGzipWindowBits = 15 + 16;

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

// A stream of the bytes that unpack from the one member of a gzip file. Thread-compatible.
class GzipStream final : public ByteStream {
 public:
  GzipStream(std::string path, std::unique_ptr<ReadableFile> file)
      : path_(std::move(path)), file_(std::move(file)), input_(kInputChunkBytes) {}
  ~GzipStream() override {
    if (ready_) inflateEnd(&zlib_);
  }

  absl::Status Init() {
    // With valid arguments, inflateInit2() fails only for a lack of memory.
    if (inflateInit2(&zlib_, kGzipWindowBits) != Z_OK) {
      return absl::ResourceExhaustedError(absl::StrCat(path_, ": no memory to unpack"));
    }
    ready_ = true;
    return absl::OkStatus();
  }

  absl::Status Read(absl::Span<char> out) override {
    // A large read is split, because zlib's counters have 32 bits.
    while (!out.empty()) {
      const size_t wanted = std::min(out.size(), kOutputChunkBytes);
      ASSIGN_OR_RETURN(const size_t got, Inflate(out.subspan(0, wanted)));
      if (got < wanted) return Damaged(path_, "the unpacked data ends early");
      out.remove_prefix(got);
    }
    return absl::OkStatus();
  }

  absl::Status ExpectEnd() override {
    // To unpack one byte more, zlib must read the trailer of the gzip member, and so checks the
    // checksum.
    char extra = 0;
    ASSIGN_OR_RETURN(const size_t got, Inflate(absl::MakeSpan(&extra, 1)));
    if (got > 0) return Damaged(path_, "more data unpacks than the header says");
    // Bytes that follow the gzip member may already be in zlib's input buffer.
    const uint64_t left = zlib_.avail_in + (file_->size() - file_offset_);
    if (left == 0) return absl::OkStatus();
    return Damaged(path_, absl::StrCat(left, " bytes follow the end of the gzip data"));
  }

  uint64_t max_bytes() const override {
    // The bound is the largest 64-bit number if the product of file size and expansion overflows.
    return file_->size() > kUnlimited / kDeflateExpansionMax ? kUnlimited
                                                             : file_->size() * kDeflateExpansionMax;
  }

 private:
  static constexpr uint64_t kUnlimited = ~uint64_t{0};

  absl::Status Refill() {
    const uint64_t left = file_->size() - file_offset_;
    // inflate() asks for input only inside the gzip member. If the file has no bytes left, the
    // member was cut off.
    if (left == 0) return Damaged(path_, "the gzip data is cut off");
    const size_t size = static_cast<size_t>(std::min<uint64_t>(left, input_.size()));
    RETURN_IF_ERROR(file_->Read(file_offset_, absl::MakeSpan(input_.data(), size)));
    file_offset_ += size;
    zlib_.next_in = reinterpret_cast<Bytef*>(input_.data());
    zlib_.avail_in = static_cast<uInt>(size);
    return absl::OkStatus();
  }

  // Unpacks the next bytes into `out` and returns their number. The number is below the size of
  // `out` only at the end of the gzip member, whose checksum has then been verified.
  absl::StatusOr<size_t> Inflate(absl::Span<char> out) {
    zlib_.next_out = reinterpret_cast<Bytef*>(out.data());
    zlib_.avail_out = static_cast<uInt>(out.size());
    while (zlib_.avail_out > 0 && !ended_) {
      if (zlib_.avail_in == 0) RETURN_IF_ERROR(Refill());
      const int result = inflate(&zlib_, Z_NO_FLUSH);
      if (result == Z_STREAM_END) {
        ended_ = true;
      } else if (result != Z_OK && result != Z_BUF_ERROR) {
        return Damaged(path_, absl::StrCat("gzip data does not unpack (",
                                           zlib_.msg != nullptr ? zlib_.msg : "bad header", ")"));
      }
    }
    return out.size() - zlib_.avail_out;
  }

  const std::string path_;
  const std::unique_ptr<ReadableFile> file_;
  std::vector<char> input_;
  z_stream zlib_{};
  uint64_t file_offset_ = 0;
  bool ready_ = false;
  bool ended_ = false;
};

}  // namespace

absl::StatusOr<std::unique_ptr<ByteStream>> OpenByteStream(FileSystem& files,
                                                           const std::string& path) {
  ASSIGN_OR_RETURN(std::unique_ptr<ReadableFile> file, files.Open(path));
  std::array<char, 2> magic{};
  if (file->size() < magic.size()) {
    return Damaged(path, absl::StrCat("only ", file->size(), " bytes long"));
  }
  // The first two bytes tell a gzip file from a plain one; the name of the file does not count.
  RETURN_IF_ERROR(file->Read(0, absl::MakeSpan(magic)));
  if (magic[0] != '\x1f' || magic[1] != '\x8b') {
    return std::make_unique<PlainStream>(path, std::move(file));
  }
  auto stream = std::make_unique<GzipStream>(path, std::move(file));
  RETURN_IF_ERROR(stream->Init());
  return stream;
}

}  // namespace cohort

#include "common/records/unpacked/inflater.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"

namespace cohort {

namespace {

constexpr size_t kInputBytes = 256 << 10;
// zlib counts the bytes of one call in 32 bits.
constexpr size_t kOutputBytesMax = 64 << 20;
constexpr int kWindowBits = 15;
constexpr int kGzipWindowBits = kWindowBits + 16;
// After a stream that was unpacked without its header: the checksum and length of gzip, or the
// checksum of zlib.
constexpr int kGzipTrailerBytes = 8;
constexpr int kZlibTrailerBytes = 4;

// Packs a window. Windows of data that do not shrink get a little larger.
std::string PackWindow(absl::Span<const char> window) {
  std::string packed(compressBound(window.size()), '\0');
  uLongf size = packed.size();
  compress2(reinterpret_cast<Bytef*>(packed.data()), &size,
            reinterpret_cast<const Bytef*>(window.data()), window.size(), Z_DEFAULT_COMPRESSION);
  packed.resize(size);
  return packed;
}

}  // namespace

struct Inflater::Zlib {
  z_stream stream{};
  bool is_ready = false;
};

Inflater::Inflater(const ReadableFile& file, const std::string& path, FileCompression compression,
                   const PointSink* points)
    : file_(file),
      path_(path),
      compression_(compression),
      points_(points),
      zlib_(std::make_unique<Zlib>()),
      input_(kInputBytes) {}

Inflater::~Inflater() {
  if (zlib_->is_ready) inflateEnd(&zlib_->stream);
}

int Inflater::WindowBits() const {
  return compression_ == FileCompression::kGzip ? kGzipWindowBits : kWindowBits;
}

absl::Status Inflater::Damaged(absl::string_view what) const {
  return absl::DataLossError(absl::StrCat(path_, ": ", what, ", at byte ",
                                          next_input_ - zlib_->stream.avail_in,
                                          " of the file; it is damaged: fetch it again"));
}

absl::Status Inflater::Init(int window_bits) {
  // With valid arguments, inflateInit2() fails only for a lack of memory.
  if (inflateInit2(&zlib_->stream, window_bits) != Z_OK) {
    return absl::ResourceExhaustedError(absl::StrCat(path_, ": no memory to unpack"));
  }
  zlib_->is_ready = true;
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Inflater>> Inflater::AtStart(const ReadableFile& file,
                                                            const std::string& path,
                                                            FileCompression compression,
                                                            const PointSink* points) {
  std::unique_ptr<Inflater> inflater(new Inflater(file, path, compression, points));
  RETURN_IF_ERROR(inflater->Init(inflater->WindowBits()));
  // A file of 0 bytes unpacks to nothing, as in TensorFlow.
  inflater->ended_ = file.size() == 0;
  if (!inflater->ended_) inflater->OfferPoint(/*starts_stream=*/true);
  return inflater;
}

absl::StatusOr<std::unique_ptr<Inflater>> Inflater::AtPoint(const ReadableFile& file,
                                                            const std::string& path,
                                                            FileCompression compression,
                                                            const RestartPoint& point) {
  std::unique_ptr<Inflater> inflater(new Inflater(file, path, compression, nullptr));
  inflater->position_ = point.unpacked;
  inflater->next_input_ = point.packed;
  if (point.starts_stream) {
    RETURN_IF_ERROR(inflater->Init(inflater->WindowBits()));
    return inflater;
  }
  std::string window(kInflateWindowBytes, '\0');
  uLongf size = window.size();
  const int unpacked =
      uncompress(reinterpret_cast<Bytef*>(window.data()), &size,
                 reinterpret_cast<const Bytef*>(point.window.data()), point.window.size());
  if (unpacked != Z_OK || point.packed == 0 || point.packed > file.size()) {
    return absl::DataLossError(absl::StrCat(path, ": a restart point of its index is damaged"));
  }
  inflater->is_raw_ = true;
  RETURN_IF_ERROR(inflater->Init(-kWindowBits));
  z_stream& stream = inflater->zlib_->stream;
  if (point.bits > 0) {
    char byte = 0;
    RETURN_IF_ERROR(file.Read(point.packed - 1, absl::MakeSpan(&byte, 1)));
    inflatePrime(&stream, point.bits, static_cast<unsigned char>(byte) >> (8 - point.bits));
  }
  inflateSetDictionary(&stream, reinterpret_cast<const Bytef*>(window.data()),
                       static_cast<uInt>(size));
  return inflater;
}

absl::Status Inflater::Fill() {
  const uint64_t left = file_.size() - std::min(next_input_, file_.size());
  // zlib asks for input only inside a stream, so a file without more bytes was cut off.
  if (left == 0) return Damaged("the packed data is cut off");
  const auto size = static_cast<size_t>(std::min<uint64_t>(left, input_.size()));
  RETURN_IF_ERROR(file_.Read(next_input_, absl::MakeSpan(input_.data(), size)));
  next_input_ += size;
  zlib_->stream.next_in = reinterpret_cast<Bytef*>(input_.data());
  zlib_->stream.avail_in = static_cast<uInt>(size);
  return absl::OkStatus();
}

absl::Status Inflater::TakeByte(unsigned char* byte) {
  if (zlib_->stream.avail_in == 0) RETURN_IF_ERROR(Fill());
  *byte = *zlib_->stream.next_in++;
  --zlib_->stream.avail_in;
  return absl::OkStatus();
}

absl::StatusOr<size_t> Inflater::Read(absl::Span<char> out) {
  z_stream& stream = zlib_->stream;
  size_t got = 0;
  while (got < out.size() && !ended_) {
    if (stream.avail_in == 0) RETURN_IF_ERROR(Fill());
    const size_t wanted = std::min(out.size() - got, kOutputBytesMax);
    stream.next_out = reinterpret_cast<Bytef*>(out.data() + got);
    stream.avail_out = static_cast<uInt>(wanted);
    // Z_BLOCK stops at the end of each block, where a restart point may be.
    const int result = inflate(&stream, points_ != nullptr ? Z_BLOCK : Z_NO_FLUSH);
    const size_t made = wanted - stream.avail_out;
    got += made;
    position_ += made;
    if (result == Z_STREAM_END) {
      RETURN_IF_ERROR(EndStream());
    } else if (result != Z_OK && result != Z_BUF_ERROR) {
      return Damaged(absl::StrCat("the packed data does not unpack (",
                                  stream.msg != nullptr ? stream.msg : "bad header", ")"));
    } else if (points_ != nullptr && (stream.data_type & 128) != 0 &&
               (stream.data_type & 64) == 0) {
      // Bit 7: inflate stopped at the end of a block. Bit 6: the block is the last one.
      OfferPoint(/*starts_stream=*/false);
    }
  }
  return got;
}

// Passes over what follows a stream, and begins the next one, if there is one.
absl::Status Inflater::EndStream() {
  if (is_raw_) {
    unsigned char byte = 0;
    const int trailer =
        compression_ == FileCompression::kGzip ? kGzipTrailerBytes : kZlibTrailerBytes;
    for (int i = 0; i < trailer; ++i) RETURN_IF_ERROR(TakeByte(&byte));
  }
  const uint64_t left = zlib_->stream.avail_in + (file_.size() - next_input_);
  if (left == 0) {
    ended_ = true;
    return absl::OkStatus();
  }
  return BeginNextStream();
}

absl::Status Inflater::BeginNextStream() {
  const uint64_t start = next_input_ - zlib_->stream.avail_in;
  std::array<char, 2> magic{};
  const uint64_t left = file_.size() - start;
  bool is_stream = left >= magic.size();
  if (is_stream) {
    RETURN_IF_ERROR(file_.Read(start, absl::MakeSpan(magic)));
    const auto first = static_cast<unsigned char>(magic[0]);
    const auto second = static_cast<unsigned char>(magic[1]);
    is_stream = compression_ == FileCompression::kGzip
                    ? first == 0x1f && second == 0x8b
                    : (first & 0x0f) == 8 && (first * 256 + second) % 31 == 0;
  }
  if (!is_stream) {
    return Damaged(absl::StrCat(left, " bytes follow the packed data, which are no further ",
                                compression_ == FileCompression::kGzip ? "member" : "stream"));
  }
  if (inflateReset2(&zlib_->stream, WindowBits()) != Z_OK) {
    return absl::ResourceExhaustedError(absl::StrCat(path_, ": no memory to unpack"));
  }
  is_raw_ = false;
  OfferPoint(/*starts_stream=*/true);
  return absl::OkStatus();
}

void Inflater::OfferPoint(bool starts_stream) {
  if (points_ == nullptr) return;
  z_stream& stream = zlib_->stream;
  RestartPoint point;
  point.unpacked = position_;
  point.packed = next_input_ - stream.avail_in;
  point.starts_stream = starts_stream;
  // The low three bits of data_type count the unused bits of the last byte that was taken.
  if (!starts_stream) point.bits = stream.data_type & 7;
  if (!points_->wants(point)) return;
  if (!starts_stream) {
    std::array<char, kInflateWindowBytes> window{};
    uInt size = 0;
    inflateGetDictionary(&stream, reinterpret_cast<Bytef*>(window.data()), &size);
    point.window = PackWindow(absl::MakeConstSpan(window.data(), size));
  }
  points_->keep(std::move(point));
}

}  // namespace cohort

#include "common/records/unpacked/deflater.h"

#include <zlib.h>

#include <algorithm>
#include <array>

#include "common/base/check.h"

namespace cohort {

namespace {

constexpr size_t kPieceBytes = 64 << 10;
constexpr int kMemoryLevel = 9;
// zlib's window of 32 KiB; 16 more ask for the header of gzip.
constexpr int kZlibBits = 15;
constexpr int kGzipBits = 31;

}  // namespace

struct Deflater::Zlib {
  z_stream stream{};
};

Deflater::Deflater() : zlib_(std::make_unique<Zlib>()) {}

Deflater::~Deflater() { deflateEnd(&zlib_->stream); }

absl::StatusOr<std::unique_ptr<Deflater>> Deflater::Create(FileCompression compression) {
  std::unique_ptr<Deflater> deflater(new Deflater);
  const int bits = compression == FileCompression::kGzip ? kGzipBits : kZlibBits;
  if (deflateInit2(&deflater->zlib_->stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, bits, kMemoryLevel,
                   Z_DEFAULT_STRATEGY) != Z_OK) {
    return absl::ResourceExhaustedError("zlib has no memory to pack with");
  }
  return deflater;
}

void Deflater::Run(absl::string_view bytes, int flush, std::string& packed) {
  std::array<char, kPieceBytes> piece;
  z_stream& stream = zlib_->stream;
  // zlib takes at most 4 GiB at once.
  constexpr size_t kInputMax = size_t{1} << 30;
  do {
    const size_t size = std::min(bytes.size(), kInputMax);
    // zlib reads the bytes, although its pointer is not const.
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
    stream.avail_in = static_cast<uInt>(size);
    bytes.remove_prefix(size);
    const int now = bytes.empty() ? flush : Z_NO_FLUSH;
    do {
      stream.next_out = reinterpret_cast<Bytef*>(piece.data());
      stream.avail_out = static_cast<uInt>(piece.size());
      COHORT_CHECK(deflate(&stream, now) != Z_STREAM_ERROR, "the stream was initialized");
      packed.append(piece.data(), piece.size() - stream.avail_out);
    } while (stream.avail_out == 0);
  } while (!bytes.empty());
}

void Deflater::Add(absl::string_view bytes, std::string& packed) { Run(bytes, Z_NO_FLUSH, packed); }

void Deflater::Finish(std::string& packed) { Run("", Z_FINISH, packed); }

}  // namespace cohort

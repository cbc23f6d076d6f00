#include "common/formats/hdf5/hdf5_source.h"

#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/formats/stored_elements.h"

namespace cohort {

namespace {

constexpr uint64_t kBudgetMin = 64 << 20;
// The budget in bytes for each byte of the file. Every structure is read once, and its text is
// copied a few times, so 4 is enough for a file that is not hostile.
constexpr uint64_t kBudgetPerByte = 4;
constexpr size_t kChecksumBytes = 4;

uint32_t Rotated(uint32_t value, int bits) { return value << bits | value >> (32 - bits); }

// The three words of lookup3.
struct Words {
  uint32_t a, b, c;

  void Mix() {
    a = (a - c) ^ Rotated(c, 4), c += b;
    b = (b - a) ^ Rotated(a, 6), a += c;
    c = (c - b) ^ Rotated(b, 8), b += a;
    a = (a - c) ^ Rotated(c, 16), c += b;
    b = (b - a) ^ Rotated(a, 19), a += c;
    c = (c - b) ^ Rotated(b, 4), b += a;
  }
  void End() {
    c = (c ^ b) - Rotated(b, 14);
    a = (a ^ c) - Rotated(c, 11);
    b = (b ^ a) - Rotated(a, 25);
    c = (c ^ b) - Rotated(b, 16);
    a = (a ^ c) - Rotated(c, 4);
    b = (b ^ a) - Rotated(a, 14);
    c = (c ^ b) - Rotated(b, 24);
  }
};

}  // namespace

uint64_t Hdf5Bytes::Take(size_t width) {
  const absl::string_view bytes = TakeBytes(width);
  uint64_t value = 0;
  for (size_t i = 0; i < bytes.size(); ++i) {
    value |= static_cast<uint64_t>(static_cast<unsigned char>(bytes[i])) << (8 * i);
  }
  return value;
}

absl::string_view Hdf5Bytes::TakeBytes(uint64_t count) {
  if (!ok_ || count > left()) {
    ok_ = false;
    return {};
  }
  const absl::string_view bytes = bytes_.substr(position_, count);
  position_ += count;
  return bytes;
}

void Hdf5Bytes::SkipToMultipleOf8() { Skip(std::min<size_t>((8 - position_ % 8) % 8, left())); }

Hdf5Source::Hdf5Source(const ReadableFile& file, std::string path, uint64_t base)
    : file_(file), path_(std::move(path)), base_(base) {
  left_ = kBudgetMin + std::min(file.size(), kHdf5NoAddress / 8) * kBudgetPerByte;
}

absl::StatusOr<std::string> Hdf5Source::Read(uint64_t address, uint64_t length) {
  if (address > size() || length > size() - address) {
    return Malformed(absl::StrCat(length, " bytes at address ", address, " of ", size()));
  }
  RETURN_IF_ERROR(Spend(length));
  std::string bytes(length, '\0');
  RETURN_IF_ERROR(file_.Read(base_ + address, absl::MakeSpan(bytes)));
  return bytes;
}

absl::StatusOr<std::string> Hdf5Source::ReadBlock(uint64_t address, uint64_t length,
                                                  absl::string_view signature, bool checksum) {
  ASSIGN_OR_RETURN(std::string bytes, Read(address, length));
  if (!absl::StartsWith(bytes, signature)) {
    return Malformed(absl::StrCat("no ", signature, " at address ", address));
  }
  if (!checksum) return bytes;
  if (length < signature.size() + kChecksumBytes) return Malformed("a block without checksum");
  const uint64_t stored =
      Hdf5Bytes(absl::string_view(bytes).substr(length - kChecksumBytes)).Take(kChecksumBytes);
  bytes.resize(length - kChecksumBytes);
  // A fuzzer would hardly get past a checksum to what lies behind it.
#ifdef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
  (void)stored;
#else
  if (stored != Hdf5Checksum(bytes)) {
    return Malformed(absl::StrCat("wrong checksum of ", signature, " at address ", address));
  }
#endif
  return bytes;
}

absl::Status Hdf5Source::Spend(uint64_t bytes) {
  if (bytes > left_) {
    return Malformed("its structures overlap, or describe more than a file of its size can hold");
  }
  left_ -= bytes;
  return absl::OkStatus();
}

absl::Status Hdf5Source::Malformed(absl::string_view what) const {
  return MalformedFile(path_, absl::StrCat("damaged HDF5: ", what));
}

absl::Status Hdf5Source::Unsupported(absl::string_view what) const {
  return absl::UnimplementedError(absl::StrCat(path_, ": ", what));
}

uint32_t Hdf5Checksum(absl::string_view bytes) {
  constexpr size_t kBlock = 12;
  const uint32_t first = 0xdeadbeefu + static_cast<uint32_t>(bytes.size());
  Words words{first, first, first};
  if (bytes.empty()) return words.c;
  while (bytes.size() > kBlock) {
    Hdf5Bytes block(bytes.substr(0, kBlock));
    words.a += static_cast<uint32_t>(block.Take(4));
    words.b += static_cast<uint32_t>(block.Take(4));
    words.c += static_cast<uint32_t>(block.Take(4));
    words.Mix();
    bytes.remove_prefix(kBlock);
  }
  // Missing bytes of the last block count as zeros.
  std::string last(bytes);
  last.resize(kBlock, '\0');
  Hdf5Bytes block(last);
  words.a += static_cast<uint32_t>(block.Take(4));
  words.b += static_cast<uint32_t>(block.Take(4));
  words.c += static_cast<uint32_t>(block.Take(4));
  words.End();
  return words.c;
}

}  // namespace cohort

#include "common/records/examples/wire_reader.h"

namespace cohort {

bool WireReader::ReadLongVarint(uint64_t* value) {
  constexpr int kBytesMax = 10;
  uint64_t read = 0;
  for (int i = 0; i < kBytesMax && next_ < end_; ++i) {
    const auto byte = static_cast<unsigned char>(*next_++);
    // The tenth byte has one bit that counts; a shift by 63 drops the others.
    read |= static_cast<uint64_t>(byte & 0x7f) << (7 * i);
    if (byte < 0x80) {
      *value = read;
      return true;
    }
  }
  return false;
}

bool WireReader::Skip(uint32_t tag) {
  uint64_t number = 0;
  absl::string_view bytes;
  switch (tag & 7) {
    case kVarint:
      return ReadVarint(&number);
    case kBytes:
      return ReadBytes(&bytes);
    case kFixed64:
    case kFixed32: {
      const size_t size = (tag & 7) == kFixed64 ? 8 : 4;
      if (left() < size) return false;
      next_ += size;
      return true;
    }
    default:
      return false;
  }
}

}  // namespace cohort

#pragma once

// Reads protobuf's wire format (protobuf.dev/programming-guides/encoding) from bytes that nobody
// has checked. libprotobuf reads the same bytes into messages, at less than a third of the rate
// (docs/PERFORMANCE.md), and is what the tests compare with.

#include <cstdint>
#include <cstring>

#include "absl/strings/string_view.h"

namespace cohort {

// The bytes of one message that have not been read. Every method returns false, and leaves the
// position undefined, if the bytes end or are malformed. Thread-compatible.
class WireReader {
 public:
  // The wire types of protobuf that are in use; groups (3 and 4) count as malformed.
  enum WireType : uint32_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

  explicit WireReader(absl::string_view bytes)
      : next_(bytes.data()), end_(bytes.data() + bytes.size()) {}

  bool at_end() const { return next_ == end_; }
  size_t left() const { return static_cast<size_t>(end_ - next_); }
  absl::string_view rest() const { return {next_, left()}; }

  // Reads a varint of at most 10 bytes; bits above the 64th are dropped, as libprotobuf does.
  bool ReadVarint(uint64_t* value) {
    if (next_ < end_ && static_cast<signed char>(*next_) >= 0) {
      *value = static_cast<unsigned char>(*next_++);
      return true;
    }
    return ReadLongVarint(value);
  }
  // Reads the number and the type of a field. Field number 0 counts as malformed.
  bool ReadTag(uint32_t* tag) {
    uint64_t value = 0;
    if (!ReadVarint(&value) || value > UINT32_MAX || value < 8) return false;
    *tag = static_cast<uint32_t>(value);
    return true;
  }
  // Reads the content of a field of type kBytes, which stays in the buffer.
  bool ReadBytes(absl::string_view* bytes) {
    uint64_t size = 0;
    if (!ReadVarint(&size) || size > left()) return false;
    *bytes = {next_, static_cast<size_t>(size)};
    next_ += size;
    return true;
  }
  bool ReadFixed32(uint32_t* value) {
    if (left() < sizeof(*value)) return false;
    std::memcpy(value, next_, sizeof(*value));
    next_ += sizeof(*value);
    return true;
  }
  // Passes over the content of a field whose tag has been read.
  bool Skip(uint32_t tag);

 private:
  bool ReadLongVarint(uint64_t* value);

  const char* next_;
  const char* const end_;
};

// Returns the tag of a field.
constexpr uint32_t WireTag(uint32_t field, WireReader::WireType type) { return field << 3 | type; }

}  // namespace cohort

#pragma once

// Tensors of strings as TensorFlow writes them into a data shard: the lengths of all strings as
// varints, a checksum of the lengths, then the strings.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace cohort {

// The most bytes of a tensor of strings that are read.
inline constexpr int64_t kStringTensorBytesMax = 256 << 20;

// Returns the `count` strings in `bytes`. `crc32c` is the checksum of the tensor's entry in the
// index. Errors: INVALID_ARGUMENT for bytes that do not hold so many strings, or whose checksum is
// another one.
absl::StatusOr<std::vector<std::string>> DecodeStringTensor(absl::string_view bytes, int64_t count,
                                                            uint32_t crc32c);

// A scalar of one string as it stands in a data shard, and the checksum of its entry.
struct EncodedString {
  std::string bytes;
  uint32_t crc32c = 0;
};
EncodedString EncodeStringTensor(absl::string_view text);

}  // namespace cohort

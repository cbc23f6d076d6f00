#pragma once

// An IDX file is one array: two zero bytes, a type byte, the rank, one big-endian uint32 for each
// axis, then the values, big-endian and row major. Axis 0 counts the elements. The file is plain or
// packed as one gzip member, told apart by the first bytes. 16-bit integers are read as int32.
//
// Nothing is allocated for the values before the header was checked against the length of the file
// (deflate cannot expand by more than 1032), and every byte is accounted for: a file that is
// shorter or longer than its header says, or that fails gzip's checksum, is refused.

#include "absl/status/statusor.h"
#include "common/base/file_system.h"
#include "common/tensor/tensor.h"

namespace cohort {

// Largest array that is read, in bytes.
inline constexpr uint64_t kIdxBytesMax = uint64_t{4} << 30;
inline constexpr int kIdxRankMax = 8;

// Errors: DATA_LOSS naming `path`, what is wrong and what to do; NOT_FOUND, PERMISSION_DENIED or
// UNAVAILABLE from the file system.
absl::StatusOr<Tensor> ReadIdx(FileSystem& files, const std::string& path);

}  // namespace cohort

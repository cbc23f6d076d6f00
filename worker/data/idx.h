#pragma once

// An IDX file is one array: two zero bytes, a type byte, the rank, one big-endian uint32 for each
// axis, then the values in big-endian and row-major order. Axis 0 counts the elements. The file is
// plain or packed as one gzip member; its first bytes tell which. 16-bit integers are read as
// int32.
//
// No memory is allocated for the values before the header has been checked against the length of
// the file (deflate expands data by a factor of 1032 at most). Every byte is accounted for: a file
// that is shorter or longer than its header says, or that fails gzip's checksum, is refused.

#include "absl/status/statusor.h"
#include "common/base/file_system.h"
#include "common/tensor/tensor.h"

namespace cohort {

// The largest array that ReadIdx reads, in bytes.
inline constexpr uint64_t kIdxBytesMax = uint64_t{4} << 30;
inline constexpr int kIdxRankMax = 8;

// Reads an IDX file into a tensor. Errors: DATA_LOSS naming `path`, what is wrong and what to do;
// NOT_FOUND, PERMISSION_DENIED or UNAVAILABLE from the file system.
absl::StatusOr<Tensor> ReadIdx(FileSystem& files, const std::string& path);

}  // namespace cohort

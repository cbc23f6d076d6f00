#pragma once

// The IDX format, in which the MNIST files are. A file is one array: two zero bytes, a type byte,
// the rank, one big-endian uint32 for each axis, then the values, big-endian and in row-major
// order. Axis 0 counts the elements. The file is plain or packed by gzip, which its first
// bytes tell. 16-bit integers are read as int32.
//
// Memory for the values is allocated only after the header has been checked against the length of
// the file (deflate expands data by a factor of at most 1032). Every byte is accounted for: a file
// that is shorter or longer than its header says, or that fails gzip's checksum, is refused.

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/base/file_system.h"
#include "common/tensor/tensor.h"
#include "worker/data/row_file.h"

namespace cohort {

// The largest array that ReadIdx() accepts, in bytes.
inline constexpr uint64_t kIdxBytesMax = uint64_t{4} << 30;
inline constexpr int kIdxRankMax = 8;

// Reads an IDX file into a tensor. Errors: DATA_LOSS naming `path`, what is wrong with the file and
// what to do; NOT_FOUND, PERMISSION_DENIED or UNAVAILABLE from the file system.
absl::StatusOr<Tensor> ReadIdx(FileSystem& files, const std::string& path);

// Opens the rows of a plain IDX file whose array is above kArrayInMemoryMax; null for any other
// IDX file. Errors: those of ReadIdx.
absl::StatusOr<std::shared_ptr<const RowFile>> OpenLargeIdx(FileSystem& files,
                                                            const std::string& path);

}  // namespace cohort

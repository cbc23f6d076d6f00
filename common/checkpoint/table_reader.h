#pragma once

// Reads leveldb's table format (doc/table_format.md there) as prefix.index uses it: data blocks,
// a metaindex block, an index block of (last key, handle) and a footer. leveldb's own Table would
// allocate whatever a block handle says; here every handle, size and length is checked against the
// file before it is used, and every block against its checksum. Blocks may be snappy-compressed.

#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "common/base/file_system.h"

namespace cohort {

// Upper bound of a block, once uncompressed. TensorFlow cuts blocks at 256 KiB.
inline constexpr size_t kTableBlockBytesMax = 64 << 20;

// Calls `visit` with each entry, in the order of keys, which is strictly ascending; stops at its
// first error and returns it. Errors: DATA_LOSS naming `path`; what ReadableFile::Read returns.
absl::Status ForEachTableEntry(
    const ReadableFile& file, const std::string& path,
    absl::FunctionRef<absl::Status(absl::string_view key, absl::string_view value)> visit);

}  // namespace cohort

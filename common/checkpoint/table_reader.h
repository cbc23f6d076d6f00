#pragma once

// A reader of LevelDB's table format (doc/table_format.md in LevelDB) as prefix.index uses it: data
// blocks, a metaindex block, an index block of (last key, handle) and a footer. LevelDB's own Table
// class would allocate whatever size a block handle gives. This reader checks every handle, size
// and length against the file's size before use, and every block against its checksum. Blocks may
// be compressed with Snappy.

#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "common/base/file_system.h"

namespace cohort {

// The largest accepted size in bytes of a block, compressed or not. TensorFlow begins a new block
// after 256 KiB.
inline constexpr size_t kTableBlockBytesMax = 64 << 20;

// Calls `visit` with each entry of the table in strictly ascending order of the keys. Stops at the
// first error of `visit` and returns this error. Errors: DATA_LOSS that names `path` for a damaged
// table; those of ReadableFile::Read.
absl::Status ForEachTableEntry(
    const ReadableFile& file, const std::string& path,
    absl::FunctionRef<absl::Status(absl::string_view key, absl::string_view value)> visit);

}  // namespace cohort

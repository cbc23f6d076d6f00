#pragma once

// A compressed file that is read at any offset of its unpacked data, by way of restart points
// (inflater.h). A read begins at the last point before its offset, or goes on where an earlier read
// has ended. The index of a file is made once, by unpacking the file from front to back.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/base/file_system.h"
#include "common/records/unpacked/compression.h"
#include "common/records/unpacked/inflater.h"
#include "common/records/unpacked/span_cache.h"

namespace cohort {

// The restart points of one file, and what checks the data between them.
struct UnpackedIndex {
  uint64_t size = 0;                 // length of the unpacked data
  std::vector<RestartPoint> points;  // ascending; the first one is at 0, unless the file is empty
  // For each point, the CRC-32C of the unpacked data from it to the next point, or to the end.
  std::vector<uint32_t> checksums;
};

// The distance of restart points in the unpacked data, at least, and their largest number: in large
// files they are farther apart. Seeking costs at most the unpacking of one distance.
inline constexpr uint64_t kPointSpacing = 1 << 20;
inline constexpr size_t kPointsMax = 4096;

// Unpacks the whole file, makes its index, and gives all unpacked bytes to `consume`, in order. A
// member's or stream's own checksum is verified. `compression` is kGzip or kZlib. Errors: those of
// Inflater::Read and of `consume`.
absl::StatusOr<UnpackedIndex> IndexUnpacked(
    const ReadableFile& file, const std::string& path, FileCompression compression,
    absl::FunctionRef<absl::Status(absl::string_view bytes)> consume);

// Opens the unpacked data of `packed` for reading. The result's Read() is thread-safe; its errors
// are OUT_OF_RANGE, those of Inflater::Read, and DATA_LOSS if the data are not those for which the
// index was made. `path` is for messages. `cache` keeps what was unpacked; it is shared with other
// files, and null if nothing is kept.
std::unique_ptr<ReadableFile> OpenUnpacked(std::unique_ptr<ReadableFile> packed, std::string path,
                                           FileCompression compression, UnpackedIndex index,
                                           std::shared_ptr<SpanCache> cache);

}  // namespace cohort

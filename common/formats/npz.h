#pragma once

// NumPy's .npz format: a ZIP archive with a member NAME.npy for each array NAME.

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/base/file_system.h"
#include "common/formats/tensor_file.h"
#include "common/formats/zip_archive.h"

namespace cohort {

// Upper bound on the size of one array in bytes. A member that is read is in memory as a whole.
inline constexpr uint64_t kNpzArrayBytesMax = uint64_t{64} << 30;

// Opens the arrays of an archive; `path` is for messages. Each member is read once for its header.
// Arrays of types that are not supported are listed and cannot be read. Errors: DATA_LOSS for a
// damaged member, or one that is no array.
absl::StatusOr<std::unique_ptr<TensorFile>> OpenNpz(std::unique_ptr<ZipArchive> archive,
                                                    const std::string& path);

// Writes the tensors as stored members, in their order. Errors: INVALID_ARGUMENT for a name that is
// given twice, and for bfloat16, which NumPy does not know; the file system's errors.
absl::Status WriteNpz(FileSystem& files, const std::string& path,
                      absl::Span<const NamedTensor> tensors);

}  // namespace cohort

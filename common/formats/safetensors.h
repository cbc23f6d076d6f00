#pragma once

// The safetensors format: 8 bytes with the length of the header in little-endian order, the header,
// which is JSON {"name": {"dtype", "shape", "data_offsets": [begin, end]}, ...}, and the tensors'
// bytes, to which the offsets refer. "__metadata__" in the header maps strings to strings. No
// layout follows from the format: kernels of PyTorch lie the other way round than Keras's.

#include <map>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/base/file_system.h"
#include "common/formats/tensor_file.h"

namespace cohort {

// Upper bound on the header's bytes, as in the format's own library.
inline constexpr uint64_t kSafetensorsHeaderMax = 100'000'000;

using SafetensorsMetadata = std::map<std::string, std::string>;

// Returns true if the file begins as a safetensors file does: with a length that fits and a brace.
bool LooksLikeSafetensors(const ReadableFile& file);

// Opens a file in the safetensors format; `path` is for messages. If `metadata` is not null, it
// receives the content of "__metadata__". Errors: DATA_LOSS for a header that is longer than the
// file or kSafetensorsHeaderMax, that breaks the format or names a tensor twice; DATA_LOSS for
// tensors whose bytes overlap, leave a gap, do not end with the file, or differ in number from
// shape and type; UNIMPLEMENTED for an unknown type.
absl::StatusOr<std::unique_ptr<TensorFile>> OpenSafetensors(std::unique_ptr<ReadableFile> file,
                                                            const std::string& path,
                                                            SafetensorsMetadata* metadata);

// Writes the tensors, those with the widest elements first and then by name, so that all of them
// are aligned. Errors: INVALID_ARGUMENT for a name that is given twice, that is not UTF-8 or that
// the format keeps for itself, and for a header above kSafetensorsHeaderMax; the file system's
// errors.
absl::Status WriteSafetensors(FileSystem& files, const std::string& path,
                              absl::Span<const NamedTensor> tensors,
                              const SafetensorsMetadata& metadata);

}  // namespace cohort

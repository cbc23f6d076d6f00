#pragma once

// The one way to open a file of weights. The content of the file decides which reader
// (weight_sources.h) lists its values.

#include <string>

#include "absl/status/statusor.h"
#include "common/base/file_system.h"
#include "common/formats/weights/weight_file.h"

namespace cohort {

// Opens the weights at `path`: a file, the prefix of a checkpoint (also with ".index" behind it),
// or the directory of a SavedModel. Errors: NOT_FOUND; DATA_LOSS for a damaged file; UNIMPLEMENTED
// for a file of an unknown format, with the list of the known formats, and
// for weights in several files, as Keras 3 can write them.
absl::StatusOr<WeightFile> OpenWeights(FileSystem& files, const std::string& path);

}  // namespace cohort

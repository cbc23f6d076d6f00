#pragma once

// The file that `model.keras` of a job names: JSON of to_json, a .keras archive, or an .h5 file of
// a whole model. The format is recognised by the content, not by the name.

#include <string>

#include "absl/status/statusor.h"
#include "common/base/file_system.h"
#include "coordinator/job/keras_model.h"

namespace cohort {

// Reads the model's texts from a file, and looks whether the file has weights. Errors:
// INVALID_ARGUMENT for a path that only a shell would expand, a directory, a file without a model's
// configuration, and JSON of more than kModelConfigBytesMax; those of OpenWeights and of the file
// system.
absl::StatusOr<KerasModelFile> ReadKerasFile(FileSystem& files, const std::string& path);

}  // namespace cohort

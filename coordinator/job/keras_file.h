#pragma once

// The file that `model.keras` of a job names: JSON that to_json wrote, a .keras archive, or an .h5
// file of a whole model. What a file is follows from its content, not from its name.

#include <string>

#include "absl/status/statusor.h"
#include "common/base/file_system.h"
#include "coordinator/job/keras_model.h"

namespace cohort {

// Reads what the file has of a model; its weights are only looked for. Errors: INVALID_ARGUMENT for
// a path that only a shell would expand, a directory, a file without a model's configuration, and
// JSON of more than kModelConfigBytesMax; those of OpenWeights and of the file system.
absl::StatusOr<KerasModelFile> ReadKerasFile(FileSystem& files, const std::string& path);

}  // namespace cohort

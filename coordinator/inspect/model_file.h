#pragma once

// The model in a file, whatever kind of file it is.

#include <string>

#include "absl/status/statusor.h"
#include "common/base/file_system.h"
#include "coordinator/network/model_spec.h"

namespace cohort {

// Reads the model of a job file (its section `model` alone, with the file that `model.keras`
// names), of a file with what Keras's to_json wrote, of a .keras archive, or of a whole-model .h5
// file. What a file is follows from its content. Errors: those of ReadKerasFile; INVALID_ARGUMENT
// listing everything of the model that is wrong or not supported.
absl::StatusOr<ModelSpec> ReadModelFile(FileSystem& files, const std::string& path);

}  // namespace cohort

#pragma once

// The model in a file, whatever kind of file it is.

#include <string>

#include "absl/status/statusor.h"
#include "common/base/file_system.h"
#include "coordinator/network/model_spec.h"

namespace cohort {

// Upper bound of the size of a file with the JSON of a model, or of a job.
inline constexpr uint64_t kModelFileBytesMax = 64 << 20;

// Reads the model of a job file (its section `model` alone), of a file with what Keras's to_json
// wrote, of a .keras archive, or of a whole-model .h5 file. What a file is follows from its
// content. Errors: NOT_FOUND; INVALID_ARGUMENT listing everything of the model that is wrong or not
// supported, and for a file without a model; RESOURCE_EXHAUSTED for JSON above kModelFileBytesMax;
// those of OpenWeights.
absl::StatusOr<ModelSpec> ReadModelFile(FileSystem& files, const std::string& path);

}  // namespace cohort

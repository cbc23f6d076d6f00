#pragma once

// The file that `model.keras` of a job names: JSON that to_json wrote, a .keras archive, or an .h5
// file of a whole model. What a file is follows from its content, not from its name.

#include <string>

#include "absl/status/statusor.h"
#include "common/base/file_system.h"
#include "coordinator/job/job_spec.h"

namespace cohort {

// Reads what the file has of a model; its weights are only looked for. Errors: INVALID_ARGUMENT for
// a path that only a shell would expand, a directory, a file without a model's configuration, and
// JSON of more than kModelConfigBytesMax; those of OpenWeights and of the file system.
absl::StatusOr<KerasModelFile> ReadModelFile(FileSystem& files, const std::string& path);

// Logs as which version of Keras the model was taken, and what of its file does not count. Logs
// nothing of a model that a person wrote into the job file, for which no version matters.
void LogModelFile(const ModelSpec& model);

// Returns the key of the job file that names the weights with which the training begins, for
// messages: "checkpoint.init_from", or "model.keras" if they are those of the model's file.
std::string InitFromKey(const JobSpec& job);

}  // namespace cohort

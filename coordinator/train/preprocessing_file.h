#pragma once

// The state of the data pipeline, beside what was trained with it (PreprocessingPath of
// common/checkpoint/checkpoint_files.h). A vocabulary says which row of an embedding a token has,
// so weights mean nothing with another one.

#include <string>

#include "absl/status/status.h"
#include "common/base/file_system.h"
#include "coordinator/job/job_spec.h"

namespace cohort {

// Writes the job's complete pipeline beside an exported file. Errors: those of the file system,
// naming the file.
absl::Status WritePreprocessing(FileSystem& files, const std::string& exported, const JobSpec& job);

// Takes the state of the pipeline that belongs to the weights from which the job begins
// (checkpoint.restore or checkpoint.init_from) for its functions that would adapt to the data.
// Without a file of such a state, and where its pipeline is another one, functions stay as they
// are, and the log says so. Errors: those of FindCheckpoint; INVALID_ARGUMENT naming a file that
// cannot be understood.
absl::Status TakePreprocessing(FileSystem& files, JobSpec& job);

}  // namespace cohort

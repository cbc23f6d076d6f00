#pragma once

// The pipeline of a data set by itself, as it is written beside what was trained: with the
// vocabularies and numbers to which its functions have adapted.

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "coordinator/job/data_spec.h"

namespace cohort {

// Returns {"pipeline": […]}, with the transforms as a job file writes them.
std::string PipelineToJson(const DataSpec& data);

// Reads what PipelineToJson has written, for data like those of `data`. Errors: INVALID_ARGUMENT
// naming `file_name` and the keys that are wrong.
absl::StatusOr<std::vector<TransformSpec>> ParsePipeline(absl::string_view text,
                                                         absl::string_view file_name,
                                                         const DataSpec& data);

}  // namespace cohort

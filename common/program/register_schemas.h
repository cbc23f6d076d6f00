#pragma once

#include "absl/status/status.h"

namespace cohort {

// Registers the schemas of the cohort domain with libonnx, once per process. Whatever loads, checks
// or builds a model calls this function first. Thread-safe.
absl::Status RegisterCohortSchemas();

}  // namespace cohort

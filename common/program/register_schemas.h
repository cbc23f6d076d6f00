#pragma once

#include "absl/status/status.h"

namespace cohort {

// Registers the operator schemas of the cohort domain with libonnx, once in each process. Code that
// loads, checks or builds a model must call this function first. Thread-safe.
absl::Status RegisterCohortSchemas();

}  // namespace cohort

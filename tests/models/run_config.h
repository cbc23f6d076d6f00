#pragma once

// Runs a configuration: a whole model as one version of Keras wrote it
// (tests/golden/models/make_configs.py), with the outputs that this version computed.

#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"
#include "tests/models/run_case.h"

namespace cohort {

// One configuration. Immutable after it was read; thread-compatible.
struct KerasConfig {
  std::string name;   // of the model's builder in make_configs.py
  std::string keras;  // the version that wrote it, such as "2.15.0"
  nlohmann::json json;
};

// Reads the pack. Errors: INVALID_ARGUMENT or NOT_FOUND that names the file.
absl::StatusOr<std::vector<KerasConfig>> ReadConfigs();

// Returns "VERSION NAME" of each configuration that does not pass yet (not_yet/configs.txt).
std::set<std::string> ConfigsNotYet();

// Loads the model by a job's key model.keras, and compares its outputs in evaluation.
Verdict RunConfig(const KerasConfig& one, CaseKernels kernels);

}  // namespace cohort

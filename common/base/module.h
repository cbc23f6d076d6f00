#pragma once

// Shared libraries that a program loads when somebody asks for what they have, because a machine
// may lack what they are linked with.

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace cohort {

// Returns the path of a module: beside the executable, as a build has it, or in ../lib/cohort from
// there, as an installation has it.
std::string ModulePath(absl::string_view name);

// Loads the module at `path` and returns the address of a symbol in it, or null if the module has
// no such symbol. The module stays loaded, because libraries such as CUDA do not survive being
// unloaded. Nothing of the module becomes visible to other libraries. Thread-safe. Errors:
// NOT_FOUND in the loader's words.
absl::StatusOr<void*> LoadModule(const std::string& path, const char* symbol);

}  // namespace cohort

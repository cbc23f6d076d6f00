#pragma once

// Shared libraries that a program loads when somebody asks for what they have, because a machine
// may lack what they are linked with.

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace cohort {

// Of a module that lies beside the executable.
std::string ModulePath(absl::string_view name);

// The address of a symbol of the module at `path`, which stays loaded: libraries such as CUDA do
// not survive the end of theirs. Null: it has no such symbol. Nothing of the module becomes visible
// to other libraries. Thread-safe. Errors: NOT_FOUND in the loader's words.
absl::StatusOr<void*> LoadModule(const std::string& path, const char* symbol);

}  // namespace cohort

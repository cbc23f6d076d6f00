#pragma once

// Modules are shared libraries that a process loads only on request, because a machine may lack the
// libraries that a module is linked with, such as CUDA.

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace cohort {

// Returns the path of the module `name`: beside the executable, where a build puts modules, or in
// "../lib/cohort" relative to the executable's directory, where an installation puts them. The
// first path at which a file exists is returned.
std::string ModulePath(absl::string_view name);

// Loads the module at `path` and returns the address of `symbol` in the module, or null if the
// module does not have that symbol. The module stays loaded, because libraries such as CUDA do not
// survive being unloaded. The module's symbols do not become visible to other libraries.
// Thread-safe. Errors: NOT_FOUND with the dynamic loader's message.
absl::StatusOr<void*> LoadModule(const std::string& path, const char* symbol);

}  // namespace cohort

#include "common/base/module.h"

#include <dlfcn.h>
#include <unistd.h>

#include <array>

#include "absl/strings/str_cat.h"

namespace cohort {

std::string ModulePath(absl::string_view name) {
  std::array<char, 4096> path;
  const ssize_t length = readlink("/proc/self/exe", path.data(), path.size());
  // /proc/self/exe is a link to the running executable's file, even if the shell found the
  // executable through PATH.
  const absl::string_view executable(path.data(), length < 0 ? 0 : static_cast<size_t>(length));
  const size_t slash = executable.rfind('/');
  if (slash == absl::string_view::npos) return std::string(name);
  std::string beside = absl::StrCat(executable.substr(0, slash + 1), name);
  if (access(beside.c_str(), F_OK) == 0) return beside;
  std::string installed = absl::StrCat(executable.substr(0, slash + 1), "../lib/cohort/", name);
  // If the module is neither beside the executable nor in ../lib/cohort, the path beside the
  // executable is returned. LoadModule's error then names that path.
  return access(installed.c_str(), F_OK) == 0 ? installed : beside;
}

absl::StatusOr<void*> LoadModule(const std::string& path, const char* symbol) {
  void* const module = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (module != nullptr) return dlsym(module, symbol);
  const char* const why = dlerror();
  return absl::NotFoundError(
      absl::StrCat("loading ", path, ": ", why != nullptr ? why : "unknown error"));
}

}  // namespace cohort

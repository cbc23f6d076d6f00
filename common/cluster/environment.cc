#include "common/cluster/environment.h"

#include <unistd.h>

#include <cstdlib>

#include "absl/strings/str_cat.h"

namespace cohort {

Environment ProcessEnvironment() {
  return [](const std::string& name) -> std::optional<std::string> {
    const char* value = std::getenv(name.c_str());
    if (value == nullptr) return std::nullopt;
    return std::string(value);
  };
}

std::vector<std::string> ChildEnvironment(const std::map<std::string, std::string>& changes) {
  std::vector<std::string> merged;
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text = *entry;
    if (changes.count(text.substr(0, text.find('='))) == 0) merged.push_back(text);
  }
  for (const auto& [name, value] : changes) merged.push_back(absl::StrCat(name, "=", value));
  return merged;
}

std::string ExecutablePath() {
  std::string path(4096, '\0');
  const ssize_t size = readlink("/proc/self/exe", path.data(), path.size());
  // readlink() cuts a long path without an error, so a path that fills the buffer may be incomplete
  // and is not returned.
  const bool whole = size > 0 && static_cast<size_t>(size) < path.size();
  return whole ? path.substr(0, static_cast<size_t>(size)) : "";
}

}  // namespace cohort

#include "common/cluster/command_line.h"

#include <array>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/nearest_name.h"

namespace cohort {

namespace {
constexpr std::array<std::pair<LogLevel, const char*>, 4> kLevels = {
    {{LogLevel::kDebug, "debug"},
     {LogLevel::kInfo, "info"},
     {LogLevel::kWarning, "warning"},
     {LogLevel::kError, "error"}}};
}

const char* LogLevelName(LogLevel level) {
  for (const auto& [known, name] : kLevels) {
    if (known == level) return name;
  }
  return "unknown";
}

absl::StatusOr<LogLevel> LogLevelFromName(absl::string_view name) {
  for (const auto& [level, known] : kLevels) {
    if (known == name) return level;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("'", name, "' is not a log level; use debug, info, warning or error"));
}

std::string VersionText(absl::string_view program) {
  return absl::StrCat(program, " (Cohort) ", COHORT_VERSION, "\n");
}

std::string UnknownName(absl::string_view name, const std::vector<std::string>& known) {
  const std::string nearest = NearestName(name, known);
  if (!nearest.empty())
    return absl::StrCat("'", name, "' is unknown; did you mean '", nearest, "'?");
  return absl::StrCat("'", name, "' is unknown; known are ", absl::StrJoin(known, ", "));
}

}  // namespace cohort

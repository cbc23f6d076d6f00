#include "common/cluster/command_line.h"

#include <CLI/CLI.hpp>
#include <array>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/nearest_names.h"

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

absl::StatusOr<absl::Duration> TimeoutFromText(absl::string_view text) {
  absl::Duration timeout;
  const bool read = absl::ParseDuration(text, &timeout);
  if (read && timeout == absl::ZeroDuration()) return timeout;
  if (read && timeout >= absl::Seconds(1) && timeout <= absl::Hours(365 * 24)) return timeout;
  return absl::InvalidArgumentError(
      absl::StrCat("'", text, "' is not 0 (never) or a time from 1s to 8760h, such as 30s or 5m"));
}

FlagParser::FlagParser(const std::string& program, const std::string& description)
    : app_(std::make_unique<CLI::App>(description, program)) {
  app_->set_help_flag("-h,--help", "Print this text and exit");
}

FlagParser::~FlagParser() = default;

void FlagParser::Add(const std::string& name, std::string& value, const std::string& help) {
  app_->add_option("--" + name, value, help);
}

void FlagParser::Add(const std::string& name, std::optional<std::string>& value,
                     const std::string& help) {
  app_->add_option("--" + name, value, help);
}

void FlagParser::Add(const std::string& name, int& value, const std::string& help) {
  app_->add_option("--" + name, value, help);
}

void FlagParser::Add(const std::string& name, std::optional<int>& value, const std::string& help) {
  app_->add_option("--" + name, value, help);
}

void FlagParser::Add(const std::string& name, std::vector<std::string>& values,
                     const std::string& help) {
  app_->add_option("--" + name, values, help)
      // Each occurrence of the flag takes exactly one value. Otherwise CLI11 would also take the
      // arguments that follow the value as values of the flag.
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
}

void FlagParser::Add(const std::string& name, bool& given, const std::string& help) {
  app_->add_flag("--" + name, given, help);
}

void FlagParser::AddPositionals(const std::string& name, std::vector<std::string>& values,
                                const std::string& help) {
  app_->add_option(name, values, help);
}

void FlagParser::AddFooter(const std::string& text) { app_->footer(text); }

absl::StatusOr<std::optional<PrintAndExit>> FlagParser::Parse(
    const std::vector<std::string>& arguments) {
  try {
    // CLI11 expects the arguments in reverse order.
    app_->parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
  } catch (const CLI::CallForHelp&) {
    return PrintAndExit{app_->help()};
  } catch (const CLI::Error& error) {
    return absl::InvalidArgumentError(absl::StrCat(error.what(), "; --help lists the options"));
  }
  return std::nullopt;
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

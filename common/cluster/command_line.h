#pragma once

// What the command lines of all programs share. Only this part knows the library that reads them.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/base/log.h"

namespace CLI {
class App;
}

namespace cohort {

// The answer of a command line that asks for text instead of a run: print it to stdout and exit.
struct PrintAndExit {
  std::string text;  // ends with a newline
  int exit_code = 0;
};

// "debug", "info", "warning", "error".
const char* LogLevelName(LogLevel level);
// Errors: INVALID_ARGUMENT naming the four.
absl::StatusOr<LogLevel> LogLevelFromName(absl::string_view name);

// "30s", "2m"; "0" for never. Errors: INVALID_ARGUMENT for what is no duration, less than a second
// or more than a year.
absl::StatusOr<absl::Duration> TimeoutFromText(absl::string_view text);

// Flags, each with the variable that it sets. A variable keeps its value where its flag is not
// given. Thread-compatible.
class FlagParser {
 public:
  FlagParser(const std::string& program, const std::string& description);
  ~FlagParser();

  // `name` without its dashes. The variables outlive the parser.
  void Add(const std::string& name, std::string& value, const std::string& help);
  void Add(const std::string& name, std::optional<std::string>& value, const std::string& help);
  void Add(const std::string& name, int& value, const std::string& help);
  void Add(const std::string& name, std::optional<int>& value, const std::string& help);
  // A flag that may be given again; each time adds a value.
  void Add(const std::string& name, std::vector<std::string>& values, const std::string& help);
  // A flag without a value.
  void Add(const std::string& name, bool& given, const std::string& help);
  // The arguments that are no flags. `name` is for --help.
  void AddPositionals(const std::string& name, std::vector<std::string>& values,
                      const std::string& help);
  // What --help ends with.
  void AddFooter(const std::string& text);

  // `arguments` without the program's name. Nothing when they are read; text when they ask for
  // help. Errors: INVALID_ARGUMENT naming the argument.
  absl::StatusOr<std::optional<PrintAndExit>> Parse(const std::vector<std::string>& arguments);

 private:
  const std::unique_ptr<CLI::App> app_;
};

// "ps (Cohort) 0.1.0\n"
std::string VersionText(absl::string_view program);

// "'colour' is unknown; did you mean 'color'?" or, when none is near, "...; known are a, b".
std::string UnknownName(absl::string_view name, const std::vector<std::string>& known);

}  // namespace cohort

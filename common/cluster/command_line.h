#pragma once

// The part that the command lines of all programs share. It alone knows the library that parses
// them.

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

// Returns "debug", "info", "warning" or "error".
const char* LogLevelName(LogLevel level);
// Errors: INVALID_ARGUMENT naming the four.
absl::StatusOr<LogLevel> LogLevelFromName(absl::string_view name);

// Reads "30s" or "2m"; "0" means never. Errors: INVALID_ARGUMENT for text that is not a duration,
// and for less than a second or more than a year.
absl::StatusOr<absl::Duration> TimeoutFromText(absl::string_view text);

// Flags, each with the variable that it sets. A variable keeps its value where its flag is not
// given. Thread-compatible.
class FlagParser {
 public:
  FlagParser(const std::string& program, const std::string& description);
  ~FlagParser();

  // Adds a flag. `name` has no dashes. The variables outlive the parser.
  void Add(const std::string& name, std::string& value, const std::string& help);
  void Add(const std::string& name, std::optional<std::string>& value, const std::string& help);
  void Add(const std::string& name, int& value, const std::string& help);
  void Add(const std::string& name, std::optional<int>& value, const std::string& help);
  // Adds a flag that may be given several times; each time adds a value.
  void Add(const std::string& name, std::vector<std::string>& values, const std::string& help);
  // Adds a flag without a value.
  void Add(const std::string& name, bool& given, const std::string& help);
  // Adds the arguments that are not flags. `name` is for --help.
  void AddPositionals(const std::string& name, std::vector<std::string>& values,
                      const std::string& help);
  // Adds the text that --help ends with.
  void AddFooter(const std::string& text);

  // Parses `arguments`, which do not include the program's name. Returns nothing if they were read,
  // or the text to print if they ask for help. Errors: INVALID_ARGUMENT naming the argument.
  absl::StatusOr<std::optional<PrintAndExit>> Parse(const std::vector<std::string>& arguments);

 private:
  const std::unique_ptr<CLI::App> app_;
};

// Returns "ps (Cohort) 0.2.0\n".
std::string VersionText(absl::string_view program);

// Returns "'colour' is unknown; did you mean 'color'?" or, if none is near, "...; known are a, b".
std::string UnknownName(absl::string_view name, const std::vector<std::string>& known);

}  // namespace cohort

#pragma once

// The command-line code that all executables share. Only this code uses CLI11, the library that
// parses command lines.

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

// The result of parsing a command line that asks only for a text, such as --help. The process
// prints the text to stdout and exits.
struct PrintAndExit {
  std::string text;  // the text to print, which ends with a newline
  int exit_code = 0;
};

// Returns the name of a log level: "debug", "info", "warning" or "error".
const char* LogLevelName(LogLevel level);
// Returns the log level with the given name. Errors: INVALID_ARGUMENT that lists the four names.
absl::StatusOr<LogLevel> LogLevelFromName(absl::string_view name);

// Parses a timeout such as "30s" or "2m"; "0" means no timeout. Errors: INVALID_ARGUMENT for text
// that is not a duration, and for a duration below a second or above a year.
absl::StatusOr<absl::Duration> TimeoutFromText(absl::string_view text);

// The flags of an executable, and for each flag the variable that the flag sets. A variable keeps
// its value if its flag is not given. Thread-compatible.
class FlagParser {
 public:
  FlagParser(const std::string& program, const std::string& description);
  ~FlagParser();

  // Adds a flag with the name `name`, given without dashes. The variable that the flag sets must
  // outlive the parser.
  void Add(const std::string& name, std::string& value, const std::string& help);
  void Add(const std::string& name, std::optional<std::string>& value, const std::string& help);
  void Add(const std::string& name, int& value, const std::string& help);
  void Add(const std::string& name, std::optional<int>& value, const std::string& help);
  // Adds a flag that may be given several times; each occurrence of the flag appends a value to
  // `values`.
  void Add(const std::string& name, std::vector<std::string>& values, const std::string& help);
  // Adds a flag without a value; `given` becomes true if the flag occurs.
  void Add(const std::string& name, bool& given, const std::string& help);
  // Adds the positional arguments, which are the arguments that are not flags. `name` appears in
  // --help.
  void AddPositionals(const std::string& name, std::vector<std::string>& values,
                      const std::string& help);
  // Adds a text that is printed at the end of --help.
  void AddFooter(const std::string& text);

  // Parses `arguments`, which must not include the name of the executable, and sets the variables
  // of the flags. Returns the help text to print if the arguments ask for help, and nothing
  // otherwise. Errors: INVALID_ARGUMENT that names the wrong argument.
  absl::StatusOr<std::optional<PrintAndExit>> Parse(const std::vector<std::string>& arguments);

 private:
  const std::unique_ptr<CLI::App> app_;
};

// Returns the text that --version prints, such as "ps (Cohort) 0.2.0\n".
std::string VersionText(absl::string_view program);

// Returns an error text for an unknown name: "'colour' is unknown; did you mean 'color'?" if a
// known name is near, and otherwise "'colour' is unknown; known are a, b".
std::string UnknownName(absl::string_view name, const std::vector<std::string>& known);

}  // namespace cohort

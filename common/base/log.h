#pragma once

// Daemons log each event to stderr as one line of key=value pairs: time, level, event, then the
// event's own fields. A warning means that an operator should act. No code logs a line for each
// tensor or each step.

#include <initializer_list>
#include <string>
#include <type_traits>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace cohort {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

struct LogField {
  template <typename T>
  LogField(absl::string_view key_in, const T& value_in)
      : key(key_in), value(absl::StrCat(value_in)) {}

  absl::string_view key;
  // The text of the value. Log() quotes a value that is empty or holds a space, a quote, '=' or a
  // line break.
  std::string value;
};

// Writes one log line to stderr. Thread-safe.
void Log(LogLevel level, absl::string_view event, std::initializer_list<LogField> fields);

// Drops log lines below `level` from now on, and puts the task's name `who` (such as "worker:1")
// into every line.
void ConfigureLog(LogLevel level, absl::string_view who);

}  // namespace cohort

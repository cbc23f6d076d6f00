#pragma once

// Daemons log events to stderr as one line of key=value each: time, level, event, then the fields.
// Warnings mean that somebody should act. Nothing is logged per tensor or per step.

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
  std::string value;  // quoted on output when it holds a space, a quote or '='
};

// Writes one line. Thread-safe.
void Log(LogLevel level, absl::string_view event, std::initializer_list<LogField> fields);

// Drops lines below `level` from now on, and puts `who` (such as "worker:1") into every line.
void ConfigureLog(LogLevel level, absl::string_view who);

}  // namespace cohort

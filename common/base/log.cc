#include "common/base/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <memory>

#include "absl/strings/str_replace.h"

namespace cohort {

namespace {

spdlog::level::level_enum ToSpdlog(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarning:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
  }
  return spdlog::level::err;
}

// Returns true if `value` must be quoted: a reader of a line of key=value pairs could not find the
// end of this value without quotes.
bool NeedsQuotes(const std::string& value) {
  return value.empty() || value.find_first_of(" \"=\n") != std::string::npos;
}

void AppendField(std::string& line, absl::string_view key, const std::string& value) {
  if (!NeedsQuotes(value)) {
    absl::StrAppend(&line, " ", key, "=", value);
    return;
  }
  absl::StrAppend(&line, " ", key, "=\"",
                  absl::StrReplaceAll(value, {{"\\", "\\\\"}, {"\"", "\\\""}, {"\n", "\\n"}}),
                  "\"");
}

// Returns the one spdlog logger of the process, which all components use: all log lines go to
// stderr.
spdlog::logger& Logger() {
  // The logger is never destroyed, because threads may log while the process exits.
  static spdlog::logger* const logger = [] {
    auto* made = new spdlog::logger("cohort", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    made->set_pattern("time=%Y-%m-%dT%H:%M:%S.%eZ level=%l %v", spdlog::pattern_time_type::utc);
    // A log line of level info or above is flushed at once, so that the last lines of a crashed
    // process are not lost.
    made->flush_on(spdlog::level::info);
    return made;
  }();
  return *logger;
}

}  // namespace

void Log(LogLevel level, absl::string_view event, std::initializer_list<LogField> fields) {
  spdlog::logger& logger = Logger();
  if (!logger.should_log(ToSpdlog(level))) return;
  std::string line = absl::StrCat("event=", event);
  for (const LogField& field : fields) AppendField(line, field.key, field.value);
  logger.log(ToSpdlog(level), spdlog::string_view_t(line));
}

void ConfigureLog(LogLevel level, absl::string_view who) {
  Logger().set_level(ToSpdlog(level));
  // A '%' in the task's name is doubled, because '%' begins a placeholder in the logger's pattern.
  Logger().set_pattern(absl::StrCat("time=%Y-%m-%dT%H:%M:%S.%eZ level=%l task=",
                                    absl::StrReplaceAll(who, {{"%", "%%"}}), " %v"),
                       spdlog::pattern_time_type::utc);
}

}  // namespace cohort

#include "common/base/log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cohort {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;

std::string Logged(void (*log)()) {
  ::testing::internal::CaptureStderr();
  log();
  return ::testing::internal::GetCapturedStderr();
}

TEST(Log, OneLineOfKeysAndValues) {
  ConfigureLog(LogLevel::kInfo, "worker:1");
  const std::string line = Logged([] { Log(LogLevel::kInfo, "listening", {{"port", 2222}}); });
  EXPECT_THAT(line, MatchesRegex("time=[0-9-]+T[0-9:.]+Z level=info task=worker:1 "
                                 "event=listening port=2222\n"));
}

TEST(Log, QuotesWhatWouldBreakTheLine) {
  ConfigureLog(LogLevel::kInfo, "ps:0");
  const std::string line = Logged([] {
    Log(LogLevel::kWarning, "x",
        {{"a", "two words"}, {"b", "q\"q\\"}, {"c", "l\nm"}, {"d", ""}, {"e", "k=v"}});
  });
  EXPECT_THAT(line, EndsWith("event=x a=\"two words\" b=\"q\\\"q\\\\\" c=\"l\\nm\" d=\"\" "
                             "e=\"k=v\"\n"));
}

TEST(Log, DropsWhatIsBelowTheLevel) {
  ConfigureLog(LogLevel::kWarning, "ps:0");
  EXPECT_EQ(Logged([] { Log(LogLevel::kInfo, "x", {}); }), "");
  EXPECT_THAT(Logged([] { Log(LogLevel::kError, "x", {}); }), HasSubstr("level=error"));
}

TEST(Log, ANameWithAPercentSignIsNoPattern) {
  ConfigureLog(LogLevel::kInfo, "100%l");
  EXPECT_THAT(Logged([] { Log(LogLevel::kInfo, "x", {}); }), HasSubstr("task=100%l event=x"));
}

}  // namespace
}  // namespace cohort

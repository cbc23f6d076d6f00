#include "common/cluster/process_limits.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>

namespace cohort {
namespace {

using testing::HasSubstr;

absl::Status PollStrategy(const std::optional<std::string>& value) {
  return CheckPollStrategy(
      [&](const std::string& name) { return name == "GRPC_POLL_STRATEGY" ? value : std::nullopt; });
}

TEST(ProcessLimits, RefusesAPollStrategyThatAnswersNoCall) {
  for (const char* const good : {"", "epoll1", "all", "epoll1,poll"}) {
    EXPECT_TRUE(PollStrategy(good).ok()) << good;
  }
  EXPECT_TRUE(PollStrategy(std::nullopt).ok());
  for (const char* const bad : {"poll", "poll,epoll1", "none"}) {
    const absl::Status status = PollStrategy(bad);
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << bad;
    EXPECT_THAT(std::string(status.message()),
                testing::AllOf(HasSubstr(std::string("GRPC_POLL_STRATEGY=") + bad),
                               HasSubstr("use epoll1")));
  }
}

// The tests of limits run in processes of their own: the last line says how it ended.
class OpenFilesTest : public testing::Test {
 protected:
  OpenFilesTest() { testing::FLAGS_gtest_death_test_style = "threadsafe"; }

  static void SetLimit(rlim_t soft, rlim_t hard) {
    const rlimit limit = {soft, hard};
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0) std::exit(9);
  }
  [[noreturn]] static void End(const absl::Status& status) {
    std::fprintf(stderr, "%s\n", status.ToString().c_str());
    std::exit(status.ok() ? 0 : 1);
  }
};

TEST_F(OpenFilesTest, TheSoftLimitIsRaisedToTheHardOne) {
  const auto raise = [] {
    SetLimit(80, 200);
    const absl::Status raised = RaiseOpenFiles();
    rlimit limit = {};
    getrlimit(RLIMIT_NOFILE, &limit);
    if (limit.rlim_cur != 200) End(absl::InternalError("not raised"));
    End(raised);
  };
  EXPECT_EXIT(raise(), testing::ExitedWithCode(0), "OK");
}

TEST_F(OpenFilesTest, TooFewAreRefusedWithWhatToDo) {
  const auto raise = [] {
    SetLimit(20, 30);
    End(RaiseOpenFiles());
  };
  EXPECT_EXIT(raise(), testing::ExitedWithCode(1),
              "RESOURCE_EXHAUSTED: this process may have 30 files open \\(ulimit -n\\)");
}

TEST_F(OpenFilesTest, WhenAllAreInUseItSaysSo) {
  EXPECT_TRUE(CheckOpenFilesLeft().ok());
  const auto use_all = [] {
    SetLimit(40, 40);
    while (open("/dev/null", O_RDONLY) >= 0) {
    }
    End(CheckOpenFilesLeft());
  };
  EXPECT_EXIT(
      use_all(), testing::ExitedWithCode(1),
      "all 40 files that the cluster_test \\(process [0-9]+ on host .*\\) may have open are in "
      "use; raise its limit");
}

}  // namespace
}  // namespace cohort

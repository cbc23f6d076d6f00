// The start of a local cluster whose daemons are scripts: they die, or write their address and
// wait. The world's time is simulated, so delays and time-outs take none.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>

#include <thread>

#include "absl/strings/str_cat.h"
#include "common/base/temporary_file.h"
#include "common/wire/route/real_world.h"
#include "coordinator/local/last_words.h"
#include "coordinator/local/local_cluster.h"
#include "tests/support/temp_directory.h"
#include "tests/support/world/sim_world.h"

namespace cohort {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

// Steps the world while it waits. Time passes only here. Thread-compatible.
class SteppingWaiter final : public Waiter {
 public:
  explicit SteppingWaiter(SimWorld& sim) : sim_(sim) {}
  bool Wait(const Event& event, absl::Duration timeout) override {
    const auto happened = [&event] {
      std::this_thread::yield();  // the children are real processes
      return event.HasHappened();
    };
    return sim_.RunUntil(happened, timeout);
  }

 private:
  SimWorld& sim_;
};

class LocalStartTest : public testing::Test {
 protected:
  // Makes a daemon of a shell script, which finds the file for its address in $address and the
  // number of its start, counted from 1, in $start.
  void MakeDaemon(const std::string& name, const std::string& script) {
    const std::string begin = absl::StrCat(
        "#!/bin/sh\n"
        "for a in \"$@\"; do case $a in --address_file=*) address=${a#*=};; esac; done\n"
        "echo >> ",
        temp_ / name, ".starts; start=$(wc -l < ", temp_ / name, ".starts)\n");
    ASSERT_TRUE(WriteFileAtomically(real_.world().files, temp_ / name, begin + script + "\n").ok());
    ASSERT_EQ(chmod((temp_ / name).c_str(), 0755), 0);
  }

  absl::StatusOr<std::shared_ptr<LocalCluster>> Start(absl::Duration timeout) {
    LocalCluster::Options options;
    options.ps = 1;
    options.workers = 1;
    options.binary_directory = temp_.path();
    options.state_directory = temp_ / "state";
    options.start_timeout = timeout;
    const World real = real_.world();
    return LocalCluster::Start(World{sim_, sim_, real.files, real.transport}, waiter_, options);
  }

  static constexpr char kServe[] = "echo 127.0.0.1:7 > $address; exec sleep 1000";
  // The children need real time, whose simulated time has no measure.
  static constexpr absl::Duration kLong = absl::Hours(1000000);

  TempDirectory temp_{"local-start"};
  RealWorld real_{1};
  SimWorld sim_{1};
  SteppingWaiter waiter_{sim_};
};

TEST_F(LocalStartTest, AChildThatIsKilledBeforeItListensIsRestarted) {
  MakeDaemon("ps", absl::StrCat("[ $start -lt 4 ] && kill -9 $$; ", kServe));
  MakeDaemon("worker", kServe);
  const absl::Time begin = sim_.Now();
  const auto started = Start(kLong);
  ASSERT_TRUE(started.ok()) << started.status();
  EXPECT_EQ((*started)->Address(TaskId{Role::kPs, 0}), "127.0.0.1:7");
  EXPECT_GE(sim_.Now() - begin, absl::Milliseconds(100 + 200 + 400)) << "restarts back off";
  (*started)->Stop(waiter_, kLong);
}

TEST_F(LocalStartTest, AChildThatDiesAgainAndAgainEndsTheStartWithItsLastWords) {
  MakeDaemon("ps", kServe);
  MakeDaemon("worker", "echo first; echo \"error: no memory, start $start\"; exit 1");
  const absl::Status error = Start(kLong).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(error)) << error;
  EXPECT_THAT(
      std::string(error.message()),
      AllOf(HasSubstr("worker:0 ended 5 times in a row before it listened"),
            HasSubstr("exit code 1; its last words: error: no memory, start 5;"),
            HasSubstr(temp_ / "state/worker-0.log"), HasSubstr("start the same command again")));
}

TEST_F(LocalStartTest, WhatDoesNotListenInTimeIsNamedWithItsLastDeath) {
  MakeDaemon("ps", "exec sleep 1000");
  // The simulated second may end before any child has run.
  MakeDaemon("worker", "exec sleep 1000");
  const absl::Status error = Start(absl::Seconds(1)).status();
  EXPECT_TRUE(absl::IsDeadlineExceeded(error)) << error;
  EXPECT_THAT(std::string(error.message()),
              AllOf(HasSubstr("were not ready within 1s: "),
                    HasSubstr(absl::StrCat("worker:0 does not listen (its log is ",
                                           temp_ / "state/worker-0.log")),
                    HasSubstr(absl::StrCat("ps:0 does not listen (its log is ",
                                           temp_ / "state/ps-0.log"))));
}

// The coordinator must not get an address at which a process of another program may listen.
TEST_F(LocalStartTest, AChildThatDiesAfterItListenedHasNoAddress) {
  MakeDaemon("ps", kServe);
  MakeDaemon("worker", kServe);
  const auto started = Start(kLong);
  ASSERT_TRUE(started.ok()) << started.status();
  const TaskId worker{Role::kWorker, 0};
  kill((*started)->pids().at(worker), SIGKILL);
  const auto has_address = [&] {
    std::this_thread::yield();
    return (*started)->Address(worker) == "127.0.0.1:1";
  };
  ASSERT_TRUE(sim_.RunUntil(has_address, kLong));
  EXPECT_EQ(*(*started)->spec().Address(worker), "127.0.0.1:1");
  (*started)->Stop(waiter_, kLong);
}

TEST_F(LocalStartTest, LastWordsAreTheLastLineOfThisProcess) {
  FileSystem& files = real_.world().files;
  const std::string log = temp_ / "log";
  EXPECT_EQ(LastWords(files, log, 0), "") << "the file does not exist";
  EXPECT_EQ(LogSize(files, log), 0u);
  ASSERT_TRUE(WriteFileAtomically(files, log, "old\nnew \x1b[1m\n\n").ok());
  EXPECT_EQ(LogSize(files, log), 14u);
  EXPECT_EQ(LastWords(files, log, 4), "new \\x1b[1m");
  EXPECT_EQ(LastWords(files, log, 14), "");
  EXPECT_EQ(LastWords(files, log, 15), "") << "the file was made shorter";
  ASSERT_TRUE(WriteFileAtomically(files, log, "cause: " + std::string(1000, 'x')).ok());
  EXPECT_EQ(LastWords(files, log, 0), absl::StrCat("cause: ", std::string(393, 'x'), "..."));
}

}  // namespace
}  // namespace cohort

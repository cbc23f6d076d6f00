// SIGSTOP and SIGCONT of real processes: whoever waits with a deadline hears who stands still, and
// what is stopped for less than its lease is not lost.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/base/unique_fd.h"
#include "common/wire/error_detail.h"
#include "common/wire/route/real_world.h"
#include "coordinator/api/cluster_coordinator.h"
#include "coordinator/local/local_cluster.h"
#include "tests/support/counter.h"
#include "tests/support/run_process.h"
#include "tests/support/stop_child.h"
#include "tests/support/temp_directory.h"

namespace cohort {
namespace {

using testing::HasSubstr;
using testing::Not;

// Long, so that a busy machine does not make a loss of it; a task is called silent after 2.4 s.
constexpr absl::Duration kLease = absl::Seconds(20);
constexpr absl::Duration kDeadline = absl::Seconds(3);

class Standstill : public testing::Test {
 protected:
  void Start() {
    LocalCluster::Options options;
    options.ps = 1;
    options.workers = 2;
    options.binary_directory = COHORT_BIN_DIR;
    options.state_directory = directory.path();
    auto started = LocalCluster::Start(world.world(), waiter, options);
    ASSERT_TRUE(started.ok()) << started.status();
    tasks = *std::move(started);
    ClusterCoordinator::Options connect;
    connect.cluster = tasks->spec();
    connect.workers.min = 2;
    connect.lease = kLease;
    connect.address = [tasks = tasks](TaskId task) { return tasks->Address(task); };
    auto connected = ClusterCoordinator::Connect(world.world(), waiter, connect);
    ASSERT_TRUE(connected.ok()) << connected.status();
    coordinator = *std::move(connected);
    const auto made = MakeCounter(*coordinator);
    ASSERT_TRUE(made.ok()) << made.status();
    counter = std::make_unique<Variable>(made->variable);
    increment = made->increment;
  }
  void TearDown() override {
    if (tasks == nullptr) return;
    for (const auto& [task, pid] : tasks->pids()) kill(pid, SIGCONT);
    coordinator.reset();
    tasks->Stop(waiter, absl::Seconds(10));
  }

  void ExpectToHearOf(TaskId task) {
    SCOPED_TRACE(task.ToString());
    ASSERT_TRUE(StopChild(tasks->pids().at(task)));
    for (int i = 0; i < 10; ++i) ASSERT_TRUE(coordinator->Schedule(increment, {}).ok());
    scheduled += 10;
    const absl::Status joined = coordinator->Join(kDeadline);
    EXPECT_EQ(joined.code(), absl::StatusCode::kDeadlineExceeded) << joined;
    EXPECT_THAT(std::string(joined.message()), HasSubstr(task.ToString() + " has been silent"));
    const proto::TaskRef origin = DetailOf(joined).origin();
    EXPECT_EQ(absl::StrCat(origin.role(), ":", origin.index()), task.ToString());
    kill(tasks->pids().at(task), SIGCONT);
    const absl::Status done = coordinator->Join();
    EXPECT_TRUE(done.ok()) << done;
    const auto value = coordinator->Read(*counter);
    ASSERT_TRUE(value.ok()) << value.status();
    EXPECT_EQ(*value->data<float>(), static_cast<float>(scheduled));
    EXPECT_EQ(coordinator->stats().put_back, 0u) << "nobody was lost";
    EXPECT_EQ(coordinator->stats().workers_ready, 2);
  }

  const TempDirectory directory{"standstill"};
  RealWorld world{2};
  BlockingWaiter waiter;
  std::shared_ptr<LocalCluster> tasks;
  std::unique_ptr<ClusterCoordinator> coordinator;
  std::unique_ptr<Variable> counter;
  ProgramHandle increment;
  int scheduled = 0;
};

TEST_F(Standstill, OfATaskIsNamedAtTheDeadlineAndNothingIsLost) {
  ASSERT_NO_FATAL_FAILURE(Start());
  ExpectToHearOf({Role::kPs, 0});
  ExpectToHearOf({Role::kWorker, 1});
}

// Its tasks wait for it; it does not take its own silence for theirs.
TEST(StandstillOfTheCoordinator, LosesNothing) {
  const TempDirectory directory("standstill");
  RunningProcess coordinator(absl::StrCat(COHORT_BIN_DIR, "/counter_program"),
                             {COHORT_BIN_DIR, directory.path(), "1", "2", "20000"}, {});
  const UniqueFd process(static_cast<int>(syscall(SYS_pidfd_open, coordinator.pid(), 0)));
  ASSERT_TRUE(process.ok());
  for (const char* const mark : {"done 3000\n", "done 10000\n"}) {
    ASSERT_TRUE(coordinator.ReadErrUntil(mark, absl::Minutes(2))) << coordinator.err();
    ASSERT_TRUE(StopChild(coordinator.pid()));
    // How long it stands still is what is tested: its workers run out of work.
    pollfd ended = {process.get(), POLLIN, 0};
    EXPECT_EQ(poll(&ended, 1, 1000), 0) << "it ended";
    coordinator.Signal(SIGCONT);
  }
  const ProcessRun run = coordinator.Wait(absl::Minutes(2));
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(run.out, "20000\n");
  EXPECT_THAT(run.err, HasSubstr("put_back=0 "));
  EXPECT_THAT(run.err, HasSubstr("recoveries=1 ")) << "that of the start";
  EXPECT_THAT(run.err, Not(HasSubstr("task_suspected")));
}

}  // namespace
}  // namespace cohort

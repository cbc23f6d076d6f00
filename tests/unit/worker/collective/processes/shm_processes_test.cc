// Ranks that are processes, and what happens to the others when one is killed or stopped.

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "common/base/event.h"
#include "tests/support/sequence_rng.h"
#include "tests/support/test_seed.h"
#include "worker/collective/shm/shm_communicator.h"

namespace cohort {
namespace {

using testing::HasSubstr;

constexpr int kRanks = 3;
constexpr int64_t kCount = 300'001;

// What a rank tells the test.
struct Report {
  enum class Kind : int { kStarted, kDone, kEnded } kind = Kind::kStarted;
  int call = 0;
  int code = 0;
  char message[1000] = {};
};

// The life of a rank: all-reduces until one fails, or until the test says that it is enough.
class Rank {
 public:
  Rank(int rank, const std::string& socket, int orders, int reports)
      : orders_(orders), reports_(reports) {
    ShmOptions options;
    options.rank = rank;
    options.size = kRanks;
    options.name = {"workers", 1};
    options.socket = socket;
    options.arena_bytes = size_t{64} << 20;
    for (int i = 0; i < kRanks; ++i) {
      options.members.emplace_back();
      options.members.back().set_role("worker");
      options.members.back().set_index(10 + i);
    }
    Event joined;
    communicator_ = std::make_unique<ShmCommunicator>(
        options, [&joined](const absl::Status&) { joined.Notify(); });
    BlockingWaiter().Wait(joined, absl::Minutes(1));
    // Rank 0's memory is not shared.
    const size_t bytes = kCount * sizeof(float);
    memory_ = rank == 0 ? Buffer::Allocate(bytes) : *communicator_->Allocate(bytes);
  }

  // A byte of an order is one call; the end of orders is the end.
  void Live() {
    char order = 0;
    for (int call = 0; read(orders_, &order, 1) == 1; ++call) {
      const absl::Status status = Call(call);
      Report report{status.ok() ? Report::Kind::kDone : Report::Kind::kEnded, call,
                    static_cast<int>(status.code())};
      std::copy_n(status.message().data(),
                  std::min(status.message().size(), sizeof(report.message) - 1), report.message);
      Tell(report);
      if (!status.ok()) return;
    }
  }

 private:
  absl::Status Call(int number) {
    auto* const values = reinterpret_cast<float*>(memory_->data());
    const auto expected = static_cast<float>(number * kRanks);
    std::fill(values, values + kCount, static_cast<float>(number));
    CollectiveCall call;
    call.op = CollectiveOp::kAllReduce;
    call.name = "bucket";
    call.count = kCount;
    call.output = absl::MakeSpan(memory_->data(), memory_->size());
    call.input = call.output;
    Event done;
    absl::Status result;
    communicator_->Start(call, [&](absl::Status status) {
      result = std::move(status);
      done.Notify();
    });
    Tell({Report::Kind::kStarted, number});
    BlockingWaiter().Wait(done, absl::Minutes(2));
    if (!result.ok()) return result;
    const bool right = std::all_of(values, values + kCount, [&](float v) { return v == expected; });
    return right ? result : absl::DataLossError("a wrong sum");
  }

  void Tell(const Report& report) {
    if (write(reports_, &report, sizeof(report)) != sizeof(report)) _exit(3);
  }

  const int orders_;
  const int reports_;
  std::unique_ptr<ShmCommunicator> communicator_;
  std::shared_ptr<Buffer> memory_;  // shared with nobody; what Allocate gives
};

// A rank's process, seen from the test. Thread-compatible.
class RankProcess {
 public:
  RankProcess(int rank, const std::string& socket) {
    int orders[2], reports[2];
    EXPECT_EQ(pipe2(orders, O_CLOEXEC), 0);
    EXPECT_EQ(pipe2(reports, O_CLOEXEC), 0);
    pid_ = fork();
    if (pid_ == 0) {
      // Other ranks' orders must end with the test alone.
      for (int fd = 3; fd < 256; ++fd) {
        if (fd != orders[0] && fd != reports[1]) close(fd);
      }
      Rank(rank, socket, orders[0], reports[1]).Live();
      _exit(0);
    }
    close(orders[0]);
    close(reports[1]);
    orders_ = orders[1];
    reports_ = reports[0];
  }
  ~RankProcess() {
    close(orders_);
    Signal(SIGCONT);
    int status = 0;
    EXPECT_EQ(waitpid(pid_, &status, 0), pid_);
    EXPECT_TRUE(killed_ || (WIFEXITED(status) && WEXITSTATUS(status) == 0)) << status;
    close(reports_);
  }
  RankProcess(const RankProcess&) = delete;
  RankProcess& operator=(const RankProcess&) = delete;

  void Order() const { EXPECT_EQ(write(orders_, "c", 1), 1); }
  Report Next() const {
    Report report;
    EXPECT_EQ(read(reports_, &report, sizeof(report)), static_cast<ssize_t>(sizeof(report)));
    return report;
  }
  Report NextEnd() const {
    Report report = Next();
    if (report.kind == Report::Kind::kStarted) report = Next();
    return report;
  }
  void Signal(int number) const { kill(pid_, number); }
  void Kill() {
    killed_ = true;
    Signal(SIGKILL);
  }
  void AwaitStopped() const {
    const std::string path = absl::StrCat("/proc/", pid_, "/stat");
    while (true) {
      std::ifstream file(path);
      std::ostringstream text;
      text << file.rdbuf();
      if (text.str().find(") T ") != std::string::npos) return;
    }
  }

 private:
  pid_t pid_ = -1;
  int orders_ = -1;
  int reports_ = -1;
  bool killed_ = false;
};

std::vector<std::unique_ptr<RankProcess>> StartRanks() {
  const std::string socket = NewShmSocket();
  std::vector<std::unique_ptr<RankProcess>> ranks;
  for (int rank = 0; rank < kRanks; ++rank) {
    ranks.push_back(std::make_unique<RankProcess>(rank, socket));
  }
  for (int call = 0; call < 2; ++call) {
    for (const auto& rank : ranks) rank->Order();
    for (const auto& rank : ranks) {
      const Report report = rank->NextEnd();
      EXPECT_EQ(report.kind, Report::Kind::kDone) << report.message;
    }
  }
  return ranks;
}

void ExpectLost(const RankProcess& survivor, int lost) {
  Report report;
  do {
    report = survivor.NextEnd();
  } while (report.kind == Report::Kind::kDone);
  EXPECT_EQ(report.code, static_cast<int>(absl::StatusCode::kUnavailable)) << report.message;
  EXPECT_THAT(std::string(report.message),
              HasSubstr(absl::StrCat("group 'workers' of generation 1 was aborted: rank ", lost,
                                     " (worker:", 10 + lost, ") was lost")));
}

TEST(ShmProcesses, KilledRankEndsThoseWhoWaitForIt) {
  for (int lost = 0; lost < kRanks; ++lost) {
    auto ranks = StartRanks();
    for (int rank = 0; rank < kRanks; ++rank) {
      if (rank == lost) continue;
      ranks[static_cast<size_t>(rank)]->Order();
      EXPECT_EQ(ranks[static_cast<size_t>(rank)]->Next().kind, Report::Kind::kStarted);
    }
    ranks[static_cast<size_t>(lost)]->Kill();
    for (int rank = 0; rank < kRanks; ++rank) {
      if (rank != lost) ExpectLost(*ranks[static_cast<size_t>(rank)], lost);
    }
  }
}

TEST(ShmProcesses, RankKilledAtAnyMomentEndsTheOthersWithOneCause) {
  const uint64_t seed = TestSeed(7);
  SCOPED_TRACE(Replay("collective_processes_test", seed, "ShmProcesses.*"));
  SequenceRng random(seed);
  for (int turn = 0; turn < 9; ++turn) {
    auto ranks = StartRanks();
    const auto lost = static_cast<size_t>(turn % kRanks);
    constexpr int kCalls = 40;
    for (int call = 0; call < kCalls; ++call) {
      for (const auto& rank : ranks) rank->Order();
    }
    // Reports of the one that dies say how far it is.
    for (uint64_t left = random.Below(kCalls); left > 0; --left) ranks[lost]->Next();
    ranks[lost]->Kill();
    for (size_t rank = 0; rank < kRanks; ++rank) {
      if (rank != lost) ExpectLost(*ranks[rank], static_cast<int>(lost));
    }
  }
}

TEST(ShmProcesses, RankThatStandsForAWhileHoldsTheOthersUpAndNothingElse) {
  for (int stopped = 0; stopped < kRanks; ++stopped) {
    auto ranks = StartRanks();
    RankProcess& standing = *ranks[static_cast<size_t>(stopped)];
    standing.Signal(SIGSTOP);
    standing.AwaitStopped();
    for (const auto& rank : ranks) rank->Order();
    for (const auto& rank : ranks) {
      if (rank.get() == &standing) continue;
      EXPECT_EQ(rank->Next().kind, Report::Kind::kStarted);
    }
    poll(nullptr, 0, 300);  // the others look around several times, and find it alive
    standing.Signal(SIGCONT);
    for (const auto& rank : ranks) {
      const Report report = rank->NextEnd();
      EXPECT_EQ(report.kind, Report::Kind::kDone) << report.message;
    }
  }
}

}  // namespace
}  // namespace cohort

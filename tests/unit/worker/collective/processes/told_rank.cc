#include "tests/unit/worker/collective/processes/told_rank.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <map>
#include <memory>

#include "common/base/check.h"
#include "common/base/event.h"
#include "worker/collective/shm/shm_communicator.h"

namespace cohort {

namespace {

constexpr int kMinute = 60'000;  // milliseconds

RankReport ReportOf(RankReport::Kind kind, const absl::Status& status) {
  RankReport report;
  report.kind = kind;
  report.code = static_cast<int>(status.code());
  std::copy_n(status.message().data(),
              std::min(status.message().size(), sizeof(report.message) - 1), report.message);
  return report;
}

// The rank in its process. What stands or dies is the thread of its communicator.
class Rank {
 public:
  Rank(const std::vector<Work>& works, int orders, int reports)
      : works_(works), orders_(orders), reports_(reports) {}

  void Live() {
    RankOrder order;
    while (Next(order)) {
      if (order.what == RankOrder::What::kJoin) Join(order);
      if (order.what == RankOrder::What::kCall) Call(order);
    }
  }

 private:
  struct Memory {
    std::unique_ptr<GuardedMemory> input;
    std::unique_ptr<GuardedMemory> output;
  };

  bool Next(RankOrder& order) const {
    return read(orders_, &order, sizeof(order)) == sizeof(order);
  }
  void Tell(const RankReport& report) const {
    if (write(reports_, &report, sizeof(report)) != sizeof(report)) _exit(3);
  }

  void Join(const RankOrder& order) {
    memory_.clear();
    communicator_.reset();
    ShmOptions options;
    options.rank = order.rank;
    options.size = order.size;
    options.name = {"workers", order.generation};
    options.socket = order.socket;
    options.arena_bytes = size_t{64} << 20;
    for (int i = 0; i < order.size; ++i) {
      options.members.emplace_back();
      options.members.back().set_role("worker");
      options.members.back().set_index(10 + i);
    }
    options.join_timeout = absl::Milliseconds(order.join_timeout_ms);
    options.at_joining = [left = order.dies_before_message]() mutable {
      if (left-- == 0) raise(SIGKILL);
    };
    options.at_barrier = [this](BarrierStep step) { AtBarrier(step); };
    Event joined;
    absl::Status status;
    communicator_ = std::make_unique<ShmCommunicator>(options, [&](absl::Status result) {
      status = std::move(result);
      joined.Notify();
    });
    BlockingWaiter().Wait(joined, absl::Minutes(1));
    Tell(ReportOf(RankReport::Kind::kJoined, status));
  }

  void Call(const RankOrder& order) {
    order_ = order;  // no call is under way, so the communicator's thread does not look
    passed_ = 0;
    absl::Status status;
    int complete = 0;
    while (complete < order.calls) {
      status = CallOnce(static_cast<size_t>(order.first_work + complete % order.works));
      if (!status.ok()) break;
      ++complete;
    }
    RankReport report = ReportOf(RankReport::Kind::kEnded, status);
    report.complete = complete;
    report.barriers = passed_;
    Tell(report);
  }

  absl::Status CallOnce(size_t number) {
    const auto rank = static_cast<size_t>(communicator_->rank());
    const Work& work = works_[number];
    CollectiveCall call = work.calls[rank];
    Memory& memory = MemoryFor(number);
    const absl::Span<std::byte> output = memory.output->span();
    std::fill(output.begin(), output.end(), std::byte{0xee});
    call.input = memory.input->span();
    call.output = output;
    Event done;
    absl::Status status;
    communicator_->Start(call, [&](absl::Status result) {
      status = std::move(result);
      done.Notify();
    });
    BlockingWaiter().Wait(done, absl::Hours(1));
    if (!memory.input->BordersHold() || !memory.output->BordersHold()) {
      return absl::DataLossError("something was written beside the output");
    }
    if (status.ok() && !SameBytes(memory.output->Content(), work.wanted[rank])) {
      return absl::DataLossError("the call is done and its result is wrong");
    }
    return status;
  }

  // Rank 0's is not shared.
  Memory& MemoryFor(size_t number) {
    Memory& memory = memory_[number];
    if (memory.input != nullptr) return memory;
    const auto rank = static_cast<size_t>(communicator_->rank());
    const Work& work = works_[number];
    const auto make = [&](size_t bytes) {
      return std::make_unique<GuardedMemory>(*communicator_, bytes, rank != 0);
    };
    memory.input = make(work.inputs[rank].size());
    memory.output = make(work.wanted[rank].size());
    std::copy(work.inputs[rank].begin(), work.inputs[rank].end(), memory.input->span().begin());
    return memory;
  }

  void AtBarrier(BarrierStep step) {
    const bool here = step == order_.step && passed_ == order_.barrier;
    if (here && order_.then == RankOrder::Then::kDie) raise(SIGKILL);
    if (here && order_.then == RankOrder::Then::kStand) {
      order_.then = RankOrder::Then::kNothing;
      Tell(ReportOf(RankReport::Kind::kStands, absl::OkStatus()));
      RankOrder go_on;
      if (!Next(go_on)) _exit(0);  // the main thread waits for the call, so it reads nothing
    }
    if (step == BarrierStep::kPassed) ++passed_;
  }

  const std::vector<Work>& works_;
  const int orders_;
  const int reports_;
  RankOrder order_;  // the main thread's between calls, the communicator's in them
  int passed_ = 0;   // likewise
  std::unique_ptr<ShmCommunicator> communicator_;
  std::map<size_t, Memory> memory_;  // by work
};

void CloseRange(int first, int last) {
  if (first <= last) close_range(static_cast<unsigned>(first), static_cast<unsigned>(last), 0);
}

}  // namespace

Work MakeWork(std::vector<CollectiveCall> calls) {
  Work work;
  work.inputs = RandomInputs(calls, 7);
  work.wanted = Wanted(calls, work.inputs);
  work.calls = std::move(calls);
  return work;
}

ToldRank::ToldRank(const std::vector<Work>& works) {
  int orders[2], reports[2];
  COHORT_CHECK(pipe2(orders, O_CLOEXEC) == 0 && pipe2(reports, O_CLOEXEC) == 0,
               "descriptors for a rank");
  pid_ = fork();
  if (pid_ == 0) {
    // Other ranks' orders must end with the test alone.
    const auto [first, second] = std::minmax(orders[0], reports[1]);
    CloseRange(3, first - 1);
    CloseRange(first + 1, second - 1);
    CloseRange(second + 1, INT_MAX);
    Rank(works, orders[0], reports[1]).Live();
    _exit(0);
  }
  close(orders[0]);
  close(reports[1]);
  orders_ = UniqueFd(orders[1]);
  reports_ = UniqueFd(reports[0]);
}

ToldRank::~ToldRank() {
  orders_ = UniqueFd();
  if (dead_) return;
  int status = 0;
  if (testing::Test::HasFailure()) {  // it may hang, or have died as it should not
    kill(pid_, SIGKILL);
    waitpid(pid_, &status, 0);
    return;
  }
  EXPECT_EQ(waitpid(pid_, &status, 0), pid_);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

void ToldRank::Tell(const RankOrder& order) const {
  EXPECT_EQ(write(orders_.get(), &order, sizeof(order)), static_cast<ssize_t>(sizeof(order)));
}

RankReport ToldRank::Hear() {
  RankReport report;
  pollfd ready = {reports_.get(), POLLIN, 0};
  if (poll(&ready, 1, kMinute) == 1 &&
      read(reports_.get(), &report, sizeof(report)) == static_cast<ssize_t>(sizeof(report))) {
    return report;
  }
  ADD_FAILURE() << "a rank hangs, or has ended";
  Kill();
  return {};
}

void ToldRank::Kill() {
  kill(pid_, SIGKILL);
  ExpectDeath();
}

void ToldRank::ExpectDeath() {
  if (dead_) return;
  int status = 0;
  EXPECT_EQ(waitpid(pid_, &status, 0), pid_);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << status;
  dead_ = true;
}

}  // namespace cohort

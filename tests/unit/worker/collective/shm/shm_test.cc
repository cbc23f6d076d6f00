#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/wire/error_detail.h"
#include "tests/unit/worker/collective/conformance/conformance.h"
#include "tests/unit/worker/collective/shm/shm_groups.h"
#include "worker/collective/shm/shm_segment.h"

namespace cohort {
namespace {

using testing::HasSubstr;

Implementation Shm() {
  return {"shared memory", [](int size) { return std::make_unique<ShmGroup>(size); }};
}

TEST(ShmCommunicator, Reductions) { CheckReductions(Shm()); }
TEST(ShmCommunicator, Long) { CheckLong(Shm()); }
TEST(ShmCommunicator, Roots) { CheckRoots(Shm()); }
TEST(ShmCommunicator, UnequalParts) { CheckUnequalParts(Shm()); }
TEST(ShmCommunicator, Barrier) { CheckBarrier(Shm()); }
TEST(ShmCommunicator, ManyAtOnce) { CheckManyAtOnce(Shm()); }
TEST(ShmCommunicator, SpecialValues) { CheckSpecialValues(Shm()); }
TEST(ShmCommunicator, Mismatch) { CheckMismatch(Shm()); }
TEST(ShmCommunicator, RefusedCalls) { CheckRefusedCalls(Shm()); }
TEST(ShmCommunicator, Abort) { CheckAbort(Shm()); }
TEST(ShmCommunicator, FailureAfterSomeCalls) {
  Implementation few = Shm();
  few.many_ranks = false;
  CheckFailureAfterSomeCalls(few);
}
TEST(ShmCommunicator, AbortsTogether) { CheckAbortsTogether(Shm()); }
TEST(ShmCommunicator, Timeout) { CheckTimeout(Shm()); }

// Some ranks' memory is shared and that of others is not: all work in pieces then.
TEST(ShmCommunicator, MemoryOfSomeRanksIsNotShared) {
  constexpr int kSize = 3;
  constexpr int64_t kCount = 5'000'003;  // five pieces
  ShmGroup group(kSize);
  for (int shared = 0; shared <= kSize; ++shared) {
    std::vector<std::shared_ptr<Buffer>> memory;
    std::vector<Event> done(kSize);
    for (int rank = 0; rank < kSize; ++rank) {
      const size_t bytes = kCount * sizeof(int32_t);
      memory.push_back(rank < shared ? *group.Of(rank).Allocate(bytes) : Buffer::Allocate(bytes));
      auto* const values = reinterpret_cast<int32_t*>(memory.back()->data());
      for (int64_t i = 0; i < kCount; ++i) values[i] = static_cast<int32_t>(i * (rank + 1));
      CollectiveCall call;
      call.op = CollectiveOp::kAllReduce;
      call.dtype = DType::kInt32;
      call.count = kCount;
      call.output = absl::MakeSpan(memory.back()->data(), bytes);
      call.input = call.output;
      group.Of(rank).Start(call, [&done, rank](const absl::Status& status) {
        EXPECT_TRUE(status.ok()) << status;
        done[static_cast<size_t>(rank)].Notify();
      });
    }
    for (const Event& one : done) ASSERT_TRUE(group.waiter().Wait(one, absl::Minutes(1)));
    for (const auto& buffer : memory) {
      const auto* const values = reinterpret_cast<const int32_t*>(buffer->data());
      int64_t wrong = 0;
      for (int64_t i = 0; i < kCount; ++i) wrong += values[i] != static_cast<int32_t>(i * 6);
      EXPECT_EQ(wrong, 0) << shared << " ranks with shared memory";
    }
  }
}

// A process that was stopped in the middle of a call is busy until it goes on. An hour would be
// waited for it otherwise.
TEST(ShmCommunicator, WhoIsGivenUpIsNotWaitedFor) {
  constexpr int kSize = 3, kStopped = 1;
  const std::string socket = NewShmSocket();
  std::vector<proto::TaskRef> members(kSize);
  for (int rank = 0; rank < kSize; ++rank) {
    members[static_cast<size_t>(rank)].set_role("worker");
    members[static_cast<size_t>(rank)].set_index(4 + rank);
  }
  BlockingWaiter waiter;
  Event stopped, goes_on;
  std::vector<Joined> joined(kSize);
  std::vector<Event> done(kSize);
  std::vector<absl::Status> ends(kSize);
  std::vector<std::shared_ptr<Buffer>> memory;
  std::vector<std::unique_ptr<ShmCommunicator>> ranks;
  for (int rank = 0; rank < kSize; ++rank) {
    ShmOptions options = ShmOptionsOf(rank, kSize, socket);
    options.members = members;
    options.quiet_wait = absl::Hours(1);
    if (rank == kStopped) {
      options.at_barrier = [&](BarrierStep) {
        stopped.Notify();
        BlockingWaiter().Wait(goes_on, absl::Minutes(5));
      };
    }
    ranks.push_back(MakeShmRank(options, joined[static_cast<size_t>(rank)]));
  }
  for (Joined& one : joined) ASSERT_TRUE(waiter.Wait(one.event, absl::Minutes(1)));
  for (size_t rank = 0; rank < kSize; ++rank) {
    memory.push_back(*ranks[rank]->Allocate(4096));
    CollectiveCall call;
    call.op = CollectiveOp::kAllReduce;
    call.count = 1024;
    call.output = absl::MakeSpan(memory.back()->data(), 4096);
    call.input = call.output;
    ranks[rank]->Start(call, [&done, &ends, rank](const absl::Status& status) {
      ends[rank] = status;
      done[rank].Notify();
    });
  }
  ASSERT_TRUE(waiter.Wait(stopped, absl::Minutes(1)));
  proto::ErrorDetail detail;
  detail.set_error_class(proto::WORKER_LOST);
  detail.set_given_up(true);
  *detail.mutable_origin() = members[kStopped];
  ranks[0]->Abort(WithDetail(absl::UnavailableError("worker:5 did not beat for 5s"), detail));
  EXPECT_TRUE(waiter.Wait(done[0], absl::Minutes(1)));
  EXPECT_TRUE(waiter.Wait(done[2], absl::Minutes(1)));
  EXPECT_FALSE(done[kStopped].HasHappened());
  goes_on.Notify();
  for (const Event& one : done) ASSERT_TRUE(waiter.Wait(one, absl::Minutes(1)));
  for (const size_t rank : {0, 2}) {
    EXPECT_THAT(std::string(ends[rank].message()), HasSubstr("worker:5 did not beat for 5s"));
  }
}

// It is told on the way to the timeout, which ends the wait of the test, too.
TEST(ShmCommunicator, StallIsLoggedWithWhoIsMissing) {
  constexpr int kSize = 3;
  const std::string socket = NewShmSocket();
  std::vector<Joined> joined(kSize);
  std::vector<std::unique_ptr<ShmCommunicator>> ranks;
  BlockingWaiter waiter;
  for (int rank = 0; rank < kSize; ++rank) {
    ShmOptions options = ShmOptionsOf(rank, kSize, socket);
    options.stall_after = absl::Milliseconds(1);
    ranks.push_back(MakeShmRank(options, joined[static_cast<size_t>(rank)]));
  }
  for (Joined& one : joined) ASSERT_TRUE(waiter.Wait(one.event, absl::Minutes(1)));
  testing::internal::CaptureStderr();
  std::vector<Event> done(2);
  for (size_t rank = 0; rank < 2; ++rank) {
    CollectiveCall call;
    call.name = "step";
    call.timeout = absl::Milliseconds(200);
    ranks[rank]->Start(call, [&done, rank](const absl::Status& status) {
      EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded) << status;
      done[rank].Notify();
    });
  }
  for (const Event& one : done) ASSERT_TRUE(waiter.Wait(one, absl::Minutes(1)));
  const std::string log = testing::internal::GetCapturedStderr();
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_THAT(log, HasSubstr(absl::StrCat("event=collective_stall group=replicas generation=3 "
                                            "rank=",
                                            rank, " call=\"0, barrier 'step'\"")));
  }
  EXPECT_THAT(log, HasSubstr("not_started_by=\"rank 2 (last done there: no call)\""));
}

TEST(ShmCommunicator, NamesTheRankThatDidNotJoin) {
  const std::string socket = NewShmSocket();
  Joined first, second;
  ShmOptions options = ShmOptionsOf(0, 3, socket);
  options.join_timeout = absl::Milliseconds(300);
  const auto rank0 = MakeShmRank(options, first);
  const auto rank1 = MakeShmRank(ShmOptionsOf(1, 3, socket), second);
  BlockingWaiter waiter;
  ASSERT_TRUE(waiter.Wait(first.event, absl::Minutes(1)));
  ASSERT_TRUE(waiter.Wait(second.event, absl::Minutes(1)));
  EXPECT_EQ(first.status.code(), absl::StatusCode::kDeadlineExceeded) << first.status;
  EXPECT_THAT(std::string(first.status.message()), HasSubstr("waiting for rank 2"));
  EXPECT_EQ(second.status.code(), absl::StatusCode::kUnavailable) << second.status;
  Event done;
  rank1->Start(CollectiveCall{}, [&done](const absl::Status& status) {
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
    done.Notify();
  });
  EXPECT_TRUE(waiter.Wait(done, absl::Minutes(1)));
}

TEST(ShmCommunicator, RankOfAnotherGenerationStaysOutside) {
  const std::string socket = NewShmSocket();
  Joined old, first, second;
  ShmOptions options = ShmOptionsOf(1, 2, socket);
  options.name.generation = 2;
  const auto late = MakeShmRank(options, old);
  const auto rank0 = MakeShmRank(ShmOptionsOf(0, 2, socket), first);
  BlockingWaiter waiter;
  ASSERT_TRUE(waiter.Wait(old.event, absl::Minutes(1)));
  EXPECT_EQ(old.status.code(), absl::StatusCode::kUnavailable) << old.status;
  const auto rank1 = MakeShmRank(ShmOptionsOf(1, 2, socket), second);
  ASSERT_TRUE(waiter.Wait(first.event, absl::Minutes(1)));
  ASSERT_TRUE(waiter.Wait(second.event, absl::Minutes(1)));
  EXPECT_TRUE(first.status.ok()) << first.status;
  EXPECT_TRUE(second.status.ok()) << second.status;
}

TEST(ShmCommunicator, EndsWhileItWaitsForOthers) {
  Joined joined;
  MakeShmRank(ShmOptionsOf(1, 2, NewShmSocket()), joined).reset();
  EXPECT_TRUE(joined.event.HasHappened());
  EXPECT_EQ(joined.status.code(), absl::StatusCode::kCancelled) << joined.status;
}

TEST(ShmCommunicator, RankThatLeavesEndsTheGroupForThoseWhoWait) {
  const std::string socket = NewShmSocket();
  Joined first, second;
  const auto rank0 = MakeShmRank(ShmOptionsOf(0, 2, socket), first);
  auto rank1 = MakeShmRank(ShmOptionsOf(1, 2, socket), second);
  BlockingWaiter waiter;
  ASSERT_TRUE(waiter.Wait(first.event, absl::Minutes(1)));
  ASSERT_TRUE(waiter.Wait(second.event, absl::Minutes(1)));
  Event done;
  rank0->Start(CollectiveCall{}, [&done](const absl::Status& status) {
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("rank 1 left the group; last done there: no call"));
    done.Notify();
  });
  rank1.reset();
  EXPECT_TRUE(waiter.Wait(done, absl::Minutes(1)));
}

TEST(ShmCommunicator, MemoryOutlivesTheGroupAndGoesBack) {
  const std::string socket = NewShmSocket();
  Joined joined;
  auto rank0 = MakeShmRank(ShmOptionsOf(0, 1, socket), joined);
  ASSERT_TRUE(BlockingWaiter().Wait(joined.event, absl::Minutes(1)));
  auto buffer = *rank0->Allocate(100);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(buffer->data()) % 64, 0u);
  EXPECT_EQ(rank0->Allocate(kShmArenaBytes).status().code(), absl::StatusCode::kResourceExhausted);
  const std::byte* const place = buffer->data();
  buffer = nullptr;
  buffer = *rank0->Allocate(5000);
  EXPECT_EQ(buffer->data(), place) << "what was freed is used again";
  rank0.reset();
  std::memset(buffer->data(), 1, buffer->size());
}

ShmPlan SmallPlan() {
  ShmPlan plan;
  plan.ranks = 2;
  plan.arena_bytes = size_t{16} << 20;
  plan.piece_bytes = size_t{1} << 20;
  return plan;
}

int64_t BlocksOf(const ShmSegment& segment) {
  struct stat info = {};
  EXPECT_EQ(fstat(segment.fd(), &info), 0);
  return info.st_blocks;
}

TEST(ShmArena, GivesPagesBackToTheSystem) {
  std::shared_ptr<ShmSegment> segment = *ShmSegment::Make(SmallPlan());
  const auto arena = std::make_shared<ShmArena>(segment, 1);
  const int64_t before = BlocksOf(*segment);
  auto one = *arena->Allocate(size_t{1} << 20);
  auto two = *arena->Allocate(size_t{1} << 20);
  std::memset(one->data(), 1, one->size());
  EXPECT_GE(BlocksOf(*segment), before + 2048);
  one = nullptr;
  two = nullptr;
  EXPECT_EQ(BlocksOf(*segment), before);
  // What lay beside each other is one place again.
  EXPECT_TRUE(arena->Allocate((size_t{16} << 20) - kOwnBytes).ok());
}

TEST(ShmSegment, DetachedMemoryKeepsItsContentAndNothingElse) {
  std::shared_ptr<ShmSegment> mine = *ShmSegment::Make(SmallPlan());
  std::shared_ptr<ShmSegment> theirs = *ShmSegment::Map(UniqueFd(dup(mine->fd())));
  const auto arena = std::make_shared<ShmArena>(mine, 0);
  const auto buffer = *arena->Allocate(10000);
  std::memset(buffer->data(), 1, buffer->size());
  const size_t offset = *arena->OffsetOf({buffer->data(), 1});
  mine->Detach(absl::MakeSpan(buffer->data(), buffer->size()));
  std::memset(theirs->arena(0).data() + offset, 2, 10000);
  for (size_t i = 0; i < buffer->size(); ++i) ASSERT_EQ(buffer->data()[i], std::byte{1}) << i;
}

TEST(ShmSegment, RefusesWhatIsNoGroupsMemory) {
  EXPECT_EQ(ShmSegment::Map(UniqueFd(memfd_create("unsealed", MFD_CLOEXEC))).status().code(),
            absl::StatusCode::kInvalidArgument);
  UniqueFd zeros(memfd_create("zeros", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(ftruncate(zeros.get(), off_t{64} << 20), 0);
  ASSERT_EQ(fcntl(zeros.get(), F_ADD_SEALS, F_SEAL_SHRINK), 0);
  const auto mapped = ShmSegment::Map(std::move(zeros));
  EXPECT_THAT(std::string(mapped.status().message()), HasSubstr("not laid out as a group's"));
}

}  // namespace
}  // namespace cohort

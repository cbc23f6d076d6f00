#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/base/event.h"
#include "common/wire/inprocess_transport.h"
#include "common/wire/route/joined_transport.h"
#include "tests/unit/worker/collective/nccl/nccl_groups.h"
#include "worker/collective/nccl/nccl_library.h"
#include "worker/gang/form_group.h"

namespace cohort {
namespace {

// Workers of one process. Belongs to the thread of the test.
class FormedNcclRanks {
 public:
  explicit FormedNcclRanks(const std::vector<absl::StatusOr<const NcclTable*>>& tables)
      : groups_(tables.size()) {
    std::vector<std::string> addresses;
    for (size_t rank = 0; rank < tables.size(); ++rank) {
      routers_.push_back(std::make_shared<FrameRouter>());
      servers_.push_back(*transport_.Listen("local:0", {routers_.back()->MakeService()}));
      addresses.push_back(servers_.back()->address());
    }
    std::vector<Event> formed(tables.size());
    for (size_t rank = 0; rank < tables.size(); ++rank) {
      LaneGroupOptions group;
      group.name = {"workers", 1};
      group.rank = static_cast<int>(rank);
      group.size = static_cast<int>(tables.size());
      FormNcclGroup({clock_, pool_, transport_, routers_[rank]},
                    {group, addresses, static_cast<int>(rank), tables[rank]},
                    [this, &formed, rank](FormedGroup one) {
                      groups_[rank] = std::move(one);
                      formed[rank].Notify();
                    });
    }
    for (const Event& one : formed) EXPECT_TRUE(waiter_.Wait(one, absl::Minutes(1)));
  }
  ~FormedNcclRanks() {
    groups_.clear();
    servers_.clear();
  }

  const FormedGroup& Group(size_t rank) { return groups_[rank]; }
  // What the ranks' sum of 1 each ends with, and the sum where it does well.
  std::vector<absl::StatusOr<int64_t>> SumOfOnes() {
    std::vector<int64_t> values(groups_.size(), 1);
    std::vector<absl::StatusOr<int64_t>> ends(groups_.size(), absl::UnknownError(""));
    std::vector<Event> done(groups_.size());
    for (size_t rank = 0; rank < groups_.size(); ++rank) {
      CollectiveCall call;
      call.op = CollectiveOp::kAllReduce;
      call.dtype = DType::kInt64;
      call.count = 1;
      call.output = absl::MakeSpan(reinterpret_cast<std::byte*>(&values[rank]), sizeof(int64_t));
      call.input = call.output;
      groups_[rank].communicator->Start(call, [&, rank](const absl::Status& status) {
        ends[rank] = status.ok() ? absl::StatusOr<int64_t>(values[rank]) : status;
        done[rank].Notify();
      });
    }
    for (const Event& one : done) EXPECT_TRUE(waiter_.Wait(one, absl::Minutes(1)));
    return ends;
  }

 private:
  BlockingWaiter waiter_;
  RealClock clock_;
  ThreadPool pool_{{"ranks", 2}};
  JoinedTransport transport_{std::make_unique<InProcessTransport>(clock_, pool_)};
  std::vector<std::shared_ptr<FrameRouter>> routers_;
  std::vector<std::unique_ptr<Server>> servers_;
  std::vector<FormedGroup> groups_;
};

TEST(FormNcclGroup, RanksWithGpusSumOverNccl) {
  FakeNccl fake(2);
  FormedNcclRanks ranks({&fake.table(), &fake.table()});
  EXPECT_EQ(ranks.Group(1).how, "NCCL, gpu:1");
  for (const auto& end : ranks.SumOfOnes()) {
    ASSERT_TRUE(end.ok()) << end.status();
    EXPECT_EQ(*end, 2);
  }
  EXPECT_EQ(fake.counters().groups, 2);
  EXPECT_EQ(ranks.Group(0).recorder->LastDone(), "call 2, all-reduce");
}

TEST(FormNcclGroup, WhereOneRankCannotAllSayWhy) {
  FakeNccl fake(2);
  FormedNcclRanks ranks({&fake.table(), LoadNccl("/nowhere/libcohort_nccl.so")});
  for (const size_t rank : {0, 1}) {
    EXPECT_THAT(ranks.Group(rank).how, testing::StartsWith("NCCL, not usable: group 'workers'"));
  }
  for (const auto& end : ranks.SumOfOnes()) {
    EXPECT_EQ(end.status().code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(end.status().message()),
                testing::HasSubstr("rank 1: NCCL is not available"));
  }
}

// Rank 0 of two; rank 1 never comes.
class LoneRank {
 public:
  LoneRank(FakeNccl& fake, int threads) : fake_(fake), pool_({"ranks", threads}) {}

  std::shared_ptr<FormingGroup> Form(absl::AnyInvocable<void(FormedGroup)> formed) {
    LaneGroupOptions group;
    group.name = {"workers", 1};
    group.size = 2;
    return FormNcclGroup({clock_, pool_, transport_, router_},
                         {group, {server_->address(), server_->address()}, 0, &fake_.table()},
                         std::move(formed));
  }
  Executor& executor() { return pool_; }

 private:
  FakeNccl& fake_;
  RealClock clock_;
  ThreadPool pool_;
  InProcessTransport transport_{clock_, pool_};
  const std::shared_ptr<FrameRouter> router_ = std::make_shared<FrameRouter>();
  const std::unique_ptr<Server> server_ = *transport_.Listen("local:0", {router_->MakeService()});
};

// A worker may end while its group forms: no thread of the group may be left then.
TEST(FormNcclGroup, AGroupThatIsGivenUpWaitsForNobody) {
  FakeNccl fake(2);
  absl::Status end;
  {
    LoneRank rank(fake, 2);
    FormedGroup formed;
    int times = 0;
    const auto forming = rank.Form([&](FormedGroup one) {
      formed = std::move(one);
      ++times;
    });
    EXPECT_EQ(times, 0) << "rank 1 does not come";
    forming->GiveUp(absl::CancelledError("the worker stops"));
    ASSERT_EQ(times, 1) << "inside GiveUp";
    forming->GiveUp(absl::CancelledError("again"));
    EXPECT_EQ(times, 1);
    Event done;
    formed.communicator->Start({}, [&](const absl::Status& status) {
      end = status;
      done.Notify();
    });
    ASSERT_TRUE(BlockingWaiter().Wait(done, absl::Minutes(1)));
    formed.communicator.reset();
  }
  EXPECT_THAT(std::string(end.message()), testing::HasSubstr("the worker stops"));
  EXPECT_EQ(fake.counters().contexts, 0);
}

// The executor brings the control group's answers, and cannot do so meanwhile.
TEST(FormNcclGroup, AGroupThatIsGivenUpMayEndOnTheOnlyThread) {
  FakeNccl fake(2);
  {
    LoneRank rank(fake, 1);
    Event ended;
    rank.executor().Run([&] {
      rank.Form([](FormedGroup one) { one.communicator.reset(); })
          ->GiveUp(absl::CancelledError("the worker stops"));
      ended.Notify();
    });
    ASSERT_TRUE(BlockingWaiter().Wait(ended, absl::Minutes(1)));
  }
  EXPECT_EQ(fake.counters().contexts, 0);
}

}  // namespace
}  // namespace cohort

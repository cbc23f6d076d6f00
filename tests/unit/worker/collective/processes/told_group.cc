#include "tests/unit/worker/collective/processes/told_group.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "worker/collective/shm/shm_communicator.h"

namespace cohort {

namespace {

// Parts differ, and one is empty.
int64_t PartOf(int64_t count, int size, int rank) { return count / size * 2 * rank / size; }

}  // namespace

Work WorkOf(CollectiveOp op, int size, int64_t count) {
  CollectiveCall call;
  call.op = op;
  call.name = absl::StrCat(OpName(op), " of ", count);
  call.root = size - 1;
  if (op == CollectiveOp::kAllReduce || op == CollectiveOp::kReduce ||
      op == CollectiveOp::kBroadcast) {
    call.count = count;
  }
  if (op == CollectiveOp::kReduceScatter || op == CollectiveOp::kAllGather) {
    for (int rank = 0; rank < size; ++rank) call.counts.push_back(PartOf(count, size, rank));
  }
  auto calls = CallsOf(size, call);
  for (int from = 0; op == CollectiveOp::kAllToAll && from < size; ++from) {
    for (int to = 0; to < size; ++to) {
      const int64_t part = PartOf(count, 2 * size, from + to);
      calls[static_cast<size_t>(from)].counts.push_back(part);
      calls[static_cast<size_t>(to)].receive_counts.push_back(part);
    }
  }
  return MakeWork(std::move(calls));
}

ToldGroup::ToldGroup(int size, const std::vector<Work>& works) : works_(works) {
  for (int rank = 0; rank < size; ++rank) ranks_.push_back(std::make_unique<ToldRank>(works_));
}

std::vector<int> ToldGroup::AllBut(const std::set<int>& ranks) const {
  std::vector<int> others;
  for (int rank = 0; rank < size(); ++rank) {
    if (ranks.count(rank) == 0) others.push_back(rank);
  }
  return others;
}

std::vector<RankOrder> ToldGroup::OrdersToJoin() {
  const std::string socket = NewShmSocket();
  RankOrder order;
  order.what = RankOrder::What::kJoin;
  order.size = size();
  order.generation = ++generation_;
  COHORT_CHECK(socket.size() < sizeof(order.socket), "room for the name of a socket");
  std::copy(socket.begin(), socket.end(), order.socket);
  std::vector<RankOrder> orders;
  for (; order.rank < size(); ++order.rank) orders.push_back(order);
  return orders;
}

void ToldGroup::TellToJoin() {
  for (const RankOrder& order : OrdersToJoin()) Of(order.rank).Tell(order);
}

void ToldGroup::ExpectJoined() {
  for (const auto& rank : ranks_) {
    const RankReport report = rank->Hear();
    ASSERT_EQ(report.kind, RankReport::Kind::kJoined);
    ASSERT_EQ(report.code, 0) << report.message;
  }
}

void ToldGroup::TellAll(const RankOrder& order) {
  for (const auto& rank : ranks_) rank->Tell(order);
}

int ToldGroup::ExpectComplete() {
  std::set<int> barriers;
  for (const auto& rank : ranks_) {
    const RankReport report = rank->Hear();
    EXPECT_EQ(report.kind, RankReport::Kind::kEnded);
    EXPECT_EQ(report.code, 0) << report.message;
    barriers.insert(report.barriers);
  }
  EXPECT_EQ(barriers.size(), 1u);
  return *barriers.begin();
}

std::string ToldGroup::ExpectLost(const std::vector<int>& ranks, int lost, int complete) {
  std::set<std::string> causes;
  for (const int rank : ranks) {
    const RankReport report = Of(rank).Hear();
    EXPECT_EQ(report.kind, RankReport::Kind::kEnded);
    EXPECT_EQ(report.complete, complete) << "rank " << rank;
    EXPECT_EQ(report.code, static_cast<int>(absl::StatusCode::kUnavailable)) << report.message;
    causes.insert(report.message);
  }
  EXPECT_EQ(causes.size(), 1u) << testing::PrintToString(causes);
  EXPECT_THAT(*causes.begin(),
              testing::HasSubstr(absl::StrCat("group 'workers' of generation ", generation_,
                                              " was aborted: rank ", lost, " (worker:", 10 + lost,
                                              ") was lost: its process ended")));
  return *causes.begin();
}

const char* NameOf(BarrierStep step) {
  switch (step) {
    case BarrierStep::kReaches:
      return "reaching";
    case BarrierStep::kArrived:
      return "having arrived at";
    case BarrierStep::kSleeps:
      return "falling asleep at";
    case BarrierStep::kPassed:
      return "having passed";
  }
  return "?";
}

}  // namespace cohort

#include "coordinator/cluster/worker_roster.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cohort {
namespace {

using testing::HasSubstr;

TaskId Worker(int index) { return {Role::kWorker, index}; }

WorkerRoster Roster(WorkerLimits limits = {}) {
  ClusterSpec spec;
  spec.Add({Role::kChief, 0}, "c:1");
  spec.Add({Role::kPs, 0}, "p:1");
  spec.Add({Role::kEvaluator, 0}, "e:1");
  spec.Add(Worker(2), "w2:1");
  spec.Add(Worker(5), "w5:1");
  return WorkerRoster(spec, limits);
}

TEST(WorkerRoster, PositionsStayAndTheLowestFreeOneIsGiven) {
  WorkerRoster roster = Roster();
  EXPECT_EQ(roster.members().size(), 3u) << "neither coordinator nor evaluator";
  EXPECT_EQ(roster.Find(Worker(2))->position, 0);
  EXPECT_EQ(roster.Find(Worker(5))->position, 1);
  ASSERT_TRUE(roster.Add(Worker(0), "w0:1").ok());
  EXPECT_EQ(roster.Find(Worker(0))->position, 2) << "not by index: the others keep theirs";
  ASSERT_TRUE(roster.Remove(Worker(2)).ok());
  EXPECT_EQ(roster.Find(Worker(5))->position, 1);
  ASSERT_TRUE(roster.Add(Worker(9), "w9:1").ok());
  EXPECT_EQ(roster.Find(Worker(9))->position, 0);
  EXPECT_TRUE(roster.Find(Worker(9))->added);
  EXPECT_FALSE(roster.Find(Worker(5))->added);
}

TEST(WorkerRoster, RefusesWhatIsThereOrNoWorker) {
  WorkerRoster roster = Roster();
  EXPECT_EQ(roster.Add(Worker(2), "x:1").code(), absl::StatusCode::kAlreadyExists);
  const absl::Status address = roster.Add(Worker(3), "w5:1");
  EXPECT_EQ(address.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(std::string(address.message()), HasSubstr("worker:5"));
  EXPECT_EQ(roster.Add({Role::kPs, 1}, "x:1").code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(roster.Remove({Role::kPs, 0}).code(), absl::StatusCode::kInvalidArgument);
  const absl::Status unknown = roster.Remove(Worker(7));
  EXPECT_EQ(unknown.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(unknown.message()), HasSubstr("they are worker:2, worker:5"));
  EXPECT_EQ(roster.members().size(), 3u);
}

TEST(WorkerRoster, SaysWhoseLimitItIs) {
  WorkerRoster roster = Roster({.min = 1, .max = 2, .max_of_strategy = "multi_worker_mirrored"});
  const absl::Status many = roster.Add(Worker(0), "");
  EXPECT_EQ(many.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(many.message()),
              HasSubstr("worker:0 cannot be added: the job has 2 workers and strategy.type "
                        "multi_worker_mirrored trains on at most the 2 that it began with"));
  ASSERT_TRUE(roster.Remove(Worker(2)).ok());
  EXPECT_TRUE(roster.Add(Worker(0), "").ok()) << "another has left";
}

TEST(WorkerRoster, KeepsToItsLimits) {
  WorkerRoster roster = Roster({.min = 2, .max = 3});
  const absl::Status few = roster.Remove(Worker(2));
  EXPECT_EQ(few.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(few.message()), HasSubstr("cluster.min_workers is 2"));
  ASSERT_TRUE(roster.Add(Worker(0), "").ok());
  const absl::Status many = roster.Add(Worker(1), "");
  EXPECT_EQ(many.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(many.message()), HasSubstr("cluster.max_workers is 3"));
  EXPECT_TRUE(roster.Remove(Worker(2)).ok());
}

}  // namespace
}  // namespace cohort

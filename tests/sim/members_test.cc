// Workers come and go while closures run, in simulated time.

#include <gmock/gmock.h>

#include <optional>

#include "common/cluster/address.h"
#include "coordinator/api/coordinator_parts.h"
#include "coordinator/members/ctl_service.h"
#include "coordinator/members/flight_records.h"
#include "tests/sim/members_sim.h"
#include "tests/sim/standstill.h"

namespace cohort {
namespace {

using testing::HasSubstr;

TEST_F(MembersSim, AWorkerThatJoinsInTheMiddleGetsProgramsAndClosures) {
  Begin(1);
  Count(1000);
  cluster->sim().RunFor(absl::Milliseconds(50));
  const uint64_t before = coordinator->stats().done;
  ASSERT_GT(before, 0u);
  ASSERT_LT(before, 500u) << "it is to be the middle";
  const auto added = Add(cluster->tasks().AddWorker(7));
  ASSERT_TRUE(added.ok()) << added.status();
  EXPECT_EQ(added->task, Worker(7));
  EXPECT_FALSE(added->was_member);
  ExpectCounted();
  EXPECT_GT(DoneOn(7), 50u);
  EXPECT_EQ(DoneOn(0) + DoneOn(1) + DoneOn(2) + DoneOn(7), 1000u);
  EXPECT_EQ(coordinator->stats().put_back, 0u);
  EXPECT_TRUE(Add("worker7:2222")->was_member);
}

TEST_F(MembersSim, ClosuresOfARemovedWorkerEndThereAndItIsToldToEnd) {
  Begin(2);
  Count(500);
  cluster->sim().RunFor(absl::Milliseconds(20));
  ASSERT_TRUE(Remove(1).ok());
  EXPECT_LT(coordinator->stats().done, 500u);
  EXPECT_EQ(Workers(), (std::set<int>{0, 2}));
  EXPECT_EQ(coordinator->parts().scheduler->workers().count(1), 0u);
  ExpectCounted();
  EXPECT_EQ(coordinator->stats().put_back, 0u);
  EXPECT_EQ(coordinator->stats().workers_ready, 2);
  EXPECT_EQ(Remove(1).code(), absl::StatusCode::kNotFound);
  // Its place is free for another process of that name.
  cluster->tasks().Kill(Worker(1));
  cluster->tasks().Start(Worker(1));
  ASSERT_TRUE(Add("worker1:2222").ok());
  Count(200);
  ExpectCounted();
  EXPECT_GT(DoneOn(1), 0u);
}

TEST_F(MembersSim, AWorkerThatIsCutOffCanBeRemovedAndItsClosuresRunElsewhere) {
  Begin(3);
  Count(500);
  cluster->sim().RunFor(absl::Milliseconds(20));
  cluster->network().Cut("chief:0", "worker:1");
  ASSERT_TRUE(Remove(1).ok());
  EXPECT_EQ(Workers(), (std::set<int>{0, 2}));
  ExpectCounted();
}

// It has closures in flight and falls silent only after it was asked to leave: for less than a
// lease nothing is lost, for longer what it had runs elsewhere.
TEST_F(MembersSim, AWorkerThatLeavesIsWatchedUntilItIsGone) {
  for (const bool back_in_time : {true, false}) {
    SCOPED_TRACE(back_in_time ? "back within the lease" : "never back");
    Begin(3);
    Count(500);
    cluster->sim().RunFor(absl::Milliseconds(20));
    bool removed = false;
    changes->Remove(Worker(1), [&](const absl::Status& status) {
      EXPECT_TRUE(status.ok()) << status;
      removed = true;
    });
    Standstill standstill(cluster->sim(), "worker:1", back_in_time ? kLease * 0.8 : absl::Hours(1));
    cluster->network().SetWatcher(&standstill);
    ASSERT_TRUE(cluster->sim().RunUntil([&] { return removed; }, kLease * 1.1 + kFarewell));
    EXPECT_EQ(coordinator->stats().put_back > 0, !back_in_time);
    ExpectCounted();
    cluster->network().SetWatcher(nullptr);
  }
}

TEST_F(MembersSim, MembersThatWereAddedSurviveARecovery) {
  ClusterCoordinator::Options options;
  options.recovery_directory = "/recovery";
  options.recovery_interval = absl::Milliseconds(100);
  Begin(4, std::move(options));
  Count(300);
  ASSERT_TRUE(Add(cluster->tasks().AddWorker(3)).ok());
  ASSERT_TRUE(Remove(0).ok());
  const uint64_t epoch = coordinator->parts().cluster->epoch();
  cluster->tasks().Kill({Role::kPs, 0});
  cluster->tasks().Start({Role::kPs, 0});
  cluster->sim().RunFor(absl::Seconds(1));
  Count(300);
  ExpectCounted();
  EXPECT_GT(coordinator->parts().cluster->epoch(), epoch);
  EXPECT_EQ(Serving(), (std::set<int>{1, 2, 3}));
  const uint64_t done = DoneOn(3);
  Count(300);
  ExpectCounted();
  EXPECT_GT(DoneOn(3), done);
}

TEST_F(MembersSim, AWorkerThatIsAddedDuringARecoveryIsAttachedByIt) {
  ClusterCoordinator::Options options;
  options.recovery_directory = "/recovery";
  Begin(5, std::move(options));
  cluster->tasks().Kill({Role::kPs, 1});
  cluster->sim().RunFor(absl::Seconds(2));
  ASSERT_TRUE(Add(cluster->tasks().AddWorker(3)).ok());
  cluster->sim().RunFor(absl::Seconds(1));
  EXPECT_EQ(Serving().count(3), 0u) << "no ps has granted the epoch";
  cluster->tasks().Start({Role::kPs, 1});
  Count(300);
  ExpectCounted();
  EXPECT_GT(DoneOn(3), 0u);
}

TEST_F(MembersSim, LimitsAreKeptAndNamed) {
  ClusterCoordinator::Options options;
  options.workers = {.min = 3, .max = 4};
  Begin(6, std::move(options));
  const absl::Status few = Remove(0);
  EXPECT_EQ(few.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(few.message()), HasSubstr("cluster.min_workers is 3"));
  ASSERT_TRUE(Add(cluster->tasks().AddWorker(3)).ok());
  const auto many = Add(cluster->tasks().AddWorker(4));
  EXPECT_EQ(many.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(many.status().message()), HasSubstr("cluster.max_workers is 4"));
  EXPECT_TRUE(Remove(0).ok());
  EXPECT_TRUE(Add("worker4:2222").ok());
  EXPECT_EQ(changes->AddLocal().status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(MembersSim, WhoIsNoFreeWorkerIsRefusedAndTheJobGoesOn) {
  Begin(7);
  EXPECT_EQ(Add("nobody:2222").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(Add("worker3").status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(Add("ps1:2222").status().message()), HasSubstr("answers ps:1"));
  const std::string address = cluster->tasks().AddWorker(3);
  const World other = cluster->WorldOf("chief:1");
  Envelope<proto::AttachRequest> attach;
  attach.header.set_epoch(1000);
  attach.header.set_coordinator_incarnation(77);
  attach.header.mutable_job()->set_name("theirs");
  bool attached = false;
  const auto channel = other.transport.Connect(address, Lane::kControl);
  StartCall<proto::AttachResponse>(*channel, "/cohort.proto.TaskService/Attach", std::move(attach),
                                   absl::Seconds(1),
                                   [&](const auto& answer) { attached = answer.ok(); });
  ASSERT_TRUE(cluster->sim().RunUntil([&] { return attached; }, absl::Seconds(1)));
  const auto refused = Add(address);
  EXPECT_EQ(refused.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("job 'theirs'"));
  // Even one that is taken in by name alone does not end the job.
  ASSERT_TRUE(coordinator->parts().cluster->AddWorker(Worker(3), address).ok());
  Count(100);
  ExpectCounted();
  EXPECT_EQ(Serving(), (std::set<int>{0, 1, 2}));
}

// Replay one seed with --gtest_filter and the seed that it prints.
TEST_F(MembersSim, NoIncrementIsLostOrDoubledHoweverWorkersComeAndGo) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    ClusterCoordinator::Options options;
    if (seed % 2 == 0) options.recovery_directory = "/recovery";
    Begin(seed, std::move(options));
    FaultPlan faults;
    faults.lose_request = faults.lose_response = 0.01;
    faults.duplicate_request = 0.05;
    cluster->network().SetFaults(faults);
    Count(300);
    for (int round = 0; round < 4; ++round) {
      const auto index = static_cast<int>(cluster->sim().rng().Below(3));
      cluster->sim().RunFor(absl::Milliseconds(1 + cluster->sim().rng().Below(40)));
      changes->Add(cluster->tasks().AddWorker(10 + round), [](const auto&) {});
      changes->Remove(Worker(round == 3 ? 10 : index), [](const absl::Status&) {});
      if (round == 2 && seed % 2 == 0) {
        cluster->tasks().Kill({Role::kPs, 0});
        cluster->tasks().Start({Role::kPs, 0});
      }
      Count(50);
    }
    ExpectCounted();
  }
}

TEST_F(MembersSim, TheStatusShowsMembersAndClosures) {
  Begin(8);
  Count(200);
  ASSERT_TRUE(coordinator->Join().ok());
  cluster->tasks().Kill(Worker(2));
  cluster->sim().RunFor(absl::Seconds(20));
  const CtlParts parts{"job", coordinator->parts().cluster, coordinator->parts().scheduler,
                       changes};
  const proto::GetJobStatusResponse status = JobStatus(parts);
  ASSERT_EQ(status.members_size(), 5);
  uint64_t done = 0;
  for (const proto::MemberStatus& member : status.members()) {
    const bool killed = member.task().role() == "worker" && member.task().index() == 2;
    EXPECT_EQ(member.state(), killed ? proto::MEMBER_AWAY : proto::MEMBER_SERVING);
    EXPECT_EQ(member.task().incarnation() == 0, killed);
    done += member.closures_done();
  }
  EXPECT_EQ(done, 200u);
  EXPECT_EQ(status.closures_done(), 200u);
  EXPECT_EQ(status.epoch(), coordinator->parts().cluster->epoch());
  EXPECT_THAT(status.waits(), HasSubstr("0 closures queued"));
}

// A local worker has no address before its process listens.
TEST_F(MembersSim, TheStatusOfALocalWorkerThatStartsSaysSoUntilItServes) {
  std::string address = kNowhere;
  ClusterCoordinator::Options options;
  options.address = [this, &address](TaskId task) {
    const auto known = cluster->tasks().spec().Address(task);
    return task == Worker(3) || !known.ok() ? address : *known;
  };
  Begin(9, std::move(options));
  WorkerChanges::Options local;
  local.start_local = [](const std::set<int>&) { return Worker(3); };
  changes = WorkerChanges::Create(*world, coordinator->parts().cluster, std::move(local));
  ASSERT_TRUE(changes->AddLocal().ok());
  const auto shown = [&] {
    const CtlParts parts{"job", coordinator->parts().cluster, coordinator->parts().scheduler,
                         changes};
    const proto::GetJobStatusResponse status = JobStatus(parts);
    for (const proto::MemberStatus& member : status.members()) {
      if (member.task().role() == "worker" && member.task().index() == 3) return member;
    }
    return proto::MemberStatus();
  };
  cluster->sim().RunFor(absl::Seconds(1));
  EXPECT_EQ(shown().address(), "");
  EXPECT_EQ(shown().state(), proto::MEMBER_AWAY);
  EXPECT_EQ(shown().text(), "worker:3 is starting: its process does not listen yet");
  address = cluster->tasks().AddWorker(3);
  ASSERT_TRUE(cluster->sim().RunUntil([&] { return shown().state() == proto::MEMBER_SERVING; },
                                      absl::Seconds(10)));
  EXPECT_EQ(shown().address(), address);
}

// A worker that stands still is asked, and one that is known to be away is not.
TEST_F(MembersSim, TheFlightRecordSaysWhichWorkersDoNotAnswer) {
  Begin(9);
  Count(10);
  ASSERT_TRUE(coordinator->Join().ok());
  cluster->tasks().Kill(Worker(2));
  cluster->sim().RunFor(absl::Seconds(20));
  Standstill standstill(cluster->sim(), "worker:1", absl::Seconds(4));
  cluster->network().SetWatcher(&standstill);
  std::optional<proto::AskFlightRecordsResponse> records;
  AskFlightRecords(*coordinator->parts().cluster, {}, [&](auto answer) {
    ASSERT_TRUE(answer.ok()) << answer.status();
    records = answer->header;
  });
  const absl::Time asked = cluster->sim().Now();
  cluster->sim().RunUntil([&] { return records.has_value(); }, absl::Minutes(1));
  EXPECT_EQ(cluster->sim().Now() - asked, absl::Seconds(2));
  cluster->network().SetWatcher(nullptr);
  ASSERT_TRUE(records.has_value());
  ASSERT_EQ(records->workers_size(), 3);
  EXPECT_EQ(records->workers(0).error(), "");
  EXPECT_THAT(records->workers(1).error(), HasSubstr("no answer"));
  EXPECT_THAT(records->workers(2).error(), HasSubstr("worker:2"));
  EXPECT_THAT(FlightText(*records, kNoWorkerOfTheJob),
              HasSubstr("worker:1 at worker1:2222 does not answer: "));
}

}  // namespace
}  // namespace cohort

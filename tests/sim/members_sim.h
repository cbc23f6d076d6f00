#pragma once

// A job that counts while its workers come and go, in simulated time.

#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/base/temporary_file.h"
#include "coordinator/api/coordinator_parts.h"
#include "coordinator/members/membership_watch.h"
#include "coordinator/members/worker_changes.h"
#include "tests/sim/sim_cluster.h"
#include "tests/support/counter.h"

namespace cohort {

// A name service that the test plays.
class ScriptedResolver final : public HostResolver {
 public:
  void Resolve(const std::string& host, Done done) override { done(answer); }
  absl::StatusOr<std::vector<std::string>> answer = absl::UnavailableError("no name server");
};

inline constexpr absl::Duration kLease = absl::Seconds(5);  // the default
// An answer to Shutdown is not waited for longer.
inline constexpr absl::Duration kFarewell = absl::Seconds(4);

inline TaskId Worker(int index) { return {Role::kWorker, index}; }

// A job that counts, over two ps and three workers.
class MembersSim : public testing::Test {
 protected:
  void Begin(uint64_t seed, ClusterCoordinator::Options options = {}) {
    scheduled = 0;
    changes.reset();
    coordinator.reset();
    world.reset();
    cluster = std::make_unique<SimCluster>(seed, 2, 3);
    options.attempts_max = options.quarantine_after = 1000;
    auto connected = cluster->Connect(std::move(options));
    ASSERT_TRUE(connected.ok()) << connected.status();
    coordinator = *std::move(connected);
    const auto made = MakeCounter(*coordinator);
    ASSERT_TRUE(made.ok()) << made.status();
    counter = std::make_unique<Variable>(made->variable);
    increment = made->increment;
    ASSERT_TRUE(coordinator->ResumeState().ok());
    world = std::make_unique<World>(cluster->WorldOf("chief:0"));
    changes = WorkerChanges::Create(*world, coordinator->parts().cluster, {});
  }

  void TearDown() override {
    if (watch != nullptr) watch->Stop();
    coordinator.reset();
  }

  void Count(int increments) {
    scheduled += increments;
    for (int i = 0; i < increments; ++i) ASSERT_TRUE(coordinator->Schedule(increment, {}).ok());
  }

  void Watch(const std::string& where) {
    watch = MembershipWatch::Create(*world, MakeMembershipSource(where, world->files, resolver),
                                    coordinator->parts().cluster, changes);
    watch->Start();
  }

  void ExpectCounted() {
    ASSERT_TRUE(coordinator->Join().ok());
    cluster->network().SetFaults(FaultPlan());
    const auto value = coordinator->Read(*counter);
    ASSERT_TRUE(value.ok()) << value.status();
    EXPECT_EQ(*value->data<float>(), static_cast<float>(scheduled));
  }

  absl::StatusOr<WorkerChanges::Added> Add(const std::string& address) {
    absl::StatusOr<WorkerChanges::Added> result = absl::UnknownError("no answer");
    bool answered = false;
    changes->Add(address, [&](absl::StatusOr<WorkerChanges::Added> added) {
      result = std::move(added);
      answered = true;
    });
    EXPECT_TRUE(cluster->sim().RunUntil([&] { return answered; }, absl::Minutes(5)));
    return result;
  }

  absl::Status Remove(int index) {
    absl::Status result = absl::UnknownError("no answer");
    bool answered = false;
    changes->Remove(Worker(index), [&](absl::Status status) {
      result = std::move(status);
      answered = true;
    });
    EXPECT_TRUE(cluster->sim().RunUntil([&] { return answered; }, absl::Minutes(5)));
    return result;
  }

  std::set<int> WorkersOf(bool serving_only) {
    std::set<int> workers;
    for (const Cluster::TaskStatus& member : coordinator->parts().cluster->TaskStatuses()) {
      if (member.task.role != Role::kWorker || member.leaving) continue;
      if (member.serving || !serving_only) workers.insert(member.task.index);
    }
    return workers;
  }
  std::set<int> Workers() { return WorkersOf(false); }
  std::set<int> Serving() { return WorkersOf(true); }
  uint64_t DoneOn(int worker) { return coordinator->parts().scheduler->workers()[worker].done; }

  void Put(const std::string& file, const std::string& text) {
    ASSERT_TRUE(WriteFileAtomically(world->files, file, text).ok());
  }

  ScriptedResolver resolver;
  std::unique_ptr<SimCluster> cluster;
  std::unique_ptr<ClusterCoordinator> coordinator;
  std::unique_ptr<Variable> counter;
  ProgramHandle increment;
  std::unique_ptr<World> world;
  std::shared_ptr<WorkerChanges> changes;
  std::shared_ptr<MembershipWatch> watch;
  int scheduled = 0;
};

}  // namespace cohort

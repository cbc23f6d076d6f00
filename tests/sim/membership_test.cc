// A file or a name decides who works, in simulated time.

#include <gmock/gmock.h>

#include "tests/sim/members_sim.h"

namespace cohort {
namespace {

using testing::HasSubstr;

TEST_F(MembersSim, AFileDecidesWhoWorksAndABrokenOneChangesNothing) {
  Begin(9);
  cluster->tasks().AddWorker(3);
  Watch("/workers");
  cluster->sim().RunFor(absl::Seconds(5));
  EXPECT_EQ(Serving(), (std::set<int>{0, 1, 2})) << "there is no file";
  Put("/workers", "worker0:2222\nworker2:2222\nworker3:2222\n");
  Count(2000);
  cluster->sim().RunFor(absl::Seconds(5));
  EXPECT_EQ(Serving(), (std::set<int>{0, 2, 3}));
  for (const char* broken : {"", "worker0:2222\nworker2:", R"({"worker": ["worker0:2222")"}) {
    Put("/workers", broken);
    cluster->sim().RunFor(absl::Seconds(5));
    EXPECT_EQ(Serving(), (std::set<int>{0, 2, 3})) << broken;
  }
  // One reading of a file that is half written, but looks whole.
  Put("/workers", "worker0:2222\n");
  cluster->sim().RunFor(absl::Milliseconds(1000));
  EXPECT_EQ(Serving(), (std::set<int>{0, 2, 3}));
  Put("/workers", R"({"worker": ["worker3:2222", "worker2:2222"]})");
  cluster->sim().RunFor(absl::Seconds(5));
  EXPECT_EQ(Serving(), (std::set<int>{2, 3}));
  ExpectCounted();
}

TEST_F(MembersSim, AListedWorkerIsTakenInOnceItAnswers) {
  Begin(10);
  Put("/workers", "worker0:2222\nworker1:2222\nworker2:2222\nworker5:2222\n");
  Watch("/workers");
  cluster->sim().RunFor(absl::Seconds(20));
  EXPECT_EQ(Workers(), (std::set<int>{0, 1, 2}));
  cluster->tasks().AddWorker(5);
  cluster->sim().RunFor(absl::Seconds(20));
  EXPECT_EQ(Serving(), (std::set<int>{0, 1, 2, 5}));
}

TEST_F(MembersSim, AFileCannotRemoveMoreThanMayGo) {
  ClusterCoordinator::Options options;
  options.workers.min = 2;
  Begin(11, std::move(options));
  Put("/workers", "worker1:2222\n");
  Watch("/workers");
  cluster->sim().RunFor(absl::Seconds(10));
  EXPECT_EQ(Workers(), (std::set<int>{1, 2}));
}

TEST_F(MembersSim, ANameAddsAtOnceAndRemovesWhoIsLost) {
  Begin(12);
  resolver.answer = {"worker2", "worker0", "worker1"};
  Watch("dns:workers:2222");
  cluster->sim().RunFor(absl::Seconds(20));
  cluster->tasks().AddWorker(3);
  resolver.answer = {"worker3", "worker1", "worker0", "worker2"};
  cluster->sim().RunFor(absl::Seconds(20));
  EXPECT_EQ(Serving(), (std::set<int>{0, 1, 2, 3}));
  resolver.answer = {"worker0", "worker1"};
  cluster->sim().RunFor(absl::Seconds(60));
  EXPECT_EQ(Serving(), (std::set<int>{0, 1, 2, 3})) << "they serve: the name is behind";
  cluster->tasks().Kill(Worker(3));
  cluster->sim().RunFor(absl::Seconds(60));
  EXPECT_EQ(Workers(), (std::set<int>{0, 1, 2}));
  resolver.answer = absl::UnavailableError("no name server");
  cluster->tasks().Kill(Worker(1));
  cluster->sim().RunFor(absl::Seconds(60));
  EXPECT_EQ(Workers(), (std::set<int>{0, 1, 2})) << "no answer is no list";
  resolver.answer = {"worker1", "worker0"};
  cluster->sim().RunFor(absl::Seconds(60));
  EXPECT_EQ(Workers(), (std::set<int>{0, 1, 2})) << "worker:1 is away but listed";
}

}  // namespace
}  // namespace cohort

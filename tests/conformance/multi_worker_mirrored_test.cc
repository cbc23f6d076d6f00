// Synchronous training in several workers: multi_worker_mirrored. The expectation is one_device,
// and of replicas on several workers that they compute, bit for bit, what as many on one worker do
// (tensorflow.md 5.1, 5.4: a step is one update, and each example counts once).

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "tests/conformance/strategy_runs.h"
#include "tests/support/stepwise_training.h"

namespace cohort {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;

// Who computes: so many workers, with so many replicas each.
struct Replicas {
  int workers = 1;
  int on_each = 1;
};

Trained Train(const Replicas& replicas, const std::vector<std::string>& others = {},
              uint64_t seed = 1) {
  std::vector<std::string> overrides = {
      "strategy.type=multi_worker_mirrored",
      absl::StrCat("strategy.devices=", Devices(replicas.on_each))};
  overrides.insert(overrides.end(), others.begin(), others.end());
  const Trained trained =
      TrainJob(PerceptronJob(overrides), {.workers = replicas.workers, .seed = seed});
  EXPECT_EQ(trained.copies.size(), static_cast<size_t>(replicas.workers));
  return trained;
}

Trained TrainInOne(std::vector<std::string> overrides, const std::string& type = "one_device") {
  overrides.push_back(absl::StrCat("strategy.type=", type));
  return TrainJob(PerceptronJob(overrides), {});
}

// The last: as many replicas on one worker, under the strategy for one.
void ExpectSameBitsWhereverFourReplicasAre(const std::vector<std::string>& others) {
  const Trained one_by_four = Train({1, 4}, others);
  for (const Replicas& replicas : {Replicas{2, 2}, Replicas{4, 1}}) {
    const Trained trained = Train(replicas, others);
    EXPECT_EQ(trained.losses, one_by_four.losses) << replicas.workers << " workers";
    EXPECT_EQ(trained.values, one_by_four.values) << replicas.workers << " workers";
  }
  std::vector<std::string> mirrored = {absl::StrCat("strategy.devices=", Devices(4))};
  mirrored.insert(mirrored.end(), others.begin(), others.end());
  const Trained local = TrainInOne(mirrored, "mirrored");
  EXPECT_EQ(local.losses, one_by_four.losses) << "and whether the strategy is called mirrored";
  EXPECT_EQ(local.values, one_by_four.values);
}

void ExpectTheCurveOfOneDevice(const std::vector<std::string>& others) {
  const Trained one = TrainInOne(others);
  for (const Replicas& replicas :
       {Replicas{2, 1}, Replicas{3, 1}, Replicas{5, 1}, Replicas{3, 2}}) {
    ExpectSameCurve(Train(replicas, others), one,
                    absl::StrCat(replicas.workers, " x ", replicas.on_each));
  }
}

// With dropout; the batches of 3 leave some replicas, and some workers, without an example.
TEST(MultiWorkerMirrored, ItDoesNotMatterOnWhichWorkersTheReplicasAre) {
  ExpectSameBitsWhereverFourReplicasAre({});
}

TEST(MultiWorkerMirrored, ItHasTheLossCurveOfOneDeviceWithAnyNumberOfWorkers) {
  ExpectTheCurveOfOneDevice({});
}

// The statistics are those of the global batch: replicas meet while they compute, forward and
// backward, also those of workers that have no example.
TEST(MultiWorkerMirrored, SynchronizedStatisticsDoNotDependOnWhereReplicasAre) {
  ExpectSameBitsWhereverFourReplicasAre({WithStatistics(true)});
}

// Each replica's statistics are those of its own examples, wherever it is.
TEST(MultiWorkerMirrored, StatisticsOfEachReplicaDoNotDependOnWhereItIs) {
  ExpectSameBitsWhereverFourReplicasAre({WithStatistics(false)});
}

TEST(MultiWorkerMirrored, SynchronizedStatisticsGiveTheLossCurveOfOneDevice) {
  ExpectTheCurveOfOneDevice({WithStatistics(true)});
  const Trained each = Train({2, 1}, {WithStatistics(false)});
  const Trained together = Train({2, 1}, {WithStatistics(true)});
  EXPECT_GT(std::abs(each.losses.back() - together.losses.back()), 1e-3)
      << "those of each replica's own examples are others";
}

TEST(MultiWorkerMirrored, TheSameJobEndsWithTheSameBits) {
  const Trained once = Train({3, 2});
  for (uint64_t seed = 2; seed < 6; ++seed) {
    const Trained again = Train({3, 2}, {}, seed);
    EXPECT_EQ(again.losses, once.losses) << "seed " << seed;
    EXPECT_EQ(again.values, once.values) << "seed " << seed;
  }
  EXPECT_EQ(Train({3, 2}, {"fit.closures_in_flight=8"}).values, once.values)
      << "however many steps are under way";
  for (const char* const options : {R"({"bytes_per_pack": 1})", R"({"bytes_per_pack": 4096})"}) {
    const Trained packed =
        Train({3, 2}, {absl::StrCat("strategy.communication_options=", options)});
    EXPECT_EQ(packed.losses, once.losses) << options;
    EXPECT_EQ(packed.values, once.values) << options;
  }
}

TEST(MultiWorkerMirrored, GradientsAreClippedWhenTheyAreJoined) {
  const std::string clipping =
      absl::StrCat(R"(compile.optimizer={"class_name":"SGD",)",
                   R"("config":{"learning_rate":0.5,"global_clipnorm":0.05}})");
  ExpectSameCurve(Train({2, 1}, {clipping}), TrainInOne({clipping}), "clipped");
}

// Two on each of two hosts, by the names of their addresses: their gradients are summed within a
// host first. The bits are those of four hosts. Five have hosts of two, two and one.
TEST(MultiWorkerMirrored, WorkersOfOneHostAddUpAmongThemselvesFirst) {
  const JobSpec job = PerceptronJob({"strategy.type=multi_worker_mirrored"});
  for (const int workers : {4, 5}) {
    const Trained apart = TrainJob(job, {.workers = workers});
    const Trained pairs = TrainJob(job, {.workers = workers, .workers_on_host = 2});
    EXPECT_THAT(pairs.algorithms, Contains("hierarchical"));
    EXPECT_THAT(apart.algorithms, Not(Contains("hierarchical")));
    EXPECT_EQ(pairs.losses, apart.losses) << workers;
    EXPECT_EQ(pairs.values, apart.values) << workers;
  }
}

TEST(MultiWorkerMirrored, ARingSumsInItsOwnOrderTheSameOnAllWorkers) {
  const Trained ring =
      Train({3, 1}, {R"(strategy.communication_options={"implementation": "ring"})"});
  ExpectSameCurve(ring, Train({3, 1}), "ring");
}

// Rounded gradients change the curve by less than a hundredth, and all copies in the same way.
TEST(MultiWorkerMirrored, GradientsMayTravelInSixteenBits) {
  const Trained whole = Train({3, 2});
  for (const char* const dtype : {"float16", "bfloat16"}) {
    const std::string option =
        absl::StrCat(R"(strategy.communication_options={"gradient_dtype": ")", dtype, R"("})");
    const Trained rounded = Train({3, 2}, {option});
    EXPECT_NE(rounded.losses, whole.losses) << dtype << ": they are rounded";
    ASSERT_EQ(rounded.losses.size(), whole.losses.size());
    for (size_t step = 0; step < whole.losses.size(); ++step) {
      EXPECT_NEAR(rounded.losses[step], whole.losses[step], 0.01) << dtype << ", step " << step;
    }
    EXPECT_EQ(Train({3, 2}, {option}, 2).values, rounded.values) << dtype;
  }
}

// fit, evaluate, checkpoint, export; and again from the checkpoint. With files that all tasks see,
// and where they stream.
absl::StatusOr<std::pair<double, double>> TrainWholeJob(const std::string& type, int workers,
                                                        Disks disks) {
  SimCluster cluster(1, 0, workers, disks);
  const std::string own = absl::StrCat("strategy.type=", type);
  ASSIGN_OR_RETURN(const TrainSummary trained, RunWholeJob(cluster, {own, "fit.epochs=2"}));
  EXPECT_EQ(trained.steps, 14);
  ASSIGN_OR_RETURN(const TrainSummary restored,
                   RunWholeJob(cluster, {own, "fit.epochs=3", "checkpoint.restore=latest"}));
  EXPECT_EQ(restored.steps, 7) << "the third epoch alone";
  return std::make_pair(*trained.test_loss, *restored.test_loss);
}

TEST(MultiWorkerMirrored, AWholeJobIsTrainedSavedRestoredAndExported) {
  const auto one = TrainWholeJob("one_device", 1, Disks::kShared);
  ASSERT_TRUE(one.ok()) << one.status();
  for (const Disks disks : {Disks::kShared, Disks::kPrivate}) {
    const auto three = TrainWholeJob("multi_worker_mirrored", 3, disks);
    ASSERT_TRUE(three.ok()) << three.status();
    EXPECT_NEAR(three->first, one->first, 1e-3);
    EXPECT_NEAR(three->second, one->second, 1e-3);
  }
}

}  // namespace
}  // namespace cohort

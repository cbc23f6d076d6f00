// Synchronous training in several workers: multi_worker_mirrored. The expectation is one_device,
// and of replicas on several workers that they compute, bit for bit, what as many on one worker do
// (tensorflow.md 5.1, 5.4: a step is one update, and each example counts once).

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "absl/strings/str_cat.h"
#include "common/wire/error_detail.h"
#include "coordinator/train/trainer.h"
#include "tests/sim/sim_cluster.h"
#include "tests/support/stepwise_training.h"

namespace cohort {
namespace {

using testing::HasSubstr;
using Values = std::map<std::string, std::vector<float>>;

constexpr int64_t kExamples = 99;  // batches of 32, 32, 32 and 3
constexpr int64_t kSteps = 10;

struct Trained {
  std::vector<double> losses;
  std::vector<Values> copies;  // by worker
};

// Who computes: so many workers, with so many replicas each.
struct Replicas {
  int workers = 1;
  int on_each = 1;
};

std::vector<std::string> Overrides(const Replicas& replicas,
                                   const std::vector<std::string>& others) {
  std::string devices;
  for (int i = 0; i < replicas.on_each; ++i) {
    absl::StrAppend(&devices, i > 0 ? "," : "", "\"cpu:", i, "\"");
  }
  std::vector<std::string> overrides = {"strategy.type=multi_worker_mirrored",
                                        absl::StrCat("strategy.devices=[", devices, "]")};
  overrides.insert(overrides.end(), others.begin(), others.end());
  return overrides;
}

Trained TrainJob(const JobSpec& job, int workers, uint64_t seed) {
  Trained trained;
  SimCluster cluster(seed, 0, workers);
  const auto coordinator = cluster.Connect(CoordinatorOptionsOf(job));
  EXPECT_TRUE(coordinator.ok()) << coordinator.status();
  if (!coordinator.ok()) return trained;
  StepwiseTraining training(**coordinator, job, kExamples);
  const absl::Status begun = training.Begin();
  EXPECT_TRUE(begun.ok()) << begun;
  if (!begun.ok()) return trained;
  const auto losses = training.Run(kSteps);
  EXPECT_TRUE(losses.ok()) << losses.status();
  trained.losses = losses.value_or(std::vector<double>());
  for (int worker = 0; worker < workers; ++worker) {
    const auto copy = training.CopyOf(static_cast<uint32_t>(worker));
    EXPECT_TRUE(copy.ok()) << copy.status();
    trained.copies.push_back(copy.value_or(Values()));
  }
  return trained;
}

Trained Train(const Replicas& replicas, const std::vector<std::string>& others = {},
              uint64_t seed = 1) {
  const Trained trained =
      TrainJob(PerceptronJob(Overrides(replicas, others)), replicas.workers, seed);
  EXPECT_EQ(trained.losses.size(), static_cast<size_t>(kSteps));
  EXPECT_EQ(trained.copies.size(), static_cast<size_t>(replicas.workers));
  for (const Values& copy : trained.copies) {
    EXPECT_FALSE(copy.empty());
    EXPECT_EQ(copy, trained.copies.front()) << "the copies are the same bits";
  }
  return trained;
}

Trained OneDevice() { return TrainJob(PerceptronJob({"strategy.type=one_device"}), 1, 1); }

// With dropout; the batches of 3 leave some replicas, and some workers, without an example.
TEST(MultiWorkerMirrored, ItDoesNotMatterOnWhichWorkersTheReplicasAre) {
  const Trained one_by_four = Train({1, 4});
  for (const Replicas& replicas : {Replicas{2, 2}, Replicas{4, 1}}) {
    const Trained trained = Train(replicas);
    EXPECT_EQ(trained.losses, one_by_four.losses) << replicas.workers << " workers";
    EXPECT_EQ(trained.copies.front(), one_by_four.copies.front()) << replicas.workers;
  }
  const Trained mirrored = TrainJob(
      PerceptronJob({"strategy.type=mirrored",
                     R"(strategy.devices=["cpu:0","cpu:1","cpu:2","cpu:3"])"}),
      1, 1);
  EXPECT_EQ(mirrored.losses, one_by_four.losses) << "and whether the strategy is called mirrored";
  EXPECT_EQ(mirrored.copies.front(), one_by_four.copies.front());
}

TEST(MultiWorkerMirrored, ItHasTheLossCurveOfOneDeviceWithAnyNumberOfWorkers) {
  const Trained one = OneDevice();
  for (const Replicas& replicas :
       {Replicas{2, 1}, Replicas{3, 1}, Replicas{5, 1}, Replicas{3, 2}}) {
    const Trained trained = Train(replicas);
    ASSERT_EQ(trained.losses.size(), one.losses.size());
    for (size_t i = 0; i < one.losses.size(); ++i) {
      EXPECT_NEAR(trained.losses[i], one.losses[i], 1e-4)
          << replicas.workers << " x " << replicas.on_each << ", step " << i;
    }
  }
}

// The simulator's seed draws the order of everything that is not ordered.
TEST(MultiWorkerMirrored, TheSameJobEndsWithTheSameBits) {
  const Trained once = Train({3, 2});
  for (uint64_t seed = 2; seed < 6; ++seed) {
    const Trained again = Train({3, 2}, {}, seed);
    EXPECT_EQ(again.losses, once.losses) << "seed " << seed;
    EXPECT_EQ(again.copies, once.copies) << "seed " << seed;
  }
  EXPECT_EQ(Train({3, 2}, {"fit.closures_in_flight=8"}).copies, once.copies)
      << "however many steps are under way";
  for (const char* const options : {R"({"bytes_per_pack": 1})", R"({"bytes_per_pack": 4096})"}) {
    const Trained packed =
        Train({3, 2}, {absl::StrCat("strategy.communication_options=", options)});
    EXPECT_EQ(packed.losses, once.losses) << options;
    EXPECT_EQ(packed.copies, once.copies) << options;
  }
}

TEST(MultiWorkerMirrored, GradientsAreClippedWhenTheyAreJoined) {
  const std::string clipping = absl::StrCat(
      R"(compile.optimizer={"class_name":"SGD",)",
      R"("config":{"learning_rate":0.5,"global_clipnorm":0.05}})");
  const Trained one =
      TrainJob(PerceptronJob({"strategy.type=one_device", clipping}), 1, 1);
  const Trained two = Train({2, 1}, {clipping});
  ASSERT_EQ(one.losses.size(), static_cast<size_t>(kSteps));
  for (size_t i = 0; i < one.losses.size(); ++i) {
    EXPECT_NEAR(two.losses[i], one.losses[i], 1e-4) << "step " << i;
  }
}

TEST(MultiWorkerMirrored, ARingSumsInItsOwnOrderTheSameOnAllWorkers) {
  const Trained ring =
      Train({3, 1}, {R"(strategy.communication_options={"implementation": "ring"})"});
  const Trained tree = Train({3, 1});
  ASSERT_EQ(ring.losses.size(), tree.losses.size());
  for (size_t i = 0; i < tree.losses.size(); ++i) {
    EXPECT_NEAR(ring.losses[i], tree.losses[i], 1e-4) << "step " << i;
  }
}

// fit, evaluate, checkpoint, export; and again from the checkpoint. With files that all tasks see,
// and where they stream.
absl::StatusOr<std::pair<double, double>> TrainWholeJob(const std::string& type, int workers,
                                                        Disks disks) {
  SimCluster cluster(1, 0, workers, disks);
  const World world = cluster.WorldOf("chief:0");
  const auto run = [&](std::vector<std::string> overrides) -> absl::StatusOr<TrainSummary> {
    for (const char* const setting :
         {R"(data.train={"class_name":"SyntheticDigits","config":{"seed":1,"count":200}})",
          R"(data.test={"class_name":"SyntheticDigits","config":{"seed":2,"count":70}})",
          "checkpoint.directory=/checkpoints", "export.onnx=/model.onnx"}) {
      overrides.emplace_back(setting);
    }
    overrides.push_back(absl::StrCat("strategy.type=", type));
    const JobSpec job = PerceptronJob(overrides);
    ClusterCoordinator::Options options = CoordinatorOptionsOf(job);
    options.cluster = cluster.tasks().spec();
    options.recovery_directory = "/checkpoints/recovery";
    ASSIGN_OR_RETURN(const auto coordinator,
                     ClusterCoordinator::Connect(world, cluster.waiter(), std::move(options)));
    DataSources sources;
    sources.train.mutable_synthetic_digits()->set_seed(1);
    sources.train.mutable_synthetic_digits()->set_count(200);
    sources.test.emplace().mutable_synthetic_digits()->set_seed(2);
    sources.test->mutable_synthetic_digits()->set_count(70);
    Trainer trainer(world, cluster.waiter(), *coordinator, job, sources);
    ASSIGN_OR_RETURN(TrainSummary summary, trainer.Run());
    RETURN_IF_ERROR(coordinator->ForgetState());
    return summary;
  };
  ASSIGN_OR_RETURN(const TrainSummary trained, run({"fit.epochs=2"}));
  EXPECT_EQ(trained.steps, 14);
  EXPECT_EQ(trained.test_examples, 70) << "each test example once";
  EXPECT_EQ(trained.model, "/model.onnx");
  ASSIGN_OR_RETURN(const TrainSummary restored,
                   run({"fit.epochs=3", "checkpoint.restore=latest"}));
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

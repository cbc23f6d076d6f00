// Synchronous training in one worker: one_device, mirrored, central_storage and default. The
// expectation of all is one_device, and that of one_device a synchronous run with a parameter
// server; of a partial batch that each example counts once (tensorflow.md 5.1, 5.4).

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "coordinator/api/replica_values.h"
#include "coordinator/model/model_programs.h"
#include "coordinator/strategy/make_strategy.h"
#include "tests/conformance/strategy_runs.h"
#include "tests/sim/sim_cluster.h"
#include "tests/support/cuda_stand_in/cuda_stand_in.h"
#include "tests/support/fake_nccl/fake_nccl.h"
#include "tests/support/stepwise_training.h"
#include "tests/support/test_programs.h"

namespace cohort {
namespace {

constexpr int64_t kExamples = 99;  // batches of 32, 32, 32 and 3
constexpr int64_t kSteps = 10;

Trained Train(const std::vector<std::string>& overrides, const RunSetup& setup = {}) {
  return TrainJob(PerceptronJob(overrides), setup);
}

constexpr char kTwoGpus[] = R"(strategy.devices=["gpu:0","gpu:1"])";
// The batches of 3 leave one without an example.
constexpr char kFourGpus[] = R"(strategy.devices=["gpu:0","gpu:1","gpu:2","gpu:3"])";

std::vector<std::string> Mirrored(int replicas) {
  return {"strategy.type=mirrored", absl::StrCat("strategy.devices=", Devices(replicas))};
}

TEST(LocalStrategies, OneDeviceTrainsAsOneParameterServerDoesStepByStep) {
  const Trained one = Train({"strategy.type=one_device"});
  const Trained ps =
      Train({"strategy.type=parameter_server", "fit.closures_in_flight=1"}, {.num_ps = 1});
  EXPECT_EQ(one.losses, ps.losses) << "bit for bit";
  EXPECT_EQ(one.values, ps.values);
  ASSERT_EQ(one.losses.size(), static_cast<size_t>(kSteps));
  EXPECT_LT(one.losses[kSteps - 2], one.losses[0]) << "it learns";
}

// The batches of 3 leave a replica of 4 without an example.
TEST(LocalStrategies, MirroredHasTheLossCurveOfOneDeviceWithAnyNumberOfReplicas) {
  const Trained one = Train({"strategy.type=one_device"});
  for (const int replicas : {1, 2, 3, 4}) {
    const Trained mirrored = Train(Mirrored(replicas));
    ExpectSameCurve(mirrored, one, absl::StrCat(replicas, " replicas"));
    EXPECT_EQ(mirrored.values == one.values, replicas == 1) << "several sum in another order";
  }
}

// The devices are the stand-in's: their kernels and copies are the product's.
TEST(LocalStrategies, OnGpusTheLossCurveIsThatOfTheProcessor) {
  const Trained one = Train({"strategy.type=one_device"});
  const RunSetup gpus = {.gpus = 4};
  ExpectSameCurve(Train({"strategy.type=one_device", "strategy.device=gpu:3"}, gpus), one,
                  "one_device");
  const Trained mirrored = Train({"strategy.type=mirrored", kTwoGpus}, gpus);
  ExpectSameCurve(mirrored, one, "mirrored");
  ExpectSameCurve(Train({"strategy.type=mirrored", R"(strategy.devices=["gpu:0","cpu:0"])"}, gpus),
                  one, "one of each kind");
  const Trained central = Train(
      {"strategy.type=central_storage", R"(strategy.compute_devices=["gpu:0","gpu:1"])"}, gpus);
  EXPECT_EQ(central.values, mirrored.values);
}

// Added up on GPUs, which give the sum away once, in the order of the sum in host memory: that of
// several workers, of which there is one.
TEST(LocalStrategies, EachWayToAddUpOnGpusHasTheBitsOfTheSumInHostMemory) {
  const Trained one = Train({"strategy.type=one_device"});
  for (const char* const devices : {kTwoGpus, kFourGpus}) {
    const RunSetup gpus = {.gpus = 4};
    const Trained host = Train({"strategy.type=multi_worker_mirrored", devices}, gpus);
    ExpectSameCurve(host, one, devices);
    for (const char* const ops : {"auto", "hierarchical_copy", "reduction_to_one_device"}) {
      for (const char* const packs : {"0", "1", "3"}) {
        const Trained added = Train(
            {"strategy.type=mirrored", devices, absl::StrCat("strategy.cross_device_ops=", ops),
             absl::StrCat("strategy.num_packs=", packs)},
            gpus);
        EXPECT_EQ(added.losses, host.losses) << ops << ", " << packs << " packs";
        EXPECT_EQ(added.values, host.values) << ops << ", " << packs << " packs";
      }
    }
  }
}

// As TensorFlow's logical devices: what two GPUs compute, computed by one.
TEST(LocalStrategies, ReplicasMayShareAGpu) {
  const RunSetup one_gpu = {.gpus = 1};
  const Trained two = Train({"strategy.type=mirrored", kTwoGpus}, {.gpus = 2});
  const std::string shared = R"(["gpu:0","gpu:0"])";
  for (const char* const ops : {"auto", "hierarchical_copy", "reduction_to_one_device"}) {
    const Trained replicas =
        Train({"strategy.type=mirrored", absl::StrCat("strategy.devices=", shared),
               absl::StrCat("strategy.cross_device_ops=", ops)},
              one_gpu);
    EXPECT_EQ(replicas.losses, two.losses) << ops;
    EXPECT_EQ(replicas.values, two.values) << ops;
  }
  // The only GPU has the variables then, and updates them.
  ExpectSameCurve(
      Train({"strategy.type=central_storage", absl::StrCat("strategy.compute_devices=", shared)},
            one_gpu),
      two, "central storage");
}

TEST(LocalStrategies, AddedUpByNcclTheLossCurveIsThatOfTheProcessor) {
  const Trained one = Train({"strategy.type=one_device"});
  for (const char* const devices : {kTwoGpus, kFourGpus}) {
    const CudaTable& cuda = MakeCudaStandIn(4, uint64_t{256} << 20);
    FakeNccl nccl(4);
    nccl.RunOn([&cuda](const std::function<void()>& work) { RunOnCudaStandIn(cuda, work); });
    RunSetup gpus;
    gpus.find_cuda = [&cuda]() -> absl::StatusOr<const CudaTable*> { return &cuda; };
    gpus.find_nccl = [&nccl] { return &nccl.table(); };
    const Trained added = Train({"strategy.type=mirrored", devices,
                                 "strategy.cross_device_ops=nccl", "strategy.num_packs=2"},
                                gpus);
    ExpectSameCurve(added, one, devices);
    EXPECT_EQ(nccl.counters().reductions, 2 * kSteps) << "of two packs in each step";
    EXPECT_EQ(nccl.counters().locals, 0) << "what was opened was closed";
    EXPECT_THAT(nccl.misuse(), testing::IsEmpty());
  }
}

// The statistics are those of the global batch, whoever has which part of it; of the batch of 3 the
// parts differ.
TEST(LocalStrategies, SynchronizedStatisticsGiveTheLossCurveOfOneDevice) {
  const std::string model = WithStatistics(true);
  const Trained one = Train({"strategy.type=one_device", model});
  EXPECT_EQ(Train({"strategy.type=default", model}).values, one.values);
  for (const int replicas : {1, 2, 3, 4}) {
    std::vector<std::string> mirrored = Mirrored(replicas);
    mirrored.push_back(model);
    const Trained several = Train(mirrored);
    ExpectSameCurve(several, one, absl::StrCat(replicas, " replicas"));
    EXPECT_EQ(Train(mirrored, {.seed = 7}).values, several.values)
        << "the same bits in any order of events";
    mirrored[0] = "strategy.type=central_storage";
    mirrored[1] = absl::StrCat("strategy.compute_devices=", Devices(replicas));
    EXPECT_EQ(Train(mirrored).values, several.values);
  }
}

// Without it each replica has its own statistics: those of a run that computes the same groups of
// examples one after another, each as a whole batch, and averages two of them for an update.
TEST(LocalStrategies, StatisticsOfEachReplicaAreThoseOfItsGroupOfExamples) {
  const std::string model = WithStatistics(false);
  std::vector<std::string> mirrored = Mirrored(2);
  mirrored.push_back(model);
  const Trained replicas = Train(mirrored, {.examples = 96});
  const Trained groups = Train(
      {"strategy.type=parameter_server", "fit.batch_size=16", "fit.closures_in_flight=1",
       R"(strategy.consistency={"class_name":"Synchronous","config":{"aggregate":2}})", model},
      {.num_ps = 1, .examples = 96, .steps = 2 * kSteps});
  ASSERT_EQ(groups.losses.size(), static_cast<size_t>(2 * kSteps));
  Trained pairs;
  for (size_t i = 0; i < groups.losses.size(); i += 2) {
    pairs.losses.push_back((groups.losses[i] + groups.losses[i + 1]) / 2);
  }
  ExpectSameCurve(replicas, pairs, "groups of 16");
  for (const auto& [name, values] : groups.values) {
    ASSERT_EQ(replicas.values.at(name).size(), values.size()) << name;
    for (size_t i = 0; i < values.size(); ++i) {
      ASSERT_NEAR(replicas.values.at(name)[i], values[i], 1e-4) << name << ", element " << i;
    }
  }
  const Trained central = Train({"strategy.type=central_storage",
                                 absl::StrCat("strategy.compute_devices=", Devices(2)), model},
                                {.examples = 96});
  EXPECT_EQ(central.losses, replicas.losses);
  EXPECT_EQ(central.values, replicas.values);
  EXPECT_GT(
      std::abs(replicas.losses[kSteps - 1] -
               Train({"strategy.type=one_device", model}, {.examples = 96}).losses[kSteps - 1]),
      1e-3)
      << "the statistics of 32 are others";
}

// What is clipped is the mean of the gradients, as in Keras, whose optimizers aggregate first.
TEST(LocalStrategies, GradientsAreClippedWhenTheyAreJoined) {
  for (const std::string clipping :
       {"global_clipnorm\":0.05", "clipnorm\":0.02", "clipvalue\":0.001"}) {
    const std::string optimizer = absl::StrCat(
        R"(compile.optimizer={"class_name":"SGD","config":{"learning_rate":0.5,")", clipping, "}}");
    const Trained one = Train({"strategy.type=one_device", optimizer});
    std::vector<std::string> mirrored = Mirrored(3);
    mirrored.push_back(optimizer);
    ExpectSameCurve(Train(mirrored), one, clipping);
    EXPECT_NE(one.losses, Train({"strategy.type=one_device"}).losses);
  }
}

TEST(LocalStrategies, CentralStorageAndDefaultTrainAlike) {
  const Trained one = Train({"strategy.type=one_device"});
  EXPECT_EQ(Train({"strategy.type=default"}).values, one.values);
  EXPECT_EQ(Train({"strategy.type=central_storage"}).values, one.values);
  const Trained central = Train(
      {"strategy.type=central_storage", absl::StrCat("strategy.compute_devices=", Devices(2))});
  EXPECT_EQ(central.values, Train(Mirrored(2)).values);
}

// The simulator's seed draws the order of everything that is not ordered.
TEST(LocalStrategies, TheSameJobEndsWithTheSameBits) {
  const Trained once = Train(Mirrored(4));
  for (uint64_t seed = 2; seed < 6; ++seed) {
    const Trained again = Train(Mirrored(4), {.seed = seed});
    EXPECT_EQ(again.losses, once.losses) << "seed " << seed;
    EXPECT_EQ(again.values, once.values) << "seed " << seed;
  }
  std::vector<std::string> many = Mirrored(4);
  many.emplace_back("fit.closures_in_flight=8");
  EXPECT_EQ(Train(many).values, once.values) << "however many steps are under way";
}

TEST(LocalStrategies, TheWorkersLossPutsTheJobBackAndItEndsWithTheSameBits) {
  ExpectSameBitsAfterTheWorkersLoss(PerceptronJob(Mirrored(2)), {}, 10);
}

// Which program kills the process is not known: it runs again, and again, and then no more.
// A worker that ends, and is started again, whenever it is told to run a step.
class EndsWithEachStep final : public SimWatcher {
 public:
  explicit EndsWithEachStep(SimCluster& cluster) : cluster_(cluster) {}
  SimFate OnRequest(const SimMessage&) override { return {}; }
  void OnArrival(const SimMessage& message) override {
    if (!absl::EndsWith(message.method, "/RunClosure")) return;
    // Not here: a handler of the worker may be running.
    cluster_.sim().CallAt(cluster_.sim().Now(), [this] {
      cluster_.tasks().Kill({Role::kWorker, 0});
      cluster_.tasks().Start({Role::kWorker, 0});
    });
  }
  SimFate OnResponse(const SimMessage&) override { return {}; }

 private:
  SimCluster& cluster_;
};

TEST(LocalStrategies, AStepThatEndsWithItsWorkerEachTimeIsQuarantined) {
  const JobSpec job = PerceptronJob(Mirrored(2));
  SimCluster cluster(1, 0, 1);
  ClusterCoordinator::Options options = CoordinatorOptionsOf(job);
  options.recovery_directory = "/recovery";
  const auto coordinator = cluster.Connect(std::move(options));
  ASSERT_TRUE(coordinator.ok()) << coordinator.status();
  StepwiseTraining training(**coordinator, job, kExamples);
  ASSERT_TRUE(training.Begin().ok());
  cluster.sim().RunFor(absl::Seconds(1));
  EndsWithEachStep ends(cluster);
  cluster.network().SetWatcher(&ends);
  for (int64_t i = 0; i < kSteps; ++i) ASSERT_TRUE(training.Schedule().ok());
  const absl::Status joined = (*coordinator)->Join();
  cluster.network().SetWatcher(nullptr);
  EXPECT_THAT(joined.message(), testing::HasSubstr("is quarantined: 3 worker processes ended"));
}

// Strategy.run with a program that fetches from each replica, on a partial batch: 5 examples over 4
// replicas, which the mean counts as 5.
TEST(LocalStrategies, WhatReplicasFetchIsReducedAndGathered) {
  SimCluster cluster(1, 0, 1);
  ClusterCoordinator::Options options;
  options.homes = Role::kWorker;
  const auto coordinator = cluster.Connect(std::move(options));
  ASSERT_TRUE(coordinator.ok()) << coordinator.status();
  VariableSpec spec_of_v;
  spec_of_v.name = "v";
  spec_of_v.initializer.set_op("ones");
  const auto v = (*coordinator)->Scope(AssignAdd()).CreateVariable(spec_of_v);
  ASSERT_TRUE(v.ok()) << v.status();
  EXPECT_EQ(v->device(), "/job:worker/replica:0/task:0/device:CPU:0");
  EXPECT_EQ(*(*coordinator)->Read(*v)->data<float>(), 1);
  proto::Program program = BatchProgram();
  for (int i = 0; i < 4; ++i) program.mutable_replicas()->add_devices(absl::StrCat("cpu:", i));
  const auto run = (*coordinator)->Register(program);
  ASSERT_TRUE(run.ok()) << run.status();
  proto::DatasetSpec spec;
  spec.mutable_source()->mutable_range()->set_begin(10);
  spec.mutable_source()->mutable_range()->set_end(15);
  spec.add_transforms()->mutable_batch()->set_size(5);
  ScheduleOptions closure;
  closure.input = SplitInput{(*coordinator)->CreatePerWorkerDataset(spec), {}};
  const auto result = (*coordinator)->Schedule(*run, std::move(closure));
  ASSERT_TRUE(result.ok()) << result.status();
  const auto each = (*coordinator)->Fetch(*result);
  ASSERT_TRUE(each.ok()) << each.status();
  ASSERT_EQ(each->size(), 4u);
  EXPECT_EQ((*each)[0].num_elements(), 2);
  const auto mean = ReduceReplicas(ReplicaReduce::kMean, *each, {0});
  ASSERT_TRUE(mean.ok()) << mean.status();
  EXPECT_EQ(*mean->data<int64_t>(), 12);
  const auto whole = GatherReplicas(*each, 0);
  ASSERT_TRUE(whole.ok()) << whole.status();
  EXPECT_THAT(whole->span<int64_t>(), testing::ElementsAre(10, 11, 12, 13, 14));
}

TEST(LocalStrategies, AClusterThatDoesNotFitIsRefusedWithTheRemedy) {
  const ModelPrograms nothing;
  const auto problem = [&](const std::string& type, const ClusterShape& cluster) {
    StrategySpec spec;
    spec.type = type;
    return std::string((*MakeStrategy(spec))->MakePlan(nothing, cluster).status().message());
  };
  EXPECT_THAT(problem("mirrored", {.ps = {0, 1}, .workers = {0}}),
              testing::AllOf(testing::HasSubstr("2 ps"), testing::HasSubstr("--local worker=1"),
                             testing::HasSubstr("parameter_server")));
  EXPECT_THAT(problem("one_device", {.workers = {0, 1, 2}}), testing::HasSubstr("has 3"));
  EXPECT_THAT(problem("parameter_server", {.workers = {0}}),
              testing::AllOf(testing::HasSubstr("no ps"), testing::HasSubstr("mirrored")));
}

// fit, evaluate, checkpoint, export; and again from the checkpoint, under the same strategy and
// under another one.
TEST(LocalStrategies, AWholeJobIsTrainedSavedRestoredAndExported) {
  std::vector<double> trained_losses, own_losses, mirrored_losses;
  for (const std::string type : {"one_device", "mirrored", "central_storage", "default"}) {
    const std::vector<std::string> own = {absl::StrCat("strategy.type=", type)};
    for (std::vector<std::string> again : {own, Mirrored(2)}) {
      SCOPED_TRACE(absl::StrCat(type, ", then ", again[0]));
      SimCluster cluster(1, 0, 1);
      std::vector<std::string> first = own;
      first.emplace_back("fit.epochs=2");
      const auto trained = RunWholeJob(cluster, first);
      ASSERT_TRUE(trained.ok()) << trained.status();
      EXPECT_EQ(trained->steps, 14);
      trained_losses.push_back(*trained->test_loss);
      again.insert(again.end(), {"fit.epochs=3", "checkpoint.restore=latest"});
      const auto restored = RunWholeJob(cluster, again);
      ASSERT_TRUE(restored.ok()) << restored.status();
      EXPECT_EQ(restored->steps, 7) << "the third epoch alone";
      (again.size() > 3 ? mirrored_losses : own_losses).push_back(*restored->test_loss);
    }
  }
  EXPECT_THAT(trained_losses, testing::Each(trained_losses[0]));
  EXPECT_THAT(own_losses, testing::Each(own_losses[0]));
  EXPECT_THAT(mirrored_losses, testing::Each(mirrored_losses[0]));
  EXPECT_NEAR(mirrored_losses[0], own_losses[0], 1e-4) << "two replicas add up in another order";
}

}  // namespace
}  // namespace cohort

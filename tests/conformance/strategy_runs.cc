#include "tests/conformance/strategy_runs.h"

#include "absl/strings/str_cat.h"
#include "common/base/event.h"
#include "common/base/status.h"
#include "common/wire/typed_call.h"
#include "gtest/gtest.h"
#include "proto/collective.pb.h"
#include "tests/support/stepwise_training.h"

namespace cohort {

namespace {

constexpr uint64_t kTestExamples = 70;

// Of the calls between workers that this one has kept.
absl::StatusOr<std::set<std::string>> AlgorithmsOf(SimCluster& cluster, TaskId worker) {
  const World world = cluster.WorldOf("chief:0");
  const auto channel =
      world.transport.Connect(*cluster.tasks().spec().Address(worker), Lane::kControl);
  Event came;
  absl::StatusOr<Envelope<proto::GetFlightRecordResponse>> record;
  StartCall<proto::GetFlightRecordResponse>(
      *channel, "/cohort.proto.CollectiveService/GetFlightRecord",
      Envelope<proto::GetFlightRecordRequest>(), absl::Seconds(1), [&](auto response) {
        record = std::move(response);
        came.Notify();
      });
  cluster.waiter().Wait(came, absl::InfiniteDuration());
  RETURN_IF_ERROR(record.status());
  std::set<std::string> algorithms;
  for (const proto::GroupFlight& group : record->header.groups()) {
    for (const proto::FlightOperation& call : group.operations())
      algorithms.insert(call.algorithm());
  }
  return algorithms;
}

absl::StatusOr<Trained> TryToTrain(const JobSpec& job, const RunSetup& setup) {
  Trained trained;
  SimCluster cluster(setup.seed, setup.num_ps, setup.workers,
                     {setup.find_cuda, setup.find_nccl, setup.workers_on_host});
  for (int i = 0; i < setup.workers; ++i) cluster.tasks().SetGpus({Role::kWorker, i}, setup.gpus);
  ASSIGN_OR_RETURN(const auto coordinator, cluster.Connect(CoordinatorOptionsOf(job)));
  StepwiseTraining training(*coordinator, job, setup.examples);
  RETURN_IF_ERROR(training.Begin());
  ASSIGN_OR_RETURN(trained.losses, training.Run(setup.steps));
  ASSIGN_OR_RETURN(trained.values, training.Values());
  const bool copies = job.strategy.type == kMultiWorkerMirrored;
  for (int worker = 0; copies && worker < setup.workers; ++worker) {
    ASSIGN_OR_RETURN(trained.copies.emplace_back(), training.CopyOf(static_cast<uint32_t>(worker)));
  }
  if (copies) {
    ASSIGN_OR_RETURN(trained.algorithms, AlgorithmsOf(cluster, {Role::kWorker, 0}));
  }
  return trained;
}

}  // namespace

Trained TrainJob(const JobSpec& job, const RunSetup& setup) {
  absl::StatusOr<Trained> trained = TryToTrain(job, setup);
  EXPECT_TRUE(trained.ok()) << trained.status();
  if (!trained.ok()) return {};
  EXPECT_EQ(trained->losses.size(), static_cast<size_t>(setup.steps));
  EXPECT_FALSE(trained->values.empty());
  for (const Values& copy : trained->copies) {
    EXPECT_EQ(copy, trained->values) << "copies are the same bits";
  }
  return *std::move(trained);
}

void ExpectSameCurve(const Trained& got, const Trained& wanted, const std::string& what) {
  ASSERT_FALSE(got.losses.empty()) << what;
  ASSERT_EQ(got.losses.size(), wanted.losses.size()) << what;
  for (size_t i = 0; i < got.losses.size(); ++i) {
    EXPECT_NEAR(got.losses[i], wanted.losses[i], 1e-4) << what << ", step " << i;
  }
}

void ExpectSameBitsAfterTheWorkersLoss(const JobSpec& job, const RunSetup& setup, uint64_t seeds) {
  const Trained undisturbed = TrainJob(job, setup);
  for (uint64_t seed = 1; seed <= seeds; ++seed) {
    SimCluster cluster(seed, 0, 1);
    cluster.tasks().SetGpus({Role::kWorker, 0}, setup.gpus);
    ClusterCoordinator::Options options = CoordinatorOptionsOf(job);
    options.recovery_directory = "/recovery";
    options.recovery_interval = absl::Milliseconds(5);
    const auto coordinator = cluster.Connect(std::move(options));
    ASSERT_TRUE(coordinator.ok()) << coordinator.status();
    StepwiseTraining training(**coordinator, job, setup.examples);
    ASSERT_TRUE(training.Begin().ok());
    for (int64_t i = 0; i < setup.steps; ++i) ASSERT_TRUE(training.Schedule().ok());
    const auto delay = absl::Milliseconds(cluster.sim().rng().Below(20));
    cluster.sim().CallAt(cluster.sim().Now() + delay, [&cluster] {
      cluster.tasks().Kill({Role::kWorker, 0});
      cluster.tasks().Start({Role::kWorker, 0});
    });
    const auto losses = training.Losses();
    ASSERT_TRUE(losses.ok()) << "seed " << seed << ": " << losses.status();
    cluster.sim().RunFor(absl::Milliseconds(30));
    const auto values = training.Values();
    ASSERT_TRUE(values.ok()) << values.status();
    EXPECT_EQ(*losses, undisturbed.losses) << "seed " << seed;
    EXPECT_EQ(*values, undisturbed.values) << "seed " << seed;
    EXPECT_GE((*coordinator)->stats().recoveries, 1u);
  }
}

std::string Devices(int replicas) {
  std::string devices = "[";
  for (int i = 0; i < replicas; ++i) {
    absl::StrAppend(&devices, i > 0 ? "," : "", "\"cpu:", i, "\"");
  }
  return absl::StrCat(devices, "]");
}

std::string WithStatistics(bool synchronized) {
  return absl::StrCat(
      R"(model={"class_name":"Sequential","config":{"layers":[)",
      R"({"class_name":"Dense","config":{"units":24,"activation":"relu","input_shape":[784]}},)",
      R"({"class_name":"BatchNormalization","config":{"momentum":0.9,"synchronized":)",
      synchronized ? "true" : "false", "}},", R"({"class_name":"Dense","config":{"units":10}}]}})");
}

absl::StatusOr<TrainSummary> RunWholeJob(SimCluster& cluster, std::vector<std::string> overrides) {
  for (const char* const setting :
       {R"(data.train={"class_name":"SyntheticDigits","config":{"seed":1,"count":200}})",
        R"(data.test={"class_name":"SyntheticDigits","config":{"seed":2,"count":70}})",
        "checkpoint.directory=/checkpoints", "export.onnx=/model.onnx"}) {
    overrides.emplace_back(setting);
  }
  const JobSpec job = PerceptronJob(overrides);
  ClusterCoordinator::Options options = CoordinatorOptionsOf(job);
  options.cluster = cluster.tasks().spec();
  options.recovery_directory = "/checkpoints/recovery";
  options.recovery_interval = job.recovery.interval;
  const World world = cluster.WorldOf("chief:0");
  ASSIGN_OR_RETURN(const auto coordinator,
                   ClusterCoordinator::Connect(world, cluster.waiter(), std::move(options)));
  DataSources sources;
  sources.train.mutable_synthetic_digits()->set_seed(1);
  sources.train.mutable_synthetic_digits()->set_count(200);
  sources.test.emplace().mutable_synthetic_digits()->set_seed(2);
  sources.test->mutable_synthetic_digits()->set_count(kTestExamples);
  Trainer trainer(world, cluster.waiter(), *coordinator, job, sources);
  ASSIGN_OR_RETURN(TrainSummary summary, trainer.Run());
  RETURN_IF_ERROR(coordinator->ForgetState());
  EXPECT_EQ(summary.test_examples, static_cast<int64_t>(kTestExamples)) << "each test example once";
  EXPECT_EQ(summary.model, "/model.onnx");
  return summary;
}

}  // namespace cohort

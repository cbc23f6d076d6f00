// A job that begins with the weights of another program's file, in simulated time.

#include <gmock/gmock.h>

#include "common/checkpoint/bundle.h"
#include "common/formats/safetensors.h"
#include "tests/sim/daemon_sim.h"

namespace cohort {
namespace {

using testing::HasSubstr;

// Nothing moves the weights, so that the checkpoint at the end has those of the beginning.
const std::vector<std::string> kStill = {
    "fit.epochs=1", "checkpoint.directory=/saved", "checkpoint.init_from=/weights",
    R"(compile.optimizer={"class_name": "SGD", "config": {"learning_rate": 0.0}})"};

Tensor Ramp(Shape shape) {
  Tensor tensor(DType::kFloat32, std::move(shape));
  for (int64_t i = 0; i < tensor.num_elements(); ++i) {
    tensor.mutable_data<float>()[i] = static_cast<float>(i % 97) * 0.001f;
  }
  return tensor;
}

void WriteWeights(DaemonSim& sim, const std::vector<NamedTensor>& tensors) {
  const absl::Status written =
      WriteSafetensors(sim.cluster().FilesOf("chief:0"), "/weights", tensors, {});
  ASSERT_TRUE(written.ok()) << written;
}

std::vector<float> ValueIn(DaemonSim& sim, const std::string& prefix, const std::string& name) {
  const auto reader = BundleReader::Open(sim.cluster().FilesOf("chief:0"), prefix);
  EXPECT_TRUE(reader.ok()) << reader.status();
  const auto value = (*reader)->Read(name);
  EXPECT_TRUE(value.ok()) << value.status();
  const absl::Span<const float> values = value->span<float>();
  return {values.begin(), values.end()};
}

std::vector<float> ValuesOf(const Tensor& tensor) {
  const absl::Span<const float> values = tensor.span<float>();
  return {values.begin(), values.end()};
}

TEST(InitFrom, TheTrainingBeginsWithTheWeightsOfTheFile) {
  DaemonSim sim(1, 2, 1, kStill);
  WriteWeights(sim, {{"model/dense/kernel", Ramp({784, 10})}, {"dense/bias", Ramp({10})}});
  testing::internal::CaptureStderr();
  const CoordinatorDaemon::Result result = sim.Run();
  const std::string said = testing::internal::GetCapturedStderr();
  ASSERT_EQ(result.code, kExitOk) << result.error << said;
  EXPECT_THAT(said, HasSubstr("weights_initialized"));
  EXPECT_THAT(said, HasSubstr("matched=2 missing=0"));
  const std::string prefix = SummaryOf(result)["checkpoint"];
  EXPECT_EQ(ValueIn(sim, prefix, "dense/kernel"), ValuesOf(Ramp({784, 10})));
  EXPECT_EQ(ValueIn(sim, prefix, "dense/bias"), ValuesOf(Ramp({10})));
}

TEST(InitFrom, WhatIsMissingBeginsAsNewAndIsSaid) {
  DaemonSim sim(1, 1, 1, kStill);
  WriteWeights(sim, {{"dense/bias", Ramp({10})}, {"other/w", Ramp({3})}});
  testing::internal::CaptureStderr();
  const CoordinatorDaemon::Result result = sim.Run();
  const std::string said = testing::internal::GetCapturedStderr();
  ASSERT_EQ(result.code, kExitOk) << result.error << said;
  EXPECT_THAT(said, HasSubstr("matched=1 missing=1 missing_names=dense/kernel"));
  EXPECT_THAT(said, HasSubstr("left_over=1 left_over_names=other/w"));
}

TEST(InitFrom, AnotherShapeIsAnErrorUnlessItIsSkipped) {
  DaemonSim sim(1, 1, 1, kStill);
  WriteWeights(sim, {{"dense/kernel", Ramp({10, 784})}, {"dense/bias", Ramp({10})}});
  const CoordinatorDaemon::Result refused = sim.Run();
  EXPECT_NE(refused.code, kExitOk);
  EXPECT_THAT(refused.error, HasSubstr("dense/kernel is [784,10] here and [10,784] in the file"));
  const CoordinatorDaemon::Result skipped =
      sim.Run({R"(checkpoint.init_from={"path": "/weights", "skip_mismatch": true})"});
  EXPECT_EQ(skipped.code, kExitOk) << skipped.error;
  const CoordinatorDaemon::Result turned =
      sim.Run({R"(checkpoint.init_from={"path": "/weights", "map": {"dense/kernel":
          {"from": "dense/kernel", "transpose": [1, 0]}}})"});
  EXPECT_EQ(turned.code, kExitOk) << turned.error;
}

// The average moves from its beginning, which is not the initial value that the variable had
// before.
TEST(InitFrom, AMovingAverageBeginsAsItsVariable) {
  DaemonSim sim(1, 2, 1, kStill);
  WriteWeights(sim, {{"dense/kernel", Ramp({784, 10})}, {"dense/bias", Ramp({10})}});
  testing::internal::CaptureStderr();
  const CoordinatorDaemon::Result result =
      sim.Run({R"(compile.optimizer={"class_name": "SGD", "config": {"learning_rate": 0.0,
                  "use_ema": true, "ema_from_start": true}})"});
  const std::string said = testing::internal::GetCapturedStderr();
  ASSERT_EQ(result.code, kExitOk) << result.error << said;
  EXPECT_THAT(said, HasSubstr("optimizer_state_not_taken"));
  EXPECT_THAT(said, HasSubstr("cause=\"the file has no state of an optimizer\""));
  const std::vector<float> average =
      ValueIn(sim, SummaryOf(result)["checkpoint"], "dense/kernel/.OPTIMIZER_SLOT/sgd/average");
  EXPECT_THAT(average, testing::Pointwise(testing::FloatNear(1e-6F), ValuesOf(Ramp({784, 10}))));
}

TEST(InitFrom, TheVersionOfKerasThatTheModelWasTakenAsIsLoggedOnce) {
  DaemonSim sim(1, 1, 1, {"fit.epochs=1", "model.keras_version=2.15.0"});
  testing::internal::CaptureStderr();
  const CoordinatorDaemon::Result result = sim.Run();
  const std::string said = testing::internal::GetCapturedStderr();
  ASSERT_EQ(result.code, kExitOk) << result.error << said;
  EXPECT_THAT(said, HasSubstr("keras=2.15 said_by=keras_version"));
  EXPECT_EQ(said.find("model_version"), said.rfind("model_version"));
}

// What the job itself has saved is newer than the file.
TEST(InitFrom, CountsOnlyWhereThereIsNothingToGoOnWith) {
  DaemonSim sim(1, 1, 1, {"fit.epochs=1", "checkpoint.directory=/saved"});
  WriteWeights(sim, {{"dense/kernel", Ramp({784, 10})}, {"dense/bias", Ramp({10})}});
  const CoordinatorDaemon::Result first = sim.Run();
  ASSERT_EQ(first.code, kExitOk) << first.error;
  const std::vector<float> trained =
      ValueIn(sim, SummaryOf(first)["checkpoint"].get<std::string>(), "dense/kernel");
  ASSERT_TRUE(sim.cluster().FilesOf("chief:0").List(kRecovery).ok());
  testing::internal::CaptureStderr();
  const CoordinatorDaemon::Result second =
      sim.Run({"checkpoint.restore=latest", "checkpoint.init_from=/weights", "fit.epochs=2",
               R"(compile.optimizer={"class_name": "SGD", "config": {"learning_rate": 0.0}})"});
  const std::string said = testing::internal::GetCapturedStderr();
  ASSERT_EQ(second.code, kExitOk) << second.error << said;
  EXPECT_EQ(said.find("weights_initialized"), std::string::npos);
  EXPECT_EQ(ValueIn(sim, SummaryOf(second)["checkpoint"].get<std::string>(), "dense/kernel"),
            trained);
}

}  // namespace
}  // namespace cohort

// A train step through worker and parameter servers against the same step in plain loops: the
// program on the reference kernels, and value - learning rate * gradient.

#include <atomic>
#include <cmath>
#include <map>

#include "absl/strings/match.h"
#include "common/program/program.h"
#include "common/runtime/kernels/reference/register.h"
#include "common/runtime/run/program_runner.h"
#include "gtest/gtest.h"
#include "tests/support/inline_tensors.h"
#include "tests/unit/worker/test_programs.h"
#include "tests/unit/worker/worker_cluster.h"

namespace cohort {
namespace {

constexpr int kSteps = 5;
constexpr double kLearningRate = 0.5;  // as in WorkerCluster::Closure

Tensor Features(int64_t rows) {
  Tensor x(DType::kFloat32, Shape{rows, 4});
  for (int64_t i = 0; i < rows * 4; ++i) {
    x.mutable_data<float>()[i] = static_cast<float>(std::sin(static_cast<double>(i) * 0.7));
  }
  return x;
}

Tensor Classes(int64_t rows) {
  Tensor y(DType::kInt64, Shape{rows});
  for (int64_t i = 0; i < rows; ++i) y.mutable_data<int64_t>()[i] = i * i % 3;
  return y;
}

class Cluster {
 public:
  explicit Cluster(size_t call_bytes_max) : cluster_(2, nullptr, call_bytes_max) {
    EXPECT_TRUE(cluster_.Attach(1).ok());
    EXPECT_TRUE(cluster_.CreateVariables(PerceptronLayouts()).ok());
    const absl::Status registered = cluster_.Register(train_, PerceptronLayouts());
    EXPECT_TRUE(registered.ok()) << registered;
    proto::DatasetSpec spec;
    AddInline(spec, Features(kSteps * 8));
    AddInline(spec, Classes(kSteps * 8));
    spec.add_transforms()->mutable_batch()->set_size(8);
    EXPECT_TRUE(cluster_.CreateDataset(1, spec).ok());
  }

  Tensor Read(const std::string& name, const std::vector<int64_t>& dims) {
    const proto::Program read = ReadProgram(name, DType::kFloat32, dims);
    EXPECT_TRUE(cluster_.Register(read, PerceptronLayouts()).ok());
    return (*cluster_.Run(cluster_.Closure(read)))[0];
  }

  // The loss.
  float Step(int step) {
    proto::RunClosureRequest closure = cluster_.Closure(train_);
    closure.mutable_split()->set_dataset_id(1);
    closure.mutable_split()->mutable_position()->set_element(step);
    const auto fetched = cluster_.Run(closure);
    EXPECT_TRUE(fetched.ok()) << fetched.status();
    return fetched.ok() ? (*fetched)[0].data<float>()[0] : NAN;
  }

  const proto::Program& program() const { return train_; }

  // Of every third push the answer is lost, and it is sent again.
  void LoseAnswersOfPushes() {
    cluster_.faults().SetFaults([this](const std::string&, const std::string& method) {
      const bool push = absl::StrContains(method, "/Push");
      return push && ++pushes_ % 3 == 0 ? Fault::kLoseResponse : Fault::kNone;
    });
  }
  int pushes() const { return pushes_; }

 private:
  WorkerCluster cluster_;
  std::atomic<int> pushes_ = 0;  // calls, on the worker's threads
  proto::Program train_ = PerceptronProgram();
};

void ExpectNear(const Tensor& a, const Tensor& b, const std::string& what) {
  ASSERT_EQ(a.shape(), b.shape());
  for (int64_t i = 0; i < a.num_elements(); ++i) {
    ASSERT_NEAR(a.data<float>()[i], b.data<float>()[i], 1e-5) << what << " element " << i;
  }
}

// In as few calls as there are servers, and in one for each slice.
class TrainStep : public ::testing::TestWithParam<size_t> {};
INSTANTIATE_TEST_SUITE_P(CallBytes, TrainStep, ::testing::Values(kCallBytesMax, 1));

TEST_P(TrainStep, MatchesTheReferenceKernels) {
  Cluster cluster(GetParam());
  const std::map<std::string, std::vector<int64_t>> variables = {
      {"w1", {4, 6}}, {"b1", {6}}, {"w2", {6, 3}}};
  std::map<std::string, Tensor> values;
  for (const auto& [name, dims] : variables) values[name] = cluster.Read(name, dims).Clone();
  EXPECT_NE(values["w1"].data<float>()[0], 0);

  KernelRegistry kernels;
  RegisterReferenceKernels(kernels);
  onnx::ModelProto model = *LoadProgram(cluster.program());
  ProgramRunner runner(*CompileProgram(model, kernels));
  cluster.LoseAnswersOfPushes();
  for (int step = 0; step < kSteps; ++step) {
    const std::vector<Tensor> inputs = {Features(kSteps * 8).Rows(step * 8, 8),
                                        Classes(kSteps * 8).Rows(step * 8, 8), values["w1"],
                                        values["b1"], values["w2"]};
    const auto outputs = runner.Run(inputs, {});
    ASSERT_TRUE(outputs.ok()) << outputs.status();
    EXPECT_NEAR(cluster.Step(step), (*outputs)[0].data<float>()[0], 1e-5);
    const char* const names[] = {"w1", "b1", "w2"};
    for (size_t i = 0; i < 3; ++i) {
      Tensor& value = values[names[i]];
      for (int64_t k = 0; k < value.num_elements(); ++k) {
        value.mutable_data<float>()[k] -=
            static_cast<float>(kLearningRate) * (*outputs)[i + 1].data<float>()[k];
      }
    }
  }
  for (const auto& [name, dims] : variables) {
    ExpectNear(cluster.Read(name, dims), values[name], name);
  }
  size_t slices = 0;
  for (const proto::VariableLayout& layout : PerceptronLayouts()) {
    slices += static_cast<size_t>(layout.slices_size());
  }
  const size_t calls = GetParam() == 1 ? slices : 2;
  EXPECT_GE(cluster.pushes(), static_cast<int>(calls) * kSteps);
  EXPECT_LT(cluster.pushes(), static_cast<int>(calls) * kSteps * 2);
}

}  // namespace
}  // namespace cohort

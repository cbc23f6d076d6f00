// Replicas of several workers that meet while they compute. The expectation is that of as many
// replicas on one worker, bit for bit.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "absl/strings/str_cat.h"
#include "common/program/cohort_ops.h"
#include "common/program/graph_builder.h"
#include "common/program/program.h"
#include "tests/support/communicators/inprocess_communicator.h"
#include "tests/support/world/sim_world.h"
#include "tests/unit/worker/run_together.h"
#include "worker/program/replica_meeting.h"

namespace cohort {
namespace {

using testing::AllOf;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr uint64_t kSeeds = 8;

std::vector<float> Elements(const Tensor& tensor) {
  return {tensor.span<float>().begin(), tensor.span<float>().end()};
}
Tensor Vector(const std::vector<float>& values) {
  return Tensor::FromVector(values, {static_cast<int64_t>(values.size())});
}

// By replica, output after output.
std::vector<std::vector<std::vector<float>>> ValuesOf(const ReplicaOutputs& outputs) {
  std::vector<std::vector<std::vector<float>>> values;
  for (const auto& replica : outputs) {
    EXPECT_TRUE(replica.ok()) << replica.status();
    values.emplace_back();
    for (const Tensor& output : replica.value_or(std::vector<Tensor>())) {
      values.back().push_back(Elements(output));
    }
  }
  return values;
}

std::vector<std::string> ErrorsOf(const ReplicaOutputs& outputs) {
  std::vector<std::string> errors;
  for (const auto& replica : outputs) errors.emplace_back(replica.status().message());
  return errors;
}

// The sum and the mean of x over replicas, and the gradient of what both add up to by x.
onnx::ModelProto SumsGraph() {
  GraphBuilder builder("sums");
  const std::string x = builder.Input("x", DType::kFloat32, {-1});
  const auto all = [&](const char* reduction, const std::string& value) {
    return builder.Op("AllReduce", {value}, {StringAttribute("reduction", reduction)},
                      kCohortDomain);
  };
  const std::string sum = all("sum", x);
  const std::string mean = all("mean", builder.Op("Mul", {sum, x}));
  const std::string loss =
      builder.Op("ReduceSum", {builder.Op("Add", {sum, mean})}, {IntAttribute("keepdims", 0)});
  for (const std::string& output : {sum, mean, loss}) builder.Output(output);
  const auto model = builder.Finish();
  EXPECT_TRUE(model.ok()) << model.status();
  const auto graph = AddGradients(*model, loss, {x});
  EXPECT_TRUE(graph.ok()) << graph.status();
  return graph->model;
}

// 2^24, to which one more adds nothing, shows the order of additions; the last has other parts.
const std::vector<std::vector<Tensor>> kFourVectors = {{Vector({16777216, 0.1f, 3})},
                                                       {Vector({1, 0.2f, -3})},
                                                       {Vector({1, 0.3f, 1e-9f})},
                                                       {Vector({1, 0.7f, 1e9f})}};

TEST(GroupMeeting, SumsAreThoseOfOneWorkerWhereverReplicasAre) {
  const onnx::ModelProto model = SumsGraph();
  for (const std::vector<double>& shares :
       {std::vector<double>{1, 1, 1, 1}, std::vector<double>{1.2, 1.2, 0.8, 0.8}}) {
    const auto wanted = ValuesOf(RunTogether(model, kFourVectors, shares));
    EXPECT_EQ(wanted[0][0][0], 16777218) << "(2^24 + 1) + (1 + 1)";
    for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
      for (const std::vector<size_t>& workers :
           {std::vector<size_t>{4}, std::vector<size_t>{2, 2}, std::vector<size_t>{1, 1, 1, 1}}) {
        EXPECT_EQ(ValuesOf(RunOnWorkers(model, kFourVectors, shares, workers, seed)), wanted)
            << workers.size() << " workers, seed " << seed;
      }
    }
  }
}

// A worker without examples changes no sum, not even the sign of a zero, and no mean.
TEST(GroupMeeting, AWorkerWithoutExamplesDoesNotCount) {
  const onnx::ModelProto model = SumsGraph();
  const std::vector<std::vector<Tensor>> three = {
      {Vector({-0.0f, 1, 2})}, {Vector({-0.0f, 3, 0.1f})}, {Vector({-0.0f, 5, 0.7f})}};
  const auto wanted = ValuesOf(RunTogether(model, three, {1, 1, 1}));
  EXPECT_TRUE(std::signbit(wanted[0][0][0]));
  const std::vector<size_t> workers = {2, 1, 0, 0};
  auto got = ValuesOf(RunOnWorkers(model, three, {1, 1, 1}, workers, 1));
  ASSERT_EQ(got.size(), 5u);
  EXPECT_TRUE(std::signbit(got[0][0][0]));
  EXPECT_EQ(got[3], wanted[2]) << "it computes what the last one does";
  got.resize(3);
  EXPECT_EQ(got, wanted);
}

Tensor Matrix(const std::vector<float>& values, int64_t rows) {
  return Tensor::FromVector(values, {rows, static_cast<int64_t>(values.size()) / rows});
}

TEST(GroupMeeting, GathersUnequalSizesAndGivesEachReplicaItsGradient) {
  const auto rows = GatherGraph(0);
  ASSERT_TRUE(rows.ok()) << rows.status();
  const Tensor dy = Matrix({1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, 5);
  const std::vector<std::vector<Tensor>> three = {
      {Matrix({1, 2, 3, 4}, 2), dy}, {Matrix({5, 6}, 1), dy}, {Matrix({7, 8, 9, 0}, 2), dy}};
  const std::vector<double> shares = {1.2, 0.6, 1.2};
  const auto wanted = ValuesOf(RunTogether(rows->model, three, shares));
  EXPECT_THAT(wanted[2][0], ElementsAre(1, 2, 3, 4, 5, 6, 7, 8, 9, 0));
  for (const std::vector<size_t>& workers :
       {std::vector<size_t>{2, 1}, std::vector<size_t>{1, 1, 1}, std::vector<size_t>{2, 1, 0}}) {
    for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
      auto got = ValuesOf(RunOnWorkers(rows->model, three, shares, workers, seed));
      if (got.size() > wanted.size()) {
        EXPECT_EQ(got.back(), wanted.back()) << "what the last one has";
        got.pop_back();
      }
      EXPECT_EQ(got, wanted) << workers.size() << " workers, seed " << seed;
    }
  }

  const auto columns = GatherGraph(-1);
  ASSERT_TRUE(columns.ok()) << columns.status();
  const std::vector<std::vector<Tensor>> two = {
      {Matrix({1, 2, 3, 4}, 2), Matrix({1, 0, 0, 0, 1, 0}, 2)},
      {Matrix({5, 6}, 2), Matrix({0, 0, 7, 0, 0, 8}, 2)}};
  const std::vector<size_t> each = {1, 1};
  EXPECT_EQ(ValuesOf(RunOnWorkers(columns->model, two, {1, 1}, each, 1)),
            ValuesOf(RunTogether(columns->model, two, {1, 1})));
}

// Nothing that replicas of one worker are refused goes through because they are on several.
TEST(GroupMeeting, WhatDoesNotFitTogetherIsAnErrorOfAllWorkers) {
  const std::vector<size_t> each = {1, 1};
  const auto gather = GatherGraph(0);
  ASSERT_TRUE(gather.ok()) << gather.status();
  const std::vector<std::vector<Tensor>> widths = {{Matrix({1, 2}, 1), Matrix({1, 2}, 1)},
                                                   {Matrix({1, 2, 3}, 1), Matrix({1, 2}, 1)}};
  EXPECT_THAT(ErrorsOf(RunOnWorkers(gather->model, widths, {1, 1}, each, 1)),
              Each(AllOf(HasSubstr("float32[1,2] and float32[1,3]"), HasSubstr("axis 0 alone"))));
  const std::vector<std::vector<Tensor>> sizes = {{Vector({1, 2})}, {Vector({1, 2, 3})}};
  EXPECT_THAT(ErrorsOf(RunOnWorkers(SumsGraph(), sizes, {1, 1}, each, 1)),
              Each(AllOf(HasSubstr("float32[2]"), HasSubstr("float32[3]"))));
}

// Two workers with two replicas each, of which some have come.
class WaitingWorkers : public testing::Test {
 protected:
  WaitingWorkers() {
    for (int rank = 0; rank < 2; ++rank) {
      ReplicaMeeting::OtherWorkers others;
      others.workers.group = std::make_shared<GangGroup>(group_.CommunicatorOf(rank), world_);
      groups_.push_back(others.workers.group);
      others.replicas = 4;
      others.post = [this](Task task) { world_.Run(std::move(task)); };
      meetings_.push_back(std::make_unique<ReplicaMeeting>(
          std::vector<double>{1, 1}, std::make_shared<OutputPool>(), std::move(others)));
    }
  }
  void Come(size_t worker, size_t seat) {
    meetings_[worker]->Seat(seat).Join(
        {ExchangeCall::Op::kSum, "n", Tensor::Scalar(1.0f)},
        [this](const absl::StatusOr<Tensor>& joined) {
          given_.emplace_back(joined.ok() ? absl::StrCat(*joined->data<float>())
                                          : std::string(joined.status().message()));
        });
    world_.RunFor(absl::Seconds(1));
  }

  SimWorld world_{1};
  InProcessGroup group_{world_, world_, {{"workers", 1}, 2, 1}};
  std::vector<std::shared_ptr<GangGroup>> groups_;
  std::vector<std::unique_ptr<ReplicaMeeting>> meetings_;
  std::vector<std::string> given_;
};

TEST_F(WaitingWorkers, NobodyIsAnsweredBeforeAllHaveCome) {
  Come(0, 1);
  Come(0, 0);
  Come(1, 1);
  EXPECT_THAT(given_, testing::IsEmpty());
  Come(1, 0);
  EXPECT_THAT(given_, ElementsAre("4", "4", "4", "4"));
}

TEST_F(WaitingWorkers, TheEndOfTheGroupIsToldToWhoWaitsAndToWhoComesLater) {
  Come(0, 0);
  Come(0, 1);
  Come(1, 0);
  groups_[1]->communicator().Abort(absl::UnavailableError("worker:2 is lost"));
  world_.RunFor(absl::Seconds(1));
  EXPECT_THAT(given_, ElementsAre(HasSubstr("worker:2 is lost"), HasSubstr("worker:2 is lost")))
      << "of worker 1 one has yet to come";
  EXPECT_TRUE(absl::IsUnavailable(meetings_[0]->GroupError()));
  EXPECT_FALSE(meetings_[0]->WasRelayed(0)) << "no replica of its own is to blame";
  Come(1, 1);
  EXPECT_THAT(given_, testing::SizeIs(4));
  EXPECT_THAT(given_, Each(HasSubstr("worker:2 is lost")));
}

}  // namespace
}  // namespace cohort

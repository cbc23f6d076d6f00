// Replicas of one worker that meet while they compute (cohort.AllReduce).

#include "worker/program/replica_meeting.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/program/cohort_ops.h"
#include "common/program/program.h"
#include "tests/unit/worker/run_together.h"
#include "tests/unit/worker/test_programs.h"
#include "tests/unit/worker/worker_cluster.h"

namespace cohort {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

Tensor Float(float value) { return Tensor::Scalar(value); }

// What each of the seats was given, in the order in which they came.
class Meeting {
 public:
  explicit Meeting(size_t replicas)
      : meeting_(std::vector<double>(replicas, 1), pool_, std::nullopt) {}

  void Come(size_t rank, const ExchangeCall& call) {
    meeting_.Seat(rank).Join(call, [this, rank](absl::StatusOr<Tensor> joined) {
      given_.emplace_back(rank, joined.ok() ? std::to_string(*joined->data<float>())
                                            : std::string(joined.status().message()));
    });
  }
  ReplicaMeeting& meeting() { return meeting_; }
  const std::vector<std::pair<size_t, std::string>>& given() const { return given_; }

 private:
  const std::shared_ptr<OutputPool> pool_ = std::make_shared<OutputPool>();
  ReplicaMeeting meeting_;
  std::vector<std::pair<size_t, std::string>> given_;
};

ExchangeCall Sum(float value, const std::string& node = "n") {
  return {ExchangeCall::Op::kSum, node, Float(value)};
}

TEST(ReplicaMeeting, WhoComesFirstWaitsAndWhoComesLastGoesOnLast) {
  Meeting meeting(3);
  meeting.Come(2, Sum(1));
  meeting.Come(0, Sum(10));
  EXPECT_TRUE(meeting.given().empty());
  meeting.Come(1, Sum(100));
  EXPECT_THAT(meeting.given(), ElementsAre(std::pair(0, "111.000000"), std::pair(2, "111.000000"),
                                           std::pair(1, "111.000000")));
  meeting.Come(1, {ExchangeCall::Op::kMean, "m", Float(9)});
  meeting.Come(0, {ExchangeCall::Op::kMean, "m", Float(0)});
  meeting.Come(2, {ExchangeCall::Op::kMean, "m", Float(0)});
  EXPECT_EQ(meeting.given().back().second, "3.000000") << "they meet again";
}

TEST(ReplicaMeeting, SumsAreTakenInTheOrderOfRanks) {
  const float large = 16777216;  // 2^24: one more is no other float
  for (const bool backwards : {false, true}) {
    Meeting meeting(4);
    const std::vector<float> values = {large, 1, 1, 1};
    for (size_t i = 0; i < 4; ++i) {
      const size_t rank = backwards ? 3 - i : i;
      meeting.Come(rank, Sum(values[rank]));
    }
    EXPECT_EQ(meeting.given()[0].second, "16777218.000000") << "(large + 1) + (1 + 1)";
  }
}

TEST(ReplicaMeeting, AFailureReachesWhoWaitsAndWhoComesLater) {
  Meeting meeting(3);
  meeting.Come(0, Sum(1));
  meeting.meeting().Leave(1, absl::InvalidArgumentError("replica 1 has no such row"));
  meeting.meeting().Leave(2, absl::InternalError("a later one"));
  meeting.Come(2, Sum(1));
  EXPECT_THAT(meeting.given(), ElementsAre(std::pair(0, "replica 1 has no such row"),
                                           std::pair(2, "replica 1 has no such row")));
  EXPECT_TRUE(meeting.meeting().WasRelayed(0));
  EXPECT_FALSE(meeting.meeting().WasRelayed(1));
}

TEST(ReplicaMeeting, WhatDoesNotFitTogetherIsAnErrorOfAll) {
  Meeting meeting(2);
  meeting.Come(0, Sum(1, "here"));
  meeting.Come(1, Sum(1, "there"));
  ASSERT_EQ(meeting.given().size(), 2u);
  EXPECT_THAT(meeting.given()[0].second, AllOf(HasSubstr("'here'"), HasSubstr("'there'")));
  EXPECT_EQ(meeting.given()[0].second, meeting.given()[1].second);
  meeting.Come(0, Sum(1));
  meeting.Come(1, {ExchangeCall::Op::kSum, "n", Tensor::FromVector<float>({1, 2}, {2})});
  EXPECT_THAT(meeting.given().back().second, HasSubstr("float32[] and float32[2]"));
}

Tensor Matrix(const std::vector<float>& values, int64_t rows) {
  return Tensor::FromVector(values, {rows, static_cast<int64_t>(values.size()) / rows});
}
std::vector<float> Elements(const Tensor& tensor) {
  return {tensor.span<float>().begin(), tensor.span<float>().end()};
}

// As ReplicaContext.all_gather: sizes along the axis may differ, and a replica's gradient is its
// own part of the sum of all replicas' (testAllGatherGradient).
TEST(AllGather, TakesUnequalSizesAndGivesEachReplicaItsGradient) {
  const auto rows = GatherGraph(0);
  ASSERT_TRUE(rows.ok()) << rows.status();
  const std::vector<Tensor> first = {Matrix({1, 2, 3, 4}, 2), Matrix({1, 1, 1, 1, 1, 1}, 3)};
  const std::vector<Tensor> second = {Matrix({5, 6}, 1), Matrix({1, 2, 3, 4, 5, 6}, 3)};
  auto outputs = RunTogether(rows->model, {first, second}, {1, 1});
  for (const auto& output : outputs) {
    ASSERT_TRUE(output.ok()) << output.status();
    EXPECT_EQ((*output)[0].shape(), (Shape{3, 2}));
    EXPECT_THAT(Elements((*output)[0]), ElementsAre(1, 2, 3, 4, 5, 6));
  }
  EXPECT_THAT(Elements((*outputs[0])[2]), ElementsAre(2, 3, 4, 5));
  EXPECT_THAT(Elements((*outputs[1])[2]), ElementsAre(6, 7));

  // Of mean losses over 2 examples and 1: each counts by its examples, in units of one's own.
  outputs = RunTogether(rows->model, {first, second}, {4.0 / 3, 2.0 / 3});
  EXPECT_FLOAT_EQ(Elements((*outputs[0])[2])[1], 1 + 0.5f * 2);
  EXPECT_FLOAT_EQ(Elements((*outputs[1])[2])[0], 5 + 2.0f * 1);

  const auto columns = GatherGraph(-1);
  ASSERT_TRUE(columns.ok()) << columns.status();
  outputs = RunTogether(columns->model,
                        {{Matrix({1, 2, 3, 4}, 2), Matrix({1, 0, 0, 0, 1, 0}, 2)},
                         {Matrix({5, 6}, 2), Matrix({0, 0, 7, 0, 0, 8}, 2)}},
                        {1, 1});
  ASSERT_TRUE(outputs[0].ok()) << outputs[0].status();
  EXPECT_THAT(Elements((*outputs[0])[0]), ElementsAre(1, 2, 5, 3, 4, 6));
  EXPECT_THAT(Elements((*outputs[0])[2]), ElementsAre(1, 0, 0, 1));
  EXPECT_THAT(Elements((*outputs[1])[2]), ElementsAre(7, 8));
}

// The shapes of tf.distribute's documentation: four replicas of [1, 2, 3].
TEST(AllGather, HasTensorFlowsShapesAndErrors) {
  const auto gathered = [](const std::vector<Tensor>& values, int64_t axis) {
    GraphBuilder builder("gather");
    const std::string x = builder.Input("x", values[0].dtype(), {});
    onnx::ModelProto model;
    builder.Output(builder.Op("AllGather", {x}, {IntAttribute("axis", axis)}, kCohortDomain));
    model = *builder.Finish();
    // Any shape.
    model.mutable_graph()->mutable_input(0)->mutable_type()->mutable_tensor_type()->clear_shape();
    model.mutable_graph()->mutable_output(0)->mutable_type()->mutable_tensor_type()->clear_shape();
    std::vector<std::vector<Tensor>> inputs;
    for (const Tensor& value : values) inputs.push_back({value});
    return RunTogether(model, inputs, std::vector<double>(values.size(), 1));
  };
  const std::vector<Tensor> four(4, Tensor::Zeros(DType::kInt64, {1, 2, 3}));
  EXPECT_EQ((*gathered(four, 0)[3])[0].shape(), (Shape{4, 2, 3}));
  EXPECT_EQ((*gathered(four, 1)[0])[0].shape(), (Shape{1, 8, 3}));
  EXPECT_EQ((*gathered(four, 2)[1])[0].shape(), (Shape{1, 2, 12}));
  const auto problem = [&](const std::vector<Tensor>& values, int64_t axis) {
    const absl::Status status = gathered(values, axis)[0].status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
    return std::string(status.message());
  };
  EXPECT_THAT(problem({Tensor::Scalar(1.0f), Tensor::Scalar(2.0f)}, 0),
              HasSubstr("scalars cannot be gathered"));
  EXPECT_THAT(problem({Matrix({1, 2}, 1), Matrix({1, 2, 3}, 1)}, 0),
              AllOf(HasSubstr("float32[1,2] and float32[1,3]"), HasSubstr("axis 0 alone")));
  EXPECT_THAT(problem({Matrix({1}, 1), Tensor::FromVector<float>({1}, {1})}, 0),
              HasSubstr("ranks must be the same"));
  EXPECT_THAT(problem({Matrix({1}, 1), Matrix({1}, 1)}, 2), HasSubstr("axis 2 is out of range"));
}

// Sums its part of the batch, and that over replicas, twice; then picks row `replica` of two, which
// a third replica does not have, and sums once more.
proto::Program SumsProgram(int replicas) {
  proto::Program program;
  program.set_name("sums");
  GraphBuilder builder("sums");
  const std::string x = builder.Input("x", DType::kInt64, {-1});
  const std::string replica = builder.Input("replica", DType::kInt64, {});
  const auto all_reduce = [&](const std::string& value, const char* reduction) {
    return builder.Op("AllReduce", {value}, {StringAttribute("reduction", reduction)},
                      kCohortDomain);
  };
  const std::string own = builder.Op(
      "ReduceSum",
      {builder.Op("Cast", {x}, {IntAttribute("to", static_cast<int64_t>(DType::kFloat32))})},
      {IntAttribute("keepdims", 0)});
  const std::string sum = all_reduce(own, "sum");
  const std::string mean = all_reduce(builder.Op("Add", {sum, own}), "mean");
  const std::string two = builder.Constant("two", Tensor::FromVector<float>({100, 200}, Shape{2}));
  const std::string picked = builder.Op("Gather", {two, replica}, {IntAttribute("axis", 0)});
  for (const std::string& value : {sum, mean, all_reduce(picked, "sum")}) {
    const std::string output = builder.Op("Identity", {value});
    builder.Output(output);
    BindFetch(program, output);
  }
  SetModel(program, builder);
  BindBatch(program, x, 0);
  proto::InputBinding& binding = *program.add_inputs();
  binding.set_input(replica);
  binding.set_context(proto::REPLICA_ID);
  for (int i = 0; i < replicas; ++i) {
    program.mutable_replicas()->add_devices(absl::StrCat("cpu:", i));
  }
  return program;
}

class MeetingReplicas : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(cluster_.Attach(1).ok());
    proto::DatasetSpec spec;
    spec.mutable_source()->mutable_range()->set_end(1000);
    spec.add_transforms()->mutable_batch()->set_size(5);
    ASSERT_TRUE(cluster_.CreateDataset(1, spec).ok());
  }
  proto::RunClosureRequest Closure(const proto::Program& program, uint64_t batch) {
    proto::RunClosureRequest closure = cluster_.Closure(program);
    closure.mutable_split()->set_dataset_id(1);
    closure.mutable_split()->mutable_position()->set_element(static_cast<int64_t>(batch));
    return closure;
  }

  WorkerCluster cluster_{0};
};

// Runs of one program wait in their meetings for each other's strands, and do not mix.
TEST_F(MeetingReplicas, ManyClosuresAtOnceGetTheirOwnSums) {
  const proto::Program program = SumsProgram(2);
  ASSERT_TRUE(cluster_.Register(program, {}).ok());
  std::vector<Pending<proto::RunClosureResponse>> pending;
  for (uint64_t batch = 0; batch < 40; ++batch) {
    pending.push_back(cluster_.StartClosure(Closure(program, batch)));
  }
  for (uint64_t batch = 0; batch < 40; ++batch) {
    const auto answer = pending[batch].get();
    ASSERT_TRUE(answer.ok()) << answer.status();
    const auto fetched = ReadTensors(answer->header.fetches(), answer->payload);
    const float sum = 25.0f * static_cast<float>(batch) + 10;
    // Of each fetch both replicas' values.
    ASSERT_EQ(fetched->size(), 6u);
    EXPECT_EQ(*(*fetched)[0].data<float>(), sum);
    EXPECT_EQ(*(*fetched)[1].data<float>(), sum);
    EXPECT_EQ(*(*fetched)[2].data<float>(), 1.5f * sum);
    EXPECT_EQ(*(*fetched)[5].data<float>(), 300);
  }
}

TEST_F(MeetingReplicas, AReplicaThatFailsEndsTheOthersWithItsError) {
  const proto::Program program = SumsProgram(3);
  ASSERT_TRUE(cluster_.Register(program, {}).ok());
  for (uint64_t batch = 0; batch < 3; ++batch) {
    const absl::Status failed = cluster_.Run(Closure(program, batch)).status();
    EXPECT_TRUE(absl::IsInvalidArgument(failed)) << failed;
    EXPECT_THAT(failed.message(), AllOf(HasSubstr("replica 2: node"), HasSubstr("Gather"),
                                        Not(HasSubstr("AllReduce"))));
  }
  // The same worker goes on.
  const proto::Program two = SumsProgram(2);
  ASSERT_TRUE(cluster_.Register(two, {}).ok());
  EXPECT_TRUE(cluster_.Run(Closure(two, 0)).ok());
}

TEST_F(MeetingReplicas, OneReplicaMeetsNobody) {
  const proto::Program program = SumsProgram(1);
  ASSERT_TRUE(cluster_.Register(program, {}).ok());
  const auto fetched = cluster_.Run(Closure(program, 0));
  ASSERT_TRUE(fetched.ok()) << fetched.status();
  EXPECT_EQ(*(*fetched)[1].data<float>(), 20);
}

}  // namespace
}  // namespace cohort

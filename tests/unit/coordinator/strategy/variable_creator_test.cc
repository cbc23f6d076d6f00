#include "coordinator/strategy/variable_creator.h"

#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "common/tensor/slice_spec.h"
#include "coordinator/strategy/variable_pieces.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace cohort {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Answers what it is told to.
class FakePartitioner final : public Partitioner {
 public:
  explicit FakePartitioner(std::vector<int64_t> answer) : answer_(std::move(answer)) {}
  absl::StatusOr<std::vector<int64_t>> Partition(DType, const Shape&) const override {
    return answer_;
  }

 private:
  const std::vector<int64_t> answer_;
};

std::shared_ptr<const Partitioner> Answer(std::vector<int64_t> answer) {
  return std::make_shared<FakePartitioner>(std::move(answer));
}

VariableSpec Variable(const std::string& name, Shape shape) {
  VariableSpec spec;
  spec.name = name;
  spec.shape = std::move(shape);
  spec.initializer.set_op("zeros");
  return spec;
}

proto::VariableLayout Create(VariableCreator& creator, const VariableSpec& spec,
                             const VariableOptions& options = {}) {
  absl::StatusOr<proto::VariableLayout> layout = creator.CreateVariable(spec, {}, options);
  EXPECT_TRUE(layout.ok()) << layout.status();
  return layout.value_or(proto::VariableLayout());
}

absl::Status Failure(VariableCreator& creator, const VariableSpec& spec,
                     const VariableOptions& options = {}) {
  return creator.CreateVariable(spec, {}, options).status();
}

using Home = std::tuple<uint32_t, int64_t, int64_t, uint32_t>;  // id, begin, count, ps
std::vector<Home> Homes(const proto::VariableLayout& layout) {
  std::vector<Home> homes;
  for (const proto::SliceHome& slice : layout.slices()) {
    homes.emplace_back(slice.slice_id(), slice.row_begin(), slice.row_count(), slice.ps());
  }
  return homes;
}

TEST(VariableCreator, AVariableWhoseRuleNeedsItWholeIsNotCut) {
  VariableCreator creator({0, 1}, Answer({2, 1}));
  proto::UpdateRule rule;
  rule.set_op("lion");
  EXPECT_EQ(creator.CreateVariable(Variable("a", {6, 4}), rule, {})->slices_size(), 2);
  for (const char* op : {"lamb", "adafactor", "muon"}) {
    rule.set_op(op);
    auto layout = creator.CreateVariable(Variable(op, {6, 4}), rule, {});
    ASSERT_TRUE(layout.ok()) << layout.status();
    EXPECT_EQ(layout->slices_size(), 1) << op;
    // Neither are its pieces.
    uint32_t next = 0;
    CutPieces(32, next, *layout);
    EXPECT_EQ(layout->slices_size(), 1) << op;
  }
  EXPECT_THAT(std::string(creator.CreateVariable(Variable("b", {6}), rule, {}).status().message()),
              HasSubstr("matrices"));
  rule.set_op("lamb");
  const VariableSpec large = Variable("c", {1 << 14, 1 << 13});
  EXPECT_THAT(std::string(creator.CreateVariable(large, rule, {}).status().message()),
              HasSubstr("too large"));
}

TEST(VariableCreator, PiecesGoRoundRobinInCreationOrderScalarsToo) {
  VariableCreator creator({0, 1}, nullptr);
  EXPECT_THAT(Homes(Create(creator, Variable("a", {5, 3}))), ElementsAre(Home{0, 0, 5, 0}));
  EXPECT_THAT(Homes(Create(creator, Variable("b", {}))), ElementsAre(Home{1, 0, 1, 1}));
  EXPECT_THAT(Homes(Create(creator, Variable("c", {7}))), ElementsAre(Home{2, 0, 7, 0}));
}

// A sparse cluster: homes are task indices, dealt out in index order.
TEST(VariableCreator, HomesAreTaskIndicesOfASparseCluster) {
  VariableCreator creator({0, 3, 7}, Answer({2, 1}));
  EXPECT_THAT(Homes(Create(creator, Variable("a", {5, 3}))),
              ElementsAre(Home{0, 0, 3, 0}, Home{1, 3, 2, 3}));
  EXPECT_THAT(Homes(Create(creator, Variable("b", {4, 1}))),
              ElementsAre(Home{2, 0, 2, 7}, Home{3, 2, 2, 0}));
  EXPECT_THAT(Homes(Create(creator, Variable("scalar", {}))), ElementsAre(Home{4, 0, 1, 3}));
  VariableOptions beside;
  beside.colocate_with = "b/part_0";
  EXPECT_THAT(Homes(Create(creator, Variable("slot", {4}), beside)), ElementsAre(Home{5, 0, 4, 7}));
}

TEST(VariableCreator, ShardsTakeTurnsOneByOneAndTheCounterGoesOn) {
  VariableCreator creator({0, 1, 2}, Answer({2, 1}));
  EXPECT_THAT(Homes(Create(creator, Variable("a", {5, 3}))),
              ElementsAre(Home{0, 0, 3, 0}, Home{1, 3, 2, 1}));
  EXPECT_THAT(Homes(Create(creator, Variable("b", {4, 1}))),
              ElementsAre(Home{2, 0, 2, 2}, Home{3, 2, 2, 0}));
  EXPECT_THAT(Homes(Create(creator, Variable("scalar", {}))), ElementsAre(Home{4, 0, 1, 1}));
}

TEST(VariableCreator, ScalarsAreNeverCutAndThePartitionerIsNotAsked) {
  VariableCreator creator({0, 1}, Answer({}));  // an answer that would be an error
  EXPECT_EQ(Create(creator, Variable("scalar", {})).slices_size(), 1);
}

TEST(VariableCreator, OneMeansPlainAndMoreThanTheRowsMeansOneRowEach) {
  VariableCreator one({0, 1, 2, 3}, Answer({1}));
  EXPECT_EQ(Create(one, Variable("a", {5})).slices_size(), 1);
  VariableCreator many({0, 1, 2, 3}, Answer({9, 1}));
  EXPECT_THAT(Homes(Create(many, Variable("a", {3, 2}))),
              ElementsAre(Home{0, 0, 1, 0}, Home{1, 1, 1, 1}, Home{2, 2, 1, 2}));
}

TEST(VariableCreator, PartitionerAnswersThatAreNoneAreErrorsThatShowThem) {
  const std::vector<std::pair<std::vector<int64_t>, std::string>> cases = {
      {{}, "[]"}, {{0, 1}, "[0,1]"}, {{-2, 1}, "[-2,1]"}, {{2, 2}, "[2,2]"}, {{1, 2}, "[1,2]"}};
  for (const auto& [answer, shown] : cases) {
    VariableCreator creator({0, 1}, Answer(answer));
    const absl::Status status = Failure(creator, Variable("table", {4, 4}));
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << shown;
    EXPECT_THAT(std::string(status.message()), HasSubstr("answered " + shown));
    EXPECT_THAT(std::string(status.message()), HasSubstr("'table'"));
  }
}

TEST(VariableCreator, ColocatedVariablesTakeNoTurnAndAreNeverCut) {
  VariableCreator creator({0, 1, 2}, Answer({2}));
  Create(creator, Variable("a", {4}));  // ps 0 and 1
  VariableOptions with_slice;
  with_slice.colocate_with = "a/part_1";
  EXPECT_THAT(Homes(Create(creator, Variable("slot", {4}), with_slice)),
              ElementsAre(Home{2, 0, 4, 1}));
  Create(creator, Variable("scalar", {}));  // ps 2, as if the slot were not there
  VariableOptions with_variable;
  with_variable.colocate_with = "scalar";
  EXPECT_THAT(Homes(Create(creator, Variable("slot2", {4}), with_variable)),
              ElementsAre(Home{4, 0, 4, 2}));
  EXPECT_THAT(Homes(Create(creator, Variable("b", {}))), ElementsAre(Home{5, 0, 1, 0}));
}

TEST(VariableCreator, ColocationNeedsOneHomeThatExists) {
  VariableCreator creator({0, 1}, Answer({2}));
  Create(creator, Variable("a", {4}));
  VariableOptions options;
  options.colocate_with = "a";
  EXPECT_EQ(Failure(creator, Variable("b", {4}), options).code(),
            absl::StatusCode::kFailedPrecondition);
  options.colocate_with = "a/part_2";
  EXPECT_EQ(Failure(creator, Variable("b", {4}), options).code(), absl::StatusCode::kNotFound);
}

TEST(VariableCreator, PerWorkerVariablesHaveNoSlicesAndTakeNoTurn) {
  VariableCreator creator({0, 1}, Answer({}));
  VariableOptions options;
  options.per_worker = true;
  EXPECT_THAT(Homes(Create(creator, Variable("counter", {4}), options)), IsEmpty());
  EXPECT_THAT(Homes(Create(creator, Variable("a", {}))), ElementsAre(Home{0, 0, 1, 0}));
}

TEST(VariableCreator, NoInitialValueIsAllowedOnlyWhileLoading) {
  VariableCreator creator({0}, nullptr);
  VariableSpec spec = Variable("a", {4});
  spec.initializer.Clear();
  EXPECT_THAT(std::string(Failure(creator, spec).message()), HasSubstr("no initial value"));
  VariableOptions options;
  options.loading = true;
  EXPECT_EQ(Create(creator, spec, options).slices_size(), 1);
}

TEST(VariableCreator, NamesAreUniqueAndShapesAreWhole) {
  VariableCreator creator({0}, nullptr);
  Create(creator, Variable("a", {4}));
  EXPECT_THAT(std::string(Failure(creator, Variable("a", {4})).message()),
              HasSubstr("exists already"));
  EXPECT_THAT(std::string(Failure(creator, Variable("b", {4, 0})).message()), HasSubstr("[4,0]"));
  EXPECT_FALSE(Failure(creator, Variable("", {4})).ok());
}

TEST(VariableCreator, ShardsAreNamedPartUnlessThereIsOne) {
  VariableCreator creator({0, 1}, Answer({2}));
  const proto::VariableLayout cut = Create(creator, Variable("dense/kernel", {4}));
  EXPECT_EQ(SliceName(cut, 0), "dense/kernel/part_0");
  EXPECT_EQ(SliceName(cut, 1), "dense/kernel/part_1");
  EXPECT_EQ(SliceName(Create(creator, Variable("step", {})), 0), "step");
}

// A share of the keys on every server, whatever the partitioner says.
TEST(VariableCreator, ADynamicTableIsOnEveryServerAndTakesNoTurn) {
  VariableCreator creator({0, 3, 7}, Answer({2, 1}));
  VariableSpec table = Variable("table", {kKeyBuckets, 4});
  table.dynamic.emplace();
  const proto::VariableLayout layout = Create(creator, table);
  EXPECT_THAT(Homes(layout), ElementsAre(Home{0, 0, 21846, 0}, Home{1, 21846, 21845, 3},
                                         Home{2, 43691, 21845, 7}));
  EXPECT_TRUE(layout.has_dynamic());
  EXPECT_THAT(Homes(Create(creator, Variable("scalar", {}))), ElementsAre(Home{3, 0, 1, 0}));
}

// A row for each replica where each has a value; else it is as any other.
TEST(VariableCreator, AnOnReadVariableIsWholeWithARowForEachReplica) {
  VariableCreator creator({0, 1}, Answer({2, 1}));
  VariableOptions options;
  options.replicas = 3;
  VariableSpec spec = Variable("means", {4, 2});
  spec.synchronization = VariableSynchronization::kOnRead;
  proto::UpdateRule add;
  add.set_op("assign_add");
  const auto layout = creator.CreateVariable(spec, add, options);
  ASSERT_TRUE(layout.ok()) << layout.status();
  EXPECT_THAT(layout->dims(), ElementsAre(3, 4, 2));
  EXPECT_EQ(layout->replicas(), 3u);
  EXPECT_THAT(Homes(*layout), ElementsAre(Home{0, 0, 3, 0}));
  spec.name = "shared";
  const auto shared = creator.CreateVariable(spec, add, {});
  ASSERT_TRUE(shared.ok()) << shared.status();
  EXPECT_THAT(shared->dims(), ElementsAre(4, 2));
  EXPECT_EQ(shared->replicas(), 0u);
  EXPECT_EQ(shared->slices_size(), 2);
}

TEST(VariableCreator, SynchronizationsThatDoNotFitAreRefused) {
  VariableCreator creator({0}, nullptr);
  const auto problem = [&](VariableSynchronization synchronization) {
    VariableSpec spec = Variable("v", {4});
    spec.synchronization = synchronization;
    proto::UpdateRule sgd;
    sgd.set_op("sgd");
    return std::string(creator.CreateVariable(spec, sgd, {}).status().message());
  };
  EXPECT_THAT(problem(VariableSynchronization::kNone), HasSubstr("use AUTO, ON_WRITE or ON_READ"));
  EXPECT_THAT(problem(VariableSynchronization::kOnRead), HasSubstr("under rule 'sgd'"));
  EXPECT_THAT(problem(static_cast<VariableSynchronization>(7)), HasSubstr("invalid"));
}

}  // namespace
}  // namespace cohort

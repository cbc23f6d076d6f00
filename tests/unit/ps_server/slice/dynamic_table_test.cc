// Dynamic tables as a parameter server serves them: rows by keys, once for each closure, saved with
// what is in them. Expectations: arithmetic, and for the optimizers the bits of a table that never
// moved.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "absl/strings/str_cat.h"
#include "tests/unit/ps_server/dynamic_table_support.h"

namespace cohort {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

class DynamicTable : public testing::Test {
 protected:
  MemoryFileSystem files_;
};

TEST_F(DynamicTable, AddsUpTheGradientsOfAKeyOnceForEachClosure) {
  CutCluster cluster(1, files_, {ZeroTable(Rule("sgd", {}))});
  const proto::SliceHome slice = cluster.slices()[0];
  const Tensor gradients = Tensor::FromVector<float>({1, 2, 3, 10, 20, 30, 4, 8, 12}, {3, 3});
  const auto push = [&](uint64_t closure) {
    return cluster.ps().Push(0, PushRowsOf({.closure = closure, .learning_rate = 0.5},
                                           {{slice.slice_id(), {-7, 1, -7}, gradients}}));
  };
  EXPECT_EQ(push(1)->applied(), 1u);
  EXPECT_EQ(push(1)->duplicates(), 1u);
  const auto rows = PullKeys(cluster, slice, {1, int64_t{1} << 60, -7});
  ASSERT_TRUE(rows.ok()) << rows.status();
  EXPECT_THAT(rows->span<float>(), ElementsAre(-5, -10, -15, 0, 0, 0, -2.5, -5, -7.5));
  EXPECT_EQ(RowsIn(cluster, 0), 2u) << "a pull makes no row";
}

// Adagrad's first step is the learning rate, whatever the gradient; two steps would be more.
TEST_F(DynamicTable, UpdatesAKeyOnceWithTheSumOfItsGradients) {
  CutCluster cluster(
      1, files_,
      {ZeroTable(Rule("adagrad", {{"initial_accumulator_value", 0}, {"epsilon", 1e-30}}))});
  const proto::SliceHome slice = cluster.slices()[0];
  const Tensor gradients = Tensor::FromVector<float>({1, 2, 3, 10, 20, 30, 4, 8, 12}, {3, 3});
  ASSERT_TRUE(
      cluster.ps()
          .Push(0, PushRowsOf({.learning_rate = 0.5}, {{slice.slice_id(), {-7, 1, -7}, gradients}}))
          .ok());
  const auto rows = PullKeys(cluster, slice, {1, -7});
  ASSERT_TRUE(rows.ok()) << rows.status();
  EXPECT_THAT(rows->span<float>(), testing::Each(-0.5f));
}

TEST_F(DynamicTable, RefusesWhatIsNotOfTheSliceAndChangesNothing) {
  CutCluster cluster(2, files_, {ZeroTable(Rule("sgd", {})), {"w", DType::kFloat32, Shape{2}}});
  const proto::SliceHome table = cluster.slices()[0];
  const proto::SliceHome whole = cluster.slices()[2];
  int64_t here = 0;
  int64_t elsewhere = 0;
  while (KeysOf(table, {here}).empty()) ++here;
  while (!KeysOf(table, {elsewhere}).empty()) ++elsewhere;
  const Tensor two = Tensor::Zeros(DType::kFloat32, Shape{2, kWidth});
  const auto before = cluster.Read(whole);
  const auto refused = [&](const Envelope<proto::PushRequest>& push) {
    // With a gradient of the other variable, before what is wrong.
    const Tensor one = Tensor::FromVector<float>({1}, {1});
    Envelope<proto::PushRequest> both = PushOf({}, {{whole.slice_id(), one}});
    both.header.mutable_slices()->MergeFrom(push.header.slices());
    both.payload.insert(both.payload.end(), push.payload.begin(), push.payload.end());
    return cluster.ps().Push(0, std::move(both)).status();
  };
  EXPECT_THAT(
      std::string(refused(PushRowsOf({}, {{table.slice_id(), {here, elsewhere}, two}})).message()),
      AllOf(HasSubstr(absl::StrCat("key ", elsewhere, " is in bucket ")), HasSubstr("[0, 32768)")));
  EXPECT_THAT(std::string(refused(PushOf({}, {{table.slice_id(), two}})).message()),
              HasSubstr("dynamic table"));
  EXPECT_THAT(std::string(refused(PushRowsOf({}, {{table.slice_id(), {here}, two}})).message()),
              HasSubstr("float32[1,3]"));
  EXPECT_EQ(PullKeys(cluster, table, {elsewhere}).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(cluster.ps().Pull(0, {table.slice_id()}).status().message()),
              HasSubstr("dynamic table"));
  const auto assigned = cluster.ps().Call<proto::AssignResponse>(
      0, "/cohort.proto.PsService/Assign", AssignOf({{table.slice_id(), two}}));
  EXPECT_THAT(std::string(assigned.status().message()), HasSubstr("dynamic table"));
  EXPECT_EQ(cluster.Read(whole), before);
  EXPECT_EQ(RowsIn(cluster, 0), 0u);
}

TEST_F(DynamicTable, SaysWhatIsWrongWithALayout) {
  const auto refusal = [&](const VariableSpec& spec) {
    const absl::Status status = PsCluster(1, files_).CreateAll(LayOut({spec}, 1));
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  VariableSpec spec = ZeroTable(Rule("sgd", {}));
  spec.shape = Shape{100, kWidth};
  EXPECT_THAT(refusal(spec), AllOf(HasSubstr("'t'"), HasSubstr("float32[65536,width]")));
  EXPECT_THAT(refusal(ZeroTable(Rule("adam", {}))), HasSubstr("sparse_updates"));
  spec = ZeroTable(Rule("sgd", {}));
  spec.dynamic->set_row_dtype(static_cast<int32_t>(DType::kInt32));
  EXPECT_THAT(refusal(spec), HasSubstr("float32, float16 and bfloat16"));
  spec = ZeroTable(Rule("sgd", {}));
  spec.dynamic->set_admit_after(201);
  EXPECT_THAT(refusal(spec), HasSubstr("admit_after is 201"));
}

TEST_F(DynamicTable, ASlicesLimitOfMemoryCountsBeforeThereIsARow) {
  VariableSpec spec = ZeroTable(Rule("sgd", {}));
  spec.dynamic->set_max_bytes(size_t{65} << 20);  // the test's servers have 64 MiB
  const absl::Status status = PsCluster(1, files_).CreateAll(LayOut({spec}, 1));
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
}

TEST_F(DynamicTable, ARoundAppliesTheMeanOfItsPushesOnce) {
  CutCluster cluster(1, files_, {ZeroTable(Rule("sgd", {}))});
  const uint32_t id = cluster.slices()[0].slice_id();
  const auto push = [&](uint64_t closure, int64_t key, float gradient) {
    auto request = PushRowsOf(
        {.closure = closure, .learning_rate = 1},
        {{id, {key, 5}, Tensor::FromVector<float>(std::vector<float>(6, gradient), {2, 3})}});
    request.header.set_round(1);
    request.header.set_aggregate(2);
    return cluster.ps().Push(0, std::move(request));
  };
  EXPECT_EQ(push(1, 8, 2)->open_rounds(), 1u);
  EXPECT_EQ(push(2, 9, 6)->open_rounds(), 0u);
  EXPECT_EQ(push(3, 8, 100)->dropped(), 1u);
  const auto rows = PullKeys(cluster, cluster.slices()[0], {5, 8, 9});
  EXPECT_THAT(rows->span<float>(), ElementsAre(-4, -4, -4, -1, -1, -1, -3, -3, -3));
}

TEST_F(DynamicTable, ACutHasItsRowsAndSaysWhichClosuresAreInThem) {
  proto::UpdateRule rule = Rule("rmsprop", {{"momentum", 0.5}});
  rule.set_sparse(proto::LAZY);
  CutCluster cluster(2, files_, {TableSpec("t", kWidth, rule)});
  const std::vector<int64_t> keys = SomeKeys(1, 400);
  PushToAll(cluster, 1, SomeKeys(2, 100));
  PushToAll(cluster, 2, SomeKeys(3, 100));
  ASSERT_TRUE(Push(cluster, cluster.slices()[1], 4, keys).ok());  // it has overtaken 3
  const auto at_cut = ReadTable(cluster, keys);
  ASSERT_TRUE(cluster.Save("/cut").ok());
  const auto go_on = [&] {
    PushToAll(cluster, 3, keys);
    EXPECT_EQ(Push(cluster, cluster.slices()[0], 4, keys)->applied(), 1u);
    EXPECT_EQ(Push(cluster, cluster.slices()[1], 4, keys)->duplicates(), 1u);
    return ReadTable(cluster, keys);
  };
  const auto at_end = go_on();
  EXPECT_NE(at_end, at_cut);
  cluster.GoBackTo({"/cut"});
  EXPECT_EQ(ReadTable(cluster, keys), at_cut);
  EXPECT_EQ(go_on(), at_end);
  cluster.GoBackTo({""});  // the start
  EXPECT_EQ(RowsIn(cluster, 0) + RowsIn(cluster, 1), 0u);
}

// A cut is what the slices were, whatever is pushed while its bytes are being read.
TEST_F(DynamicTable, APushAfterTheHoldIsNotInTheCut) {
  CutCluster cluster(1, files_, {ZeroTable(Rule("sgd", {}))});
  const std::vector<int64_t> keys = SomeKeys(1, 50);
  PushToAll(cluster, 1, keys);
  const auto at_cut = ReadTable(cluster, keys);
  Envelope<proto::HoldShardRequest> hold{HoldRequest("/cut"), {}};
  hold.header.set_epoch(cluster.epoch());
  hold.header.set_save(1);
  ASSERT_TRUE(cluster.ps()
                  .Call<proto::HoldShardResponse>(0, "/cohort.proto.PsService/HoldShard", hold)
                  .ok());
  PushToAll(cluster, 2, keys);
  Envelope<proto::WriteShardRequest> write;
  write.header.set_epoch(cluster.epoch());
  write.header.set_save(1);
  const auto written =
      cluster.ps().Call<proto::WriteShardResponse>(0, "/cohort.proto.PsService/WriteShard", write);
  ASSERT_TRUE(written.ok()) << written.status();
  const std::vector<proto::SavedSlice> slices(written->header.slices().begin(),
                                              written->header.slices().end());
  ASSERT_TRUE(WriteIndex(files_, "/cut", 1, slices).ok());
  cluster.GoBackTo({"/cut"});
  EXPECT_EQ(ReadTable(cluster, keys), at_cut);
  EXPECT_EQ(Push(cluster, cluster.slices()[0], 2, keys)->applied(), 1u);
}

}  // namespace
}  // namespace cohort

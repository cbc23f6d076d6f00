// Dynamic tables as a parameter server serves them: rows by keys, once for each closure, saved with
// what is in them, and restored over any number of servers. Expectations: arithmetic, and for the
// optimizers the bits of a table that never moved.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <map>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/base/rng.h"
#include "common/tensor/key_bucket.h"
#include "tests/unit/ps_server/cut_cluster.h"

namespace cohort {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr int64_t kWidth = 3;
constexpr char kPull[] = "/cohort.proto.PsService/Pull";

VariableSpec ZeroTable(const proto::UpdateRule& rule) {
  VariableSpec spec = TableSpec("t", kWidth, rule);
  spec.initializer = "zeros";
  return spec;
}

// Of the slice, in the given order.
std::vector<int64_t> KeysOf(const proto::SliceHome& slice, const std::vector<int64_t>& keys) {
  std::vector<int64_t> own;
  for (const int64_t key : keys) {
    const int64_t bucket = KeyBucket(key) - slice.row_begin();
    if (bucket >= 0 && bucket < slice.row_count()) own.push_back(key);
  }
  return own;
}

// Some of many keys, with repeats.
std::vector<int64_t> SomeKeys(uint64_t seed, size_t count) {
  SequenceRng rng(seed);
  std::vector<int64_t> keys;
  for (size_t i = 0; i < count; ++i) {
    keys.push_back(static_cast<int64_t>(Mix64(rng.Below(300))));
  }
  return keys;
}

Tensor GradientsOf(const std::vector<int64_t>& keys, uint64_t closure) {
  Tensor all(DType::kFloat32, Shape{static_cast<int64_t>(keys.size()), kWidth});
  for (size_t i = 0; i < keys.size(); ++i) {
    const RandomStream stream(closure, absl::StrCat(keys[i]));
    for (size_t k = 0; k < kWidth; ++k) {
      all.mutable_data<float>()[i * kWidth + k] = stream.Normal(k);
    }
  }
  return all;
}

// The closure's push of these keys to one slice. The gradient of a key depends on both alone.
absl::StatusOr<proto::PushResponse> Push(CutCluster& cluster, const proto::SliceHome& slice,
                                         uint64_t closure, const std::vector<int64_t>& keys) {
  const std::vector<int64_t> own = KeysOf(slice, keys);
  auto request = PushRowsOf({.closure = closure, .learning_rate = 0.1, .step = closure},
                            {{slice.slice_id(), own, GradientsOf(own, closure)}});
  request.header.set_epoch(cluster.epoch());
  return cluster.ps().Push(static_cast<int>(slice.ps()), std::move(request));
}

void PushToAll(CutCluster& cluster, uint64_t closure, const std::vector<int64_t>& keys) {
  for (const proto::SliceHome& slice : cluster.slices()) {
    const auto answer = Push(cluster, slice, closure, keys);
    ASSERT_TRUE(answer.ok()) << answer.status();
  }
}

absl::StatusOr<Tensor> PullKeys(CutCluster& cluster, const proto::SliceHome& slice,
                                const std::vector<int64_t>& keys) {
  const Tensor ids = Tensor::FromVector(keys, Shape{static_cast<int64_t>(keys.size())});
  Envelope<proto::PullRequest> pull = PullOf({});
  pull.header.set_epoch(cluster.epoch());
  proto::PullRows& rows = *pull.header.add_rows();
  rows.set_slice_id(slice.slice_id());
  *rows.mutable_ids() = MetaOf(ids);
  pull.payload.push_back(SliceOf(ids));
  ASSIGN_OR_RETURN(const auto answer,
                   cluster.ps().Call<proto::PullResponse>(static_cast<int>(slice.ps()), kPull,
                                                          std::move(pull)));
  ASSIGN_OR_RETURN(const auto tensors, ReadTensors(answer.header.tensors(), answer.payload));
  return tensors[0];
}

// The bits of each key's row, wherever it is.
std::map<int64_t, std::string> ReadTable(CutCluster& cluster, const std::vector<int64_t>& keys) {
  std::map<int64_t, std::string> table;
  for (const proto::SliceHome& slice : cluster.slices()) {
    const std::vector<int64_t> own = KeysOf(slice, keys);
    const auto rows = PullKeys(cluster, slice, own);
    EXPECT_TRUE(rows.ok()) << rows.status();
    for (size_t i = 0; rows.ok() && i < own.size(); ++i) {
      table[own[i]].assign(reinterpret_cast<const char*>(rows->data<float>() + i * kWidth),
                           kWidth * sizeof(float));
    }
  }
  return table;
}

uint64_t RowsIn(CutCluster& cluster, int ps) {
  Envelope<proto::PsStatsRequest> request;
  request.header.set_epoch(cluster.epoch());
  const auto stats = cluster.ps().Call<proto::PsStatsResponse>(
      ps, "/cohort.proto.PsService/GetStats", std::move(request));
  EXPECT_TRUE(stats.ok()) << stats.status();
  return stats.ok() ? stats->header.tables().rows() : 0;
}

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
  CutCluster cluster(1, files_,
                     {ZeroTable(Rule("adagrad", {{"initial_accumulator_value", 0},
                                                 {"epsilon", 1e-30}}))});
  const proto::SliceHome slice = cluster.slices()[0];
  const Tensor gradients = Tensor::FromVector<float>({1, 2, 3, 10, 20, 30, 4, 8, 12}, {3, 3});
  ASSERT_TRUE(cluster.ps()
                  .Push(0, PushRowsOf({.learning_rate = 0.5},
                                      {{slice.slice_id(), {-7, 1, -7}, gradients}}))
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
  EXPECT_THAT(std::string(refused(PushRowsOf({}, {{table.slice_id(), {here, elsewhere}, two}}))
                              .message()),
              AllOf(HasSubstr(absl::StrCat("key ", elsewhere, " is in bucket ")),
                    HasSubstr("[0, 32768)")));
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
  const auto written = cluster.ps().Call<proto::WriteShardResponse>(
      0, "/cohort.proto.PsService/WriteShard", write);
  ASSERT_TRUE(written.ok()) << written.status();
  const std::vector<proto::SavedSlice> slices(written->header.slices().begin(),
                                              written->header.slices().end());
  ASSERT_TRUE(WriteIndex(files_, "/cut", 1, slices).ok());
  cluster.GoBackTo({"/cut"});
  EXPECT_EQ(ReadTable(cluster, keys), at_cut);
  EXPECT_EQ(Push(cluster, cluster.slices()[0], 2, keys)->applied(), 1u);
}

absl::Status RestoreWithSlots(CutCluster& cluster, int num_ps, bool new_slots = false) {
  for (int ps = 0; ps < num_ps; ++ps) {
    Envelope<proto::RestoreShardRequest> request;
    request.header.set_epoch(cluster.epoch());
    request.header.set_prefix("/saved");
    request.header.set_slots(true);
    request.header.set_new_slots(new_slots);
    RETURN_IF_ERROR(cluster.ps()
                        .Call<proto::RestoreShardResponse>(
                            ps, "/cohort.proto.PsService/RestoreShard", std::move(request))
                        .status());
  }
  return absl::OkStatus();
}

TEST_F(DynamicTable, GoesOnBitForBitOverAnotherNumberOfServers) {
  const std::vector<int64_t> keys = SomeKeys(1, 400);
  for (const DType dtype : {DType::kFloat32, DType::kFloat16, DType::kBfloat16}) {
    for (proto::UpdateRule rule :
         {Rule("adam", {{"amsgrad", 1}}), Rule("rmsprop", {{"momentum", 0.5}}),
          Rule("rowwise_adagrad", {}), Rule("sgd", {{"use_ema", 1}})}) {
      SCOPED_TRACE(absl::StrCat(DTypeName(dtype), " ", rule.ShortDebugString()));
      rule.set_sparse(rule.op() == "adam" ? proto::LAZY : proto::LAZY_COMPENSATED);
      VariableSpec spec = TableSpec("t", kWidth, rule);
      spec.dynamic->set_row_dtype(static_cast<int32_t>(dtype));
      MemoryFileSystem files;
      CutCluster two(2, files, {spec});
      for (const uint64_t closure : {1, 2, 3}) PushToAll(two, closure, SomeKeys(closure, 150));
      ASSERT_TRUE(two.Save("/saved").ok());
      const auto at_save = ReadTable(two, keys);
      const uint64_t rows_at_save = RowsIn(two, 0) + RowsIn(two, 1);
      PushToAll(two, 4, keys);
      const auto at_end = ReadTable(two, keys);
      for (const int num_ps : {1, 2, 3, 5}) {
        CutCluster other(num_ps, files, {spec});
        const absl::Status restored = RestoreWithSlots(other, num_ps);
        ASSERT_TRUE(restored.ok()) << restored;
        EXPECT_EQ(ReadTable(other, keys), at_save) << num_ps;
        uint64_t rows = 0;
        for (int ps = 0; ps < num_ps; ++ps) rows += RowsIn(other, ps);
        EXPECT_EQ(rows, rows_at_save) << "each row is on one server";
        PushToAll(other, 4, keys);
        EXPECT_EQ(ReadTable(other, keys), at_end) << num_ps;
      }
    }
  }
}

TEST_F(DynamicTable, ValuesAloneComeBackWithNewSlots) {
  CutCluster saved(2, files_, {ZeroTable(Rule("rowwise_adagrad", {}))});
  const std::vector<int64_t> keys = SomeKeys(1, 50);
  PushToAll(saved, 1, keys);
  ASSERT_TRUE(saved.Save("/saved").ok());
  // Another rule's checkpoint has the values all the same.
  CutCluster other(1, files_, {ZeroTable(Rule("adagrad", {}))});
  EXPECT_THAT(std::string(RestoreWithSlots(other, 1).message()), HasSubstr("adagrad/accumulator"));
  ASSERT_TRUE(other.Restore(0, {"/saved"}, /*applied=*/false).ok());
  EXPECT_EQ(ReadTable(other, keys), ReadTable(saved, keys));
}

// As a job that goes on with another optimizer: what it finds, it takes, and the rest is as new.
TEST_F(DynamicTable, AnotherOptimizerGoesOnFromItsRows) {
  const std::vector<int64_t> keys = SomeKeys(1, 50);
  for (const DType dtype : {DType::kFloat32, DType::kBfloat16}) {
    SCOPED_TRACE(DTypeName(dtype));
    const auto table = [&](const proto::UpdateRule& rule) {
      VariableSpec spec = ZeroTable(rule);
      spec.dynamic->set_row_dtype(static_cast<int32_t>(dtype));
      return spec;
    };
    MemoryFileSystem files;
    CutCluster saved(2, files, {table(Rule("sgd", {{"momentum", 0.9}}))});
    PushToAll(saved, 1, keys);
    ASSERT_TRUE(saved.Save("/saved").ok());

    CutCluster other(1, files, {table(Rule("adagrad", {}))});
    ASSERT_TRUE(RestoreWithSlots(other, 1, /*new_slots=*/true).ok());
    CutCluster values(1, files, {table(Rule("adagrad", {}))});
    ASSERT_TRUE(values.Restore(0, {"/saved"}, /*applied=*/false).ok());
    EXPECT_EQ(ReadTable(other, keys), ReadTable(saved, keys));
    for (CutCluster* cluster : {&other, &values}) PushToAll(*cluster, 2, keys);
    EXPECT_EQ(ReadTable(other, keys), ReadTable(values, keys));

    // The momentum is there, and the average begins as the rows are.
    CutCluster averaged(1, files, {table(Rule("sgd", {{"momentum", 0.9}, {"use_ema", 1}}))});
    ASSERT_TRUE(RestoreWithSlots(averaged, 1, /*new_slots=*/true).ok());
    for (CutCluster* cluster : {&saved, &averaged}) PushToAll(*cluster, 2, keys);
    EXPECT_EQ(ReadTable(averaged, keys), ReadTable(saved, keys));
    CutCluster again(1, files, {table(Rule("sgd", {{"momentum", 0.9}, {"use_ema", 1}}))});
    ASSERT_TRUE(RestoreWithSlots(again, 1, /*new_slots=*/true).ok());
    ASSERT_TRUE(again.Save("/averaged").ok());
    const auto reader = *BundleReader::Open(files, "/averaged");
    int parts = 0;
    for (const auto& [name, tensor] : reader->tensors()) {
      if (!absl::EndsWith(name, "/sgd/average") || tensor.shape.num_elements() == 0) continue;
      ++parts;
      const Tensor average = *reader->Read(name);
      const Tensor rows = *reader->Read(
          absl::StrCat(absl::StripSuffix(name, "sgd/average"), "values"));
      for (int64_t i = 0; i < average.num_elements(); ++i) {
        const auto* const halves = reinterpret_cast<const uint16_t*>(rows.raw());
        const float row = dtype == DType::kFloat32
                              ? rows.data<float>()[i]
                              : std::bit_cast<float>(uint32_t{halves[i]} << 16);
        EXPECT_EQ(average.data<float>()[i], row);
      }
    }
    EXPECT_GT(parts, 0);
  }
}

TEST_F(DynamicTable, ACutOfOtherSlicesIsRefused) {
  CutCluster two(2, files_, {ZeroTable(Rule("sgd", {}))});
  PushToAll(two, 1, SomeKeys(1, 50));
  ASSERT_TRUE(two.Save("/cut").ok());
  CutCluster three(3, files_, {ZeroTable(Rule("sgd", {}))});
  EXPECT_EQ(three.Restore(1, {"/cut"}).status().code(), absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace cohort

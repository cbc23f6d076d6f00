// What was saved of dynamic tables goes on over any number of parameter servers, and with another
// optimizer. Expectations: the bits of a table that never moved.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "tests/unit/ps_server/dynamic_table_support.h"

namespace cohort {
namespace {

using testing::HasSubstr;

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

TEST(DynamicTableRestore, GoesOnBitForBitOverAnotherNumberOfServers) {
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

TEST(DynamicTableRestore, ValuesAloneComeBackWithNewSlots) {
  MemoryFileSystem files;
  CutCluster saved(2, files, {ZeroTable(Rule("rowwise_adagrad", {}))});
  const std::vector<int64_t> keys = SomeKeys(1, 50);
  PushToAll(saved, 1, keys);
  ASSERT_TRUE(saved.Save("/saved").ok());
  // Another rule's checkpoint has the values all the same.
  CutCluster other(1, files, {ZeroTable(Rule("adagrad", {}))});
  EXPECT_THAT(std::string(RestoreWithSlots(other, 1).message()), HasSubstr("adagrad/accumulator"));
  ASSERT_TRUE(other.Restore(0, {"/saved"}, /*applied=*/false).ok());
  EXPECT_EQ(ReadTable(other, keys), ReadTable(saved, keys));
}

// As a job that goes on with another optimizer: what it finds, it takes, and the rest is as new.
TEST(DynamicTableRestore, AnotherOptimizerGoesOnFromItsRows) {
  const std::vector<int64_t> keys = SomeKeys(1, 50);
  for (const DType dtype : {DType::kFloat32, DType::kBfloat16}) {
    SCOPED_TRACE(DTypeName(dtype));
    const auto table = [&](const proto::UpdateRule& rule) {
      VariableSpec spec = ZeroTable(rule);
      spec.dynamic->set_row_dtype(static_cast<int32_t>(dtype));
      spec.rule.set_sparse(proto::LAZY);
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
      const Tensor rows =
          *reader->Read(absl::StrCat(absl::StripSuffix(name, "sgd/average"), "values"));
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

TEST(DynamicTableRestore, ACutWhoseSlicesDoNotContainThoseOfTheHomeIsRefused) {
  MemoryFileSystem files;
  CutCluster two(2, files, {ZeroTable(Rule("sgd", {}))});
  PushToAll(two, 1, SomeKeys(1, 50));
  ASSERT_TRUE(two.Save("/cut").ok());
  CutCluster three(3, files, {ZeroTable(Rule("sgd", {}))});
  EXPECT_EQ(three.Restore(1, {"/cut"}).status().code(), absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace cohort

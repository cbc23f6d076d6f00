// What decides about the rows of a dynamic table is part of its checkpoints, and its time is that
// of the steps. Expectations: arithmetic of sights and ages.

#include <gtest/gtest.h>

#include <map>

#include "absl/strings/str_cat.h"
#include "common/tensor/slice_spec.h"
#include "tests/unit/ps_server/checkpoint/cut_cluster.h"

namespace cohort {
namespace {

constexpr int64_t kKeys = 40;

class TablePolicy : public testing::Test {
 protected:
  static VariableSpec Table() {
    VariableSpec spec = TableSpec("t", 1, Rule("assign_add", {}));
    spec.initializer = "zeros";
    return spec;
  }
  // Keys 0 to kKeys - 1, and 1 for each.
  static void Push(CutCluster& cluster, uint64_t closure, uint64_t time_ms = 0) {
    for (const proto::SliceHome& slice : cluster.slices()) {
      std::vector<int64_t> keys = KeysOf(slice);
      const auto count = static_cast<int64_t>(keys.size());
      const Tensor ones =
          Tensor::FromVector<float>(std::vector<float>(keys.size(), 1.0f), Shape{count, 1});
      auto push = PushRowsOf({.closure = closure, .step = closure},
                             {{slice.slice_id(), std::move(keys), ones}});
      push.header.set_epoch(cluster.epoch());
      push.header.set_time_ms(time_ms);
      const auto answer = cluster.ps().Push(static_cast<int>(slice.ps()), std::move(push));
      ASSERT_TRUE(answer.ok()) << answer.status();
    }
  }
  static std::vector<int64_t> KeysOf(const proto::SliceHome& slice) {
    std::vector<int64_t> keys;
    for (int64_t key = 0; key < kKeys; ++key) {
      const int64_t bucket = KeyBucket(key) - slice.row_begin();
      if (bucket >= 0 && bucket < slice.row_count()) keys.push_back(key);
    }
    return keys;
  }
  // How often a value occurs among the keys'.
  static std::map<float, int> Values(CutCluster& cluster) {
    return ValuesIn(cluster.epoch(), cluster);
  }
  static std::map<float, int> ValuesIn(uint64_t epoch, CutCluster& cluster) {
    std::map<float, int> values;
    for (const proto::SliceHome& slice : cluster.slices()) {
      const std::vector<int64_t> keys = KeysOf(slice);
      const Tensor ids = Tensor::FromVector(keys, Shape{static_cast<int64_t>(keys.size())});
      Envelope<proto::PullRequest> pull = PullOf({});
      pull.header.set_epoch(epoch);
      proto::PullRows& rows = *pull.header.add_rows();
      rows.set_slice_id(slice.slice_id());
      *rows.mutable_ids() = MetaOf(ids);
      pull.payload.push_back(SliceOf(ids));
      const auto answer = cluster.ps().Call<proto::PullResponse>(
          static_cast<int>(slice.ps()), "/cohort.proto.PsService/Pull", std::move(pull));
      EXPECT_TRUE(answer.ok()) << answer.status();
      if (!answer.ok()) continue;
      const Tensor read = (*ReadTensors(answer->header.tensors(), answer->payload))[0];
      for (const float value : read.span<float>()) ++values[value];
    }
    return values;
  }
  static void Restore(CutCluster& cluster, int num_ps, const std::string& prefix) {
    for (int ps = 0; ps < num_ps; ++ps) {
      const auto restored = cluster.Restore(ps, {prefix}, /*applied=*/false);
      ASSERT_TRUE(restored.ok()) << restored.status();
    }
  }
  static uint64_t NotAdmitted(CutCluster& cluster, int num_ps) {
    uint64_t sum = 0;
    for (int ps = 0; ps < num_ps; ++ps) {
      Envelope<proto::PsStatsRequest> request;
      request.header.set_epoch(cluster.epoch());
      const auto stats = cluster.ps().Call<proto::PsStatsResponse>(
          ps, "/cohort.proto.PsService/GetStats", std::move(request));
      EXPECT_TRUE(stats.ok()) << stats.status();
      if (stats.ok()) sum += stats->header.tables().not_admitted();
    }
    return sum;
  }
  using Count = std::map<float, int>;

  MemoryFileSystem files_;
};

// A job that is started once for each of its epochs.
TEST_F(TablePolicy, SightsOfKeysWithoutRowsGoOnFromACheckpointOverAnyServers) {
  VariableSpec spec = Table();
  spec.dynamic->set_admit_after(3);
  CutCluster first(2, files_, {spec});
  Push(first, 1);
  ASSERT_TRUE(first.Save("/one").ok());
  for (const int num_ps : {1, 2, 3}) {
    CutCluster second(num_ps, files_, {spec});
    Restore(second, num_ps, "/one");
    Push(second, 2);
    EXPECT_EQ(Values(second), (Count{{0.0f, kKeys}}));
    const std::string two = absl::StrCat("/two-", num_ps);
    ASSERT_TRUE(second.Save(two).ok());
    CutCluster third(2, files_, {spec});
    Restore(third, 2, two);
    Push(third, 3);
    EXPECT_EQ(Values(third), (Count{{1.0f, kKeys}})) << num_ps;
  }
}

TEST_F(TablePolicy, ACutHasTheSightsOfItsInstant) {
  VariableSpec spec = Table();
  spec.dynamic->set_admit_after(3);
  CutCluster cluster(2, files_, {spec});
  Push(cluster, 1);
  ASSERT_TRUE(cluster.Save("/cut").ok());
  for (const uint64_t closure : {2, 3}) Push(cluster, closure);
  EXPECT_EQ(Values(cluster), (Count{{1.0f, kKeys}}));
  cluster.GoBackTo({"/cut"});
  Push(cluster, 2);
  EXPECT_EQ(Values(cluster), (Count{{0.0f, kKeys}})) << "two sights, not three";
  Push(cluster, 3);
  EXPECT_EQ(Values(cluster), (Count{{1.0f, kKeys}}));
  cluster.GoBackTo({""});  // the start
  for (const uint64_t closure : {1, 2}) Push(cluster, closure);
  EXPECT_EQ(Values(cluster), (Count{{0.0f, kKeys}}));
}

// A closure that runs again behind a cut counts once, and another process goes on with the cut's
// counts. A job that begins from a checkpoint counts anew.
TEST_F(TablePolicy, ACutHasTheGradientsThatWereNotAdmitted) {
  VariableSpec spec = Table();
  spec.dynamic->set_admit_after(4);
  CutCluster cluster(2, files_, {spec});
  for (const uint64_t closure : {1, 2}) Push(cluster, closure);
  ASSERT_TRUE(cluster.Save("/cut").ok());
  Push(cluster, 3);
  EXPECT_EQ(NotAdmitted(cluster, 2), 3u * kKeys);
  cluster.GoBackTo({"/cut"});
  EXPECT_EQ(NotAdmitted(cluster, 2), 2u * kKeys);
  Push(cluster, 3);
  EXPECT_EQ(NotAdmitted(cluster, 2), 3u * kKeys);
  CutCluster other(2, files_, {spec});
  other.GoBackTo({"/cut"});
  EXPECT_EQ(NotAdmitted(other, 2), 2u * kKeys);
  other.GoBackTo({""});  // the start
  EXPECT_EQ(NotAdmitted(other, 2), 0u);
  Restore(other, 2, "/cut");
  EXPECT_EQ(NotAdmitted(other, 2), 0u);
}

TEST_F(TablePolicy, RowsGrowOldByTheTimesOfStepsAndNotBetweenCoordinators) {
  VariableSpec spec = Table();
  spec.dynamic->set_ttl_ms(1000);
  CutCluster cluster(1, files_, {spec});
  const auto elsewhere = [&](uint64_t closure, uint64_t epoch, uint64_t time_ms) {
    auto push = PushRowsOf(
        {.closure = closure, .step = closure},
        {{cluster.slices()[0].slice_id(), {1000}, Tensor::FromVector<float>({1}, Shape{1, 1})}});
    push.header.set_epoch(epoch);
    push.header.set_time_ms(time_ms);
    ASSERT_TRUE(cluster.ps().Push(0, std::move(push)).ok());
  };
  Push(cluster, 1, 50'000);
  elsewhere(2, cluster.epoch(), 50'900);
  EXPECT_EQ(Values(cluster), (Count{{1.0f, kKeys}}));
  elsewhere(3, cluster.epoch(), 10'000);  // an older one that was late
  EXPECT_EQ(Values(cluster), (Count{{1.0f, kKeys}}));
  ASSERT_TRUE(cluster.Save("/cut").ok());
  elsewhere(4, cluster.epoch(), 51'000);
  EXPECT_EQ(Values(cluster), (Count{{0.0f, kKeys}})) << "from its time to live on";
  cluster.GoBackTo({"/cut", 2});
  EXPECT_EQ(Values(cluster), (Count{{1.0f, kKeys}}));
  elsewhere(4, cluster.epoch(), 51'000);
  EXPECT_EQ(Values(cluster), (Count{{0.0f, kKeys}})) << "as it was the first time";
  // Another coordinator, whose clock is another one, restores the cut.
  const uint64_t epoch = cluster.epoch() + 1;
  ASSERT_TRUE(cluster.ps().Attach(0, epoch, kTestCoordinator + 1).ok());
  Envelope<proto::RestoreShardRequest> restore;
  restore.header.set_epoch(epoch);
  restore.header.set_prefix("/cut");
  restore.header.set_applied(true);
  restore.header.set_watermark(2);
  ASSERT_TRUE(cluster.ps()
                  .Call<proto::RestoreShardResponse>(0, "/cohort.proto.PsService/RestoreShard",
                                                     std::move(restore))
                  .ok());
  elsewhere(4, epoch, 9'000'000);
  EXPECT_EQ(ValuesIn(epoch, cluster), (Count{{1.0f, kKeys}})) << "900 ms old, as in the cut";
}

}  // namespace
}  // namespace cohort

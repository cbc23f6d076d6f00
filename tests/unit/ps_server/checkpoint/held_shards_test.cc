#include "ps_server/checkpoint/held_shards.h"

#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace cohort {
namespace {

constexpr absl::Time kNow = absl::UnixEpoch();

std::shared_ptr<HeldShard> Shard(const std::string& prefix = "/model") {
  return std::make_shared<HeldShard>(ShardTarget{prefix, 0, 1});
}

// A call of a save that is sent twice may be on its way twice: both ask, both take a snapshot.
TEST(HeldShardsTest, OfOneSaveTheFirstSnapshotStays) {
  HeldShards shards;
  const HeldShards::SaveId save = {1, 7};
  ASSERT_EQ(shards.FindOrRefuse(save, "/model").value(), nullptr);
  ASSERT_EQ(shards.FindOrRefuse(save, "/model").value(), nullptr);
  const std::shared_ptr<HeldShard> first = Shard();
  EXPECT_EQ(shards.Hold(save, first, kNow).value(), first);
  EXPECT_EQ(shards.Hold(save, Shard(), kNow).value(), first);
  EXPECT_EQ(shards.Find(save, kNow).value(), first);
  EXPECT_EQ(shards.held(), 1u);
}

TEST(HeldShardsTest, ASnapshotThatComesAfterItsReleaseIsNotHeld) {
  HeldShards shards;
  const HeldShards::SaveId save = {1, 7};
  ASSERT_EQ(shards.FindOrRefuse(save, "/model").value(), nullptr);
  shards.Release(save);
  EXPECT_TRUE(absl::IsFailedPrecondition(shards.Hold(save, Shard(), kNow).status()));
  EXPECT_EQ(shards.held(), 0u);
}

TEST(HeldShardsTest, ASnapshotThatComesAfterALaterOneOfItsPrefixIsNotHeld) {
  HeldShards shards;
  ASSERT_EQ(shards.FindOrRefuse({1, 7}, "/model").value(), nullptr);
  ASSERT_TRUE(shards.Hold({1, 8}, Shard(), kNow).ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(shards.Hold({1, 7}, Shard(), kNow).status()));
  EXPECT_TRUE(shards.Find({1, 8}, kNow).ok());
  EXPECT_TRUE(shards.Hold({1, 7}, Shard("/other"), kNow).ok());
}

// A shard that nobody releases is held for longer than its prefix is remembered.
TEST(HeldShardsTest, OfAPrefixThatIsForgottenOnlyTheLatestIsHeldToo) {
  HeldShards shards;
  ASSERT_TRUE(shards.Hold({1, 1}, Shard(), kNow).ok());
  uint64_t save = 2;
  for (; save < 2 + 2 * kSavedPrefixesRemembered; ++save) {
    ASSERT_TRUE(shards.Hold({1, save}, Shard(absl::StrCat("/other", save)), kNow).ok());
    shards.Release({1, save});
  }
  EXPECT_EQ(shards.held(), 1u);
  ASSERT_TRUE(shards.Hold({1, save}, Shard(), kNow).ok());
  EXPECT_EQ(shards.held(), 1u);
  EXPECT_TRUE(shards.Find({1, save}, kNow).ok());
}

TEST(HeldShardsTest, ASnapshotOfAnEarlierEpochIsNotHeld) {
  HeldShards shards;
  ASSERT_EQ(shards.FindOrRefuse({1, 7}, "/model").value(), nullptr);
  shards.EnterEpoch(2);
  EXPECT_TRUE(absl::IsFailedPrecondition(shards.Hold({1, 7}, Shard(), kNow).status()));
}

}  // namespace
}  // namespace cohort

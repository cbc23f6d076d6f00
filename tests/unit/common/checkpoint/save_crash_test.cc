// A save that loses power at any operation leaves the checkpoint that the state file names whole.

#include <gtest/gtest.h>

#include "common/checkpoint/bundle.h"
#include "common/checkpoint/checkpoint_files.h"
#include "tests/unit/common/checkpoint/bundle_support.h"
#include "tests/unit/common/checkpoint/crash_disk.h"

namespace cohort {
namespace {

Tensor ValueOf(int step) {
  Tensor tensor = Ramp({7, 3});
  for (int64_t i = 0; i < tensor.num_elements(); ++i) {
    tensor.mutable_data<float>()[i] += static_cast<float>(1000 * step);
  }
  return tensor;
}

// What a coordinator does: data shards, index, state file, and then the one before goes.
absl::Status SaveStep(FileSystem& files, int step) {
  const std::string name = absl::StrCat("ckpt-", step);
  RETURN_IF_ERROR(Save(files, JoinPath("d", name), 2, Partitioned("w", ValueOf(step), 3, 2)));
  RETURN_IF_ERROR(WriteCheckpointState(files, "d", {name, {name}}));
  return DeleteCheckpoint(files, JoinPath("d", absl::StrCat("ckpt-", step - 1)));
}

// The step whose values the latest checkpoint holds; 0 when it is not whole.
int LatestStep(FileSystem& files) {
  const auto state = ReadCheckpointState(files, "d");
  if (!state.ok()) return 0;
  const auto reader = BundleReader::Open(files, JoinPath("d", state->latest));
  if (!reader.ok()) return 0;
  const auto value = (*reader)->Read("w");
  if (!value.ok()) return 0;
  const int step = static_cast<int>((*value->data<float>() + 7) / 1000);
  return SameTensor(*value, ValueOf(step)) ? step : 0;
}

TEST(SaveCrash, AtAnyOperationTheLatestIsWhole) {
  CrashDisk start(CrashDisk::kNever);
  ASSERT_TRUE(SaveStep(start, 1).ok());
  const auto counted = start.Copy(CrashDisk::kNever);
  ASSERT_TRUE(SaveStep(*counted, 2).ok());
  const int operations = counted->operations();
  ASSERT_GT(operations, 20);
  bool became_two = false;
  for (int fail_at = 0; fail_at < operations; ++fail_at) {
    SCOPED_TRACE(absl::StrCat("power lost at operation ", fail_at));
    const auto disk = start.Copy(fail_at);
    ASSERT_FALSE(SaveStep(*disk, 2).ok());
    ASSERT_TRUE(disk->crashed());
    const auto after = disk->AfterCrash();
    const int latest = LatestStep(*after);
    ASSERT_TRUE(latest == 1 || latest == 2) << latest;
    ASSERT_TRUE(latest == 2 || !became_two);
    became_two = latest == 2;
    // The next process saves the same step again, over the remains, unless it was complete.
    if (latest == 1) {
      ASSERT_TRUE(DeleteCheckpoint(*after, "d/ckpt-2").ok());
      ASSERT_TRUE(SaveStep(*after, 2).ok());
      ASSERT_EQ(LatestStep(*after), 2);
    }
  }
  EXPECT_TRUE(became_two);
}

// A checkpoint half deleted has no index, so it is not listed.
TEST(SaveCrash, DeletionNeverLeavesABrokenCheckpointListed) {
  CrashDisk start(CrashDisk::kNever);
  ASSERT_TRUE(SaveStep(start, 1).ok());
  const auto counted = start.Copy(CrashDisk::kNever);
  ASSERT_TRUE(DeleteCheckpoint(*counted, "d/ckpt-1").ok());
  EXPECT_TRUE(ListCheckpointFiles(*counted, "d/ckpt-1")->empty());
  for (int fail_at = 0; fail_at < counted->operations(); ++fail_at) {
    const auto disk = start.Copy(fail_at);
    ASSERT_FALSE(DeleteCheckpoint(*disk, "d/ckpt-1").ok());
    const auto after = disk->AfterCrash();
    const auto prefixes = ListCheckpoints(*after, "d");
    ASSERT_TRUE(prefixes.ok());
    for (const std::string& prefix : *prefixes) {
      const auto reader = BundleReader::Open(*after, prefix);
      ASSERT_TRUE(reader.ok()) << reader.status();
      ASSERT_TRUE((*reader)->Read("w").ok());
    }
    ASSERT_TRUE(DeleteCheckpoint(*after, "d/ckpt-1").ok());
    ASSERT_TRUE(ListCheckpointFiles(*after, "d/ckpt-1")->empty());
  }
}

}  // namespace
}  // namespace cohort

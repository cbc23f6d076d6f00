#include "common/checkpoint/checkpoint_files.h"

#include <gmock/gmock.h>

#include "absl/strings/str_cat.h"
#include "common/checkpoint/bundle.h"
#include "tests/unit/checkpoint/crash_disk.h"

namespace cohort {
namespace {

using testing::ElementsAre;

void Touch(CrashDisk& disk, const std::string& path) {
  ASSERT_TRUE(WriteFileAtomically(disk, path, "x").ok());
}

TEST(CheckpointFiles, OnlyThoseOfThePrefix) {
  CrashDisk disk(CrashDisk::kNever);
  for (const char* name :
       {"m.index", "m.index.tmp", "m.data-00000-of-00002", "m.data-00001-of-00002.tmp",
        "m.data-set.index", "m.data-00000-of-00002x", "m.data-0-of-2", "m-1.index", "mm.index",
        "checkpoint", "m.json"}) {
    Touch(disk, JoinPath("d", name));
  }
  EXPECT_THAT(*ListCheckpointFiles(disk, "d/m"),
              ElementsAre("d/m.data-00000-of-00002", "d/m.data-00001-of-00002.tmp", "d/m.index",
                          "d/m.index.tmp"));
  EXPECT_THAT(*ListCheckpoints(disk, "d"), ElementsAre("d/m-1", "d/m.data-set", "d/m", "d/mm"));
  ASSERT_TRUE(DeleteCheckpoint(disk, "d/m").ok());
  EXPECT_TRUE(ListCheckpointFiles(disk, "d/m")->empty());
  EXPECT_TRUE(disk.has("d/m.data-set.index"));
  EXPECT_TRUE(disk.has("d/m.json"));
  EXPECT_TRUE(DeleteCheckpoint(disk, "d/m").ok());
}

// A run that was cut off between index and state file, and one that trains again into a directory
// that has checkpoints of the same steps, can both save.
TEST(UnusedCheckpointName, IsNeverThatOfACompleteCheckpoint) {
  CrashDisk disk(CrashDisk::kNever);
  EXPECT_EQ(*UnusedCheckpointName(disk, "d", "ckpt-1"), "ckpt-1");
  Touch(disk, "d/ckpt-1.data-00000-of-00001");
  EXPECT_EQ(*UnusedCheckpointName(disk, "d", "ckpt-1"), "ckpt-1");
  Touch(disk, "d/ckpt-1.index");
  EXPECT_EQ(*UnusedCheckpointName(disk, "d", "ckpt-1"), "ckpt-1-2");
  Touch(disk, "d/ckpt-1-2.index");
  EXPECT_EQ(*UnusedCheckpointName(disk, "d", "ckpt-1"), "ckpt-1-3");
  for (int i = 3; i <= 1000; ++i) Touch(disk, absl::StrCat("d/ckpt-1-", i, ".index"));
  EXPECT_TRUE(absl::IsResourceExhausted(UnusedCheckpointName(disk, "d", "ckpt-1").status()));
}

TEST(CheckpointState, IsWrittenAsTensorFlowWritesIt) {
  CrashDisk disk(CrashDisk::kNever);
  ASSERT_TRUE(WriteCheckpointState(disk, "d", {"ckpt-3", {"ckpt-2", "ckpt-3"}}).ok());
  EXPECT_EQ(disk.bytes("d/checkpoint"),
            "model_checkpoint_path: \"ckpt-3\"\n"
            "all_model_checkpoint_paths: \"ckpt-2\"\n"
            "all_model_checkpoint_paths: \"ckpt-3\"\n");
  const auto state = ReadCheckpointState(disk, "d");
  ASSERT_TRUE(state.ok()) << state.status();
  EXPECT_EQ(state->latest, "ckpt-3");
  EXPECT_THAT(state->all, ElementsAre("ckpt-2", "ckpt-3"));
  EXPECT_TRUE(absl::IsInvalidArgument(WriteCheckpointState(disk, "d", {})));
}

TEST(CheckpointState, AbsolutePathsBelowTheDirectoryBecomeRelative) {
  CrashDisk disk(CrashDisk::kNever);
  ASSERT_TRUE(WriteCheckpointState(disk, "/a/b", {"/a/b/c/ckpt", {"/a/bc", "/a/b/c/ckpt"}}).ok());
  const auto state = ReadCheckpointState(disk, "/a/b/");
  ASSERT_TRUE(state.ok()) << state.status();
  EXPECT_EQ(state->latest, "c/ckpt");
  EXPECT_THAT(state->all, ElementsAre("/a/bc", "c/ckpt"));
}

TEST(CheckpointState, Errors) {
  CrashDisk disk(CrashDisk::kNever);
  EXPECT_TRUE(absl::IsNotFound(ReadCheckpointState(disk, "d").status()));
  for (const char* text : {"", "model_checkpoint_path: 3", "\xff\xfe", "model_checkpoint_path: \"a",
                           "all_model_checkpoint_paths: \"a\""}) {
    ASSERT_TRUE(WriteFileAtomically(disk, "d/checkpoint", text).ok());
    const absl::Status status = ReadCheckpointState(disk, "d").status();
    EXPECT_TRUE(absl::IsDataLoss(status)) << text << status;
    EXPECT_THAT(std::string(status.message()), testing::HasSubstr("d/checkpoint"));
  }
  // A field of a later TensorFlow is no error.
  ASSERT_TRUE(
      WriteFileAtomically(disk, "d/checkpoint", "model_checkpoint_path: \"a\" new_field: 3").ok());
  EXPECT_TRUE(ReadCheckpointState(disk, "d").ok());
}

}  // namespace
}  // namespace cohort

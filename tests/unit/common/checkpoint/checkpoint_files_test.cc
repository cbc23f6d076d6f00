#include "common/checkpoint/checkpoint_files.h"

#include <gmock/gmock.h>

#include "absl/strings/str_cat.h"
#include "common/base/temporary_file.h"
#include "common/checkpoint/bundle.h"
#include "tests/unit/common/checkpoint/bundle_support.h"
#include "tests/unit/common/checkpoint/crash_disk.h"

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

TEST(FindCheckpoint, TakesAPrefixAndWhatAShellMakesOfIt) {
  CrashDisk disk(CrashDisk::kNever);
  Touch(disk, "d/ckpt-32.index");
  EXPECT_EQ(*FindCheckpoint(disk, "", "d/ckpt-32"), "d/ckpt-32");
  EXPECT_EQ(*FindCheckpoint(disk, "", "d/ckpt-32.index"), "d/ckpt-32");
  EXPECT_EQ(*FindCheckpoint(disk, "", "d/none"), "d/none");
  Touch(disk, "d/strange.index.index");
  EXPECT_EQ(*FindCheckpoint(disk, "", "d/strange.index"), "d/strange.index");
}

// Whoever copies ckpt-* leaves the state file behind.
TEST(FindCheckpoint, WithoutAStateFileTheMostStepsAreTheLatest) {
  CrashDisk disk(CrashDisk::kNever);
  EXPECT_EQ(*FindCheckpoint(disk, "d", "latest"), "");
  Touch(disk, "d/ckpt-7.data-00000-of-00001");  // was never complete
  Touch(disk, "d/recovery-1-1.index");          // is no checkpoint of the job's
  EXPECT_EQ(*FindCheckpoint(disk, "d", "latest"), "");
  for (const char* name : {"d/ckpt-9.index", "d/ckpt-100.index", "d/ckpt-32.index"}) {
    Touch(disk, name);
  }
  EXPECT_EQ(*FindCheckpoint(disk, "d", "latest"), "d/ckpt-100");
  ASSERT_TRUE(WriteCheckpointState(disk, "d", {"ckpt-9", {"ckpt-9"}}).ok());
  EXPECT_EQ(*FindCheckpoint(disk, "d", "latest"), "d/ckpt-9");
}

TEST(FindCheckpoint, WhereNamesDoNotTellTheLatestTheyAreListed) {
  for (const char* other : {"ckpt-32-2", "model"}) {
    CrashDisk disk(CrashDisk::kNever);
    Touch(disk, "d/ckpt-64.index");
    Touch(disk, absl::StrCat("d/", other, ".index"));
    const absl::Status status = FindCheckpoint(disk, "d", "latest").status();
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
    EXPECT_THAT(std::string(status.message()), testing::HasSubstr("ckpt-64"));
    EXPECT_THAT(std::string(status.message()), testing::HasSubstr(other));
  }
}

// A disk that ran full leaves an empty state file, and a copy of a directory may lack what it
// names: both are said together with what can be restored.
TEST(FindCheckpoint, ADamagedStateFileIsNamedWithTheIntactCheckpointsBesideIt) {
  const std::string intact =
      "intact checkpoints in d: ckpt-9, ckpt-100; name one by its prefix, such as "
      "checkpoint.restore=d/ckpt-100";
  struct Case {
    std::string text;
    absl::StatusCode code;
    std::string says;
  };
  const std::vector<Case> cases = {
      {"", absl::StatusCode::kDataLoss, "d/checkpoint is empty; "},
      {"garbage", absl::StatusCode::kDataLoss, "; it begins with 'garbage'; "},
      {"all_model_checkpoint_paths: \"a\"", absl::StatusCode::kDataLoss,
       "d/checkpoint: model_checkpoint_path is not set; it begins with 'all_model"},
      {"model_checkpoint_path: \"ckpt-7\"", absl::StatusCode::kNotFound,
       "d/checkpoint names 'ckpt-7' as the latest checkpoint, and it has no file d/ckpt-7.index; "},
      {absl::StrCat("model_checkpoint_path: \"", std::string(1000, 'x'), "\""),
       absl::StatusCode::kNotFound, "names 'xxxx"}};
  for (const Case& one : cases) {
    CrashDisk disk(CrashDisk::kNever);
    for (const char* name : {"d/ckpt-100", "d/ckpt-9", "d/recovery-1-1"}) {
      ASSERT_TRUE(Save(disk, name, 1, {RowsOf("v", 0, Ramp(Shape({2})), {0, 2})}).ok());
    }
    Touch(disk, "d/ckpt-200.index");  // has bytes that are no index
    ASSERT_TRUE(WriteFileAtomically(disk, "d/checkpoint", one.text).ok());
    const absl::Status status = FindCheckpoint(disk, "d", "latest").status();
    EXPECT_EQ(status.code(), one.code) << status;
    EXPECT_THAT(std::string(status.message()), testing::HasSubstr(one.says));
    EXPECT_THAT(std::string(status.message()), testing::HasSubstr(intact));
    EXPECT_LT(status.message().size(), 400u);
  }
}

TEST(FindCheckpoint, ADamagedStateFileBesideNothingIntactSaysHowToBeginAnew) {
  CrashDisk disk(CrashDisk::kNever);
  Touch(disk, "d/ckpt-200.index");
  ASSERT_TRUE(WriteFileAtomically(disk, "d/checkpoint", "").ok());
  EXPECT_EQ(FindCheckpoint(disk, "d", "latest").status().message(),
            "d/checkpoint is empty; no intact checkpoint lies in d: copy one there, or leave "
            "checkpoint.restore out to begin anew");
}

TEST(RemoveUnfinishedSaves, TakesWhatKilledSavesLeftAndNothingElse) {
  CrashDisk disk(CrashDisk::kNever);
  const std::vector<std::string> kept = {"d/ckpt-1.data-00000-of-00001",
                                         "d/ckpt-1.index",
                                         "d/checkpoint",
                                         "d/ckpt-2.json",
                                         "d/model.data-00000-of-00001",
                                         "d/ckpt-x.data-00000-of-00001",
                                         "d/recovery-1-2.data-00000-of-00001",
                                         "d/notes.0123456789abcdef.tmp"};
  for (const std::string& path : kept) Touch(disk, path);
  for (const char* name :
       {"d/ckpt-2.data-00000-of-00001", "d/ckpt-1-2.data-00000-of-00001",
        "d/ckpt-1.data-00000-of-00001.0123456789abcdef.tmp", "d/ckpt-3.index.0123456789abcdef.tmp",
        "d/checkpoint.0123456789abcdef.tmp"}) {
    Touch(disk, name);
  }
  RemoveUnfinishedSaves(disk, "d");
  EXPECT_EQ(disk.List("d")->size(), kept.size());
  for (const std::string& path : kept) EXPECT_TRUE(disk.has(path)) << path;
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

TEST(CheckpointState, IsWrittenAsTensorFlowWritesItWithAChecksumInAComment) {
  CrashDisk disk(CrashDisk::kNever);
  ASSERT_TRUE(WriteCheckpointState(disk, "d", {"ckpt-3", {"ckpt-2", "ckpt-3"}}).ok());
  EXPECT_EQ(disk.bytes("d/checkpoint"),
            "model_checkpoint_path: \"ckpt-3\"\n"
            "all_model_checkpoint_paths: \"ckpt-2\"\n"
            "all_model_checkpoint_paths: \"ckpt-3\"\n"
            "# crc32c: 3114c20d\n");
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

// "ckpt-15" that became "ckpt-10" names an older checkpoint.
TEST(CheckpointState, NoChangedBitNamesOtherCheckpoints) {
  CrashDisk disk(CrashDisk::kNever);
  const CheckpointState written{"ckpt-15", {"ckpt-10", "ckpt-15"}};
  ASSERT_TRUE(WriteCheckpointState(disk, "d", written).ok());
  const std::string whole = disk.bytes("d/checkpoint");
  int refused = 0;
  for (size_t bit = 0; bit < whole.size() * 8; ++bit) {
    SCOPED_TRACE(bit);
    std::string other = whole;
    other[bit / 8] = static_cast<char>(other[bit / 8] ^ (1 << (bit % 8)));
    ASSERT_TRUE(WriteFileAtomically(disk, "d/checkpoint", other).ok());
    const auto state = ReadCheckpointState(disk, "d");
    if (!state.ok()) {
      EXPECT_TRUE(absl::IsDataLoss(state.status())) << state.status();
      ++refused;
      continue;
    }
    // The bit was one of the comment.
    EXPECT_EQ(state->latest, written.latest);
    EXPECT_EQ(state->all, written.all);
  }
  EXPECT_GT(refused, 600);
}

TEST(CheckpointState, AChangedOneSaysWhatItsChecksumShouldBeAndHowAnEditedOneIsTaken) {
  CrashDisk disk(CrashDisk::kNever);
  ASSERT_TRUE(Save(disk, "d/ckpt-9", 1, {RowsOf("v", 0, Ramp(Shape({2})), {0, 2})}).ok());
  ASSERT_TRUE(WriteCheckpointState(disk, "d", {"ckpt-3", {}}).ok());
  const std::string edited = "model_checkpoint_path: \"ckpt-9\"\n";
  const std::string line = disk.bytes("d/checkpoint").substr(edited.size());
  ASSERT_TRUE(WriteFileAtomically(disk, "d/checkpoint", edited + line).ok());
  const absl::Status refused = FindCheckpoint(disk, "d", "latest").status();
  EXPECT_TRUE(absl::IsDataLoss(refused)) << refused;
  EXPECT_THAT(std::string(refused.message()),
              testing::AllOf(testing::StartsWith("d/checkpoint: its last line should be '# crc32c"),
                             testing::HasSubstr("if you have edited it, remove that line"),
                             testing::HasSubstr("intact checkpoints in d: ckpt-9;")));
  ASSERT_TRUE(WriteFileAtomically(disk, "d/checkpoint", edited).ok());
  EXPECT_EQ(*FindCheckpoint(disk, "d", "latest"), "d/ckpt-9");
  // Bytes behind the line have no checksum.
  ASSERT_TRUE(WriteCheckpointState(disk, "d", {"ckpt-9", {}}).ok());
  const std::string longer = disk.bytes("d/checkpoint") + "model_checkpoint_path: \"ckpt-3\"\n";
  ASSERT_TRUE(WriteFileAtomically(disk, "d/checkpoint", longer).ok());
  EXPECT_TRUE(absl::IsDataLoss(ReadCheckpointState(disk, "d").status()));
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

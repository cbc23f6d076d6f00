#include "coordinator/recovery/recovery_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/temporary_file.h"
#include "common/checkpoint/bundle.h"
#include "common/checkpoint/checkpoint_files.h"
#include "tests/support/world/memory_file_system.h"

namespace cohort {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr char kDirectory[] = "/r";

class RecoveryStoreTest : public testing::Test {
 protected:
  RecoveryStoreTest() { EXPECT_TRUE(files_.MakeDirectories(kDirectory).ok()); }

  // Writes one data shard with the state of a coordinator of `epoch`.
  absl::StatusOr<std::vector<proto::SavedSlice>> WriteShard(const std::string& prefix,
                                                            uint64_t epoch) {
    proto::CoordinatorState state;
    state.set_job("job");
    state.set_epoch(epoch);
    const Tensor bytes = CoordinatorStateTensor(state);
    ASSIGN_OR_RETURN(const auto writer, DataShardWriter::Create(files_, prefix, 0, 1));
    RETURN_IF_ERROR(
        writer->Add(kCoordinatorStateName, bytes.shape(), {0, bytes.num_elements()}, bytes));
    return writer->Finish();
  }
  std::string Save(RecoveryStore& store, uint64_t epoch) {
    const std::string prefix = store.NewPrefix(epoch);
    const auto saved = WriteShard(prefix, epoch);
    EXPECT_TRUE(saved.ok()) << saved.status();
    EXPECT_TRUE(store.Commit(prefix, 1, *saved).ok());
    return prefix;
  }
  std::vector<std::string> Prefixes(const RecoveryStore::Left& left) {
    std::vector<std::string> prefixes;
    for (const auto& one : left.checkpoints) prefixes.push_back(one.prefix);
    return prefixes;
  }
  std::string Shard(const std::string& prefix) { return DataShardPath(prefix, 0, 1); }
  // Overwrites what a file has.
  void Damage(const std::string& path) {
    ASSERT_TRUE(WriteFileAtomically(files_, path, "damaged").ok());
  }
  std::vector<std::string> Names() { return *files_.List(kDirectory); }

  MemoryFileSystem files_;
};

TEST_F(RecoveryStoreTest, KeepsTheTwoNewestAndNoStateFile) {
  RecoveryStore store(files_, kDirectory);
  EXPECT_THAT(store.ReadLeft()->checkpoints, IsEmpty());
  for (int i = 0; i < 3; ++i) Save(store, 1);
  EXPECT_THAT(Names(), ElementsAre("recovery-1-2.data-00000-of-00001", "recovery-1-2.index",
                                   "recovery-1-3.data-00000-of-00001", "recovery-1-3.index"));
  const auto left = store.ReadLeft();
  ASSERT_TRUE(left.ok()) << left.status();
  EXPECT_THAT(Prefixes(*left), ElementsAre("/r/recovery-1-3", "/r/recovery-1-2"));
  EXPECT_EQ(left->epoch, 1u);
  EXPECT_TRUE(left->damage.ok());
}

// A job whose checkpoint.directory is its recovery.directory.
TEST_F(RecoveryStoreTest, TouchesNothingThatIsNotItsOwn) {
  const std::vector<std::string> others = {"checkpoint",
                                           "checkpoint.0123456789abcdef.tmp",
                                           "ckpt-32.data-00000-of-00001",
                                           "ckpt-32.index",
                                           "recovery-1-2.index.txt",
                                           "recovery-1-2.json",
                                           "recovery-1.index",
                                           "recovery-x-1.index",
                                           "recovery-1-2-3.index",
                                           "recovery-01-2.index"};
  for (const std::string& name : others) {
    ASSERT_TRUE(WriteFileAtomically(files_, JoinPath(kDirectory, name), name).ok());
  }
  RecoveryStore store(files_, kDirectory);
  for (int i = 0; i < 5; ++i) Save(store, 1);
  store.RemoveLeftovers(9);
  EXPECT_TRUE(store.Clear().ok());
  for (const std::string& name : others) {
    EXPECT_EQ(ReadFile(files_, JoinPath(kDirectory, name)).value_or("gone"), name);
  }
  EXPECT_EQ(Names().size(), others.size()) << absl::StrJoin(Names(), " ");
}

// A ps that dies in the middle of its shard; another whose shard is whole when a third fails.
TEST_F(RecoveryStoreTest, WhatFailedSavesLeaveIsRemovedByTheNextCommit) {
  RecoveryStore store(files_, kDirectory);
  Save(store, 1);
  const std::string cut_off = store.NewPrefix(1);
  ASSERT_TRUE((*files_.Create(Shard(cut_off) + ".0123456789abcdef.tmp"))->Close().ok());
  const std::string without_index = store.NewPrefix(1);
  ASSERT_TRUE(WriteShard(without_index, 1).ok());
  Save(store, 1);
  EXPECT_THAT(Names(), ElementsAre("recovery-1-1.data-00000-of-00001", "recovery-1-1.index",
                                   "recovery-1-4.data-00000-of-00001", "recovery-1-4.index"));
}

TEST_F(RecoveryStoreTest, ASaveThatFailedIsDiscarded) {
  RecoveryStore store(files_, kDirectory);
  const std::string prefix = store.NewPrefix(1);
  ASSERT_TRUE(WriteShard(prefix, 1).ok());
  store.Discard(prefix);
  EXPECT_THAT(Names(), IsEmpty());
}

TEST_F(RecoveryStoreTest, LeftoversAreThoseOfEarlierEpochs) {
  RecoveryStore store(files_, kDirectory);
  Save(store, 1);
  ASSERT_TRUE(WriteShard("/r/recovery-1-9", 1).ok());
  ASSERT_TRUE(WriteShard("/r/recovery-2-1", 2).ok());  // of a successor, which writes it now
  store.RemoveLeftovers(2);
  EXPECT_THAT(Names(), ElementsAre("recovery-1-1.data-00000-of-00001", "recovery-1-1.index",
                                   "recovery-2-1.data-00000-of-00001"));
}

TEST_F(RecoveryStoreTest, ClearRemovesAlsoWhatFailedSavesLeft) {
  RecoveryStore store(files_, kDirectory);
  Save(store, 1);
  ASSERT_TRUE(WriteShard("/r/recovery-1-9", 1).ok());
  ASSERT_TRUE((*files_.Create("/r/recovery-1-7.index.0123456789abcdef.tmp"))->Close().ok());
  EXPECT_TRUE(store.Clear().ok());
  EXPECT_THAT(Names(), IsEmpty());
}

TEST_F(RecoveryStoreTest, ClearTriesAllAndSaysTheFirstError) {
  RecoveryStore store(files_, kDirectory);
  Save(store, 1);
  Save(store, 2);
  files_.FailAfter(2, absl::PermissionDeniedError("no"));  // the first index
  EXPECT_TRUE(absl::IsPermissionDenied(store.Clear()));
  EXPECT_THAT(Names(), ElementsAre("recovery-2-2.data-00000-of-00001", "recovery-2-2.index"));
}

// A coordinator that was taken over commits late: its successor's checkpoints stay.
TEST_F(RecoveryStoreTest, AnOldCoordinatorRemovesNothingOfItsSuccessor) {
  RecoveryStore old(files_, kDirectory);
  Save(old, 1);
  RecoveryStore successor(files_, kDirectory);
  Save(successor, 2);
  Save(successor, 2);
  ASSERT_TRUE(WriteShard("/r/recovery-2-3", 2).ok());  // not committed yet
  Save(old, 1);
  EXPECT_THAT(Prefixes(*successor.ReadLeft()), ElementsAre("/r/recovery-2-2", "/r/recovery-2-1"));
  EXPECT_TRUE(files_.Open(Shard("/r/recovery-2-3")).ok());
}

TEST_F(RecoveryStoreTest, ADamagedNewestOneLeavesTheOneBefore) {
  for (const bool index : {true, false}) {
    RecoveryStore store(files_, kDirectory);
    Save(store, 3);
    const std::string newest = Save(store, 4);
    const std::string damaged = index ? absl::StrCat(newest, ".index") : Shard(newest);
    Damage(damaged);
    const auto left = store.ReadLeft();
    ASSERT_TRUE(left.ok()) << left.status();
    EXPECT_THAT(Prefixes(*left), ElementsAre("/r/recovery-3-1"));
    EXPECT_EQ(left->epoch, 4u) << "a new checkpoint must be newer than the damaged one";
    EXPECT_THAT(std::string(left->damage.message()), HasSubstr(damaged));
    ASSERT_TRUE(store.Clear().ok());
  }
}

TEST_F(RecoveryStoreTest, WhenAllAreDamagedTheNewestIsNamed) {
  RecoveryStore store(files_, kDirectory);
  Damage(absl::StrCat(Save(store, 1), ".index"));
  const std::string newest = absl::StrCat(Save(store, 1), ".index");
  Damage(newest);
  const absl::Status status = store.ReadLeft().status();
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(newest));
}

// The newest one may be whole: an older one would silently take its place.
TEST_F(RecoveryStoreTest, ADiskThatCannotBeReadIsAnError) {
  RecoveryStore store(files_, kDirectory);
  Save(store, 1);
  Save(store, 1);
  files_.FailAfter(1, absl::UnavailableError("the disk does not answer"));
  EXPECT_TRUE(absl::IsUnavailable(store.ReadLeft().status()));
}

}  // namespace
}  // namespace cohort

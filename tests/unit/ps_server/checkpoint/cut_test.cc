// Cuts: a checkpoint with the applied closures of each slice, and going back to it while closures
// that it does not cover run again.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <numeric>
#include <set>
#include <thread>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/checkpoint/bundle.h"
#include "common/wire/error_detail.h"
#include "tests/support/sequence_rng.h"
#include "tests/support/world/memory_file_system.h"
#include "tests/unit/ps_server/checkpoint/cut_cluster.h"

namespace cohort {
namespace {

using testing::HasSubstr;

std::vector<VariableSpec> Model() {
  return {{"kernel", DType::kFloat32, Shape{7, 5}, Rule("rmsprop", {{"momentum", 0.5}})},
          {"bias", DType::kFloat32, Shape{4}, Rule("adam", {})},
          {"rate", DType::kFloat32, Shape{3}, Rule("adagrad", {})}};
}

std::vector<VariableSpec> Counters(int count) {
  std::vector<VariableSpec> counters;
  for (int i = 0; i < count; ++i) {
    counters.push_back(
        {absl::StrCat("n", i), DType::kInt64, Shape{}, Rule("assign_add", {}), "zeros"});
  }
  return counters;
}

class CutTest : public testing::Test {
 protected:
  static void ExpectApplied(const absl::StatusOr<proto::PushResponse>& answer, bool applied) {
    ASSERT_TRUE(answer.ok()) << answer.status();
    EXPECT_EQ(answer->applied(), applied ? 1u : 0u);
    EXPECT_EQ(answer->duplicates(), applied ? 0u : 1u);
  }

  MemoryFileSystem files_;
};

// Closure 5 overtakes 4 and is in the cut on some slices only.
TEST_F(CutTest, WhatIsInTheCutIsADuplicateAndTheRestIsAppliedSliceBySlice) {
  CutCluster cluster(2, files_, Model());
  const std::vector<proto::SliceHome> slices = cluster.slices();
  for (const uint64_t closure : {1, 2, 3}) {
    for (const auto& slice : slices) ExpectApplied(cluster.Push(closure, slice), true);
  }
  const auto is_early = [](const proto::SliceHome& slice) { return slice.slice_id() % 3 == 0; };
  for (const auto& slice : slices) {
    if (is_early(slice)) ExpectApplied(cluster.Push(5, slice), true);
  }
  const std::vector<CutCluster::Slice> at_cut = cluster.ReadAll();
  ASSERT_TRUE(cluster.Save("/cut").ok());
  const auto go_on = [&] {
    for (const uint64_t closure : {4, 5, 6}) {
      for (const auto& slice : slices) {
        ExpectApplied(cluster.Push(closure, slice), closure != 5 || !is_early(slice));
      }
    }
  };
  go_on();
  const std::vector<CutCluster::Slice> at_end = cluster.ReadAll();
  for (int again = 0; again < 2; ++again) {
    cluster.GoBackTo({"/cut"});
    EXPECT_EQ(cluster.ReadAll(), at_cut);
    for (const uint64_t closure : {1, 2, 3}) {
      for (const auto& slice : slices) ExpectApplied(cluster.Push(closure, slice), false);
    }
    EXPECT_EQ(cluster.ReadAll(), at_cut);
    go_on();
    EXPECT_EQ(cluster.ReadAll(), at_end) << "the slots are those of the cut";
  }
}

TEST_F(CutTest, AFreshClusterTakesACut) {
  std::vector<CutCluster::Slice> at_cut;
  {
    CutCluster cluster(2, files_, Model());
    for (const auto& slice : cluster.slices()) ExpectApplied(cluster.Push(8, slice), true);
    ASSERT_TRUE(cluster.Save("/cut").ok());
    at_cut = cluster.ReadAll();
  }
  CutCluster fresh(2, files_, Model());
  ASSERT_TRUE(fresh.Restore(0, {"/cut"}).ok());
  EXPECT_EQ(*fresh.Restore(1, {"/cut"}), 8u) << "3 variables, 5 slots";
  EXPECT_EQ(fresh.ReadAll(), at_cut);
  for (const auto& slice : fresh.slices()) ExpectApplied(fresh.Push(8, slice), false);
}

TEST_F(CutTest, AnEmptyPrefixIsTheStart) {
  CutCluster cluster(2, files_, Model());
  const std::vector<CutCluster::Slice> start = cluster.ReadAll();
  const auto train = [&] {
    for (const uint64_t closure : {1, 2, 3}) {
      for (const auto& slice : cluster.slices()) {
        ExpectApplied(cluster.Push(closure, slice, closure), true);
      }
    }
    return cluster.ReadAll();
  };
  const std::vector<CutCluster::Slice> trained = train();
  cluster.GoBackTo({"", 1});
  EXPECT_EQ(cluster.ReadAll(), start);
  EXPECT_EQ(train(), trained);
}

TEST_F(CutTest, AnOrdinaryRestoreLeavesVersionsAndAppliedClosures) {
  CutCluster cluster(1, files_, Counters(1));
  const proto::SliceHome slice = cluster.slices()[0];
  ASSERT_TRUE(cluster.Save("/zero").ok());
  ExpectApplied(cluster.Push(1, slice), true);
  ASSERT_TRUE(cluster.Restore(0, {"/zero"}, /*applied=*/false).ok());
  EXPECT_EQ(cluster.ReadCounter(slice), 0);
  EXPECT_EQ(cluster.Read(slice).version, 1u);
  ExpectApplied(cluster.Push(1, slice), false);
}

TEST_F(CutTest, OtherSlicesTakeItAsACheckpointAndNotAsACut) {
  CutCluster saved(2, files_, Model());
  for (const auto& slice : saved.slices()) ExpectApplied(saved.Push(1, slice), true);
  ASSERT_TRUE(saved.Save("/two").ok());
  CutCluster other(3, files_, Model());
  const std::vector<CutCluster::Slice> before = other.ReadAll();
  // Of seven rows the saved slices have 0 to 3 and 4 to 6; ps:1 has 3 and 4, one of each.
  const absl::Status refused = other.Restore(1, {"/two", 9}).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_NE(ClassOf(refused), proto::STALE);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("/two was made with other slices"));
  EXPECT_THAT(std::string(refused.message()), HasSubstr("in rows 3 to 4 of kernel"));
  EXPECT_THAT(std::string(refused.message()), HasSubstr("restored as an ordinary checkpoint"));
  EXPECT_EQ(other.ReadAll(), before);
  ExpectApplied(other.Push(1, other.slices()[0]), true);  // the watermark is as it was
  for (int ps = 0; ps < 3; ++ps) EXPECT_TRUE(other.Restore(ps, {"/two"}, false).ok());
}

TEST_F(CutTest, ALateRepeatOfTheRestoreUndoesNothingAndASecondCutNeedsAnEpoch) {
  CutCluster cluster(1, files_, Counters(1));
  const proto::SliceHome slice = cluster.slices()[0];
  ExpectApplied(cluster.Push(1, slice), true);
  ASSERT_TRUE(cluster.Save("/one").ok());
  ExpectApplied(cluster.Push(2, slice), true);
  ASSERT_TRUE(cluster.Save("/two").ok());
  cluster.GoBackTo({"/one"});
  ExpectApplied(cluster.Push(2, slice, 2), true);
  EXPECT_EQ(*cluster.Restore(0, {"/one"}), 1u);
  EXPECT_EQ(cluster.ReadCounter(slice), 3);
  EXPECT_FALSE(cluster.Push(1, slice).ok()) << "nor the watermark";
  EXPECT_THAT(std::string(cluster.Restore(0, {"/two"}).status().message()),
              HasSubstr("needs a new epoch"));
  EXPECT_FALSE(cluster.Restore(0, {"/one", 2}).ok());
  cluster.GoBackTo({"/two"});
  EXPECT_EQ(cluster.ReadCounter(slice), 3);
}

TEST_F(CutTest, ACutThatCannotBeReadChangesNothingAndAnotherMayBeTried) {
  CutCluster cluster(1, files_, Counters(1));
  const proto::SliceHome slice = cluster.slices()[0];
  ExpectApplied(cluster.Push(3, slice), true);
  ASSERT_TRUE(cluster.Save("/good").ok());
  const auto write = [&](const std::string& prefix, const std::vector<int64_t>& history) {
    const auto writer = *DataShardWriter::Create(files_, prefix, 0, 1);
    const Shape shape{static_cast<int64_t>(history.size())};
    ASSERT_TRUE(writer->Add("n0", Shape{}, {0, 1}, Tensor::Scalar<int64_t>(99)).ok());
    ASSERT_TRUE(writer
                    ->Add("n0/.COHORT_APPLIED/0", shape, {0, shape.dim(0)},
                          Tensor::FromVector(history, shape))
                    .ok());
    ASSERT_TRUE(WriteIndex(files_, prefix, 1, *writer->Finish()).ok());
  };
  cluster.NextEpoch();
  int number = 0;
  for (const std::vector<int64_t>& bad :
       std::vector<std::vector<int64_t>>{{1},
                                         {1, 5, 0, 0, 0, 7},
                                         {1, 5, 0, 0, 0, 7, 6},
                                         {1, 5, 0, 0, 0, 1, 2, 3, 4},
                                         {1, 5, 9, 0, 0, 8, 10}}) {
    const std::string prefix = absl::StrCat("/bad", number++);
    write(prefix, bad);
    const absl::Status damaged = cluster.Restore(0, {prefix}).status();
    EXPECT_EQ(damaged.code(), absl::StatusCode::kDataLoss) << damaged;
    EXPECT_THAT(std::string(damaged.message()), HasSubstr("n0/.COHORT_APPLIED/0"));
  }
  write("/rows", {0, 5, 0, 0, 0});
  EXPECT_EQ(cluster.Restore(0, {"/rows"}).status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(cluster.ReadCounter(slice), 3);
  EXPECT_TRUE(cluster.Restore(0, {"/good"}).ok());
}

// Forwards to memory and runs a hook before each append.
class HookedFiles : public FileSystem {
 public:
  std::function<void()> on_append;

  absl::StatusOr<std::unique_ptr<WritableFile>> Create(const std::string& path) override {
    ASSIGN_OR_RETURN(std::unique_ptr<WritableFile> file, memory_.Create(path));
    return std::make_unique<File>(*this, std::move(file));
  }
  absl::StatusOr<std::unique_ptr<ReadableFile>> Open(const std::string& path) override {
    return memory_.Open(path);
  }
  absl::StatusOr<std::vector<std::string>> List(const std::string& directory) override {
    return memory_.List(directory);
  }
  absl::Status Rename(const std::string& from, const std::string& to) override {
    return memory_.Rename(from, to);
  }
  absl::Status Remove(const std::string& path) override { return memory_.Remove(path); }
  absl::Status MakeDirectories(const std::string& path) override {
    return memory_.MakeDirectories(path);
  }

 private:
  class File : public WritableFile {
   public:
    File(HookedFiles& files, std::unique_ptr<WritableFile> file)
        : files_(files), file_(std::move(file)) {}
    absl::Status Append(absl::string_view bytes) override {
      if (files_.on_append) files_.on_append();
      return file_->Append(bytes);
    }
    absl::Status Sync() override { return file_->Sync(); }
    absl::Status Close() override { return file_->Close(); }

   private:
    HookedFiles& files_;
    const std::unique_ptr<WritableFile> file_;
  };

  MemoryFileSystem memory_;
};

// The save stands still at every piece that it writes until a push to every slice was answered.
TEST_F(CutTest, PushesDuringASaveAreAnsweredAndChangeNothingThatIsSaved) {
  HookedFiles files;
  CutCluster cluster(1, files, Model());
  for (const uint64_t closure : {1, 2}) {
    for (const auto& slice : cluster.slices()) ExpectApplied(cluster.Push(closure, slice), true);
  }
  const std::vector<CutCluster::Slice> at_cut = cluster.ReadAll();
  uint64_t closure = 2;
  files.on_append = [&] {
    ++closure;
    for (const auto& slice : cluster.slices()) ExpectApplied(cluster.Push(closure, slice), true);
  };
  ASSERT_TRUE(cluster.Save("/cut").ok());
  files.on_append = nullptr;
  ASSERT_GT(closure, 10u) << "three variables, five slots and three histories were written";
  const std::vector<CutCluster::Slice> at_end = cluster.ReadAll();
  cluster.GoBackTo({"/cut"});
  EXPECT_EQ(cluster.ReadAll(), at_cut);
  for (uint64_t again = 1; again <= closure; ++again) {
    for (const auto& slice : cluster.slices()) ExpectApplied(cluster.Push(again, slice), again > 2);
  }
  EXPECT_EQ(cluster.ReadAll(), at_end);
}

// Workers of the old epoch push as fast as they can while the coordinator goes back.
TEST_F(CutTest, NoPushOfTheOldEpochLandsAfterTheRestore) {
  CutCluster cluster(1, files_, Counters(3));
  const std::vector<proto::SliceHome> slices = cluster.slices();
  ASSERT_TRUE(cluster.Save("/zero").ok());
  std::atomic<bool> stop = false;
  std::atomic<int> landed = 0;
  std::atomic<int> refused = 0;
  std::vector<std::thread> workers;
  for (uint64_t worker = 0; worker < 3; ++worker) {
    workers.emplace_back([&, worker] {
      for (uint64_t closure = 1 + worker; !stop || refused == 0; closure += 3) {
        const Tensor one = Tensor::Scalar<int64_t>(1);
        const auto answer = cluster.ps().Push(
            0, PushOf({.closure = closure},
                      {{slices[0].slice_id(), one}, {slices[2].slice_id(), one}}));
        (answer.ok() ? landed : refused) += 1;
      }
    });
  }
  while (landed < 50) std::this_thread::yield();
  cluster.GoBackTo({"/zero"});
  const std::vector<CutCluster::Slice> right_after = cluster.ReadAll();
  stop = true;
  for (std::thread& worker : workers) worker.join();
  for (const auto& slice : right_after) EXPECT_EQ(slice.version, 0u);
  EXPECT_EQ(cluster.ReadAll(), right_after);
  EXPECT_GT(refused, 0);
}

// Closures pushed to random slices in random order, some many times, with cuts and ways back to
// them: each counter is the sum of the closures that it took since.
TEST_F(CutTest, RandomCutsAndRestoresCountEveryClosureOnceOnEverySlice) {
  const uint64_t first_seed = TestSeed(1);
  for (uint64_t seed = first_seed; seed < first_seed + 15; ++seed) {
    SCOPED_TRACE(Replay(seed, "CutTest.Random*"));
    SequenceRng rng(seed);
    MemoryFileSystem files;
    CutCluster cluster(2, files, Counters(2));
    const std::vector<proto::SliceHome> slices = cluster.slices();
    using Applied = std::vector<std::set<uint64_t>>;  // by slice
    Applied now(slices.size());
    Applied at_cut = now;
    Cut cut = {"", 1};
    uint64_t front = 1;
    for (int i = 0; i < 400; ++i) {
      const uint64_t kind = rng.Below(100);
      if (kind < 4) {
        cut.prefix = absl::StrCat("/cut", i);
        ASSERT_TRUE(cluster.Save(cut.prefix).ok());
        at_cut = now;
        const auto everywhere = [&](uint64_t id) {
          return std::all_of(at_cut.begin(), at_cut.end(),
                             [&](const auto& slice) { return slice.contains(id); });
        };
        while (everywhere(cut.watermark)) ++cut.watermark;
      } else if (kind < 6) {
        ASSERT_NO_FATAL_FAILURE(cluster.GoBackTo(cut));
        now = at_cut;
        front = cut.watermark;
      } else {
        front += rng.Below(3) == 0 ? 1 : 0;
        const uint64_t closure = cut.watermark + rng.Below(front - cut.watermark + 4);
        const size_t to = rng.Below(slices.size());
        const auto answer = cluster.Push(closure, slices[to], cut.watermark);
        ASSERT_NO_FATAL_FAILURE(ExpectApplied(answer, now[to].insert(closure).second));
      }
      for (size_t s = 0; s < slices.size(); ++s) {
        const int64_t sum =
            static_cast<int64_t>(std::accumulate(now[s].begin(), now[s].end(), uint64_t{0}));
        ASSERT_EQ(cluster.ReadCounter(slices[s]), sum);
        ASSERT_EQ(cluster.Read(slices[s]).version, now[s].size());
      }
    }
  }
}

}  // namespace
}  // namespace cohort

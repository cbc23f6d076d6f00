// A coordinator that was taken over while it saves a checkpoint: it neither damages nor removes
// what its successor has saved under the same name, and does not make its own the latest one.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/checkpoint/checkpoint_files.h"
#include "coordinator/api/checkpoint_manager.h"
#include "tests/sim/sim_cluster.h"
#include "tests/sim/sim_files.h"
#include "tests/support/counter.h"

namespace cohort {
namespace {

// Does something once: when the coordinator on one host sends a request, is answered, or has done
// something to a file. What it does may step the world. Lives on the test's thread.
class Moment final : public SimWatcher, public FileWatcher {
 public:
  // The place of the moment: a method and whether its request or its response is on the way, or a
  // file that has just been renamed into place.
  enum class At { kRequest, kResponse, kRenamed };
  Moment(SimWorld& world, std::string host, At at, std::string ending, std::function<void()> then)
      : world_(world),
        host_(std::move(host)),
        at_(at),
        ending_(std::move(ending)),
        then_(std::move(then)) {}

  SimFate OnRequest(const SimMessage& message) override {
    return Meet(At::kRequest, message.from == host_, message.method);
  }
  void OnArrival(const SimMessage&) override {}
  SimFate OnResponse(const SimMessage& message) override {
    return Meet(At::kResponse, message.from == host_, message.method);
  }
  absl::Status OnFileCall(const std::string&, const FileCall&, size_t*) override {
    return absl::OkStatus();
  }
  void OnFileDone(const std::string&, const FileCall& call) override {
    const bool is_it = at_ == At::kRenamed && call.kind == FileCall::Kind::kRename &&
                       absl::EndsWith(call.path, ending_);
    if (is_it && then_ != nullptr) std::exchange(then_, nullptr)();
  }

 private:
  // The message waits until the successor has done what it does.
  SimFate Meet(At at, bool is_of_host, absl::string_view method) {
    SimFate fate;
    if (at != at_ || !is_of_host || !absl::EndsWith(method, ending_) || then_ == nullptr)
      return fate;
    world_.CallAt(world_.Now(), std::exchange(then_, nullptr));
    fate.delay = absl::Seconds(30);
    return fate;
  }

  SimWorld& world_;
  const std::string host_;
  const At at_;
  const std::string ending_;
  std::function<void()> then_;
};

struct Interruption {
  const char* name;
  Moment::At at;
  const char* ending;
};

class SavesOfTwo : public testing::Test {
 protected:
  static constexpr char kDirectory[] = "/saved";

  // A coordinator of the job, and the counter that it has made anew.
  struct Life {
    std::unique_ptr<ClusterCoordinator> coordinator;
    std::optional<Counter> counter;
    std::unique_ptr<CheckpointManager> checkpoints;
  };
  Life Begin(World world) {
    ClusterCoordinator::Options options;
    options.cluster = cluster_.tasks().spec();
    options.settings = 1;
    Life life;
    auto connected = ClusterCoordinator::Connect(world, cluster_.waiter(), std::move(options));
    EXPECT_TRUE(connected.ok()) << connected.status();
    life.coordinator = *std::move(connected);
    auto counter = MakeCounter(*life.coordinator);
    EXPECT_TRUE(counter.ok()) << counter.status();
    life.counter.emplace(*std::move(counter));
    life.checkpoints = std::make_unique<CheckpointManager>(
        world.files, *life.coordinator, CheckpointManager::Options{kDirectory, 2});
    return life;
  }
  static void CountTo(Life& life, int count) {
    for (int i = 0; i < count; ++i) {
      ASSERT_TRUE(life.coordinator->Schedule(life.counter->increment, {}).ok());
    }
    ASSERT_TRUE(life.coordinator->Join().ok());
  }
  static absl::StatusOr<std::string> Save(Life& life, int64_t step) {
    return life.checkpoints->Save({step, 0});
  }
  static void ExpectValueIn(Life& life, const std::string& prefix, float wanted) {
    const auto restored = life.checkpoints->Restore(prefix, {});
    ASSERT_TRUE(restored.ok()) << restored.status();
    const auto value = life.coordinator->Read(life.counter->variable);
    ASSERT_TRUE(value.ok()) << value.status();
    EXPECT_EQ(*value->data<float>(), wanted) << prefix;
  }

  SimCluster cluster_{19, /*ps=*/2, /*workers=*/2};
};

class SupersededSave : public SavesOfTwo, public testing::WithParamInterface<Interruption> {};

INSTANTIATE_TEST_SUITE_P(
    Moments, SupersededSave,
    testing::Values(Interruption{"before_the_shards", Moment::At::kRequest, "/HoldShard"},
                    Interruption{"while_shards_are_written", Moment::At::kRequest, "/WriteShard"},
                    Interruption{"behind_the_shards", Moment::At::kResponse, "/WriteShard"},
                    Interruption{"behind_the_index", Moment::At::kRenamed, "ckpt-2.index"}),
    [](const auto& info) { return std::string(info.param.name); });

TEST_P(SupersededSave, LeavesWhatItsSuccessorHasSaved) {
  std::optional<Life> heir;
  Moment moment(cluster_.sim(), "chief:0", GetParam().at, GetParam().ending, [&] {
    heir.emplace(Begin(cluster_.WorldOf("chief:1")));
    CountTo(*heir, 5);
    // The same names, as those of a job that goes on from a recovery checkpoint.
    for (const int64_t step : {2, 3}) {
      const auto saved = Save(*heir, step);
      ASSERT_TRUE(saved.ok()) << saved.status();
    }
  });
  const World world = cluster_.WorldOf("chief:0");
  SimFiles files(world.files, moment, "chief:0");
  Life old = Begin({world.clock, world.executor, files, world.transport});
  CountTo(old, 3);
  ASSERT_TRUE(Save(old, 1).ok());
  cluster_.network().SetWatcher(&moment);
  const auto saved = Save(old, 2);
  cluster_.network().SetWatcher(nullptr);
  ASSERT_TRUE(heir.has_value()) << "the moment came";
  // Who was asked first says it in its own words.
  EXPECT_FALSE(saved.ok());
  EXPECT_THAT(std::string(saved.status().message()), testing::HasSubstr("coordinator incarnation"));
  const auto state = ReadCheckpointState(world.files, kDirectory);
  ASSERT_TRUE(state.ok()) << state.status();
  EXPECT_EQ(state->latest, "ckpt-3");
  // Behind its index the old one has a checkpoint of its own, which is whole, too.
  const bool has_index = GetParam().at == Moment::At::kRenamed;
  ExpectValueIn(*heir, has_index ? "/saved/ckpt-2-2" : "/saved/ckpt-2", 5);
  if (has_index) ExpectValueIn(*heir, "/saved/ckpt-2", 3);
  ExpectValueIn(*heir, "latest", 5);
}

// Shards without an index are what a killed save has left, or what a save is about to name.
TEST_F(SavesOfTwo, TheOldOneTakesNothingFromTheSaveOfItsSuccessor) {
  Life old = Begin(cluster_.WorldOf("chief:0"));
  CountTo(old, 3);
  Life heir = Begin(cluster_.WorldOf("chief:1"));
  CountTo(heir, 5);
  bool came = false;
  Moment moment(cluster_.sim(), "chief:1", Moment::At::kResponse, "/WriteShard", [&] {
    came = true;
    old.checkpoints->RemoveUnfinished();
  });
  cluster_.network().SetWatcher(&moment);
  const auto saved = Save(heir, 2);
  cluster_.network().SetWatcher(nullptr);
  EXPECT_TRUE(came);
  ASSERT_TRUE(saved.ok()) << saved.status();
  ExpectValueIn(heir, *saved, 5);
}

}  // namespace
}  // namespace cohort

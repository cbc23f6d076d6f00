// What is read of the data: all of them, whatever the length of an epoch, and the same by all
// workers.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/temporary_file.h"
#include "coordinator/train/trainer.h"
#include "tests/sim/sim_cluster.h"
#include "tests/support/stepwise_training.h"

namespace cohort {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// IDX files of ids 0 to `count` - 1 and labels, the first of which is `label`.
void PutData(FileSystem& files, int count, int label = 0) {
  std::string x("\0\0\x0c\2", 4);
  std::string y("\0\0\x08\1", 4);
  const auto append = [](std::string& bytes, int value) {
    for (int shift = 24; shift >= 0; shift -= 8) bytes.push_back(static_cast<char>(value >> shift));
  };
  append(x, count);
  append(x, 1);
  append(y, count);
  for (int i = 0; i < count; ++i) {
    append(x, i);
    y.push_back(static_cast<char>((i + label) % 4));
  }
  ASSERT_TRUE(WriteFileAtomically(files, "/x.idx", x).ok());
  ASSERT_TRUE(WriteFileAtomically(files, "/y.idx", y).ok());
}

// A table with a row for each id that was trained, and a Dense layer. Batches of 10.
JobSpec TableJob(const std::vector<std::string>& overrides) {
  const auto job = ParseJob(R"({
    "model": {"class_name": "Sequential", "config": {"layers": [
        {"class_name": "InputLayer", "config": {"batch_shape": [null, 1], "dtype": "int32"}},
        {"class_name": "Embedding", "config": {"output_dim": 2, "dynamic": {}}},
        {"class_name": "Flatten", "config": {}},
        {"class_name": "Dense", "config": {"units": 4, "activation": "softmax"}}]}},
    "compile": {"optimizer": "sgd", "loss": "sparse_categorical_crossentropy"},
    "data": {"train": {"class_name": "IDX", "config": {"paths": ["/x.idx", "/y.idx"]}}},
    "fit": {"batch_size": 10, "shuffle": false}})",
                            "job", overrides);
  EXPECT_TRUE(job.ok()) << job.status();
  return job.value_or(JobSpec());
}

absl::StatusOr<TrainSummary> Train(SimCluster& cluster, const JobSpec& job) {
  ClusterCoordinator::Options options = CoordinatorOptionsOf(job);
  options.lease = absl::Seconds(1);
  ASSIGN_OR_RETURN(const auto coordinator, cluster.Connect(std::move(options)));
  const World world = cluster.WorldOf("chief:0");
  ASSIGN_OR_RETURN(DataSources sources,
                   FindDataSources(world, cluster.waiter(), job.data, {}, job.seed));
  Trainer trainer(world, cluster.waiter(), *coordinator, job, std::move(sources));
  return trainer.Run();
}

uint64_t TrainedIds(const std::vector<std::string>& overrides, const std::string& type) {
  const bool has_ps = type == "parameter_server";
  SimCluster cluster(1, has_ps ? 1 : 0, has_ps ? 2 : 1);
  PutData(cluster.FilesOf("worker:0"), 100);
  std::vector<std::string> all = overrides;
  all.push_back("strategy.type=" + type);
  const auto summary = Train(cluster, TableJob(all));
  EXPECT_TRUE(summary.ok()) << summary.status();
  return summary.ok() ? summary->ps.tables().rows() : 0;
}

// As Keras's, with Dataset.repeat(): every example of 100 is trained by 10 batches in a row.
TEST(StepsPerEpoch, BelowAPassTheDataGoOnWhereTheLastEpochStopped) {
  for (const char* const type : {"parameter_server", "one_device"}) {
    EXPECT_EQ(TrainedIds({"fit.steps_per_epoch=4", "fit.epochs=5"}, type), 100u);
    EXPECT_EQ(TrainedIds({"fit.steps_per_epoch=1", "fit.epochs=10"}, type), 100u);
    EXPECT_EQ(TrainedIds({"fit.steps_per_epoch=4", "fit.epochs=3", "fit.shuffle=true"}, type), 100u)
        << "a pass in its own order, and two batches of the next";
    EXPECT_EQ(TrainedIds({"fit.steps_per_epoch=4", "fit.epochs=2"}, type), 80u);
  }
}

// A job that is started once an epoch.
TEST(StepsPerEpoch, ARestoredJobGoesOnWhereItsDataStopped) {
  SimCluster cluster(1, 1, 1);
  PutData(cluster.FilesOf("worker:0"), 100);
  for (int epochs = 1; epochs <= 3; ++epochs) {
    const auto summary =
        Train(cluster, TableJob({"fit.steps_per_epoch=4", absl::StrCat("fit.epochs=", epochs),
                                 "checkpoint.directory=/saved", "checkpoint.restore=latest"}));
    ASSERT_TRUE(summary.ok()) << summary.status();
    EXPECT_EQ(summary->ps.tables().rows(), std::min<uint64_t>(100, epochs * 40));
  }
}

// Of eight labels, each a class of four: in the type of IDX's code `type`, of `width` bytes.
std::string LabelFile(char type, int width) {
  std::string y("\0\0\0\1\0\0\0\x8", 8);
  y[2] = type;
  for (int i = 0; i < 8; ++i) {
    y.append(static_cast<size_t>(width - 1), '\0');
    y.push_back(static_cast<char>(i % 4));
  }
  return y;
}

// As in Keras: labels of the same classes may lie in files of different types.
TEST(DataOfWorkers, LabelsOfTestAndTrainingMayHaveDifferentTypesOfWholeNumbers) {
  SimCluster cluster(1, 1, 1);
  FileSystem& files = cluster.FilesOf("worker:0");
  PutData(files, 8);
  ASSERT_TRUE(WriteFileAtomically(files, "/int32.idx", LabelFile('\x0c', 4)).ok());
  ASSERT_TRUE(WriteFileAtomically(files, "/int8.idx", LabelFile('\x09', 1)).ok());
  for (const char* const labels : {"/int32.idx", "/int8.idx", "/y.idx"}) {
    const auto summary =
        Train(cluster, TableJob({absl::StrCat(
                           R"(data.test={"class_name": "IDX", "config": {"paths": ["/x.idx", ")",
                           labels, "\"]}}")}));
    ASSERT_TRUE(summary.ok()) << labels << ": " << summary.status();
    EXPECT_EQ(summary->test_examples, 8);
  }
}

TEST(DataOfWorkers, TwoThatDifferAreNamedWithTheirLengths) {
  for (const auto& [first, second] : {std::pair{320, 160}, {160, 320}}) {
    for (const bool mirrored : {false, true}) {
      SimCluster cluster(1, mirrored ? 0 : 1, 3, Disks::kPrivate);
      PutData(cluster.FilesOf("worker:0"), first);
      PutData(cluster.FilesOf("worker:1"), first);
      PutData(cluster.FilesOf("worker:2"), second);
      const auto summary = Train(cluster, TableJob({mirrored ? "strategy.type=multi_worker_mirrored"
                                                             : "strategy.type=parameter_server"}));
      EXPECT_TRUE(absl::IsInvalidArgument(summary.status())) << summary.status();
      EXPECT_THAT(
          std::string(summary.status().message()),
          AllOf(HasSubstr(absl::StrCat(" has ", first, " examples of int32[1]")),
                HasSubstr(absl::StrCat("worker:2 has ", second, " examples")),
                HasSubstr("/x.idx, /y.idx"), HasSubstr("the first file that differs: worker:"),
                HasSubstr(" read /x.idx ("), HasSubstr(", and worker:2 /x.idx (")));
    }
  }
}

TEST(DataOfWorkers, TwoOfOneLengthThatDifferAreNamedWithTheFile) {
  SimCluster cluster(1, 1, 2, Disks::kPrivate);
  PutData(cluster.FilesOf("worker:0"), 160);
  PutData(cluster.FilesOf("worker:1"), 160, /*label=*/1);
  const auto summary = Train(cluster, TableJob({}));
  EXPECT_TRUE(absl::IsInvalidArgument(summary.status())) << summary.status();
  EXPECT_THAT(std::string(summary.status().message()),
              AllOf(HasSubstr("worker:0 has 160 examples"), HasSubstr("worker:1 has 160 examples"),
                    testing::ContainsRegex("the first file that differs: worker:[01] read /y.idx "
                                           "\\(168 bytes, checksum [0-9a-f]*\\), and "
                                           "worker:[01] /y.idx \\(168 bytes, checksum ")));
}

// Tells how often `text` contains `part`.
int CountOf(absl::string_view text, absl::string_view part) {
  int count = 0;
  for (size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++count;
  return count;
}

// The gangs of other batches are aborted with that of the bad one, which both members see.
TEST(DataOfWorkers, ABadLabelIsNamedOnceWithItsWorkerAndFile) {
  for (const std::string type : {"multi_worker_mirrored", "parameter_server"}) {
    for (uint64_t seed = 1; seed <= 20; ++seed) {
      SimCluster cluster(seed, type == "parameter_server" ? 1 : 0, 2);
      FileSystem& files = cluster.FilesOf("worker:0");
      PutData(files, 100);
      std::string labels = ReadFile(files, "/y.idx").value_or("");
      labels.back() = 9;
      ASSERT_TRUE(WriteFileAtomically(files, "/y.idx", labels).ok());
      const auto summary = Train(cluster, TableJob({"strategy.type=" + type, "fit.batch_size=5"}));
      EXPECT_TRUE(absl::IsInvalidArgument(summary.status())) << summary.status();
      const std::string message(summary.status().message());
      EXPECT_THAT(message, testing::ContainsRegex("worker:[01]: the label of example 99 of "
                                                  "/y.idx is 9"));
      EXPECT_EQ(CountOf(message, "example 99"), 1) << message;
    }
  }
}

// Goes on from the recovery checkpoints in /recovery; ends by itself after a while.
absl::Status TrainOn(SimCluster& cluster) {
  const JobSpec job = TableJob({"fit.epochs=100000", "recovery.interval_ms=5"});
  ClusterCoordinator::Options options = CoordinatorOptionsOf(job);
  options.recovery_directory = "/recovery";
  options.recovery_interval = job.recovery.interval;
  ASSIGN_OR_RETURN(const auto coordinator, cluster.Connect(std::move(options)));
  bool over = false;
  cluster.sim().CallAt(cluster.sim().Now() + absl::Milliseconds(60), [&] {
    if (!over) coordinator->Abort(absl::CancelledError("interrupted"));
  });
  const World world = cluster.WorldOf("chief:0");
  ASSIGN_OR_RETURN(DataSources sources,
                   FindDataSources(world, cluster.waiter(), job.data, {}, job.seed));
  Trainer trainer(world, cluster.waiter(), *coordinator, job, std::move(sources));
  const absl::Status ended = trainer.Run().status();
  over = true;
  cluster.sim().RunFor(absl::Seconds(1));
  return ended;
}

TEST(DataOfRecoveries, OtherDataUnderTheSameNamesAreRefused) {
  SimCluster cluster(1, 1, 1);
  PutData(cluster.FilesOf("worker:0"), 100);
  EXPECT_TRUE(absl::IsCancelled(TrainOn(cluster)));
  PutData(cluster.FilesOf("worker:0"), 100);
  EXPECT_TRUE(absl::IsCancelled(TrainOn(cluster))) << "written anew, the same";
  PutData(cluster.FilesOf("worker:0"), 100, /*label=*/1);
  const absl::Status other = TrainOn(cluster);
  EXPECT_TRUE(absl::IsFailedPrecondition(other)) << other;
  EXPECT_THAT(std::string(other.message()),
              AllOf(HasSubstr("had the checksum"),
                    HasSubstr("then worker:0 read /y.idx (108 bytes, checksum "),
                    HasSubstr("now worker:0 /y.idx (108 bytes, checksum ")));
  PutData(cluster.FilesOf("worker:0"), 110);
  EXPECT_THAT(std::string(TrainOn(cluster).message()), HasSubstr("now there are 110"));
}

// Ends a process, once, where it is asked to make a data set: in the order of these requests.
class EndsAtDataset final : public SimWatcher {
 public:
  EndsAtDataset(SimCluster& cluster, int request) : cluster_(cluster), left_(request) {
    cluster_.network().SetWatcher(this);
  }
  ~EndsAtDataset() override { cluster_.network().SetWatcher(nullptr); }

  SimFate OnRequest(const SimMessage& message) override {
    if (!absl::EndsWith(message.method, "/CreateDataset") || left_-- != 0) return {};
    ended = message.to;
    const TaskId task{Role::kWorker, message.to == "worker:0" ? 0 : 1};
    cluster_.sim().CallAt(cluster_.sim().Now(), [this, task] { cluster_.tasks().Kill(task); });
    cluster_.sim().CallAt(cluster_.sim().Now() + absl::Seconds(3), [this, task] {
      cluster_.tasks().Start(task);
      if (on_start) on_start(task);
    });
    SimFate lost;
    lost.lose = true;
    return lost;
  }
  void OnArrival(const SimMessage&) override {}
  SimFate OnResponse(const SimMessage&) override { return {}; }

  std::string ended;
  std::function<void(TaskId)> on_start;

 private:
  SimCluster& cluster_;
  int left_;
};

// Starts a worker, with so many examples, when the first call of `method` is sent, which then
// travels for `delay`.
class StartsAtCall final : public SimWatcher {
 public:
  StartsAtCall(SimCluster& cluster, TaskId task, int examples, std::string method,
               absl::Duration delay)
      : cluster_(cluster),
        task_(task),
        examples_(examples),
        method_(std::move(method)),
        delay_(delay) {
    cluster_.tasks().Kill(task_);
    cluster_.network().SetWatcher(this);
  }
  ~StartsAtCall() override { cluster_.network().SetWatcher(nullptr); }

  SimFate OnRequest(const SimMessage& message) override {
    if (started_ || !absl::EndsWith(message.method, method_)) return {};
    started_ = true;
    cluster_.sim().CallAt(cluster_.sim().Now(), [this] {
      cluster_.tasks().Start(task_);
      PutData(cluster_.FilesOf(task_.ToString()), examples_);
    });
    SimFate late;
    late.delay = delay_;
    return late;
  }
  void OnArrival(const SimMessage&) override {}
  SimFate OnResponse(const SimMessage&) override { return {}; }

 private:
  SimCluster& cluster_;
  const TaskId task_;
  const int examples_;
  const std::string method_;
  const absl::Duration delay_;
  bool started_ = false;
};

// It takes as many examples as the first one has, so that both data sets are of one length.
TEST(DataOfWorkers, OneThatComesLateWithMoreIsNamedWithAllThatItHas) {
  SimCluster cluster(1, 1, 2, Disks::kPrivate);
  PutData(cluster.FilesOf("worker:0"), 160);
  StartsAtCall late(cluster, {Role::kWorker, 1}, 320, "/CreateDataset", absl::ZeroDuration());
  const auto summary = Train(cluster, TableJob({"fit.epochs=1000"}));
  EXPECT_TRUE(absl::IsInvalidArgument(summary.status())) << summary.status();
  EXPECT_THAT(std::string(summary.status().message()),
              AllOf(HasSubstr("worker:0 has 16 batches of int32[-1,1], int64[-1], and its source "
                              "has 160 examples; "),
                    HasSubstr("worker:1 has 16 batches of int32[-1,1], int64[-1], and its source "
                              "has 320 examples")));
}

// The only closure is under way when the worker comes, so that it never gets one.
TEST(DataOfWorkers, OneThatComesTooLateForAClosureIsAskedBeforeTheJobEnds) {
  for (const int examples : {5, 10, 15}) {
    SimCluster cluster(1, 1, 2, Disks::kPrivate);
    PutData(cluster.FilesOf("worker:0"), 10);
    StartsAtCall late(cluster, {Role::kWorker, 1}, examples, "/RunClosure", absl::Seconds(5));
    const auto summary = Train(cluster, TableJob({}));
    if (examples == 10) {
      EXPECT_TRUE(summary.ok()) << summary.status();
      continue;
    }
    EXPECT_TRUE(absl::IsInvalidArgument(summary.status())) << summary.status();
    EXPECT_THAT(std::string(summary.status().message()),
                AllOf(HasSubstr("worker:0 has 1 batches"),
                      HasSubstr(absl::StrCat("its source has ", examples, " examples"))));
  }
}

TEST(DataOfWorkers, AWorkerThatIsLostMeanwhileIsPassedOver) {
  for (int request = 0; request < 4; ++request) {
    SimCluster cluster(1, 1, 2);
    PutData(cluster.FilesOf("worker:0"), 100);
    EndsAtDataset watcher(cluster, request);
    const auto summary = Train(cluster, TableJob({"fit.epochs=2"}));
    ASSERT_TRUE(summary.ok()) << summary.status() << " request " << request;
    EXPECT_EQ(summary->ps.tables().rows(), 100u);
    EXPECT_NE(watcher.ended, "");
  }
}

// It was not there when the others were asked, and its files are others.
TEST(DataOfWorkers, OneThatComesLaterIsHeldToWhatTheOthersHave) {
  SimCluster cluster(1, 0, 2, Disks::kPrivate);
  PutData(cluster.FilesOf("worker:0"), 100);
  PutData(cluster.FilesOf("worker:1"), 100);
  EndsAtDataset watcher(cluster, 1);
  watcher.on_start = [&](TaskId task) {
    PutData(cluster.FilesOf(absl::StrCat("worker:", task.index)), 50);
  };
  const auto summary =
      Train(cluster, TableJob({"fit.epochs=2000", "strategy.type=multi_worker_mirrored"}));
  EXPECT_TRUE(absl::IsInvalidArgument(summary.status())) << summary.status();
  EXPECT_THAT(
      std::string(summary.status().message()),
      AllOf(HasSubstr("worker:0 has 10 batches"), HasSubstr("and its source has 100 examples"),
            HasSubstr("worker:1 has 5 batches"), HasSubstr("and its source has 50 ")));
}

TEST(EmptyData, IsNamed) {
  SimCluster cluster(1, 1, 1);
  PutData(cluster.FilesOf("worker:0"), 0);
  EXPECT_THAT(std::string(Train(cluster, TableJob({})).status().message()),
              AllOf(HasSubstr("data.train has no examples: /x.idx, /y.idx are empty")));
}

}  // namespace
}  // namespace cohort

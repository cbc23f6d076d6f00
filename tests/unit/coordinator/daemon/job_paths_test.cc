// The paths of a job on a real disk: what --check_config and a start say of them alike.

#include "coordinator/daemon/job_paths.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/posix_file_system.h"
#include "common/base/temporary_file.h"
#include "common/checkpoint/bundle.h"
#include "common/checkpoint/checkpoint_files.h"
#include "common/program/aggregation.h"
#include "coordinator/daemon/coordinator_options.h"
#include "coordinator/recovery/recovery_store.h"
#include "coordinator/train/job_settings.h"
#include "coordinator/train/offline_plan.h"
#include "coordinator/train/train_progress.h"
#include "tests/support/temp_directory.h"

namespace cohort {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr char kGood[] = "the configuration is good\n";
constexpr char kJob[] = R"({
  "model": {"class_name": "Sequential", "config": {"layers": [
    {"class_name": "Dense", "config": {"units": 10, "activation": "softmax",
                                       "input_shape": [784]}}]}},
  "compile": {"optimizer": "sgd", "loss": "sparse_categorical_crossentropy"},
  "data": {"train": {"class_name": "SyntheticDigits", "config": {"count": 64}},
           "pipeline": [{"class_name": "Flatten", "config": {"component": "x"}}]}})";
constexpr char kFiles[] = R"(data.train={"class_name": "IDX", "config": {"paths": [")";

class JobPaths : public testing::Test {
 protected:
  void SetUp() override { Write("job.json", kJob); }

  std::string Write(const std::string& name, const std::string& text) {
    EXPECT_TRUE(WriteFileAtomically(files, directory / name, text).ok());
    return directory / name;
  }

  // Parses the command line. Returns what is printed, "starts", or the refusal.
  std::string Parse(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"--job", directory / "job.json"});
    const Environment environment = [this](const std::string& name) {
      const std::map<std::string, std::string> values = {{"COHORT_DATA_DIR", data_directory},
                                                         {"HOME", directory / "home"},
                                                         {"TF_CONFIG", tf_config},
                                                         {"TMPDIR", temporary}};
      const auto value = values.find(name);
      const bool is_set = value != values.end() && !value->second.empty();
      return is_set ? std::optional<std::string>(value->second) : std::nullopt;
    };
    const auto command = ParseCoordinatorCommandLine(arguments, environment, files);
    if (!command.ok()) return std::string(command.status().message());
    const auto* const printed = std::get_if<PrintAndExit>(&*command);
    return printed == nullptr ? "starts" : printed->text;
  }

  // Returns what --check_config says, which a start must say too if it refuses.
  std::string Check(const std::vector<std::string>& sets,
                    const std::vector<std::string>& flags = {}) {
    std::vector<std::string> arguments = flags;
    for (const std::string& set : sets) arguments.insert(arguments.end(), {"--set", set});
    if (flags.empty()) arguments.push_back(absl::StrCat("--state_dir=", directory / "state"));
    const std::string started = Parse(arguments);
    arguments.push_back("--check_config");
    const std::string checked = Parse(arguments);
    EXPECT_EQ(started, checked == kGood ? "starts" : checked);
    return checked;
  }

  PosixFileSystem files;
  TempDirectory directory{"job-paths"};
  std::string data_directory, tf_config, temporary;
};

TEST_F(JobPaths, EachExportIsAFileOfItsOwn) {
  EXPECT_EQ(Check({absl::StrCat("export.onnx=", directory / "m.onnx"),
                   absl::StrCat("export.keras=", directory / "m.keras"),
                   absl::StrCat("export.weights_h5=", directory / "m.weights.h5"),
                   absl::StrCat("export.safetensors=", directory / "m.safetensors"),
                   absl::StrCat("export.tf_checkpoint=", directory / "m")}),
            kGood);
  EXPECT_THAT(Check({absl::StrCat("export.onnx=", directory / "m.keras"),
                     absl::StrCat("export.keras=", directory / "./m.keras")}),
              AllOf(HasSubstr("export.keras: "), HasSubstr("is the file that"),
                    HasSubstr("export.onnx writes; name a file of its own")));
  EXPECT_THAT(Check({absl::StrCat("export.keras=", directory / "m.h5")}),
              AllOf(HasSubstr("export.keras: is "), HasSubstr("it must end in '.keras'")));
  ASSERT_EQ(mkdir((directory / "m.safetensors").c_str(), 0700), 0);
  EXPECT_THAT(Check({absl::StrCat("export.safetensors=", directory / "m.safetensors")}),
              AllOf(HasSubstr("job.json: export.safetensors: "), HasSubstr("; name a path")));
}

// A prefix of files has a name.
TEST_F(JobPaths, ACheckpointIsNoDirectory) {
  EXPECT_THAT(Check({absl::StrCat("export.tf_checkpoint=", directory / "new/")}),
              AllOf(HasSubstr("export.tf_checkpoint: "), HasSubstr("ends in a slash"),
                    HasSubstr("new/model'")));
}

TEST_F(JobPaths, AUrlIsNoPath) {
  for (const char* key : {"checkpoint.directory", "recovery.directory", "export.onnx"}) {
    EXPECT_THAT(Check({absl::StrCat(key, "=s3://bucket/x")}),
                AllOf(HasSubstr(key), HasSubstr("'s3://bucket/x' is a URL")));
  }
}

TEST_F(JobPaths, AnExportIsAFile) {
  EXPECT_EQ(Check({absl::StrCat("export.onnx=", directory / "new/model.onnx")}), kGood);
  ASSERT_EQ(mkfifo((directory / "fifo").c_str(), 0600), 0);
  for (const char* name : {"new/", "fifo", ""}) {
    EXPECT_THAT(Check({absl::StrCat("export.onnx=", directory / name)}),
                AllOf(HasSubstr(absl::StrCat("job.json: export.onnx: ", directory / name)),
                      HasSubstr("is not a regular file"), HasSubstr("; name a path")));
  }
  // Links are followed, here to nothing and there to what no model can be written to.
  ASSERT_EQ(symlink("new/model.onnx", (directory / "link").c_str()), 0);
  EXPECT_EQ(Check({absl::StrCat("export.onnx=", directory / "link")}), kGood);
  ASSERT_EQ(symlink("/dev/null", (directory / "null").c_str()), 0);
  for (const std::string& path : {directory / "null", std::string("/dev/stdout")}) {
    EXPECT_THAT(Check({absl::StrCat("export.onnx=", path)}),
                AllOf(HasSubstr("job.json: export.onnx: "), HasSubstr(path),
                      HasSubstr("is not a regular file"), HasSubstr("; name a path")));
  }
}

TEST_F(JobPaths, ADirectoryIsNeitherAFifoNorAFile) {
  ASSERT_EQ(mkfifo((directory / "fifo").c_str(), 0600), 0);
  for (const char* key : {"checkpoint.directory", "recovery.directory"}) {
    EXPECT_EQ(Check({absl::StrCat(key, "=", directory / "new")}), kGood);
    for (const char* name : {"fifo", "job.json", "job.json/below"}) {
      EXPECT_THAT(Check({absl::StrCat(key, "=", directory / name)}),
                  AllOf(HasSubstr(absl::StrCat("job.json: ", key, ": ")),
                        HasSubstr(" is not a directory; name a directory")));
    }
  }
  EXPECT_THAT(Check({}, {absl::StrCat("--state_dir=", directory / "fifo")}),
              HasSubstr(absl::StrCat("--state_dir: ", directory / "fifo is not a directory")));
}

// Returns the number of lines of a refusal.
size_t LinesOf(const std::string& refusal) {
  return static_cast<size_t>(std::count(refusal.begin(), refusal.end(), '\n')) + 1;
}

TEST_F(JobPaths, OneMistakeIsOneLine) {
  // Recovery checkpoints lie below checkpoint.directory where the job names no other place.
  const std::string no_directory =
      Check({absl::StrCat("checkpoint.directory=", directory / "job.json")});
  EXPECT_EQ(LinesOf(no_directory), 1u) << no_directory;
  // An export is two files, of which the second has the values of a large model.
  const std::string checkpoint =
      Check({absl::StrCat("checkpoint.directory=", directory / "y"),
             absl::StrCat("export.onnx=", directory / "y/ckpt-64.index")});
  EXPECT_THAT(checkpoint, HasSubstr("where files such as"));
  EXPECT_EQ(LinesOf(checkpoint), 1u) << checkpoint;
  const std::string above = Check({absl::StrCat("checkpoint.directory=", directory / "m.data/y"),
                                   absl::StrCat("recovery.directory=", directory / "m/y"),
                                   absl::StrCat("export.onnx=", directory / "m")});
  EXPECT_THAT(above, HasSubstr("has to be a directory for"));
  EXPECT_EQ(LinesOf(above), 1u) << above;
}

TEST_F(JobPaths, ANewStateDirectoryHasAPlace) {
  const std::vector<std::string> local = {"--local", "ps=1,worker=1"};
  temporary = directory / "missing";
  const std::string refusal =
      absl::StrCat("no directory can be made in '", temporary, "' (No such");
  EXPECT_THAT(Check({}, local),
              AllOf(HasSubstr(refusal), HasSubstr("set TMPDIR, or give --state_dir")));
  EXPECT_EQ(Check({}), kGood) << "with --state_dir";
  temporary = directory / "job.json";
  EXPECT_THAT(Check({}, local), HasSubstr("is not a directory): set TMPDIR"));
  temporary = directory.path();
  EXPECT_EQ(Check({}, local), kGood);
  // The tasks of TF_CONFIG keep no files with the coordinator.
  temporary = directory / "missing";
  tf_config = R"({"cluster": {"ps": ["127.0.0.1:1"], "worker": ["127.0.0.1:2"]}})";
  EXPECT_EQ(Check({}, {"--keep_tasks"}), kGood);
}

TEST_F(JobPaths, AnExportReplacesNoInput) {
  const std::string idx = Write("x.idx", "");
  const std::string train = absl::StrCat(kFiles, idx, R"(", ")", idx, R"("]}})");
  const std::string workers = Write("workers", "");
  const std::string hard = directory / "hard";
  const std::string soft = directory / "soft";
  ASSERT_EQ(link((directory / "job.json").c_str(), hard.c_str()), 0);
  ASSERT_EQ(symlink((directory / "job.json").c_str(), soft.c_str()), 0);
  for (const std::string& name : {directory / "job.json", directory / "./job.json", hard, soft}) {
    EXPECT_THAT(Check({absl::StrCat("export.onnx=", name)}),
                HasSubstr(absl::StrCat("export.onnx: '", name, "' is the file '",
                                       directory / "job.json", "' that --job names")));
  }
  EXPECT_THAT(Check({train, absl::StrCat("export.onnx=", idx)}),
              HasSubstr("data.train.config.paths.0 names, and the job reads it; name a file"));
  // The values of a large model lie in a file beside the model.
  Write("m.onnx.data", "");
  EXPECT_THAT(Check({absl::StrCat(kFiles, directory / "m.onnx.data", R"(", ")", idx, R"("]}})"),
                     absl::StrCat("export.onnx=", directory / "m.onnx")}),
              HasSubstr("m.onnx.data' that"));
  tf_config = R"({"cluster": {"ps": ["127.0.0.1:1"], "worker": ["127.0.0.1:2"]}})";
  EXPECT_THAT(Check({absl::StrCat("export.onnx=", workers)}, {"--membership", workers}),
              HasSubstr("that --membership names"));
}

TEST_F(JobPaths, AnExportReplacesNoFileOfMnist) {
  ASSERT_TRUE(files.MakeDirectories(directory / "data/mnist").ok());
  const std::string images = Write("data/mnist/train-images-idx3-ubyte.gz", "");
  const std::vector<std::string> sets = {"data.train=MNIST", absl::StrCat("export.onnx=", images)};
  EXPECT_EQ(Check(sets), kGood);
  data_directory = directory / "data";
  EXPECT_THAT(Check(sets), HasSubstr("that COHORT_DATA_DIR names"));
}

TEST_F(JobPaths, TwoOutputsAreNotOneFile) {
  const std::string ckpt = absl::StrCat("checkpoint.directory=", directory / "ckpt");
  const auto export_to = [&](const std::string& name) {
    return absl::StrCat("export.onnx=", directory / name);
  };
  EXPECT_EQ(Check({ckpt, export_to("ckpt/model.onnx")}), kGood);
  for (const char* name : {"ckpt/checkpoint", "ckpt/ckpt-8.index", "ckpt/recovery/recovery-1-1",
                           "state/ps-0.log", "x/../ckpt/checkpoint"}) {
    EXPECT_THAT(Check({ckpt, export_to(name)}),
                AllOf(HasSubstr(absl::StrCat("is where files such as '", directory / name)),
                      HasSubstr("; name another directory")));
  }
  EXPECT_THAT(Check({ckpt, export_to("ckpt")}), HasSubstr("has to be a directory for"));
  EXPECT_THAT(Check({absl::StrCat(ckpt, "/far/below"), export_to("ckpt")}),
              HasSubstr("has to be a directory for"));
}

TEST_F(JobPaths, NoInputLiesWhereCheckpointsAreWritten) {
  const std::string data = Write("ckpt-1.data-00000-of-00001", "");
  EXPECT_THAT(Check({absl::StrCat(kFiles, data, R"(", ")", data, R"("]}})"),
                     absl::StrCat("checkpoint.directory=", directory.path())}),
              AllOf(HasSubstr("checkpoint.directory"), HasSubstr(data)));
}

TEST_F(JobPaths, PathsThatOnlyAShellExpandsAreRefusedWhoeverNamesThem) {
  const std::string begins = ": '~/x' begins with ~";
  EXPECT_THAT(Check({absl::StrCat(kFiles, R"(y", "~/x"]}})")}),
              HasSubstr("data.train.config.paths.1" + begins));
  EXPECT_THAT(Check({R"(data.test={"class_name": "MNIST", "config": {"images": "~/x",
                         "labels": "~/x"}})"}),
              AllOf(HasSubstr("data.test.config.images" + begins),
                    HasSubstr("data.test.config.labels" + begins)));
  EXPECT_THAT(Check({}, {"--state_dir=~/x"}), HasSubstr("--state_dir" + begins));
  EXPECT_THAT(Check({}, {"--membership=~/x"}), HasSubstr("--membership" + begins));
  EXPECT_THAT(Parse({"--job", "~/x"}), HasSubstr("--job"));
  data_directory = "~/x";
  EXPECT_THAT(Check({"data.train=MNIST"}), HasSubstr("COHORT_DATA_DIR" + begins));
}

class JobPathsOfRestore : public JobPaths {
 protected:
  // Writes the only shard and the index of a checkpoint that the job makes with these settings: its
  // variables, and the state of its coordinator.
  void WriteCheckpoint(const std::string& prefix, const std::vector<std::string>& sets = {}) {
    const absl::StatusOr<JobSpec> job = ParseJob(kJob, "job.json", sets);
    ASSERT_TRUE(job.ok()) << job.status();
    const absl::StatusOr<Plan> plan = MakeOfflinePlan(*job, {{0}, {0}});
    ASSERT_TRUE(plan.ok()) << plan.status();
    proto::CoordinatorState named;
    named.set_job(job->name);
    named.set_application(TrainProgress({{SettingsText(*job), {}}, ""}).Save({}));
    std::map<std::string, Tensor> tensors = {
        {kCoordinatorStateName, CoordinatorStateTensor(named)}};
    for (const proto::VariableLayout& variable : plan->variables) {
      tensors.emplace(variable.name(), Tensor(DType::kFloat32, ValueShape(variable)));
    }
    const auto writer = DataShardWriter::Create(files, prefix, 0, 1);
    ASSERT_TRUE(writer.ok()) << writer.status();
    for (const auto& [name, tensor] : tensors) {
      const auto written = (*writer)->Add(name, tensor.shape(), {0, tensor.shape().dim(0)}, tensor);
      ASSERT_TRUE(written.ok()) << written;
    }
    const auto slices = (*writer)->Finish();
    ASSERT_TRUE(slices.ok()) << slices.status();
    ASSERT_TRUE(WriteIndex(files, prefix, 1, *slices).ok());
  }
};

TEST_F(JobPathsOfRestore, ACheckpointToRestoreIsThere) {
  const std::string ckpt = absl::StrCat("checkpoint.directory=", directory / "ckpt");
  const std::string restore = absl::StrCat("checkpoint.restore=", directory / "ckpt/ckpt-8");
  const std::string refusal = "job.json: checkpoint.restore: ";
  EXPECT_EQ(Check({ckpt, "checkpoint.restore=latest"}), kGood) << "the training begins anew";
  EXPECT_THAT(Check({restore}), AllOf(HasSubstr(refusal), HasSubstr("ckpt-8.index")));
  ASSERT_TRUE(files.MakeDirectories(directory / "ckpt").ok());
  EXPECT_EQ(Check({ckpt, "checkpoint.restore=latest"}), kGood);
  WriteCheckpoint(directory / "ckpt/ckpt-8");
  EXPECT_EQ(Check({restore}), kGood);
  EXPECT_EQ(Check({restore + ".index"}), kGood);
  EXPECT_THAT(Check({absl::StrCat("checkpoint.restore=", directory / "ckpt")}),
              AllOf(HasSubstr(refusal), HasSubstr("names the directory")));
  EXPECT_THAT(Check({restore, absl::StrCat("export.onnx=", directory / "ckpt/ckpt-8.index")}),
              HasSubstr("job.json: checkpoint.restore names, and the job reads it"));
  ASSERT_TRUE(files.Remove(directory / "ckpt/ckpt-8.data-00000-of-00001").ok());
  EXPECT_THAT(Check({ckpt, "checkpoint.restore=latest"}), HasSubstr(refusal));
}

// The job then goes on from its recovery checkpoint, whatever became of the other one.
TEST_F(JobPathsOfRestore, AJobThatGoesOnRestoresNothing) {
  const std::vector<std::string> sets = {
      absl::StrCat("checkpoint.restore=", directory / "ckpt-8"),
      absl::StrCat("recovery.directory=", directory / "recovery")};
  EXPECT_THAT(Check(sets), HasSubstr("checkpoint.restore"));
  ASSERT_TRUE(files.MakeDirectories(directory / "recovery").ok());
  WriteCheckpoint(directory / "recovery/recovery-1-1");
  EXPECT_EQ(Check(sets), kGood);
}

TEST_F(JobPathsOfRestore, ARecoveryCheckpointIsOfTheJobAndItsSettings) {
  ASSERT_TRUE(files.MakeDirectories(directory / "recovery").ok());
  WriteCheckpoint(directory / "recovery/recovery-1-1", {"fit.batch_size=64"});
  const std::string recovery = absl::StrCat("recovery.directory=", directory / "recovery");
  EXPECT_EQ(Check({recovery, "fit.batch_size=64", "fit.epochs=7"}), kGood);
  EXPECT_THAT(Check({recovery}),
              AllOf(HasSubstr("job.json: the recovery checkpoint was made by a job with other "
                              "settings: fit.batch_size was 64 and is 32; "),
                    HasSubstr(absl::StrCat("remove ", directory / "recovery/recovery-*"))));
  EXPECT_THAT(Check({recovery, "fit.batch_size=64", "name=other"}),
              HasSubstr("holds the state of job 'job', this is job 'other'"));
  EXPECT_EQ(Check({recovery, "recovery.enabled=false"}), kGood) << "it is not read";
}

// Where the shapes are known: the data may be files that only the workers open.
TEST_F(JobPathsOfRestore, ACheckpointToRestoreIsOfTheModel) {
  ASSERT_TRUE(files.MakeDirectories(directory / "ckpt").ok());
  WriteCheckpoint(directory / "ckpt/ckpt-8");
  const std::string restore = absl::StrCat("checkpoint.restore=", directory / "ckpt/ckpt-8");
  EXPECT_THAT(Check({restore, "model.config.layers.0.config.units=12"}),
              AllOf(HasSubstr("job.json: checkpoint.restore: "), HasSubstr("is of another model"),
                    HasSubstr("[784,12] here and [784,10] in it")));
  EXPECT_THAT(Check({restore, "model.config.layers.0.config.name=other"}),
              HasSubstr("other/kernel [784,10] is not in it"));
}

}  // namespace
}  // namespace cohort

// Each mis-set input gives one clear error and a documented exit code. docs/OPERATIONS.md has this
// table for people; the lint test compares the names.

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <unistd.h>

#include <functional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/posix_file_system.h"
#include "common/base/temporary_file.h"
#include "common/cluster/exit_codes.h"
#include "coordinator/local/state_directory.h"
#include "tests/support/run_process.h"
#include "tests/support/temp_directory.h"

namespace cohort {
namespace {

using testing::HasSubstr;
using testing::Not;

constexpr char kLocal[] = "ps=1,worker=1";

// A job that trains in a second: ten synthetic batches.
constexpr char kSmallJob[] = R"({
  "name": "small", "seed": 1,
  "model": {"class_name": "Sequential", "config": {"name": "m", "layers": [
    {"class_name": "Dense", "config": {"units": 10, "activation": "softmax", "input_shape": [784]}}]}},
  "compile": {"optimizer": "sgd", "loss": "sparse_categorical_crossentropy", "metrics": ["accuracy"]},
  "data": {"train": {"class_name": "SyntheticDigits", "config": {"seed": 1, "count": 320}},
           "pipeline": [{"class_name": "Flatten", "config": {"component": "x"}},
                        {"class_name": "Rescaling", "config": {"component": "x", "scale": 0.0039}}]},
  "fit": {"epochs": 1, "batch_size": 32},
  "strategy": {"type": "parameter_server"}
})";

class MisSetInputs : public testing::Test {
 protected:
  void SetUp() override { job = Write("job.json", kSmallJob); }

  std::string Write(const std::string& name, const std::string& text) {
    const std::string path = JoinPath(directory, name);
    EXPECT_TRUE(WriteFileAtomically(files, path, text).ok());
    return path;
  }

  ProcessRun Run(const std::string& program, std::vector<std::string> arguments,
                 const std::string& tf_config = "") {
    return RunProcess(JoinPath(COHORT_BIN_DIR, program), arguments,
                      {{"TF_CONFIG", tf_config}, {"TMPDIR", directory}}, absl::Seconds(60));
  }

  ProcessRun Train(std::vector<std::string> sets) {
    std::vector<std::string> arguments = {"--job", job, "--local", kLocal};
    for (std::string& set : sets) {
      arguments.emplace_back("--set");
      arguments.push_back(std::move(set));
    }
    return Run("coordinator", arguments);
  }

  static void ExpectError(const ProcessRun& run, int exit_code,
                          const std::vector<std::string>& said) {
    EXPECT_EQ(run.exit_code, exit_code) << run.err;
    for (const std::string& text : said) EXPECT_THAT(run.err, HasSubstr(text));
    EXPECT_THAT(run.err, Not(HasSubstr("check failed")));
    EXPECT_THAT(run.err, Not(HasSubstr("terminate called")));
    EXPECT_EQ(run.out, "");
  }

  PosixFileSystem files;
  const TempDirectory temp{"mis-set"};
  const std::string directory = temp.path();
  std::string job;
};

std::string Cluster(const std::string& task) {
  return absl::StrCat(R"({"cluster": {"ps": ["127.0.0.1:3"], "worker": ["127.0.0.1:2"]}, "task": )",
                      task, "}");
}

TEST_F(MisSetInputs, PortInUse) {
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  ASSERT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&address), size), 0);
  ASSERT_EQ(listen(fd, 1), 0);
  ASSERT_EQ(getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size), 0);
  const std::string taken = absl::StrCat("127.0.0.1:", ntohs(address.sin_port));
  ExpectError(Run("ps", {"--bind_address", taken}, Cluster(R"({"type": "ps", "index": 0})")),
              kExitCannotListen, {taken});
  close(fd);
}

TEST_F(MisSetInputs, TooFewOpenFiles) {
  for (const std::string program : {"ps", "worker", "coordinator"}) {
    const std::string flags = program == "coordinator" ? absl::StrCat(" --job ", job) : "";
    const std::string command =
        absl::StrCat("ulimit -n 30; exec ", JoinPath(COHORT_BIN_DIR, program), flags);
    ExpectError(RunProcess("/bin/sh", {"-c", command},
                           {{"TF_CONFIG", program == "coordinator"
                                              ? ""
                                              : Cluster(absl::StrCat("{\"type\": \"", program,
                                                                     "\", \"index\": 0}"))}},
                           absl::Seconds(60)),
                kExitCannotListen, {"30 files open (ulimit -n)"});
  }
}

TEST_F(MisSetInputs, AnotherPollStrategy) {
  const std::string command =
      absl::StrCat("GRPC_POLL_STRATEGY=poll exec ", JoinPath(COHORT_BIN_DIR, "ps"));
  ExpectError(
      RunProcess("/bin/sh", {"-c", command},
                 {{"TF_CONFIG", Cluster(R"({"type": "ps", "index": 0})")}}, absl::Seconds(60)),
      kExitBadConfig, {"GRPC_POLL_STRATEGY=poll", "use epoll1"});
}

TEST_F(MisSetInputs, TfConfigIsNoJson) {
  ExpectError(Run("worker", {}, "{\"cluster\": "), kExitBadConfig, {"TF_CONFIG"});
}

TEST_F(MisSetInputs, TfConfigHasAnUnknownRole) {
  ExpectError(Run("worker", {}, R"({"cluster": {"boss": ["h:1"]}, "task": {"type": "boss"}})"),
              kExitBadConfig, {"TF_CONFIG", "boss"});
}

TEST_F(MisSetInputs, TfConfigIndexIsOutOfRange) {
  ExpectError(Run("worker", {}, Cluster(R"({"type": "worker", "index": 5})")), kExitBadConfig,
              {"TF_CONFIG", "5"});
}

TEST_F(MisSetInputs, TfConfigIsForAnotherRole) {
  ExpectError(Run("ps", {}, Cluster(R"({"type": "worker", "index": 0})")), kExitBadConfig,
              {"worker"});
}

TEST_F(MisSetInputs, TfConfigIsMissing) { ExpectError(Run("ps", {}), kExitBadConfig, {"cluster"}); }

TEST_F(MisSetInputs, TfConfigHasATaskButNoCluster) {
  const std::string meant =
      R"({"sparseCluster": {"worker": {}}, "task": {"type": "chief", "index": 0}})";
  ExpectError(Run("coordinator", {"--job", job}, meant), kExitBadConfig,
              {"TF_CONFIG", "chief:0", "`cluster`", "'sparseCluster'"});
  ExpectError(Run("coordinator", {"--job", job, "--check_config"}, meant), kExitBadConfig,
              {"TF_CONFIG"});
}

TEST_F(MisSetInputs, UnknownFlag) {
  ExpectError(Run("worker", {"--colour"}), kExitBadConfig, {"--colour"});
}

TEST_F(MisSetInputs, JobIsMissing) {
  ExpectError(Run("coordinator", {"--local", kLocal}), kExitBadConfig, {"--job"});
}

TEST_F(MisSetInputs, JobFileDoesNotExist) {
  ExpectError(Run("coordinator", {"--job", "/nowhere/job.json"}), kExitBadConfig,
              {"/nowhere/job.json"});
}

TEST_F(MisSetInputs, JobFileIsNoJson) {
  ExpectError(Run("coordinator", {"--job", Write("bad.json", "{\"name\": }")}), kExitBadConfig,
              {"bad.json"});
}

TEST_F(MisSetInputs, JobHasAnUnknownKey) {
  ExpectError(Train({"fit.epoch=1"}), kExitBadConfig, {"fit.epoch", "epochs"});
}

TEST_F(MisSetInputs, JobHasAnUnknownLayer) {
  ExpectError(Train({"model.config.layers.0.class_name=Dens"}), kExitBadConfig, {"Dens", "Dense"});
}

TEST_F(MisSetInputs, JobHasAValueOfAWrongType) {
  ExpectError(Train({"fit.batch_size=many"}), kExitBadConfig, {"fit.batch_size", "many"});
}

TEST_F(MisSetInputs, LocalIsMalformed) {
  ExpectError(Run("coordinator", {"--job", job, "--local", "ps=2;worker=3"}), kExitBadConfig,
              {"--local", "ps=2,worker=3"});
}

TEST_F(MisSetInputs, StateDirectoryIsInUse) {
  const auto held = StateDirectory::Open(files, directory);
  ASSERT_TRUE(held.ok()) << held.status();
  ExpectError(Run("coordinator", {"--job", job, "--local", kLocal, "--state_dir", directory}),
              kExitBadConfig, {directory, absl::StrCat("process id ", getpid())});
}

TEST_F(MisSetInputs, StateDirectoryCannotBeMade) {
  const std::string below_a_file = absl::StrCat(job, "/state");
  ExpectError(Run("coordinator", {"--job", job, "--local", kLocal, "--state_dir", below_a_file}),
              kExitBadConfig, {"--state_dir", job});
}

TEST_F(MisSetInputs, OrphanTimeoutIsMalformed) {
  ExpectError(Run("coordinator", {"--job", job, "--local", kLocal, "--orphan_timeout", "30"}),
              kExitBadConfig, {"--orphan_timeout", "30s"});
}

TEST_F(MisSetInputs, ClusterHasNoParameterServer) {
  ExpectError(Run("coordinator", {"--job", job}, R"({"cluster": {"worker": ["127.0.0.1:3"]}})"),
              kExitBadConfig, {"no ps"});
}

TEST_F(MisSetInputs, ClusterHasAParameterServerTooMany) {
  ExpectError(Run("coordinator", {"--job", job, "--set", "strategy.type=mirrored"},
                  R"({"cluster": {"worker": ["127.0.0.1:3"], "ps": ["127.0.0.1:2"]}})"),
              kExitBadConfig, {"TF_CONFIG", "leave ps out of the cluster"});
}

TEST_F(MisSetInputs, ClusterDoesNotAnswer) {
  ExpectError(Run("coordinator", {"--job", job, "--set", "cluster.connect_timeout_ms=1000"},
                  R"({"cluster": {"worker": ["127.0.0.1:3"], "ps": ["127.0.0.1:2"]}})"),
              kExitLostCluster, {"ps:0 does not answer", "worker:0 does not answer"});
}

TEST_F(MisSetInputs, DataFileDoesNotExist) {
  ExpectError(
      Train(
          {R"(data.train={"class_name": "IDX", "config": {"paths": ["/nowhere/a", "/nowhere/b"]}})"}),
      kExitJobFailed, {"/nowhere/a"});
}

TEST_F(MisSetInputs, IdxFileIsCorrupt) {
  const std::string path = Write("images", std::string("\0\0\x08\x07 garbage", 12));
  ExpectError(Train({absl::StrCat(R"(data.train={"class_name": "IDX", "config": {"paths": [")",
                                  path, "\", \"", path, "\"]}}")}),
              kExitJobFailed, {path});
}

TEST_F(MisSetInputs, GzipFileIsTruncated) {
  const std::string path = Write("images.gz", std::string("\x1f\x8b\x08\0\0\0\0\0\0\x03\x63", 11));
  ExpectError(Train({absl::StrCat(R"(data.train={"class_name": "IDX", "config": {"paths": [")",
                                  path, "\", \"", path, "\"]}}")}),
              kExitJobFailed, {path});
}

TEST_F(MisSetInputs, ModelDoesNotFitTheData) {
  ExpectError(Train({"model.config.layers.0.config.input_shape=[100]"}), kExitBadConfig,
              {"784", "100"});
}

TEST_F(MisSetInputs, CheckpointIsOfAnotherModel) {
  const std::string checkpoints = absl::StrCat("checkpoint.directory=", directory, "/ckpt");
  ASSERT_EQ(Train({checkpoints}).exit_code, 0);
  ExpectError(
      Train({checkpoints, "checkpoint.restore=latest", "model.config.layers.0.config.name=other"}),
      kExitBadConfig, {"another model", "other/kernel"});
}

TEST_F(MisSetInputs, CheckpointIsDamaged) {
  const std::string checkpoints = absl::StrCat("checkpoint.directory=", directory, "/ckpt");
  ASSERT_EQ(Train({checkpoints}).exit_code, 0);
  const std::string shard = JoinPath(directory, "ckpt/ckpt-10.data-00000-of-00001");
  std::string bytes = *ReadFile(files, shard);
  bytes[100] = static_cast<char>(bytes[100] ^ 1);
  ASSERT_TRUE(WriteFileAtomically(files, shard, bytes).ok());
  ExpectError(Train({checkpoints, "checkpoint.restore=latest"}), kExitJobFailed,
              {"ckpt-10.data-00000-of-00001"});
}

TEST_F(MisSetInputs, CheckpointDirectoryIsAFile) {
  ExpectError(Train({absl::StrCat("checkpoint.directory=", job)}), kExitBadConfig, {job});
}

TEST_F(MisSetInputs, ExportIsTheJobFile) {
  const std::string other = absl::StrCat(directory, "/./job.json");
  ExpectError(Train({absl::StrCat("export.onnx=", other)}), kExitBadConfig, {other, "--job"});
  EXPECT_EQ(*ReadFile(files, job), kSmallJob);
}

TEST_F(MisSetInputs, DirectoryCannotBeWrittenTo) {
  const std::string place = JoinPath(directory, "read-only");
  ASSERT_TRUE(files.MakeDirectories(place).ok());
  if (mount("tmpfs", place.c_str(), "tmpfs", 0, "size=1m") != 0) {
    GTEST_SKIP() << "needs root: cannot mount a file system";
  }
  EXPECT_TRUE(files.MakeDirectories(JoinPath(place, "there")).ok());
  EXPECT_EQ(mount("tmpfs", place.c_str(), "tmpfs", MS_REMOUNT | MS_RDONLY, "size=1m"), 0);
  std::vector<ProcessRun> runs;
  for (const char* field : {"checkpoint.directory", "recovery.directory"}) {
    runs.push_back(Train({absl::StrCat(field, "=", place, "/there")}));
    ExpectError(runs.back(), kExitBadConfig, {absl::StrCat(place, "/there"), field});
  }
  runs.push_back(Train({absl::StrCat("export.onnx=", place, "/there/model.onnx")}));
  ExpectError(runs.back(), kExitBadConfig, {absl::StrCat(place, "/there"), "export.onnx"});
  const std::vector<std::string> state = {"--job", job,           "--local",
                                          kLocal,  "--state_dir", place + "/there"};
  runs.push_back(Run("coordinator", state));
  ExpectError(runs.back(), kExitBadConfig, {absl::StrCat(place, "/there"), "--state_dir"});
  std::vector<std::string> checked = state;
  checked.emplace_back("--check_config");
  runs.push_back(Run("coordinator", checked));
  ExpectError(runs.back(), kExitBadConfig, {absl::StrCat(place, "/there"), "--state_dir"});
  umount(place.c_str());
  for (const ProcessRun& run : runs) {
    EXPECT_THAT(run.err, HasSubstr("Read-only file system"));
    EXPECT_THAT(run.err, Not(HasSubstr("local_tasks_started"))) << "it is said before the start";
  }
}

// Whoever waits for the summary gets it, or hears that it is lost.
TEST_F(MisSetInputs, StdoutCannotBeWrittenTo) {
  for (const std::string to : {">/dev/full", "| true"}) {
    const ProcessRun run = RunProcess(
        "/bin/bash",
        {"-o", "pipefail", "-c", absl::StrCat("\"$0\" --job \"$1\" --local ps=1,worker=1 ", to),
         JoinPath(COHORT_BIN_DIR, "coordinator"), job},
        {{"TF_CONFIG", ""}, {"TMPDIR", directory}}, absl::Seconds(60));
    ExpectError(run, kExitJobFailed, {"stdout", "\"steps\":10"});
  }
}

TEST_F(MisSetInputs, DiskIsFull) {
  const std::string small = JoinPath(directory, "small");
  ASSERT_TRUE(files.MakeDirectories(small).ok());
  if (mount("tmpfs", small.c_str(), "tmpfs", 0, "size=16k") != 0) {
    GTEST_SKIP() << "needs root: cannot mount a small file system";
  }
  const ProcessRun run = Train({absl::StrCat("checkpoint.directory=", small)});
  umount(small.c_str());
  ExpectError(run, kExitJobFailed, {small, "No space left"});
}

TEST_F(MisSetInputs, FilesMayNotBeAsLargeAsTheCheckpoint) {
  const std::string place = JoinPath(directory, "checkpoints");
  // bash counts in units of 1024 bytes. The logs of the tasks have room, and a checkpoint has not.
  const ProcessRun run =
      RunProcess("/bin/bash",
                 {"-c",
                  absl::StrCat("ulimit -f 24; exec \"$0\" --job \"$1\" --local ", kLocal,
                               " --set recovery.enabled=false --set checkpoint.directory=\"$2\""),
                  JoinPath(COHORT_BIN_DIR, "coordinator"), job, place},
                 {{"TF_CONFIG", ""}, {"TMPDIR", directory}}, absl::Seconds(60));
  ExpectError(run, kExitJobFailed, {place, "File too large", "24576 bytes (ulimit -f)"});
}

TEST_F(MisSetInputs, ExportPathCannotBeWritten) {
  ExpectError(Train({absl::StrCat("export.onnx=", job, "/model.onnx")}), kExitBadConfig, {job});
}

}  // namespace
}  // namespace cohort

#include "common/cluster/role_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include "absl/strings/str_cat.h"
#include "common/base/posix_file_system.h"
#include "common/base/temporary_file.h"

namespace cohort {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr char kCluster[] = R"({"cluster": {"ps": ["a:10", "b:20"], "worker": ["c:30"]}, )";

class RoleCommandLine : public ::testing::Test {
 protected:
  RoleCommandLine() {
    char pattern[] = "/tmp/cohort_role_options_XXXXXX";
    directory_ = mkdtemp(pattern);
  }
  ~RoleCommandLine() override {
    (void)files_.Remove(File("config.json"));
    (void)files_.Remove(File("address"));
    (void)files_.Remove(directory_);
  }

  std::string File(const std::string& name) const { return JoinPath(directory_, name); }
  std::string WriteConfig(const std::string& text) {
    EXPECT_TRUE(WriteFileAtomically(files_, File("config.json"), text).ok());
    return File("config.json");
  }

  absl::StatusOr<RoleCommand> Parse(Role role, const std::vector<std::string>& arguments) {
    return ParseRoleCommandLine(
        role, arguments,
        [this](const std::string& name) -> std::optional<std::string> {
          const std::string& value = name == "TMPDIR" ? temporary_directory_ : tf_config_;
          if ((name != "TMPDIR" && name != "TF_CONFIG") || value.empty()) return std::nullopt;
          return value;
        },
        files_);
  }
  RoleOptions Run(Role role, const std::vector<std::string>& arguments) {
    const auto command = Parse(role, arguments);
    EXPECT_TRUE(command.ok()) << command.status();
    if (!command.ok() || !std::holds_alternative<RoleOptions>(*command)) return {};
    return std::get<RoleOptions>(*command);
  }
  std::string Print(Role role, const std::vector<std::string>& arguments) {
    const auto command = Parse(role, arguments);
    EXPECT_TRUE(command.ok()) << command.status();
    if (!command.ok() || !std::holds_alternative<PrintAndExit>(*command)) return "";
    EXPECT_EQ(std::get<PrintAndExit>(*command).exit_code, 0);
    return std::get<PrintAndExit>(*command).text;
  }
  std::string Error(Role role, const std::vector<std::string>& arguments) {
    const auto command = Parse(role, arguments);
    EXPECT_EQ(command.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(command.status().message());
  }
  void SetTask(const std::string& task) { tf_config_ = absl::StrCat(kCluster, task, "}"); }

  PosixFileSystem files_;
  std::string directory_;
  std::string tf_config_;
  std::string temporary_directory_;
};

TEST_F(RoleCommandLine, TfConfigAlone) {
  SetTask(R"("task": {"type": "ps", "index": 1})");
  const RoleOptions options = Run(Role::kPs, {});
  EXPECT_EQ(options.task.ToString(), "ps:1");
  EXPECT_EQ(options.own_address, "b:20");
  EXPECT_EQ(options.listen_address, "0.0.0.0:20");
  EXPECT_EQ(options.compute_threads, 0);
  EXPECT_EQ(options.log_level, LogLevel::kInfo);
  EXPECT_EQ(options.cluster.tasks().size(), 3u);
}

TEST_F(RoleCommandLine, FlagBeatsTfConfigBeatsFileBeatsDefault) {
  const std::string file = WriteConfig(
      R"({"cluster": {"ps": ["file:1"]}, "task": {"type": "ps", "index": 0},
          "compute_threads": 3, "log_level": "error", "bind_address": "127.0.0.1:5"})");
  const std::vector<std::string> with_file = {"--config", file};
  EXPECT_EQ(Run(Role::kPs, with_file).own_address, "file:1");
  EXPECT_EQ(Run(Role::kPs, with_file).compute_threads, 3);
  EXPECT_EQ(Run(Role::kPs, with_file).listen_address, "127.0.0.1:5");
  EXPECT_EQ(Run(Role::kPs, with_file).drain_timeout, absl::Seconds(10));
  SetTask(R"("task": {"type": "ps", "index": 1})");
  EXPECT_EQ(Run(Role::kPs, with_file).own_address, "b:20");
  const RoleOptions options =
      Run(Role::kPs, {"--config", file, "--task_index", "0", "--compute_threads=4", "--log_level",
                      "debug", "--cluster", R"({"ps": ["flag:1"]})", "--bind_address", "[::]:0",
                      "--drain_timeout_s", "2"});
  EXPECT_EQ(options.own_address, "flag:1");
  EXPECT_EQ(options.compute_threads, 4);
  EXPECT_EQ(options.log_level, LogLevel::kDebug);
  EXPECT_EQ(options.listen_address, "[::]:0");
  EXPECT_EQ(options.drain_timeout, absl::Seconds(2));
}

TEST_F(RoleCommandLine, BuffersOfAPs) {
  SetTask(R"("task": {"type": "ps", "index": 1})");
  EXPECT_EQ(Run(Role::kPs, {}).receive_buffer_mib, 1024);
  EXPECT_EQ(Run(Role::kPs, {}).send_buffer_mib, 1024);
  const RoleOptions options =
      Run(Role::kPs, {"--receive_buffer_mib", "7", "--send_buffer_mib", "0"});
  EXPECT_EQ(options.receive_buffer_mib, 7);
  EXPECT_EQ(options.send_buffer_mib, 0);
  EXPECT_THAT(Error(Role::kPs, {"--receive_buffer_mib", "-1"}),
              HasSubstr("--receive_buffer_mib: must be an integer from 0 to"));
  EXPECT_THAT(Print(Role::kPs, {"--print_config", "--send_buffer_mib", "9"}),
              HasSubstr(R"("send_buffer_mib": 9)"));
}

TEST_F(RoleCommandLine, OrphanTimeout) {
  SetTask(R"("task": {"type": "ps", "index": 0})");
  EXPECT_EQ(Run(Role::kPs, {}).orphan_timeout, absl::ZeroDuration());
  EXPECT_EQ(Run(Role::kPs, {"--orphan_timeout", "1m30s"}).orphan_timeout, absl::Seconds(90));
  EXPECT_EQ(Run(Role::kPs, {"--orphan_timeout=0"}).orphan_timeout, absl::ZeroDuration());
  const std::string file = WriteConfig(R"({"orphan_timeout": "7s"})");
  EXPECT_EQ(Run(Role::kPs, {"--config", file}).orphan_timeout, absl::Seconds(7));
  for (const char* wrong : {"30", "soon", "-5s", "999ms", "inf", "8761h", ""}) {
    EXPECT_THAT(Error(Role::kPs, {absl::StrCat("--orphan_timeout=", wrong)}),
                HasSubstr("--orphan_timeout"))
        << wrong;
  }
}

TEST_F(RoleCommandLine, FlightDirectoryOfAWorker) {
  tf_config_ = R"({"cluster": {"worker": ["c:30"]}})";
  EXPECT_EQ(Run(Role::kWorker, {}).flight_directory, "/tmp");
  temporary_directory_ = "/scratch";
  EXPECT_EQ(Run(Role::kWorker, {}).flight_directory, "/scratch");
  const std::string file = WriteConfig(R"({"flight_dir": "/file"})");
  EXPECT_EQ(Run(Role::kWorker, {"--config", file}).flight_directory, "/file");
  EXPECT_EQ(Run(Role::kWorker, {"--config", file, "--flight_dir=none"}).flight_directory, "");
  EXPECT_THAT(Print(Role::kWorker, {"--print_config"}), HasSubstr(R"("flight_dir": "/scratch")"));
  SetTask(R"("task": {"type": "ps", "index": 0})");
  EXPECT_EQ(Run(Role::kPs, {}).flight_directory, "");
  EXPECT_THAT(Error(Role::kPs, {"--flight_dir", "/x"}), HasSubstr("--flight_dir"));
  EXPECT_THAT(Error(Role::kPs, {"--config", file}), HasSubstr("'flight_dir' is unknown"));
}

TEST_F(RoleCommandLine, IndexIsInferredForTheOnlyTask) {
  tf_config_ = R"({"cluster": {"worker": {"7": "c:30"}}})";
  EXPECT_EQ(Run(Role::kWorker, {}).task.index, 7);
  SetTask(R"("x": 1)");
  EXPECT_THAT(Error(Role::kPs, {}), StartsWith("task.index: is missing"));
}

// The coordinator refuses such a TF_CONFIG, which all tasks of a cluster share but for the task.
TEST_F(RoleCommandLine, ATaskWithATypeHasAnIndex) {
  tf_config_ = R"({"cluster": {"worker": ["c:30"]}, "task": {"type": "worker"}})";
  EXPECT_THAT(Error(Role::kWorker, {}),
              StartsWith("TF_CONFIG: task.index: is missing beside task.type; set it, or give "
                         "--task_index"));
  EXPECT_EQ(Run(Role::kWorker, {"--task_index", "0"}).task.index, 0);
  tf_config_ = R"({"cluster": {"worker": ["c:30"]}, "task": {}})";
  EXPECT_EQ(Run(Role::kWorker, {}).task.index, 0);
}

TEST_F(RoleCommandLine, PortZeroOfTheOwnAddressIsGood) {
  tf_config_ = R"({"cluster": {"worker": ["127.0.0.1:0"]}})";
  EXPECT_EQ(Run(Role::kWorker, {}).listen_address, "127.0.0.1:0");
}

TEST_F(RoleCommandLine, ListensOnTheFamilyOfItsAddress) {
  tf_config_ = R"({"cluster": {"worker": ["[2001:db8::1]:8"]}})";
  EXPECT_EQ(Run(Role::kWorker, {}).listen_address, "[::]:8");
  tf_config_ = R"({"cluster": {"worker": ["[::1]:8"]}})";
  EXPECT_EQ(Run(Role::kWorker, {}).listen_address, "[::1]:8");
  tf_config_ = R"({"cluster": {"worker": ["unix:/run/w"]}})";
  EXPECT_EQ(Run(Role::kWorker, {}).listen_address, "unix:/run/w");
}

TEST_F(RoleCommandLine, AnotherRoleIsRefused) {
  SetTask(R"("task": {"type": "worker", "index": 0})");
  EXPECT_THAT(Error(Role::kPs, {}),
              StartsWith(R"(TF_CONFIG: task.type: is "worker", but this program is a ps)"));
}

TEST_F(RoleCommandLine, NoClusterSaysWhatToSet) {
  EXPECT_THAT(Error(Role::kPs, {}), StartsWith("cluster: is missing; set TF_CONFIG or give"));
}

TEST_F(RoleCommandLine, ReportsEveryProblemWithItsSource) {
  SetTask(R"("task": {"type": "ps", "index": 9}, "rpc_layer": "rdma")");
  const std::string file = WriteConfig(R"({"compute_thread": 1, "log_level": 5})");
  const std::string error =
      Error(Role::kPs, {"--config", file, "--compute_threads", "-1", "--bind_address", "here",
                        "--drain_timeout_s", "999999"});
  EXPECT_THAT(error,
              AllOf(HasSubstr("'compute_thread' is unknown; did you mean 'compute_threads'"),
                    HasSubstr("task of TF_CONFIG: task.index: 9 is not a task of cluster.ps"),
                    HasSubstr("--bind_address: 'here' is not an address"),
                    HasSubstr("--compute_threads: must be an integer from 0 to 1024"),
                    HasSubstr("--drain_timeout_s: must be an integer"),
                    HasSubstr("config.json: log_level: must be a string")));
}

TEST_F(RoleCommandLine, OtherTransportIsRefused) {
  SetTask(R"("task": {"type": "ps", "index": 0}, "rpc_layer": "rdma")");
  EXPECT_THAT(Error(Role::kPs, {}), StartsWith("rpc_layer: 'rdma' is not supported; use grpc"));
}

TEST_F(RoleCommandLine, BadFlagsAndFiles) {
  SetTask(R"("task": {"type": "ps", "index": 0})");
  EXPECT_THAT(Error(Role::kPs, {"--colour"}), AllOf(HasSubstr("--colour"), HasSubstr("--help")));
  EXPECT_THAT(Error(Role::kPs, {"--task_index", "x"}), HasSubstr("--task_index"));
  EXPECT_THAT(Error(Role::kPs, {"--task_index", "-1"}), HasSubstr("task.index: -1 is negative"));
  EXPECT_THAT(Error(Role::kPs, {"extra"}), HasSubstr("extra"));
  EXPECT_THAT(Error(Role::kPs, {"--log_level", "loud"}),
              StartsWith("--log_level: 'loud' is not a log level"));
  EXPECT_THAT(Error(Role::kPs, {"--transport", "rdma"}),
              StartsWith("--transport: unknown transport 'rdma'; use auto, tcp, grpc, unix or "
                         "shm"));
  EXPECT_THAT(Error(Role::kPs, {"--config", File("none.json")}), HasSubstr("none.json"));
  EXPECT_THAT(Error(Role::kPs, {"--config", WriteConfig("{\n]")}),
              HasSubstr("config.json: not valid JSON at line 2, column 1"));
  EXPECT_THAT(Error(Role::kPs, {"--config", WriteConfig("[]")}),
              HasSubstr("must be a JSON object"));
  EXPECT_THAT(Error(Role::kPs, {"--config", WriteConfig(R"({"compute_threads": 1e99})")}),
              HasSubstr("compute_threads: must be an integer"));
  EXPECT_THAT(Error(Role::kPs, {"--cluster", "{"}), HasSubstr("--cluster: not valid JSON"));
  EXPECT_THAT(Error(Role::kPs, {"--cluster", R"({"ps": [3]})"}),
              HasSubstr("cluster of --cluster, task of TF_CONFIG: cluster.ps[0]: an address"));
  tf_config_ = "[";
  EXPECT_THAT(Error(Role::kPs, {}), StartsWith("TF_CONFIG: not valid JSON at line 1"));
}

TEST_F(RoleCommandLine, PrintedConfigurationReadsBackTheSame) {
  SetTask(R"("task": {"type": "ps", "index": 1})");
  const std::string printed =
      Print(Role::kPs, {"--print_config", "--compute_threads", "2", "--orphan_timeout", "90s"});
  EXPECT_THAT(printed, HasSubstr(R"("compute_threads": 2)"));
  const std::string file = WriteConfig(printed);
  tf_config_.clear();
  EXPECT_EQ(Print(Role::kPs, {"--print_config", "--config", file}), printed);
}

TEST_F(RoleCommandLine, AClusterWithoutTheTaskIsRefused) {
  tf_config_ = R"({"cluster": {"worker": []}, "task": {"type": "worker", "index": 0}})";
  EXPECT_THAT(Error(Role::kWorker, {}), AllOf(HasSubstr("worker:0"), HasSubstr("add")));
  tf_config_ = R"({"cluster": {"worker": {}, "ps": {}}, "task": {"type": "ps", "index": 1}})";
  EXPECT_THAT(Error(Role::kPs, {}), HasSubstr("ps:1"));
}

TEST_F(RoleCommandLine, TextCommandsExitWithZero) {
  EXPECT_EQ(Print(Role::kWorker, {"--version"}), VersionText("worker"));
  EXPECT_THAT(Print(Role::kWorker, {"--help"}),
              AllOf(HasSubstr("--bind_address"), HasSubstr("--drain_timeout_s")));
  EXPECT_FALSE(Parse(Role::kPs, {"--check_config"}).ok());
  SetTask(R"("task": {"type": "ps", "index": 1})");
  EXPECT_EQ(Print(Role::kPs, {"--check_config"}), "the configuration is good\n");
}

TEST_F(RoleCommandLine, APathThatOnlyAShellExpandsIsRefusedNamingItsFlagOrKey) {
  SetTask(R"("task": {"type": "worker", "index": 0})");
  for (const char* flag : {"--address_file", "--grant_file", "--flight_dir", "--config"}) {
    EXPECT_THAT(Error(Role::kWorker, {absl::StrCat(flag, "=~/x")}),
                HasSubstr(absl::StrCat(flag, ": '~/x' begins with ~")));
  }
  const std::string config = WriteConfig(R"({"grant_file": "~/x"})");
  EXPECT_THAT(Error(Role::kWorker, {"--config", config}),
              HasSubstr("config.json: grant_file: '~/x' begins with ~"));
  temporary_directory_ = "~/x";
  EXPECT_THAT(Error(Role::kWorker, {}), HasSubstr("TMPDIR: '~/x' begins with ~"));
}

TEST_F(RoleCommandLine, AFileThatATaskWritesIsNoOtherFileOfIt) {
  SetTask(R"("task": {"type": "ps", "index": 0})");
  const std::string config = WriteConfig("{}");
  const std::string same = JoinPath(directory_, "./config.json");
  for (const char* flag : {"--address_file", "--grant_file"}) {
    EXPECT_THAT(Error(Role::kPs, {"--config", config, flag, same}),
                HasSubstr(absl::StrCat(flag, ": '", same, "' is the file '", config,
                                       "' of --config; name a file of its own")));
    EXPECT_THAT(Error(Role::kPs, {flag, directory_}),
                HasSubstr(absl::StrCat(flag, ": ", directory_, " is not a regular file")));
  }
  EXPECT_THAT(Error(Role::kPs, {"--address_file", File("new"), "--grant_file", File("new")}),
              HasSubstr("of --address_file; name a file of its own"));
}

TEST_F(RoleCommandLine, AnnouncesTheReachableAddress) {
  tf_config_ = R"({"cluster": {"worker": ["myhost:0"]}})";
  RoleOptions options = Run(Role::kWorker, {"--address_file", File("address")});
  ASSERT_TRUE(AnnounceAddress(files_, options, "0.0.0.0:4321").ok());
  EXPECT_EQ(*ReadFile(files_, File("address")), "myhost:4321\n");
  options.address_file = File("none/address");
  EXPECT_THAT(std::string(AnnounceAddress(files_, options, "0.0.0.0:1").message()),
              HasSubstr("none/address"));
  options.address_file = "";
  EXPECT_TRUE(AnnounceAddress(files_, options, "0.0.0.0:1").ok());
}

}  // namespace
}  // namespace cohort

// Where the coordinator serves operators, and what its --help says.

#include "coordinator/daemon/coordinator_options.h"

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/temporary_file.h"
#include "common/cluster/role_options.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/world/memory_file_system.h"

namespace cohort {
namespace {

using ::testing::HasSubstr;

constexpr char kJob[] = R"({
  "model": {"class_name": "Sequential", "config": {"layers": [
    {"class_name": "Dense", "config": {"units": 10, "input_shape": [784]}}]}},
  "compile": {"optimizer": "sgd", "loss": "sparse_categorical_crossentropy"},
  "data": {"train": {"class_name": "SyntheticDigits", "config": {"seed": 1, "count": 320}},
           "pipeline": [{"class_name": "Flatten", "config": {"component": "x"}}]}})";

std::string CtlAddressOf(const std::string& chief, const std::vector<std::string>& flags = {}) {
  MemoryFileSystem files;
  EXPECT_TRUE(WriteFileAtomically(files, "/job.json", kJob).ok());
  std::vector<std::string> arguments = {"--job", "/job.json"};
  arguments.insert(arguments.end(), flags.begin(), flags.end());
  const Environment environment = [&](const std::string& name) -> std::optional<std::string> {
    if (name != "TF_CONFIG") return std::nullopt;
    return absl::StrCat(R"({"cluster": {"chief": [")", chief,
                        R"("], "ps": ["h1:1"], "worker": ["h2:1"]}})");
  };
  const auto command = ParseCoordinatorCommandLine(arguments, environment, files);
  EXPECT_TRUE(command.ok()) << command.status();
  if (!command.ok()) return "";
  return std::get<CoordinatorOptions>(*command).ctl_address;
}

TEST(CoordinatorOptions, ServesOperatorsBeyondLoopbackOnlyWhereTheChiefIsBeyondIt) {
  EXPECT_EQ(CtlAddressOf("127.0.0.1:7"), "127.0.0.1:7");
  EXPECT_EQ(CtlAddressOf("localhost:7"), "localhost:7");
  EXPECT_EQ(CtlAddressOf("[::1]:7"), "[::1]:7");
  EXPECT_EQ(CtlAddressOf("10.0.0.1:7"), "0.0.0.0:7");
  EXPECT_EQ(CtlAddressOf("chief-0.svc:7"), "0.0.0.0:7");
  EXPECT_EQ(CtlAddressOf("127.0.0.1:7", {"--ctl_address", "0.0.0.0:9"}), "0.0.0.0:9");
}

TEST(CoordinatorOptions, AnUnusableTmpdirIsRefusedWithTheRemedy) {
  MemoryFileSystem files;
  ASSERT_TRUE(WriteFileAtomically(files, "/job.json", kJob).ok());
  const Environment environment = [](const std::string& name) -> std::optional<std::string> {
    if (name == "TMPDIR") return "/nonexistent/tmp";
    return std::nullopt;
  };
  const auto command = ParseCoordinatorCommandLine(
      {"--job", "/job.json", "--local", "ps=1,worker=1"}, environment, files);
  EXPECT_THAT(command.status().message(),
              AllOf(HasSubstr("/nonexistent/tmp"), HasSubstr("--state_dir")));
}

TEST(CoordinatorOptions, EveryProgramsHelpSaysTheSameOfTransports) {
  MemoryFileSystem files;
  const Environment none = [](const std::string&) { return std::nullopt; };
  // Its lines are broken where they are long.
  const auto words = [](std::string text) {
    std::string joined;
    for (const char c : text) {
      if (c != '\n' && (c != ' ' || joined.empty() || joined.back() != ' ')) {
        joined += c;
      } else if (!joined.empty() && joined.back() != ' ') {
        joined += ' ';
      }
    }
    return joined;
  };
  const auto coordinator = ParseCoordinatorCommandLine({"--help"}, none, files);
  ASSERT_TRUE(coordinator.ok());
  EXPECT_THAT(words(std::get<PrintAndExit>(*coordinator).text), HasSubstr(kTransportHelp));
  for (const Role role : {Role::kPs, Role::kWorker}) {
    const auto task = ParseRoleCommandLine(role, {"--help"}, none, files);
    ASSERT_TRUE(task.ok());
    EXPECT_THAT(words(std::get<PrintAndExit>(*task).text), HasSubstr(kTransportHelp));
  }
}

}  // namespace
}  // namespace cohort

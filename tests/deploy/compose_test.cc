// deploy/compose: what docker-compose cannot see, that names, ports and TF_CONFIG agree.

#include <gmock/gmock.h>

#include <map>
#include <set>

#include "common/cluster/tf_config.h"
#include "tests/deploy/deploy_support.h"
#include "tests/deploy/yaml_subset.h"

namespace cohort {
namespace {

struct ComposeFile {
  std::string file;
  size_t tasks = 0;  // of the cluster
};

class Compose : public testing::TestWithParam<ComposeFile> {
 protected:
  const std::string file_ = GetParam().file;
  const Yaml whole_ = YamlReader(ReadDeployFile(GetParam().file)).Read();
  const Yaml& services_ = whole_.at("services");
};

TEST_P(Compose, EveryTaskOfTheClusterIsAService) {
  std::set<std::string> tasks;
  std::optional<ClusterSpec> first;
  for (const auto& [name, service] : services_.items()) {
    SCOPED_TRACE(name);
    const std::string target = service.at("build").at("target");
    EXPECT_TRUE(absl::StartsWith(name, target));
    EXPECT_EQ(service.at("image"), absl::StrCat("cohort-", target, ":${COHORT_TAG:-latest}"));
    const auto config = ParseTfConfig(service.at("environment").at("TF_CONFIG").get<std::string>());
    ASSERT_TRUE(config.ok()) << config.status();
    if (!first) first = config->cluster;
    EXPECT_EQ(first->tasks(), config->cluster.tasks());
    if (!config->task.has_value()) {
      EXPECT_EQ(target, "coordinator") << "which need not be a task";
      continue;
    }
    // Its own entry is its own name, and no two services are the same task.
    const auto address = config->cluster.Address(*config->task);
    ASSERT_TRUE(address.ok()) << address.status();
    EXPECT_EQ(*address, absl::StrCat(name, ":2222"));
    EXPECT_EQ(service.at("hostname"), name);
    EXPECT_TRUE(tasks.insert(config->task->ToString()).second);
  }
  EXPECT_EQ(tasks.size(), GetParam().tasks);
  EXPECT_EQ(first->tasks().size(), tasks.size());
}

TEST_P(Compose, VolumesAndHealthChecks) {
  for (const auto& [name, service] : services_.items()) {
    SCOPED_TRACE(name);
    EXPECT_EQ(service.at("volumes"), services_.at("coordinator").at("volumes"));
    if (name == "coordinator") continue;
    EXPECT_EQ(service.at("healthcheck").at("test").at(3), "exec 3<>/dev/tcp/127.0.0.1/2222");
  }
  EXPECT_TRUE(whole_.at("volumes").contains("cohort-state"));
  EXPECT_TRUE(whole_.at("volumes").contains("cohort-data"));
}

TEST_P(Compose, TargetsAreStagesOfTheDockerfile) {
  const std::string dockerfile = ReadDeployFile("Dockerfile");
  for (const auto& [name, service] : services_.items()) {
    const std::string target = service.at("build").at("target");
    EXPECT_THAT(dockerfile, testing::HasSubstr(absl::StrCat(" AS ", target, "\n")));
    EXPECT_THAT(dockerfile, testing::HasSubstr(absl::StrCat("/staged/", target, "/")));
  }
}

TEST_P(Compose, DockerComposeAcceptsTheFile) {
  if (!HasProgram("docker-compose")) GTEST_SKIP() << "needs docker-compose";
  const Output output =
      RunCommand(absl::StrCat("docker-compose -f ", DeployPath(file_), " config"));
  EXPECT_EQ(output.exit_code, 0) << output.text;
  EXPECT_THAT(output.text, testing::HasSubstr("hostname: worker-2"));
}

INSTANTIATE_TEST_SUITE_P(Files, Compose,
                         testing::Values(ComposeFile{"compose/parameter_server.yml", 6},
                                         ComposeFile{"compose/multi_worker.yml", 3}),
                         [](const auto& info) {
                           return info.param.tasks == 6 ? "ParameterServer" : "MultiWorker";
                         });

// No task is the coordinator: it is in the network of worker 0, under its name.
TEST(ComposeMultiWorker, WorkerZeroCarriesTheCoordinator) {
  const Yaml services =
      YamlReader(ReadDeployFile("compose/multi_worker.yml")).Read().at("services");
  const Yaml& coordinator = services.at("coordinator");
  EXPECT_EQ(coordinator.at("network_mode"), "service:worker-0");
  EXPECT_TRUE(services.contains("worker-0"));
  EXPECT_FALSE(coordinator.contains("hostname")) << "docker-compose refuses both";
  const auto config =
      ParseTfConfig(coordinator.at("environment").at("TF_CONFIG").get<std::string>());
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_FALSE(config->task.has_value());
  EXPECT_EQ(config->cluster.NumTasks(Role::kPs), 0);
  EXPECT_THAT(coordinator.at("command"), testing::Contains("strategy.type=multi_worker_mirrored"));
}

}  // namespace
}  // namespace cohort

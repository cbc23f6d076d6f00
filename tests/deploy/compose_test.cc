// deploy/compose: what docker-compose cannot see, that names, ports and TF_CONFIG agree.

#include <gmock/gmock.h>

#include <map>
#include <set>

#include "common/cluster/tf_config.h"
#include "tests/deploy/deploy_support.h"
#include "tests/deploy/yaml_subset.h"

namespace cohort {
namespace {

constexpr char kFile[] = "compose/parameter_server.yml";

Yaml Services() { return YamlReader(ReadDeployFile(kFile)).Read().at("services"); }

TEST(Compose, EveryTaskOfTheClusterIsAService) {
  const Yaml services = Services();
  std::set<std::string> tasks;
  std::optional<ClusterSpec> first;
  for (const auto& [name, service] : services.items()) {
    SCOPED_TRACE(name);
    const auto config = ParseTfConfig(service.at("environment").at("TF_CONFIG").get<std::string>());
    ASSERT_TRUE(config.ok()) << config.status();
    ASSERT_TRUE(config->task.has_value());
    if (!first) first = config->cluster;
    EXPECT_EQ(first->tasks(), config->cluster.tasks());
    // Its own entry is its own name, and no two services are the same task.
    const auto address = config->cluster.Address(*config->task);
    ASSERT_TRUE(address.ok()) << address.status();
    EXPECT_EQ(*address, absl::StrCat(name, ":2222"));
    EXPECT_EQ(service.at("hostname"), name);
    EXPECT_TRUE(tasks.insert(config->task->ToString()).second);
    const std::string target = service.at("build").at("target");
    EXPECT_TRUE(absl::StartsWith(name, target));
    EXPECT_EQ(service.at("image"), absl::StrCat("cohort-", target, ":${COHORT_TAG:-latest}"));
  }
  EXPECT_EQ(tasks.size(), 6u);
}

TEST(Compose, VolumesAndHealthChecks) {
  const Yaml file = YamlReader(ReadDeployFile(kFile)).Read();
  for (const auto& [name, service] : file.at("services").items()) {
    SCOPED_TRACE(name);
    EXPECT_EQ(service.at("volumes"), file.at("services").at("coordinator").at("volumes"));
    if (name == "coordinator") continue;
    EXPECT_EQ(service.at("healthcheck").at("test").at(3), "exec 3<>/dev/tcp/127.0.0.1/2222");
  }
  EXPECT_TRUE(file.at("volumes").contains("cohort-state"));
  EXPECT_TRUE(file.at("volumes").contains("cohort-data"));
}

TEST(Compose, TargetsAreStagesOfTheDockerfile) {
  const std::string dockerfile = ReadDeployFile("Dockerfile");
  const Yaml services = Services();
  for (const auto& [name, service] : services.items()) {
    const std::string target = service.at("build").at("target");
    EXPECT_THAT(dockerfile, testing::HasSubstr(absl::StrCat(" AS ", target, "\n")));
    EXPECT_THAT(dockerfile, testing::HasSubstr(absl::StrCat("/staged/", target, "/")));
  }
}

TEST(Compose, DockerComposeAcceptsTheFile) {
  if (!HasProgram("docker-compose")) GTEST_SKIP() << "needs docker-compose";
  const Output output =
      RunCommand(absl::StrCat("docker-compose -f ", DeployPath(kFile), " config"));
  EXPECT_EQ(output.exit_code, 0) << output.text;
  EXPECT_THAT(output.text, testing::HasSubstr("hostname: worker-2"));
}

}  // namespace
}  // namespace cohort

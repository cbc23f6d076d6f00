// deploy/kubernetes: what kustomize does not see, that what names something else names
// something that exists.

#include <gmock/gmock.h>

#include <map>

#include "common/cluster/tf_config.h"
#include "tests/deploy/deploy_support.h"
#include "tests/deploy/yaml_subset.h"

namespace cohort {
namespace {

using testing::HasSubstr;

// By folder.
class Kubernetes : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    kustomization_ = YamlReader(InFolder("kustomization.yaml")).Read();
    for (const Yaml& file : kustomization_.at("resources")) {
      for (Yaml& object : ReadYamlDocuments(InFolder(file))) {
        objects_[object.at("kind")][object.at("metadata").at("name")] = object;
      }
    }
    for (const Yaml& map : kustomization_.at("configMapGenerator")) {
      config_maps_[map.at("name")] = map;
    }
  }

  static std::string InFolder(const std::string& name) {
    return ReadDeployFile(absl::StrCat("kubernetes/", GetParam(), "/", name));
  }
  bool HasPs() const { return objects_.at("StatefulSet").count("cohort-ps") > 0; }
  // StatefulSets and the Job, by name.
  std::map<std::string, Yaml> Workloads() const {
    std::map<std::string, Yaml> workloads;
    for (const char* kind : {"StatefulSet", "Job"}) {
      for (const auto& [name, object] : objects_.at(kind)) workloads[name] = object;
    }
    return workloads;
  }
  static const Yaml& Pod(const Yaml& workload) {
    return workload.at("spec").at("template").at("spec");
  }
  static const Yaml& Container(const Yaml& workload) {
    return Pod(workload).at("containers").at(0);
  }
  static bool Matches(const Yaml& selector, const Yaml& workload) {
    const Yaml& labels = workload.at("spec").at("template").at("metadata").at("labels");
    for (const auto& [key, value] : selector.items()) {
      if (labels.value(key, "") != value) return false;
    }
    return true;
  }
  std::string Literal(const std::string& key) const {
    for (const std::string literal : config_maps_.at("cohort-cluster").at("literals")) {
      if (absl::StartsWith(literal, key + "=")) return literal.substr(key.size() + 1);
    }
    ADD_FAILURE() << "no " << key;
    return "";
  }

  Yaml kustomization_;
  std::map<std::string, std::map<std::string, Yaml>> objects_;  // by kind and name
  std::map<std::string, Yaml> config_maps_;
};

TEST_P(Kubernetes, SelectorsFindExactlyTheirPods) {
  for (const auto& [name, set] : objects_.at("StatefulSet")) {
    EXPECT_TRUE(Matches(set.at("spec").at("selector").at("matchLabels"), set)) << name;
  }
  auto expect_one = [&](const std::string& name, const Yaml& selector) {
    int found = 0;
    for (const auto& [workload_name, workload] : Workloads()) {
      if (!Matches(selector, workload)) continue;
      ++found;
      EXPECT_EQ(workload_name, name);
    }
    EXPECT_EQ(found, 1) << name;
  };
  for (const auto& [name, service] : objects_.at("Service")) {
    expect_one(name, service.at("spec").at("selector"));
  }
  for (const auto& [name, budget] : objects_.at("PodDisruptionBudget")) {
    expect_one(name, budget.at("spec").at("selector").at("matchLabels"));
  }
}

TEST_P(Kubernetes, ServicesAndProbesUseTheContainersPort) {
  for (const auto& [name, set] : objects_.at("StatefulSet")) {
    SCOPED_TRACE(name);
    const Yaml& service = objects_.at("Service").at(set.at("spec").at("serviceName")).at("spec");
    EXPECT_EQ(service.at("clusterIP"), "None");
    const Yaml& port = Container(set).at("ports").at(0);
    EXPECT_EQ(service.at("ports").at(0).at("targetPort"), port.at("name"));
    EXPECT_EQ(service.at("ports").at(0).at("port"), port.at("containerPort"));
    for (const char* probe : {"readinessProbe", "livenessProbe"}) {
      EXPECT_EQ(Container(set).at(probe).at("grpc").at("port"), port.at("containerPort"));
    }
    EXPECT_EQ(Literal("COHORT_PORT"), absl::StrCat(port.at("containerPort").get<int>()));
  }
}

TEST_P(Kubernetes, VolumesAndConfigMapsExist) {
  for (const auto& [name, workload] : Workloads()) {
    SCOPED_TRACE(name);
    std::map<std::string, Yaml> volumes;
    for (const Yaml& volume : Pod(workload).at("volumes")) volumes[volume.at("name")] = volume;
    size_t mounted = 0;
    for (const Yaml& mount : Container(workload).at("volumeMounts")) {
      mounted += volumes.count(mount.at("name"));
    }
    EXPECT_EQ(mounted, volumes.size());
    EXPECT_EQ(mounted, Container(workload).at("volumeMounts").size());
    for (const auto& [volume_name, volume] : volumes) {
      if (volume.contains("configMap")) {
        EXPECT_EQ(config_maps_.count(volume.at("configMap").at("name")), 1u) << volume_name;
      } else {
        const std::string claim = volume.at("persistentVolumeClaim").at("claimName");
        EXPECT_EQ(objects_.at("PersistentVolumeClaim").count(claim), 1u) << claim;
      }
    }
    EXPECT_EQ(
        config_maps_.count(Container(workload).at("envFrom").at(0).at("configMapRef").at("name")),
        1u);
  }
}

// The pods' host names, through the entry point's script, give the cluster that the services make.
TEST_P(Kubernetes, PodsFindTheirPlaces) {
  std::string variables;
  for (const std::string literal : config_maps_.at("cohort-cluster").at("literals")) {
    absl::StrAppend(&variables, literal, " ");
  }
  for (const std::string role : {"ps", "worker"}) {
    if (role == "ps" && !HasPs()) {
      EXPECT_EQ(Literal("COHORT_PS_COUNT"), "0");
      continue;
    }
    const Yaml& set = objects_.at("StatefulSet").at("cohort-" + role);
    const int replicas = set.at("spec").at("replicas");
    EXPECT_EQ(Literal(role == "ps" ? "COHORT_PS_COUNT" : "COHORT_WORKER_COUNT"),
              absl::StrCat(replicas));
    const std::string service = set.at("spec").at("serviceName");
    for (int i = 0; i < replicas; ++i) {
      const std::string pod = absl::StrCat("cohort-", role, "-", i);
      const Output output = RunCommand(absl::StrCat("env -i PATH=\"$PATH\" ", variables,
                                                    "COHORT_ROLE=", role, " COHORT_HOSTNAME=", pod,
                                                    " ", DeployPath("container/tf_config.sh")));
      const auto config = ParseTfConfig(output.text);
      ASSERT_TRUE(config.ok()) << config.status() << output.text;
      EXPECT_EQ(*config->cluster.Address(*config->task), absl::StrCat(pod, ".", service, ":2222"));
      EXPECT_EQ(config->cluster.NumTasks(*RoleFromName(role)), replicas);
    }
  }
}

TEST_P(Kubernetes, ImagesAreTargetsOfTheDockerfile) {
  const std::string dockerfile = ReadDeployFile("Dockerfile");
  std::vector<std::string> images;
  for (const Yaml& image : kustomization_.at("images")) images.push_back(image.at("name"));
  for (const auto& [name, workload] : Workloads()) {
    const std::string image = Container(workload).at("image");
    EXPECT_THAT(images, testing::Contains(image));
    EXPECT_THAT(dockerfile, HasSubstr(absl::StrCat(" AS ", image.substr(7), "\n")));
  }
}

// The coordinator is no task where there is no ps: it knows the workers alone, and is on the node
// of the first.
TEST_P(Kubernetes, WithoutPsWorkerZeroCarriesTheCoordinator) {
  const Yaml& coordinator = objects_.at("Job").at("cohort-coordinator");
  const Output output = RunCommand(
      absl::StrCat("env -i PATH=\"$PATH\" COHORT_ROLE=chief COHORT_WORKER_COUNT=3 COHORT_PS_COUNT=",
                   Literal("COHORT_PS_COUNT"), " ", DeployPath("container/tf_config.sh")));
  const auto config = ParseTfConfig(output.text);
  ASSERT_TRUE(config.ok()) << config.status() << output.text;
  EXPECT_EQ(config->task.has_value(), HasPs());
  EXPECT_EQ(config->cluster.NumTasks(Role::kWorker), 3);
  const auto together = testing::Contains("strategy.type=multi_worker_mirrored");
  if (HasPs()) {
    EXPECT_THAT(Container(coordinator).at("args"), testing::Not(together));
    return;
  }
  EXPECT_THAT(Container(coordinator).at("args"), together);
  const Yaml& near = Pod(coordinator)
                         .at("affinity")
                         .at("podAffinity")
                         .at("requiredDuringSchedulingIgnoredDuringExecution")
                         .at(0);
  EXPECT_EQ(near.at("topologyKey"), "kubernetes.io/hostname");
  // Every pod of a StatefulSet has its own name as this label.
  EXPECT_EQ(near.at("labelSelector").at("matchLabels").at("statefulset.kubernetes.io/pod-name"),
            "cohort-worker-0");
}

TEST_P(Kubernetes, TheJobIsTheShippedOne) {
  EXPECT_EQ(InFolder("job.json"), ReadDeployFile("jobs/mnist_mlp.json"));
}

TEST_P(Kubernetes, KustomizeBuildsTheBase) {
  if (!HasProgram("kubectl")) GTEST_SKIP() << "needs kubectl";
  const Output output =
      RunCommand(absl::StrCat("kubectl kustomize ", DeployPath("kubernetes/" + GetParam())));
  ASSERT_EQ(output.exit_code, 0) << output.text;
  size_t objects = 2;  // the two ConfigMaps
  for (const auto& [kind, by_name] : objects_) objects += by_name.size();
  size_t built = 0;
  for (absl::string_view line : absl::StrSplit(output.text, '\n')) {
    built += absl::StartsWith(line, "kind: ");
  }
  EXPECT_EQ(built, objects);
  // References follow the generated names.
  EXPECT_THAT(output.text, testing::Not(HasSubstr("name: cohort-cluster\n")));
}

INSTANTIATE_TEST_SUITE_P(Folders, Kubernetes, testing::Values("base", "multi_worker"),
                         [](const auto& info) {
                           return info.param == "base" ? "Base" : "MultiWorker";
                         });

}  // namespace
}  // namespace cohort

#include "common/cluster/tf_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace cohort {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// The lines of the error, or "ok".
std::vector<std::string> Problems(absl::string_view json) {
  const auto config = ParseTfConfig(json);
  if (config.ok()) return {"ok"};
  EXPECT_EQ(config.status().code(), absl::StatusCode::kInvalidArgument);
  return absl::StrSplit(std::string(config.status().message()), '\n');
}

TfConfig Good(absl::string_view json) {
  const auto config = ParseTfConfig(json);
  EXPECT_TRUE(config.ok()) << config.status();
  return config.ok() ? *config : TfConfig();
}

TEST(TfConfig, ListJobs) {
  const TfConfig config = Good(R"({"cluster": {"chief": ["c:1"], "worker": ["w0:1", "w1:1"],
      "ps": ["p:1"]}, "task": {"type": "worker", "index": 1}, "rpc_layer": "grpc"})");
  EXPECT_EQ(config.cluster.tasks().size(), 4u);
  EXPECT_EQ(*config.cluster.Address(TaskId{Role::kWorker, 1}), "w1:1");
  EXPECT_EQ(config.task->ToString(), "worker:1");
  EXPECT_EQ(config.rpc_layer, "grpc");
  EXPECT_FALSE(config.session_master.has_value());
}

TEST(TfConfig, SparseJobHasHoles) {
  const TfConfig config = Good(R"({"cluster": {"worker": {"1": "a:1", "10": "b:1"}},
                                   "task": {"type": "worker", "index": 10}})");
  EXPECT_THAT(config.cluster.Indices(Role::kWorker), ElementsAre(1, 10));
  EXPECT_EQ(config.cluster.NumTasks(Role::kWorker), 2);
  EXPECT_EQ(*Master(config), "b:1");
}

TEST(TfConfig, IndexMayBeAString) {
  EXPECT_EQ(Good(R"({"cluster": {"ps": ["a:1", "b:1"]},
                     "task": {"type": "ps", "index": "1"}})")
                .task->index,
            1);
}

TEST(TfConfig, NumericTypeIsCastToAString) {
  EXPECT_THAT(Problems(R"({"task": {"type": 123456, "index": 0}})"),
              ElementsAre(StartsWith("task.type: '123456' is not a role")));
}

TEST(TfConfig, NothingIsLocal) {
  for (const char* text : {"", " \n", "{}", R"({"cluster": {}, "task": {}})",
                           R"({"cluster": null, "environment": "cloud"})"}) {
    const TfConfig config = Good(text);
    EXPECT_TRUE(config.cluster.empty()) << text;
    EXPECT_FALSE(config.task.has_value()) << text;
    EXPECT_EQ(*Master(config), "") << text;
  }
}

TEST(TfConfig, ATaskOrAKeyLikeClusterIsNotMeantToBeLocal) {
  const auto refusal = [](absl::string_view json) {
    return std::string(CheckMeantLocal(Good(json)).message());
  };
  EXPECT_THAT(refusal(R"({"task": {"type": "chief", "index": 0}})"),
              HasSubstr("names the task chief:0 but has no `cluster`"));
  EXPECT_THAT(refusal(R"({"cluster": {}, "task": {"type": "worker", "index": 1}})"),
              HasSubstr("worker:1"));
  for (const char* key :
       {"sparseCluster", "Cluster", "clusters", "cluster_spec", "ClusterSpec", "clutser"}) {
    EXPECT_THAT(refusal(absl::StrCat(R"({")", key, R"(": {"worker": {}, "ps": []}})")),
                HasSubstr(absl::StrCat("'", key, "'")));
  }
  for (const char* local :
       {"{}", "", R"({"cluster": {}, "task": {}})", R"({"environment": "cloud"})",
        R"({"rpc_layer": "grpc", "Cluster": 3, "cluster": {"ps": ["a:1"]}})"}) {
    EXPECT_EQ(refusal(local), "") << local;
  }
}

TEST(TfConfig, AKeyLikeTaskIsRefused) {
  for (const char* key : {"Task", "TASK", "tasks", "tsk"}) {
    EXPECT_THAT(Problems(absl::StrCat(R"({")", key, R"(": {"type": "chief", "index": 0}})")),
                ElementsAre(AllOf(HasSubstr(key), HasSubstr("write `task`"))));
  }
}

TEST(TfConfig, UnknownKeysAreIgnored) {
  EXPECT_THAT(Problems(R"({"environment": "google", "model_dir": 3})"), ElementsAre("ok"));
}

TEST(TfConfig, EvaluatorNeedNotBeInTheCluster) {
  const TfConfig config =
      Good(R"({"cluster": {"worker": ["a:1"]}, "task": {"type": "evaluator", "index": 0}})");
  EXPECT_EQ(config.task->role, Role::kEvaluator);
}

TEST(TfConfig, EveryProblemIsReportedAtOnceWithItsPath) {
  EXPECT_THAT(
      Problems(R"({"cluster": {"worker": ["a:1", 7, "a:1", "b"], "master": ["m:1"],
                               "chief": ["c:1", "c:2"], "ps": {"-1": "p:1", "x": "p:2"},
                               "evaluator": "e:1"},
                   "task": {"type": "boss", "index": -1}, "rpc_layer": 3})"),
      ElementsAre(
          StartsWith("cluster.evaluator: must be a list of addresses"),
          StartsWith("cluster.master: 'master' is not a role"),
          StartsWith("cluster.ps[\"-1\"]: the index is negative"),
          StartsWith("cluster.ps[\"x\"]: the index is not an integer"),
          StartsWith("cluster.worker[1]: an address must be a string, not 7"),
          StartsWith("cluster.worker[2]: 'a:1' is already the address of cluster.worker[0]"),
          StartsWith("cluster.worker[3]: 'b' is not an address: the port is missing"),
          StartsWith("cluster.chief: has 2 tasks; at most one chief"),
          StartsWith("task.type: 'boss' is not a role"), StartsWith("task.index: -1 is negative"),
          StartsWith("rpc_layer: must be a string, not 3")));
}

struct BadCase {
  const char* json;
  const char* problem;
};

class BadTfConfig : public ::testing::TestWithParam<BadCase> {};

TEST_P(BadTfConfig, NamesThePath) {
  EXPECT_THAT(Problems(GetParam().json), ElementsAre(StartsWith(GetParam().problem)));
}

INSTANTIATE_TEST_SUITE_P(
    Rules, BadTfConfig,
    ::testing::Values(
        BadCase{R"([1])", "(root): must be an object"},
        BadCase{R"({"cluster": 3})", "cluster: must be an object"},
        BadCase{R"({"cluster": {"worker": 3}})", "cluster.worker: must be a list"},
        BadCase{R"({"cluster": {"worker": {"0": "a:1", "00": "b:1"}}})",
                "cluster.worker[\"00\"]: index 0 is given twice"},
        BadCase{R"({"cluster": {"evaluator": ["a:1", "b:1"]}})",
                "cluster.evaluator: has 2 tasks; at most one evaluator"},
        BadCase{R"({"cluster": {"worker": ["a:1"]}, "task": {"type": "ps", "index": 0}})",
                "task.type: 'ps' is not a job of the cluster"},
        BadCase{R"({"cluster": {"worker": ["a:1"]}, "task": {"type": "worker", "index": 1}})",
                "task.index: 1 is not a task of cluster.worker, which has 0"},
        BadCase{R"({"cluster": {"worker": {"4": "a:1"}}, "task": {"type": "worker", "index": 0}})",
                "task.index: 0 is not a task of cluster.worker, which has 4"},
        BadCase{R"({"task": {"type": "worker"}})", "task.index: is missing"},
        BadCase{R"({"task": {"index": 0}})", "task.type: is missing"},
        BadCase{R"({"task": "worker"})", "task: must be an object"},
        BadCase{R"({"task": {"type": ["worker"], "index": 0}})", "task.type: must be a string"},
        BadCase{R"({"task": {"type": "worker", "index": 1.5}})", "task.index: must be an integer"},
        BadCase{R"({"task": {"type": "worker", "index": true}})", "task.index: must be an integer"},
        BadCase{R"({"task": {"type": "worker", "index": "one"}})",
                "task.index: must be an integer"},
        BadCase{R"({"task": {"type": "worker", "index": 99999999999}})",
                "task.index: must be an integer"},
        BadCase{R"({"session_master": []})", "session_master: must be a string"},
        BadCase{"{\n  \"task\": {,}\n}", "not valid JSON at line 2, column 12: "},
        BadCase{R"({"task": {"type": "worker")", "not valid JSON at line 1, column 27: "},
        BadCase{R"({"cluster": {"ps": ["a:1"], "ps": ["b:1"]}})", "cluster.ps: given twice"}));

TEST(TfConfig, SurvivesDeepNesting) {
  EXPECT_THAT(Problems(std::string(100000, '[')), ElementsAre(HasSubstr("levels deep")));
}

// One byte of a good configuration is changed: the answer may be good or bad, never a crash.
TEST(TfConfig, SurvivesEverySingleByteDamage) {
  const std::string good = R"({"cluster": {"worker": ["a:1"], "ps": {"0": "[::1]:2"}},
                               "task": {"type": "worker", "index": "0"}})";
  int refused = 0;
  for (size_t i = 0; i < good.size(); ++i) {
    for (const unsigned char byte : {0x00, 0x20, 0x22, 0x2c, 0x5c, 0x7b, 0x7d, 0x80, 0xff}) {
      std::string damaged = good;
      damaged[i] = static_cast<char>(byte);
      refused += ParseTfConfig(damaged).ok() ? 0 : 1;
    }
  }
  EXPECT_GT(refused, 0);
}

TEST(TfConfig, ReadFromTheEnvironment) {
  const auto bad = ReadTfConfig([](const std::string& name) -> std::optional<std::string> {
    return name == "TF_CONFIG" ? "{" : "";
  });
  EXPECT_THAT(std::string(bad.status().message()), StartsWith("TF_CONFIG: not valid JSON"));
  const auto twice = ReadTfConfig([](const std::string&) -> std::optional<std::string> {
    return R"({"cluster": {"ps": 1, "worker": 2}})";
  });
  EXPECT_THAT(std::string(twice.status().message()),
              AllOf(StartsWith("TF_CONFIG: cluster."), HasSubstr("\nTF_CONFIG: cluster.")));
  EXPECT_TRUE(ReadTfConfig([](const std::string&) { return std::nullopt; })->cluster.empty());
}

TEST(Master, SessionMasterWins) {
  EXPECT_EQ(*Master(Good(R"({"cluster": {"worker": ["a:1", "b:1"]}, "session_master": "x:9"})")),
            "x:9");
  EXPECT_EQ(*Master(Good(R"({"cluster": {"worker": ["a:1", "b:1"]}, "session_master": ""})")), "");
}

TEST(Master, OneTaskIsLocal) {
  EXPECT_EQ(*Master(Good(R"({"cluster": {"worker": ["a:1"]}, "rpc_layer": "grpc"})")), "");
}

TEST(Master, CarriesTheRpcLayer) {
  const char* json = R"({"cluster": {"worker": ["a:1"], "ps": ["b:1"]}, "rpc_layer": "grpc",
                         "task": {"type": "ps", "index": 0}})";
  EXPECT_EQ(*Master(Good(json)), "grpc://b:1");
}

TEST(Master, NeedsATaskOfTheCluster) {
  const std::string cluster = R"({"cluster": {"worker": ["a:1"], "ps": ["b:1"]})";
  EXPECT_EQ(Master(Good(cluster + "}")).status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(
      Master(Good(cluster + R"(, "task": {"type": "evaluator", "index": 0}})")).status().code(),
      absl::StatusCode::kNotFound);
}

class ClusterRules : public ::testing::Test {
 protected:
  const ClusterSpec with_chief_ =
      Good(R"({"cluster": {"chief": ["c:1"], "worker": ["w:1", "w:2"], "ps": ["p:1"]}})").cluster;
  const ClusterSpec workers_ = Good(R"({"cluster": {"worker": ["w:1", "w:2"]}})").cluster;
  const TaskId chief_{Role::kChief, 0}, worker0_{Role::kWorker, 0}, worker1_{Role::kWorker, 1},
      ps_{Role::kPs, 0}, evaluator_{Role::kEvaluator, 0};
};

TEST_F(ClusterRules, IsChief) {
  EXPECT_TRUE(IsChief(with_chief_, chief_));
  EXPECT_TRUE(IsChief(with_chief_, evaluator_));
  EXPECT_FALSE(IsChief(with_chief_, worker0_));
  EXPECT_FALSE(IsChief(with_chief_, ps_));
  EXPECT_TRUE(IsChief(workers_, worker0_));
  EXPECT_FALSE(IsChief(workers_, worker1_));
}

TEST_F(ClusterRules, WorkerCount) {
  EXPECT_EQ(*WorkerCount(with_chief_, Role::kChief), 3);
  EXPECT_EQ(*WorkerCount(with_chief_, Role::kWorker), 3);
  EXPECT_EQ(*WorkerCount(workers_, Role::kWorker), 2);
  EXPECT_EQ(*WorkerCount(Good(R"({"cluster": {"evaluator": ["e:1"]}})").cluster, Role::kEvaluator),
            1);
  EXPECT_FALSE(WorkerCount(with_chief_, Role::kPs).ok());
}

TEST_F(ClusterRules, IdInCluster) {
  EXPECT_EQ(*IdInCluster(with_chief_, chief_), 0);
  EXPECT_EQ(*IdInCluster(with_chief_, worker0_), 1);
  EXPECT_EQ(*IdInCluster(with_chief_, worker1_), 2);
  EXPECT_EQ(*IdInCluster(workers_, worker1_), 1);
  EXPECT_EQ(*IdInCluster(with_chief_, evaluator_), 0);
  EXPECT_FALSE(IdInCluster(with_chief_, ps_).ok());
}

TEST_F(ClusterRules, Leaders) {
  EXPECT_EQ(CollectiveLeader(with_chief_, worker1_), chief_);
  EXPECT_EQ(CollectiveLeader(workers_, worker1_), worker0_);
  EXPECT_EQ(CollectiveLeader(workers_, evaluator_), std::nullopt);
  EXPECT_EQ(CollectiveLeader(ClusterSpec(), std::nullopt), std::nullopt);
  EXPECT_EQ(CoordinationLeader(with_chief_), ps_);
  EXPECT_EQ(CoordinationLeader(workers_), worker0_);
  EXPECT_EQ(CoordinationLeader(ClusterSpec()), std::nullopt);
}

TEST(CheckDialable, NamesEveryTaskWithPortZeroButOneself) {
  const ClusterSpec cluster =
      Good(R"({"cluster": {"worker": ["a:0", "a:0"], "ps": ["b:1"]}})").cluster;
  const absl::Status status = CheckDialable(cluster, TaskId{Role::kWorker, 0});
  EXPECT_THAT(std::string(status.message()), StartsWith("worker:1: 'a:0' has port 0"));
  EXPECT_TRUE(CheckDialable(Good(R"({"cluster": {"ps": ["b:1"]}})").cluster, std::nullopt).ok());
}

TEST(ClusterResolver, GivesTheNamesOfTensorFlow) {
  const auto resolver =
      TfConfigClusterResolver([](const std::string&) -> std::optional<std::string> {
        return R"({"cluster": {"worker": ["a:1"], "ps": ["b:1"]},
                   "task": {"type": "worker", "index": 0}})";
      });
  ASSERT_TRUE(resolver.ok());
  EXPECT_EQ(resolver->task_type(), "worker");
  EXPECT_EQ(resolver->task_id(), 0);
  EXPECT_EQ(*resolver->master(), "a:1");
  EXPECT_EQ(ClusterResolver(TfConfig()).task_type(), std::nullopt);
}

}  // namespace
}  // namespace cohort

// One test for each code snippet about parameter-server training in TensorFlow's documentation of
// ParameterServerStrategy, written with this project's C++ API. What a snippet asserts is asserted
// here.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "common/checkpoint/bundle.h"
#include "common/checkpoint/checkpoint_files.h"
#include "common/cluster/tf_config.h"
#include "common/tensor/slice_spec.h"
#include "coordinator/api/checkpoint_manager.h"
#include "coordinator/job/job_spec.h"
#include "coordinator/strategy/partitioner.h"
#include "coordinator/train/trainer.h"
#include "tests/sim/sim_cluster.h"
#include "tests/support/test_programs.h"

namespace cohort {
namespace {

using testing::ElementsAre;

VariableSpec FloatVariable(const std::string& name, Shape shape, double value = 0) {
  VariableSpec spec;
  spec.name = name;
  spec.shape = std::move(shape);
  spec.initializer.set_op("constant");
  spec.initializer.set_a(value);
  return spec;
}

proto::UpdateRule Sgd() {
  proto::UpdateRule rule;
  rule.set_op("sgd");
  return rule;
}

proto::DatasetSpec RangeDataset(int64_t end, int64_t batch) {
  proto::DatasetSpec spec;
  spec.mutable_source()->mutable_range()->set_end(end);
  spec.add_transforms()->set_repeat(-1);
  spec.add_transforms()->mutable_batch()->set_size(batch);
  return spec;
}

// "With a CTL": epochs of scheduled steps, join, read the result, save a checkpoint.
TEST(SeedSnippets, CustomTrainingLoop) {
  SimCluster cluster(1, 2, 3);
  const auto coordinator = cluster.Connect();
  ASSERT_TRUE(coordinator.ok()) << coordinator.status();
  const auto steps_done =
      (*coordinator)->Scope(AssignAdd()).CreateVariable(FloatVariable("steps_done", Shape{}));
  ASSERT_TRUE(steps_done.ok()) << steps_done.status();
  const auto worker_fn = (*coordinator)->Register(IncrementProgram("steps_done"));
  ASSERT_TRUE(worker_fn.ok()) << worker_fn.status();
  const DatasetHandle dataset = (*coordinator)->CreatePerWorkerDataset(RangeDataset(100, 4));
  const World world = cluster.WorldOf("chief:0");
  CheckpointManager manager(world.files, **coordinator, {"/checkpoints", /*max_to_keep=*/2});
  for (int64_t epoch = 0; epoch < 3; ++epoch) {
    const IteratorHandle iterator = (*coordinator)->MakeIterator(dataset);  // resets its state
    for (int step = 0; step < 5; ++step) {
      ScheduleOptions options;
      options.input = iterator;
      ASSERT_TRUE((*coordinator)->Schedule(*worker_fn, options).ok());
    }
    ASSERT_TRUE((*coordinator)->Join().ok());
    const auto prefix = manager.Save({(epoch + 1) * 5, epoch + 1});
    ASSERT_TRUE(prefix.ok()) << prefix.status();
  }
  EXPECT_EQ(*(*coordinator)->Read(*steps_done)->data<float>(), 15.0f);
  const auto state = ReadCheckpointState(world.files, "/checkpoints");
  ASSERT_TRUE(state.ok());
  EXPECT_THAT(state->all, ElementsAre("ckpt-10", "ckpt-15"));
}

// "With Model.fit": a data set, a model made in scope, compile, callbacks that save, fit with
// epochs and steps_per_epoch.
TEST(SeedSnippets, ModelFit) {
  SimCluster cluster(6, 2, 3);
  const auto coordinator = cluster.Connect();
  ASSERT_TRUE(coordinator.ok()) << coordinator.status();
  const auto job = ParseJob(R"({
    "model": {"class_name": "Sequential", "config": {"layers": [
        {"class_name": "Dense", "config": {"units": 16, "activation": "relu"}},
        {"class_name": "Dense", "config": {"units": 10, "activation": "softmax"}}]}},
    "compile": {"optimizer": "rmsprop", "loss": "sparse_categorical_crossentropy",
                "metrics": ["accuracy"], "steps_per_execution": 1},
    "data": {"train": {"class_name": "SyntheticDigits", "config": {"count": 96}},
             "pipeline": [{"class_name": "Flatten"},
                          {"class_name": "Rescaling", "config": {"scale": 0.0039}}]},
    "fit": {"epochs": 2, "steps_per_epoch": 5, "batch_size": 32},
    "checkpoint": {"directory": "/callbacks", "every_epochs": 1}})",
                            "job", {});
  ASSERT_TRUE(job.ok()) << job.status();
  const World world = cluster.WorldOf("chief:0");
  Trainer fit(world, cluster.waiter(), **coordinator, *job,
              *FindDataSources(world, cluster.waiter(), job->data, {}, job->seed));
  const auto history = fit.Run();
  ASSERT_TRUE(history.ok()) << history.status();
  EXPECT_EQ(history->epochs, 2);
  EXPECT_EQ(history->steps, 10) << "steps_per_epoch, not the three batches of the data";
  EXPECT_EQ(history->examples, 320);
  EXPECT_LT(*history->train_loss, 2.303) << "better than guessing one of ten";
  EXPECT_EQ(history->train_metrics.at(0).first, "accuracy");
  const auto state = ReadCheckpointState(world.files, "/callbacks");
  ASSERT_TRUE(state.ok());
  EXPECT_THAT(state->all, ElementsAre("ckpt-5", "ckpt-10"));
}

// "tf.distribute.Server(cluster_resolver.cluster_spec(), job_name=cluster_resolver.task_type, …)"
// on every worker and parameter server, and "server.join()".
TEST(SeedSnippets, ServersOfWorkersAndParameterServers) {
  SimCluster nobody(7, 0, 0);
  const auto resolver_of = [](const char* type) {
    const Environment environment = [type](const std::string&) -> std::optional<std::string> {
      return absl::StrCat(R"({"cluster": {"ps": ["ps:2222"], "worker": ["worker:2222"]},
                              "task": {"type": ")",
                          type, R"(", "index": 0}})");
    };
    return *TfConfigClusterResolver(environment);
  };
  const ClusterResolver of_ps = resolver_of("ps");
  const ClusterResolver of_worker = resolver_of("worker");
  int joined = 0;
  PsTask::Options ps_options;
  ps_options.task = {*RoleFromName(*of_ps.task_type()), *of_ps.task_id()};
  ps_options.listen_address = *of_ps.cluster_spec().Address(ps_options.task);
  ps_options.incarnation = 1;
  ps_options.on_shutdown = [&joined] { ++joined; };
  PsTask ps(nobody.WorldOf("ps:0"), ps_options);
  ASSERT_TRUE(ps.Start().ok());
  WorkerTask::Options worker_options;
  worker_options.task = {*RoleFromName(*of_worker.task_type()), *of_worker.task_id()};
  worker_options.listen_address = *of_worker.cluster_spec().Address(worker_options.task);
  worker_options.incarnation = 2;
  worker_options.on_shutdown = [&joined] { ++joined; };
  WorkerTask worker(nobody.WorldOf("worker:0"), worker_options);
  ASSERT_TRUE(worker.Start().ok());

  ClusterCoordinator::Options options;
  options.cluster = of_worker.cluster_spec();
  const auto coordinator =
      ClusterCoordinator::Connect(nobody.WorldOf("chief:0"), nobody.waiter(), options);
  ASSERT_TRUE(coordinator.ok()) << coordinator.status();
  const auto counter =
      (*coordinator)->Scope(AssignAdd()).CreateVariable(FloatVariable("counter", Shape{}));
  ASSERT_TRUE(counter.ok()) << counter.status();
  const auto step = (*coordinator)->Register(IncrementProgram("counter"));
  ASSERT_TRUE((*coordinator)->Schedule(*step, {}).ok());
  ASSERT_TRUE((*coordinator)->Join().ok());
  EXPECT_EQ(*(*coordinator)->Read(*counter)->data<float>(), 1.0f);
  EXPECT_EQ(joined, 0) << "the servers stay until they are told to end";
  EXPECT_TRUE((*coordinator)->Leave(Farewell::kShutDown).ok());
  EXPECT_EQ(joined, 2);
}

// "In the following example TF_CONFIG is set for the task designated as ps, index 1".
TEST(SeedSnippets, ClusterSetupFromTfConfig) {
  const Environment environment = [](const std::string& name) -> std::optional<std::string> {
    if (name != "TF_CONFIG") return std::nullopt;
    return R"({"cluster": {"chief": ["chief.example.com:2222"],
                           "ps": ["ps0.example.com:2222", "ps1.example.com:2222"],
                           "worker": ["worker0.example.com:2222", "worker1.example.com:2222",
                                      "worker2.example.com:2222"]},
               "task": {"type": "ps", "index": 1}})";
  };
  const auto resolver = TfConfigClusterResolver(environment);
  ASSERT_TRUE(resolver.ok()) << resolver.status();
  EXPECT_EQ(resolver->task_type(), "ps");
  EXPECT_EQ(resolver->task_id(), 1);
  EXPECT_EQ(resolver->cluster_spec().NumTasks(Role::kWorker), 3);
  EXPECT_EQ(*resolver->cluster_spec().Address({Role::kPs, 1}), "ps1.example.com:2222");
}

// "let the binary branch into different roles at the beginning of the program".
TEST(SeedSnippets, BranchOnTheTaskType) {
  const auto role_of = [](const char* type) {
    const Environment environment = [type](const std::string&) -> std::optional<std::string> {
      return absl::StrCat(R"({"cluster": {"chief": ["c:1"], "ps": ["p:1"], "worker": ["w:1"]},
                              "task": {"type": ")",
                          type, R"(", "index": 0}})");
    };
    return *TfConfigClusterResolver(environment)->task_type();
  };
  EXPECT_EQ(role_of("chief"), "chief");
  EXPECT_EQ(role_of("worker"), "worker");
  EXPECT_EQ(role_of("ps"), "ps");
}

// "os.environ['TF_CONFIG'] = json.dumps({... 'task': {'type': 'worker', 'index': 0}})".
TEST(SeedSnippets, ResolverOfAWorkerTask) {
  const Environment environment = [](const std::string&) -> std::optional<std::string> {
    return R"({"cluster": {"worker": ["localhost:12345", "localhost:23456"],
                           "ps": ["localhost:34567"]},
               "task": {"type": "worker", "index": 0}})";
  };
  const auto resolver = TfConfigClusterResolver(environment);
  ASSERT_TRUE(resolver.ok());
  EXPECT_EQ(resolver->task_type(), "worker");
  EXPECT_EQ(resolver->task_id(), 0);
}

// "servers started in advance": ps and workers run before the coordinator, which is in no spec.
TEST(SeedSnippets, ServersThatWereStartedBefore) {
  SimCluster cluster(2, 1, 1);
  cluster.sim().RunFor(absl::Seconds(30));
  const auto coordinator = cluster.Connect();
  EXPECT_TRUE(coordinator.ok()) << coordinator.status();
}

// "v2 through v5 are created in scope and are distributed on parameter servers".
TEST(SeedSnippets, VariableCreationWithStrategyScope) {
  SimCluster cluster(3, /*ps=*/3, /*workers=*/1);
  const auto coordinator = cluster.Connect();
  ASSERT_TRUE(coordinator.ok()) << coordinator.status();
  const Variable v1 = Variable::Local("v1", Tensor::Scalar(0.0f));
  VariableScope scope = (*coordinator)->Scope(Sgd());
  const auto v2 = scope.CreateVariable(FloatVariable("v2", Shape{}, 1));
  const auto v3 = scope.CreateVariable(FloatVariable("v3", Shape{}, 2));
  const auto v4 = scope.CreateVariable(FloatVariable("v4", Shape{}, 3));
  const auto v5 = scope.CreateVariable(FloatVariable("v5", Shape{}, 4));
  ASSERT_TRUE(v2.ok() && v3.ok() && v4.ok() && v5.ok());
  EXPECT_EQ(v1.device(), "/job:chief/replica:0/task:0/device:CPU:0");
  EXPECT_EQ(v2->device(), "/job:ps/replica:0/task:0/device:CPU:0");
  EXPECT_EQ(v3->device(), "/job:ps/replica:0/task:1/device:CPU:0");
  EXPECT_EQ(v4->device(), "/job:ps/replica:0/task:2/device:CPU:0");
  EXPECT_EQ(v5->device(), "/job:ps/replica:0/task:0/device:CPU:0");
  EXPECT_EQ(*(*coordinator)->Read(*v5)->data<float>(), 4.0f);
  EXPECT_EQ(*(*coordinator)->Read(v1)->data<float>(), 0.0f);
}

// "Partition the embedding layer into 2 shards".
TEST(SeedSnippets, VariablePartitioning) {
  SimCluster cluster(4, /*ps=*/2, /*workers=*/1);
  ClusterCoordinator::Options options;
  MinSizePartitionerSpec min_size;
  min_size.min_shard_bytes = 256 << 10;
  min_size.max_shards = 2;
  auto partitioner = MakePartitioner(min_size);
  ASSERT_TRUE(partitioner.ok());
  options.partitioner = *std::move(partitioner);
  const auto coordinator = cluster.Connect(std::move(options));
  ASSERT_TRUE(coordinator.ok()) << coordinator.status();
  VariableScope scope = (*coordinator)->Scope(Sgd());
  const auto embedding = scope.CreateVariable(FloatVariable("embedding", Shape{1024, 1024}));
  ASSERT_TRUE(embedding.ok()) << embedding.status();
  ASSERT_EQ(embedding->variables().size(), 2u);
  EXPECT_EQ(embedding->variables()[0].shape, (Shape{512, 1024}));
  EXPECT_EQ(embedding->variables()[1].shape, (Shape{512, 1024}));
  EXPECT_EQ(embedding->variables()[0].name, "embedding/part_0");
  // "Variables created under strategy.extended.colocate_vars_with will not be partitioned."
  const auto small = scope.CreateVariable(FloatVariable("small", Shape{4, 4}));
  ASSERT_TRUE(small.ok());
  const auto beside =
      scope.ColocateVarsWith(*small).CreateVariable(FloatVariable("beside", Shape{1024, 1024}));
  ASSERT_TRUE(beside.ok()) << beside.status();
  EXPECT_EQ(beside->variables().size(), 1u);
  EXPECT_EQ(beside->device(), small->device());
}

// "a variable whose first dimension is 13 has 13 ids, and they are split across 5 shards".
TEST(SeedSnippets, DivPartitionOfThirteenIds) {
  std::vector<std::vector<int64_t>> shards;
  for (const RowRange& range : DivRows(13, 5)) {
    std::vector<int64_t>& ids = shards.emplace_back(static_cast<size_t>(range.count));
    std::iota(ids.begin(), ids.end(), range.begin);
  }
  EXPECT_THAT(shards, ElementsAre(ElementsAre(0, 1, 2), ElementsAre(3, 4, 5), ElementsAre(6, 7, 8),
                                  ElementsAre(9, 10), ElementsAre(11, 12)));
}

// "return dataset.shuffle(buffer_size=...).repeat().batch(batch_size=...)" through
// create_per_worker_dataset.
TEST(SeedSnippets, DatasetPreparation) {
  SimCluster cluster(5, 1, 2);
  const auto coordinator = cluster.Connect();
  ASSERT_TRUE(coordinator.ok()) << coordinator.status();
  proto::DatasetSpec spec;
  spec.mutable_source()->mutable_range()->set_end(10);
  spec.add_transforms()->mutable_shuffle()->set_buffer_size(10);
  spec.add_transforms()->set_repeat(-1);
  spec.add_transforms()->mutable_batch()->set_size(5);
  const DatasetHandle dataset = (*coordinator)->CreatePerWorkerDataset(spec);
  const auto described = (*coordinator)->DescribeDataset(dataset);
  ASSERT_TRUE(described.ok()) << described.status();
  EXPECT_EQ(described->cardinality(), -1);
  EXPECT_NE(described->content(), 0u) << "what tells other data of the same length";
  EXPECT_EQ(described->element_spec().components(0).dtype(), static_cast<int>(DType::kInt64));
  const auto batch_fn = (*coordinator)->Register(BatchProgram());
  ASSERT_TRUE(batch_fn.ok());
  const IteratorHandle iterator = (*coordinator)->MakeIterator(dataset);
  std::vector<RemoteValue> batches;
  for (int i = 0; i < 6; ++i) {
    ScheduleOptions options;
    options.input = iterator;
    auto batch = (*coordinator)->Schedule(*batch_fn, options);
    ASSERT_TRUE(batch.ok()) << batch.status();
    batches.push_back(*std::move(batch));
  }
  ASSERT_TRUE((*coordinator)->Join().ok());
  for (const RemoteValue& batch : batches) {
    const auto fetched = (*coordinator)->Fetch(batch);
    ASSERT_TRUE(fetched.ok()) << fetched.status();
    EXPECT_EQ(fetched->at(0).shape(), (Shape{5}));
  }
}

}  // namespace
}  // namespace cohort

// A custom training loop with Cohort's C++ API: linear regression y = x w + b on a cluster of 2 ps and 2 workers that
// it starts itself. Usage: custom_loop DIRECTORY_OF_BINARIES WORKING_DIRECTORY

#include <cstdio>
#include <string>

#include "common/program/bind.h"
#include "common/program/gradients.h"
#include "common/program/graph_builder.h"
#include "common/wire/real_world.h"
#include "coordinator/api/cluster_coordinator.h"
#include "coordinator/cluster/local_cluster.h"
#include "coordinator/train/checkpoint_manager.h"

using namespace cohort;

// Mean squared error of x w + b against y, with the gradients of w and b.
absl::StatusOr<proto::Program> TrainStep() {
  GraphBuilder graph("linear");
  const std::string x = graph.Input("x", DType::kFloat32, {-1, 2});
  const std::string y = graph.Input("y", DType::kFloat32, {-1, 1});
  const std::string w = graph.Input("w", DType::kFloat32, {2, 1});
  const std::string b = graph.Input("b", DType::kFloat32, {1});
  const std::string error = graph.Op("Sub", {graph.Op("Add", {graph.Op("MatMul", {x, w}), b}), y});
  const std::string loss =
      graph.Op("ReduceMean", {graph.Op("Mul", {error, error})}, {IntAttribute("keepdims", 0)});
  graph.Output(loss);
  ASSIGN_OR_RETURN(const onnx::ModelProto forward, graph.Finish());
  ASSIGN_OR_RETURN(const GradientGraph step, AddGradients(forward, loss, {w, b}));
  return BindProgram("train_step", step.model,
                     {{{x, FromBatch(0)}, {y, FromBatch(1)}, {w, FromVariable("w")}, {b, FromVariable("b")}},
                      {{loss, ToFetch()}, {step.gradients[0], ToPush("w")}, {step.gradients[1], ToPush("b")}}});
}

absl::Status Train(World world, Waiter& waiter, LocalCluster& tasks, const std::string& directory) {
  ClusterCoordinator::Options options;
  options.cluster = tasks.spec();
  ASSIGN_OR_RETURN(const auto coordinator, ClusterCoordinator::Connect(world, waiter, options));
  proto::UpdateRule sgd;
  sgd.set_op("sgd");
  VariableScope scope = coordinator->Scope(sgd);  // what is made inside goes to the ps
  proto::Initializer zeros;
  zeros.set_op("zeros");
  ASSIGN_OR_RETURN(const Variable w, scope.CreateVariable({"w", DType::kFloat32, Shape{2, 1}, zeros}));
  ASSIGN_OR_RETURN(const Variable b, scope.CreateVariable({"b", DType::kFloat32, Shape{1}, zeros}));
  ASSIGN_OR_RETURN(const proto::Program program, TrainStep());
  ASSIGN_OR_RETURN(const ProgramHandle step, coordinator->Register(program));

  // Four examples of y = 2 x0 - 3 x1 + 1, shuffled, repeated and batched on every worker.
  proto::DatasetSpec data;
  const auto add = [&](std::vector<int64_t> dims, const std::vector<float>& values) {
    proto::InlineTensor* tensor = data.mutable_source()->mutable_inline_tensors()->add_tensors();
    tensor->set_dtype(static_cast<int>(DType::kFloat32));
    tensor->mutable_dims()->Add(dims.begin(), dims.end());
    tensor->set_data(values.data(), values.size() * sizeof(float));
  };
  add({4, 2}, {0, 0, 1, 0, 0, 1, 1, 1});
  add({4, 1}, {1, 3, -2, 0});
  data.add_transforms()->mutable_shuffle()->set_buffer_size(4);
  data.add_transforms()->set_repeat(-1);
  data.add_transforms()->mutable_batch()->set_size(4);
  const IteratorHandle iterator = coordinator->MakeIterator(coordinator->CreatePerWorkerDataset(data));

  RemoteValue loss;
  for (int i = 0; i < 500; ++i) {
    ASSIGN_OR_RETURN(loss, coordinator->Schedule(step, {.arguments = {}, .input = iterator, .learning_rate = 0.1}));
  }
  RETURN_IF_ERROR(coordinator->Join());
  ASSIGN_OR_RETURN(const FetchedTensors fetched, coordinator->Fetch(loss));
  ASSIGN_OR_RETURN(const Tensor w_value, coordinator->Read(w));
  CheckpointManager checkpoints(world.files, *coordinator, {directory + "/checkpoints", 2});
  ASSIGN_OR_RETURN(const std::string prefix, checkpoints.Save({500, 1}));
  std::printf("loss %.6f w0 %.3f w1 %.3f saved %s\n", *fetched[0].data<float>(), w_value.data<float>()[0],
              w_value.data<float>()[1], prefix.c_str());
  return absl::OkStatus();
}

int main(int argc, char** argv) {
  RealWorld world(2);
  BlockingWaiter waiter;
  auto tasks = LocalCluster::Start(world.world(), waiter, {2, 2, argv[1], argv[2]});
  absl::Status status = tasks.ok() ? Train(world.world(), waiter, **tasks, argv[2]) : tasks.status();
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  if (tasks.ok()) (*tasks)->Stop(waiter, absl::Seconds(10));
  return status.ok() ? 0 : 1;
}

// A custom training loop: linear regression y = x w + b on 2 ps and 2 workers of its own.
// Usage: custom_loop [WORKING_DIRECTORY [DIRECTORY_OF_DAEMONS]]
#include <cstdio>

#include "coordinator/api/cohort.h"
using namespace cohort;

// Mean squared error of x w + b against y, and the gradients of w and b.
absl::StatusOr<proto::Program> TrainStep() {
  GraphBuilder graph("linear");
  const std::string x = graph.Input("x", DType::kFloat32, {-1, 2});
  const std::string y = graph.Input("y", DType::kFloat32, {-1, 1});
  const std::string w = graph.Input("w", DType::kFloat32, {2, 1});
  const std::string b = graph.Input("b", DType::kFloat32, {1});
  const std::string output = graph.Op("Add", {graph.Op("MatMul", {x, w}), b});
  const std::string error = graph.Op("Sub", {output, y});
  const std::string loss =
      graph.Op("ReduceMean", {graph.Op("Mul", {error, error})}, {IntAttribute("keepdims", 0)});
  graph.Output(loss);
  ASSIGN_OR_RETURN(const onnx::ModelProto forward, graph.Finish());
  ASSIGN_OR_RETURN(const GradientGraph step, AddGradients(forward, loss, {w, b}));
  Bindings bindings;
  bindings.inputs = {
      {x, FromBatch(0)}, {y, FromBatch(1)}, {w, FromVariable("w")}, {b, FromVariable("b")}};
  bindings.outputs = {
      {loss, ToFetch()}, {step.gradients[0], ToPush("w")}, {step.gradients[1], ToPush("b")}};
  return BindProgram("train_step", step.model, bindings);
}

absl::Status Train(Runtime& runtime, ClusterSpec cluster, const std::string& directory) {
  ClusterCoordinator::Options options;
  options.cluster = cluster;
  ASSIGN_OR_RETURN(const auto coordinator,
                   ClusterCoordinator::Connect(runtime.world(), runtime.waiter(), options));
  proto::UpdateRule sgd;
  sgd.set_op("sgd");
  proto::Initializer zeros;
  zeros.set_op("zeros");
  VariableScope scope = coordinator->Scope(sgd);  // what is made inside goes to the ps
  ASSIGN_OR_RETURN(const Variable w, scope.CreateVariable({"w", DType::kFloat32, {2, 1}, zeros}));
  ASSIGN_OR_RETURN(const Variable b, scope.CreateVariable({"b", DType::kFloat32, {1}, zeros}));
  ASSIGN_OR_RETURN(const proto::Program program, TrainStep());
  ASSIGN_OR_RETURN(const ProgramHandle step, coordinator->Register(program));
  // Four examples of y = 2 x0 - 3 x1 + 1; every worker has an iterator of its own.
  const Tensor x = Tensor::FromVector<float>({0, 0, 1, 0, 0, 1, 1, 1}, {4, 2});
  const Tensor y = Tensor::FromVector<float>({1, 3, -2, 0}, {4, 1});
  const DatasetHandle data = coordinator->CreatePerWorkerDataset(
      InputPipeline::FromTensorSlices({x, y}).Shuffle(4).Repeat().Batch(4).spec());
  const IteratorHandle iterator = coordinator->MakeIterator(data);
  RemoteValue loss;
  for (int i = 0; i < 500; ++i) {
    ASSIGN_OR_RETURN(loss, coordinator->Schedule(step, {{}, iterator, /*learning_rate=*/0.1}));
  }
  RETURN_IF_ERROR(coordinator->Join());
  ASSIGN_OR_RETURN(const FetchedTensors fetched, coordinator->Fetch(loss));
  ASSIGN_OR_RETURN(const Tensor w_now, coordinator->Read(w));
  CheckpointManager checkpoints(runtime.world().files, *coordinator,
                                {directory + "/checkpoints", 2});
  ASSIGN_OR_RETURN(const std::string prefix, checkpoints.Save({500, 1}));
  std::printf("loss %.6f w0 %.3f w1 %.3f saved %s\n", *fetched[0].data<float>(),
              w_now.data<float>()[0], w_now.data<float>()[1], prefix.c_str());
  return absl::OkStatus();
}

int main(int argc, char** argv) {
  const std::string directory = argc > 1 ? argv[1] : ".";
  Runtime runtime;
  auto tasks = LocalCluster::Start(runtime.world(), runtime.waiter(),
                                   {2, 2, argc > 2 ? argv[2] : "", directory});
  absl::Status status = tasks.status();
  if (status.ok()) status = Train(runtime, (*tasks)->spec(), directory);
  if (tasks.ok()) (*tasks)->Stop(runtime.waiter(), absl::Seconds(10));
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}

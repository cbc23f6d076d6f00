// A mirrored step with an all_reduce in the replica context: 2 workers of 2 replicas each hold a
// copy of w, see a quarter of each batch, and learn the batch's mean. No parameter server.
// Usage: mirrored_step [WORKING_DIRECTORY [DIRECTORY_OF_DAEMONS]]
#include <cstdio>

#include "coordinator/api/cohort.h"
using namespace cohort;

// A replica's gradient of (w - mean of the whole batch)^2, and the mean that the replicas agree on.
absl::StatusOr<proto::Program> TrainStep() {
  GraphBuilder graph("mean");
  const std::string x = graph.Input("x", DType::kFloat32, {-1});
  const std::string w = graph.Input("w", DType::kFloat32, {});
  const std::string own = graph.Op("ReduceMean", {x}, {IntAttribute("keepdims", 0)});
  const std::string mean =
      graph.Op("AllReduce", {own}, {StringAttribute("reduction", "mean")}, "cohort");
  const std::string error = graph.Op("Sub", {w, mean});
  const std::string loss = graph.Op("Mul", {error, error});
  for (const std::string& output : {loss, mean}) graph.Output(output);
  ASSIGN_OR_RETURN(const onnx::ModelProto forward, graph.Finish());
  ASSIGN_OR_RETURN(const GradientGraph step, AddGradients(forward, loss, {w}));
  Bindings bindings;
  bindings.inputs = {{x, FromBatch(0)}, {w, FromVariable("w")}};
  bindings.outputs = {{loss, ToFetch()}, {mean, ToFetch()}, {step.gradients[0], ToPush("w")}};
  bindings.outputs[loss].set_of_replicas(proto::SUM_OF_REPLICAS);  // mean: of each replica
  ASSIGN_OR_RETURN(proto::Program program, BindProgram("train_step", step.model, bindings));
  for (const char* const device : {"cpu:0", "cpu:1"}) {
    program.mutable_replicas()->add_devices(device);  // two on each worker
  }
  program.mutable_replicas()->mutable_communication();  // all workers run a step together
  return program;
}

absl::Status Train(Runtime& runtime, ClusterSpec cluster) {
  ClusterCoordinator::Options options;
  options.cluster = cluster;
  options.homes = Role::kWorker;
  options.mirrored = true;
  ASSIGN_OR_RETURN(const auto coordinator,
                   ClusterCoordinator::Connect(runtime.world(), runtime.waiter(), options));
  proto::UpdateRule sgd;
  sgd.set_op("sgd");
  VariableSpec spec{"w", DType::kFloat32, {}, {}};
  spec.initializer.set_op("zeros");
  ASSIGN_OR_RETURN(const Variable w, coordinator->Scope(sgd).CreateVariable(spec));
  ASSIGN_OR_RETURN(const proto::Program program, TrainStep());
  ASSIGN_OR_RETURN(const ProgramHandle step, coordinator->Register(program));
  const Tensor x = Tensor::FromVector<float>({1, 2, 3, 4, 5, 6, 7, 8}, {8});
  const DatasetHandle data =
      coordinator->CreatePerWorkerDataset(InputPipeline::FromTensorSlices({x}).Batch(8).spec());
  RemoteValue last;
  for (uint64_t round = 1; round <= 100; ++round) {
    ScheduleOptions closure;
    closure.input = SplitInput{data, {}};  // all members read the same batch
    closure.learning_rate = 0.1;
    closure.gang = true;
    closure.round.number = round;
    ASSIGN_OR_RETURN(last, coordinator->Schedule(step, std::move(closure)));
  }
  RETURN_IF_ERROR(coordinator->Join());
  ASSIGN_OR_RETURN(const FetchedTensors fetched, coordinator->Fetch(last));
  ASSIGN_OR_RETURN(const Tensor value, coordinator->Read(w));
  std::printf("w %.3f, the batch's mean on each replica:", *value.data<float>());
  for (size_t i = 1; i < fetched.size(); ++i) std::printf(" %.3f", *fetched[i].data<float>());
  std::printf("\n");
  return absl::OkStatus();
}

int main(int argc, char** argv) {
  Runtime runtime;
  auto tasks = LocalCluster::Start(runtime.world(), runtime.waiter(),
                                   {0, 2, argc > 2 ? argv[2] : "", argc > 1 ? argv[1] : "."});
  absl::Status status = tasks.status();
  if (status.ok()) status = Train(runtime, (*tasks)->spec());
  if (tasks.ok()) (*tasks)->Stop(runtime.waiter(), absl::Seconds(10));
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}

// An embedding table under 64-bit keys with a step of its own: a row of 4 is learnt for each key
// whose sum is the key's rating. Rows are made when their keys are first trained.
// Usage: embedding_table [WORKING_DIRECTORY [DIRECTORY_OF_DAEMONS]]
#include <cstdio>

#include "coordinator/api/cohort.h"
using namespace cohort;

// Mean squared error of the sums of the keys' rows, and the gradient of these rows.
absl::StatusOr<proto::Program> TrainStep() {
  GraphBuilder graph("ratings");
  // The closure is given the rows that its keys name, and each key's position among them.
  const std::string key = graph.Input("key", DType::kInt64, {-1});
  const std::string rating = graph.Input("rating", DType::kFloat32, {-1});
  const std::string table = graph.Input("table", DType::kFloat32, {-1, 4}, "table:rows");
  const std::string axis = graph.Constant("axis", Tensor::FromVector<int64_t>({1}, {1}));
  const std::string sum = graph.Op("ReduceSum", {graph.Op("Gather", {table, key}), axis},
                                   {IntAttribute("keepdims", 0)});
  const std::string error = graph.Op("Sub", {sum, rating});
  const std::string loss =
      graph.Op("ReduceMean", {graph.Op("Mul", {error, error})}, {IntAttribute("keepdims", 0)});
  for (const std::string& output : {loss, sum}) graph.Output(output);
  ASSIGN_OR_RETURN(const onnx::ModelProto forward, graph.Finish());
  ASSIGN_OR_RETURN(const GradientGraph step, AddGradients(forward, loss, {table}));
  Bindings bindings;
  bindings.inputs = {{key, FromBatch(0)}, {rating, FromBatch(1)}, {table, FromVariable("table")}};
  bindings.inputs[key].set_rows_of("table");
  bindings.outputs = {{loss, ToFetch()}, {sum, ToFetch()}, {step.gradients[0], ToPush("table")}};
  return BindProgram("train_step", step.model, bindings);
}

absl::Status Train(Runtime& runtime, ClusterSpec cluster) {
  ClusterCoordinator::Options options;
  options.cluster = cluster;
  ASSIGN_OR_RETURN(const auto coordinator,
                   ClusterCoordinator::Connect(runtime.world(), runtime.waiter(), options));
  proto::UpdateRule adagrad;
  adagrad.set_op("adagrad");
  VariableSpec spec{"table", DType::kFloat32, {kKeyBuckets, 4}, {}};
  spec.initializer.set_op("zeros");
  spec.sparse = proto::LAZY;
  // Rows under keys, on every ps.
  spec.dynamic.emplace().set_row_dtype(static_cast<int32_t>(DType::kFloat32));
  RETURN_IF_ERROR(coordinator->Scope(adagrad).CreateVariable(spec).status());
  ASSIGN_OR_RETURN(const proto::Program program, TrainStep());
  ASSIGN_OR_RETURN(const ProgramHandle step, coordinator->Register(program));
  const Tensor keys = Tensor::FromVector<int64_t>({7, 1, 1LL << 40, 42}, {4});
  const Tensor ratings = Tensor::FromVector<float>({1, -2, 3, 0.5}, {4});
  const IteratorHandle iterator = coordinator->MakeIterator(coordinator->CreatePerWorkerDataset(
      InputPipeline::FromTensorSlices({keys, ratings}).Repeat().Batch(4).spec()));
  for (int i = 0; i < 400; ++i) {
    RETURN_IF_ERROR(coordinator->Schedule(step, {{}, iterator, /*learning_rate=*/0.2}).status());
  }
  RETURN_IF_ERROR(coordinator->Join());
  ASSIGN_OR_RETURN(const RemoteValue last, coordinator->Schedule(step, {{}, iterator, 0.0}));
  ASSIGN_OR_RETURN(const FetchedTensors fetched, coordinator->Fetch(last));
  for (int i = 0; i < 4; ++i) {
    std::printf("key %lld rating %.2f\n", static_cast<long long>(keys.data<int64_t>()[i]),
                fetched[1].data<float>()[i]);
  }
  return absl::OkStatus();
}

int main(int argc, char** argv) {
  Runtime runtime;
  auto tasks = LocalCluster::Start(runtime.world(), runtime.waiter(),
                                   {2, 2, argc > 2 ? argv[2] : "", argc > 1 ? argv[1] : "."});
  absl::Status status = tasks.status();
  if (status.ok()) status = Train(runtime, (*tasks)->spec());
  if (tasks.ok()) (*tasks)->Stop(runtime.waiter(), absl::Seconds(10));
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}

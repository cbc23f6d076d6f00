// Evaluation in closures: y = 2 x0 - 3 x1 is learnt on 1 ps and 2 workers, and after each epoch the
// same workers evaluate it, one closure for each batch of test data, so each example counts once.
#include <cstdio>

#include "coordinator/api/cohort.h"
using namespace cohort;

// Sum of squared errors of x w against y, with the gradient of w for training.
absl::StatusOr<ProgramHandle> Step(ClusterCoordinator& coordinator, bool training) {
  GraphBuilder graph("squares");
  const std::string x = graph.Input("x", DType::kFloat32, {-1, 2});
  const std::string y = graph.Input("y", DType::kFloat32, {-1, 1});
  const std::string w = graph.Input("w", DType::kFloat32, {2, 1});
  const std::string error = graph.Op("Sub", {graph.Op("MatMul", {x, w}), y});
  const std::string loss =
      graph.Op("ReduceSum", {graph.Op("Mul", {error, error})}, {IntAttribute("keepdims", 0)});
  graph.Output(loss);
  ASSIGN_OR_RETURN(onnx::ModelProto model, graph.Finish());
  Bindings bindings{{{x, FromBatch(0)}, {y, FromBatch(1)}, {w, FromVariable("w")}},
                    {{loss, ToFetch()}}};
  if (training) {
    ASSIGN_OR_RETURN(GradientGraph step, AddGradients(model, loss, {w}));
    bindings.outputs[step.gradients[0]] = ToPush("w");
    model = std::move(step.model);
  }
  ASSIGN_OR_RETURN(const proto::Program program, BindProgram("step", model, bindings));
  return coordinator.Register(program);
}

absl::Status Train(Runtime& runtime, ClusterSpec cluster) {
  ClusterCoordinator::Options options;
  options.cluster = cluster;
  ASSIGN_OR_RETURN(const auto coordinator,
                   ClusterCoordinator::Connect(runtime.world(), runtime.waiter(), options));
  proto::UpdateRule sgd;
  sgd.set_op("sgd");
  VariableSpec spec{"w", DType::kFloat32, {2, 1}, {}};
  spec.initializer.set_op("zeros");
  RETURN_IF_ERROR(coordinator->Scope(sgd).CreateVariable(spec).status());
  ASSIGN_OR_RETURN(const ProgramHandle train_step, Step(*coordinator, true));
  ASSIGN_OR_RETURN(const ProgramHandle eval_step, Step(*coordinator, false));
  const auto data = [&](int64_t n, std::vector<float> x, std::vector<float> y, int64_t times) {
    const auto rows = InputPipeline::FromTensorSlices(
        {Tensor::FromVector<float>(x, {n, 2}), Tensor::FromVector<float>(y, {n, 1})});
    return coordinator->CreatePerWorkerDataset(rows.Repeat(times).Batch(times > 0 ? 2 : n).spec());
  };
  const IteratorHandle iterator =
      coordinator->MakeIterator(data(3, {1, 0, 0, 1, 1, 1}, {2, -3, -1}, -1));
  const DatasetHandle test = data(5, {3, 1, 1, 2, 2, 0, 0, 2, 4, 4}, {3, -4, 4, -6, -4}, 1);
  for (int epoch = 1; epoch <= 10; ++epoch) {
    for (int i = 0; i < 20; ++i) {
      RETURN_IF_ERROR(coordinator->Schedule(train_step, {{}, iterator, 0.1}).status());
    }
    RETURN_IF_ERROR(coordinator->Join());
    std::vector<RemoteValue> parts(3);  // of three batches, on whichever workers are free
    for (int batch = 0; batch < 3; ++batch) {
      SplitInput input{test, {}};
      input.position.set_element(batch);
      ASSIGN_OR_RETURN(parts[batch], coordinator->Schedule(eval_step, {{}, input}));
    }
    float loss = 0;
    for (const RemoteValue& part : parts) {
      ASSIGN_OR_RETURN(const FetchedTensors fetched, coordinator->Fetch(part));
      loss += *fetched[0].data<float>();
    }
    std::printf("epoch %d: squared error of 5 examples %.4f\n", epoch, loss);
  }
  return absl::OkStatus();
}

int main(int argc, char** argv) {
  Runtime runtime;
  auto tasks = LocalCluster::Start(runtime.world(), runtime.waiter(),
                                   {1, 2, argc > 2 ? argv[2] : "", argc > 1 ? argv[1] : "."});
  absl::Status status = tasks.status();
  if (status.ok()) status = Train(runtime, (*tasks)->spec());
  if (tasks.ok()) (*tasks)->Stop(runtime.waiter(), absl::Seconds(10));
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}

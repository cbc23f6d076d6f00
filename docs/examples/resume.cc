// Resume after kill -9: counts to 20000 on 1 ps and 2 workers. Kill any process of it, this one
// too, and start it again in the same directory: it goes on, and no increment is lost or doubled.
#include <algorithm>
// Usage: resume [WORKING_DIRECTORY [DIRECTORY_OF_DAEMONS]]
#include <cstdio>

#include "coordinator/api/cohort.h"
using namespace cohort;

constexpr uint64_t kIncrements = 20000;

absl::StatusOr<proto::Program> Increment() {
  GraphBuilder graph("increment");
  const std::string one = graph.Op("Identity", {graph.Constant("one", Tensor::Scalar(1.0f))});
  graph.Output(one);
  ASSIGN_OR_RETURN(const onnx::ModelProto model, graph.Finish());
  return BindProgram("increment", model, {{}, {{one, ToPush("counter")}}});
}

absl::Status Count(Runtime& runtime, const std::shared_ptr<LocalCluster>& tasks,
                   const std::string& directory) {
  ClusterCoordinator::Options options;
  options.cluster = tasks->spec();
  options.address = [tasks](TaskId task) { return tasks->Address(task); };  // restarted ones move
  options.job = "count";
  options.settings = 1;  // with the name: the same job takes over from itself
  options.recovery_directory = directory + "/recovery";
  options.recovery_interval = absl::Milliseconds(50);
  ASSIGN_OR_RETURN(const auto coordinator,
                   ClusterCoordinator::Connect(runtime.world(), runtime.waiter(), options));
  proto::UpdateRule rule;
  rule.set_op("assign_add");
  VariableSpec spec{"counter", DType::kFloat32, {}, {}};
  spec.initializer.set_op("zeros");
  ASSIGN_OR_RETURN(const Variable counter, coordinator->Scope(rule).CreateVariable(spec));
  ASSIGN_OR_RETURN(const proto::Program program, Increment());
  ASSIGN_OR_RETURN(const ProgramHandle increment, coordinator->Register(program));
  // Closure i is increment i. What an earlier process left open runs again under its id.
  ASSIGN_OR_RETURN(const auto left, coordinator->ResumeState());
  std::printf("begin at %llu\n", static_cast<unsigned long long>(left ? left->next_id() : 1));
  for (uint64_t id = coordinator->NextId().value; id <= kIncrements; ++id) {
    const bool is_done = left.has_value() && id < left->next_id() &&
                         !std::binary_search(left->open().begin(), left->open().end(), id);
    if (is_done) continue;
    if (coordinator->NextId().value < id) coordinator->SkipTo(ClosureId{id});
    RETURN_IF_ERROR(coordinator->Schedule(increment, {}).status());
    if (id % 1000 == 0) std::printf("at %llu\n", static_cast<unsigned long long>(id));
    std::fflush(stdout);
  }
  RETURN_IF_ERROR(coordinator->Join());
  ASSIGN_OR_RETURN(const Tensor value, coordinator->Read(counter));
  std::printf("counter %.0f\n", *value.data<float>());
  return coordinator->ForgetState();  // done: the next start begins anew
}

int main(int argc, char** argv) {
  const std::string directory = argc > 1 ? argv[1] : ".";
  Runtime runtime;
  auto tasks = LocalCluster::Start(runtime.world(), runtime.waiter(),
                                   {1, 2, argc > 2 ? argv[2] : "", directory});
  absl::Status status = tasks.status();
  if (status.ok()) status = Count(runtime, *tasks, directory);
  if (tasks.ok()) (*tasks)->Stop(runtime.waiter(), absl::Seconds(10));
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}

#include "tests/unit/worker/run_together.h"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "common/program/cohort_ops.h"
#include "common/program/graph_builder.h"
#include "common/program/program.h"
#include "common/runtime/kernels/reference/register.h"
#include "common/runtime/run/program_runner.h"
#include "gtest/gtest.h"
#include "tests/support/communicators/inprocess_communicator.h"
#include "tests/support/world/sim_world.h"
#include "worker/ops/replica_exchange.h"
#include "worker/program/replica_meeting.h"

namespace cohort {

namespace {

// Lives on the thread of the test.
class Runs {
 public:
  Runs(const onnx::ModelProto& model, uint64_t seed) : world_(seed) {
    KernelRegistry kernels;
    RegisterReferenceKernels(kernels);
    RegisterExchangeKernels(kernels);
    auto compiled = CompileProgram(model, kernels);
    EXPECT_TRUE(compiled.ok()) << compiled.status();
    compiled_ = compiled.value_or(nullptr);
  }
  SimWorld& world() { return world_; }

  ReplicaMeeting& AddMeeting(const std::vector<double>& shares,
                             std::optional<ReplicaMeeting::OtherWorkers> others) {
    return *meetings_.emplace_back(std::make_unique<ReplicaMeeting>(
        shares, std::make_shared<OutputPool>(), std::move(others)));
  }
  // Of outputs that are there until Finish.
  void Start(ReplicaMeeting& meeting, size_t seat, const std::vector<Tensor>& inputs,
             absl::StatusOr<std::vector<Tensor>>& outputs) {
    ProgramRunner& runner = *runners_.emplace_back(std::make_unique<ProgramRunner>(compiled_));
    RunContext context;
    context.exchange = &meeting.Seat(seat);
    runner.Start(
        inputs, context, [this](Task task) { world_.Run(std::move(task)); },
        [&outputs, &meeting, seat](absl::StatusOr<std::vector<Tensor>> result) {
          if (!result.ok()) meeting.Leave(seat, result.status());
          outputs = std::move(result);
        });
  }
  void Finish() { world_.RunFor(absl::Hours(1)); }

 private:
  SimWorld world_;
  std::shared_ptr<const CompiledProgram> compiled_;
  std::vector<std::unique_ptr<ReplicaMeeting>> meetings_;
  std::vector<std::unique_ptr<ProgramRunner>> runners_;
};

}  // namespace

ReplicaOutputs RunTogether(const onnx::ModelProto& model,
                           const std::vector<std::vector<Tensor>>& inputs,
                           const std::vector<double>& shares) {
  ReplicaOutputs outputs(inputs.size(), absl::UnknownError("not done"));
  Runs runs(model, 1);
  ReplicaMeeting& meeting = runs.AddMeeting(shares, std::nullopt);
  for (size_t i = 0; i < inputs.size(); ++i) runs.Start(meeting, i, inputs[i], outputs[i]);
  runs.Finish();
  return outputs;
}

ReplicaOutputs RunOnWorkers(const onnx::ModelProto& model,
                            const std::vector<std::vector<Tensor>>& inputs,
                            const std::vector<double>& shares, absl::Span<const size_t> workers,
                            uint64_t seed) {
  const auto idle = static_cast<size_t>(std::count(workers.begin(), workers.end(), 0u));
  ReplicaOutputs outputs(inputs.size() + idle, absl::UnknownError("not done"));
  Runs runs(model, seed);
  SimWorld& world = runs.world();
  InProcessGroup group(world, world, {{"workers", 1}, static_cast<int>(workers.size()), 3});
  size_t next = 0;
  size_t next_idle = inputs.size();
  for (size_t rank = 0; rank < workers.size(); ++rank) {
    ReplicaMeeting::OtherWorkers others;
    others.workers.group =
        std::make_shared<GangGroup>(group.CommunicatorOf(static_cast<int>(rank)), world);
    others.workers.neutral = workers[rank] == 0;
    others.replicas = static_cast<int64_t>(inputs.size());
    others.post = [&world](Task task) { world.Run(std::move(task)); };
    const size_t first = workers[rank] == 0 ? inputs.size() - 1 : next;
    const size_t count = std::max<size_t>(workers[rank], 1);
    const auto begin = shares.begin() + static_cast<std::ptrdiff_t>(first);
    ReplicaMeeting& meeting = runs.AddMeeting(
        std::vector<double>(begin, begin + static_cast<std::ptrdiff_t>(count)), std::move(others));
    for (size_t seat = 0; seat < count; ++seat) {
      const size_t place = workers[rank] == 0 ? next_idle++ : next++;
      runs.Start(meeting, seat, inputs[first + seat], outputs[place]);
    }
  }
  EXPECT_EQ(next, inputs.size());
  runs.Finish();
  return outputs;
}

absl::StatusOr<GradientGraph> GatherGraph(int64_t axis) {
  GraphBuilder builder("gather");
  const std::string x = builder.Input("x", DType::kFloat32, {-1, -1});
  const std::string dy = builder.Input("dy", DType::kFloat32, {-1, -1});
  const std::string gathered =
      builder.Op("AllGather", {x}, {IntAttribute("axis", axis)}, kCohortDomain);
  const std::string loss =
      builder.Op("ReduceSum", {builder.Op("Mul", {gathered, dy})}, {IntAttribute("keepdims", 0)});
  for (const std::string& output : {gathered, loss}) builder.Output(output);
  absl::StatusOr<onnx::ModelProto> model = builder.Finish();
  if (!model.ok()) return model.status();
  // No size of x is one of dy.
  int symbol = 0;
  for (onnx::ValueInfoProto& input : *model->mutable_graph()->mutable_input()) {
    auto* const shape = input.mutable_type()->mutable_tensor_type()->mutable_shape();
    for (auto& dim : *shape->mutable_dim()) dim.set_dim_param(absl::StrCat("size", ++symbol));
  }
  return AddGradients(*model, loss, {x});
}

}  // namespace cohort

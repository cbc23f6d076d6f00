#pragma once

// Replicas of a graph that take turns on one thread and meet.

#include <deque>
#include <memory>
#include <vector>

#include "common/runtime/program_runner.h"
#include "gtest/gtest.h"
#include "worker/ops/exchange_kernels.h"
#include "worker/replica_meeting.h"

namespace cohort {

using ReplicaOutputs = std::vector<absl::StatusOr<std::vector<Tensor>>>;

// Replica i with inputs[i] and shares[i] (replica_exchange.h), on the reference kernels.
inline ReplicaOutputs RunTogether(const onnx::ModelProto& model,
                                  const std::vector<std::vector<Tensor>>& inputs,
                                  const std::vector<double>& shares) {
  KernelRegistry kernels;
  RegisterReferenceKernels(kernels);
  RegisterExchangeKernels(kernels);
  ReplicaOutputs outputs(inputs.size(), absl::UnknownError("not done"));
  const auto compiled = CompileProgram(model, kernels);
  EXPECT_TRUE(compiled.ok()) << compiled.status();
  if (!compiled.ok()) return outputs;
  ReplicaMeeting meeting(shares, std::make_shared<OutputPool>());
  std::vector<std::unique_ptr<ProgramRunner>> runners;
  std::deque<Task> posted;
  for (size_t replica = 0; replica < inputs.size(); ++replica) {
    runners.push_back(std::make_unique<ProgramRunner>(*compiled));
    RunContext context;
    context.exchange = &meeting.Seat(replica);
    runners.back()->Start(
        inputs[replica], context, [&posted](Task task) { posted.push_back(std::move(task)); },
        [&outputs, &meeting, replica](auto result) {
          if (!result.ok()) meeting.Leave(replica, result.status());
          outputs[replica] = std::move(result);
        });
  }
  for (; !posted.empty(); posted.pop_front()) posted.front()();
  return outputs;
}

}  // namespace cohort

#pragma once

// Runs the pure part of a program: an ONNX graph from input tensors to output tensors. Nodes run on
// the processor, or on a device if the device has kernels for them. Inputs and outputs are in host
// memory, except outputs that are to be left on the device (DeviceTarget). The caller handles
// variables, batches and pushes: it feeds inputs and takes outputs in the graph's order.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/base/executor.h"
#include "common/runtime/kernel/kernel_registry.h"
#include "common/runtime/kernel/run_context.h"
#include "common/tensor/tensor.h"
#include "onnx/onnx_pb.h"

namespace cohort {

// A program compiled for a device: nodes bound to kernels in execution order, and weights unpacked.
// Immutable; thread-safe. A CompiledProgram is shared by the runners that run it.
class CompiledProgram;

// The target of a compilation for a device: the device's kernels, and the stream of the runner.
struct DeviceTarget {
  const KernelRegistry& kernels;
  // The stream to which the runner posts work, shared with the runner.
  std::shared_ptr<CudaStream> stream;
  // One flag per output of the graph, or empty. If the flag is set and a node on the device
  // computes the output, the run returns the output as a tensor of the device (IsOnDevice), which
  // no posted work writes any more.
  std::vector<bool> left_there = {};
};

// Compiles a program. Types are taken from the graph's inputs, weights, outputs and value_info; the
// kernels check values of undeclared type when they run. `registry` has the processor's kernels;
// `device` may be null. Errors: INVALID_ARGUMENT that lists every node whose operator, type or
// opset has no kernel; errors of the stream, to which weights are copied.
absl::StatusOr<std::shared_ptr<const CompiledProgram>> CompileProgram(
    const onnx::ModelProto& model, const KernelRegistry& registry,
    const DeviceTarget* device = nullptr);

struct MemoryStats {
  // Number of buffers made for intermediate values since the runner's construction.
  int64_t allocations = 0;
  size_t arena_bytes = 0;
};

// Runs one program, one run at a time. All intermediate values share one arena; the arena is
// planned for the input shapes of one run, and planned again after a run with other shapes. Outputs
// have buffers of their own. Thread-compatible.
class ProgramRunner {
 public:
  using Done = absl::AnyInvocable<void(absl::StatusOr<std::vector<Tensor>>)>;
  // A function that runs a task later, on the strand (or other executor) on which the caller uses
  // this runner.
  using Post = std::function<void(Task)>;

  // Makes a runner. `allocate_outputs` makes the buffers of outputs; a buffer is reused once its
  // readers have dropped it. `stream` is the stream of the DeviceTarget, or null without one.
  explicit ProgramRunner(std::shared_ptr<const CompiledProgram> program,
                         AllocateBuffer allocate_outputs = Buffer::Allocate,
                         std::shared_ptr<CudaStream> stream = nullptr);
  ~ProgramRunner();

  // Runs the program and returns its outputs. No node may wait for other replicas:
  // RunContext.exchange is null. Errors: INVALID_ARGUMENT for a wrong number, type or shape of
  // inputs; a node's error, with the node's name; errors of RunContext.taker.
  absl::StatusOr<std::vector<Tensor>> Run(absl::Span<const Tensor> inputs,
                                          const RunContext& context);

  // Starts a run in which nodes may wait for other replicas. After a wait, the run continues in a
  // task that is passed to `post`. `done` runs once, in this call or in such a task; the runner
  // must live until then. While another run is under way, the new run waits for the end of that
  // run.
  void Start(absl::Span<const Tensor> inputs, const RunContext& context, Post post, Done done);

  // Makes later runs fill bytes of the arena with NaN after their last use by the plan. So a test
  // detects a value that is read after its bytes have been given to another value.
  void FillDeadMemory();

  MemoryStats memory() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace cohort

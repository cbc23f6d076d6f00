#pragma once

// Runs the pure part of a program: an ONNX graph from input tensors to output tensors, on the
// processor, or on a device what that has kernels for. Inputs and outputs are in host memory, but
// for outputs that are to be left on the device (DeviceTarget).
// Variables, batches and pushes are the caller's: it feeds inputs in the graph's order and
// takes outputs in the graph's order.

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

// A program compiled for a device: nodes bound to kernels in execution order, weights unpacked.
// Immutable; thread-safe. Shared: several runners run one program.
class CompiledProgram;

// A device that a program is compiled for: its kernels, and the stream of the runner.
struct DeviceTarget {
  const KernelRegistry& kernels;
  std::shared_ptr<CudaStream> stream;  // shared with the runner
  // A flag per output of the graph, or empty: an output with the flag that a node on the device
  // computes is returned as a tensor of the device (IsOnDevice) that nothing on the stream still
  // writes.
  std::vector<bool> left_there = {};
};

// Compiles a program. Types are those of the graph's inputs, weights, outputs and value_info; a
// value without one is checked when it runs. `registry` has the processor's kernels; `device` may
// be null. Errors: INVALID_ARGUMENT that lists every node whose operator, type or opset has no
// kernel; those of the stream, to which weights are copied.
absl::StatusOr<std::shared_ptr<const CompiledProgram>> CompileProgram(
    const onnx::ModelProto& model, const KernelRegistry& registry,
    const DeviceTarget* device = nullptr);

struct MemoryStats {
  int64_t allocations = 0;  // buffers made for intermediate values so far
  size_t arena_bytes = 0;
};

// Runs one program, one run at a time, reusing one arena for intermediate values (planned for the
// shapes of the last run, planned again when they change). Outputs have buffers of their own.
// Thread-compatible.
class ProgramRunner {
 public:
  using Done = absl::AnyInvocable<void(absl::StatusOr<std::vector<Tensor>>)>;
  // Runs a task where this runner is touched, later.
  using Post = std::function<void(Task)>;

  // Makes a runner. `allocate_outputs` makes the buffers of outputs, which are used again once
  // nobody reads them. `stream` is that of the DeviceTarget, if there was one.
  explicit ProgramRunner(std::shared_ptr<const CompiledProgram> program,
                         AllocateBuffer allocate_outputs = Buffer::Allocate,
                         std::shared_ptr<CudaStream> stream = nullptr);
  ~ProgramRunner();

  // Runs a program in which no node waits for another run: RunContext.exchange is null. Errors:
  // INVALID_ARGUMENT for a wrong number, type or shape of inputs, naming the node; those of the
  // taker.
  absl::StatusOr<std::vector<Tensor>> Run(absl::Span<const Tensor> inputs,
                                          const RunContext& context);

  // Starts a run in which nodes may wait; it then goes on in tasks for `post`. `done` runs once, in
  // this call or in such a task, and the runner lives until then. While another run is under way
  // this one waits for its end.
  void Start(absl::Span<const Tensor> inputs, const RunContext& context, Post post, Done done);

  // Fills bytes of the arena with NaN after their last use by the plan, in later runs: tests see so
  // a value that is read for longer than the plan keeps it.
  void FillDeadMemory();

  MemoryStats memory() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace cohort

#include "common/runtime/run/program_runner.h"

#include <atomic>
#include <deque>
#include <map>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status.h"
#include "common/runtime/cuda/cuda_stream.h"
#include "common/runtime/run/compiled_program.h"
#include "common/runtime/run/value_store.h"

namespace cohort {

namespace {

// The view that the kernel of node number `node` has of the current run: the values of the inputs
// and outputs, the RunContext and the stream. Thread-compatible.
class NodeContext : public KernelContext {
 public:
  NodeContext(const CompiledNode& compiled, int node, ValueStore& values, const RunContext& run,
              CudaStream* stream)
      : compiled_(compiled), node_(node), values_(values), run_(run), stream_(stream) {}

  int num_inputs() const override { return static_cast<int>(compiled_.inputs.size()); }
  const Tensor& input(int i) const override {
    const int value = InputValue(i);
    return value < 0 ? absent_ : values_.value(value);
  }
  bool output_wanted(int i) const override { return OutputValue(i) >= 0; }
  Tensor& Output(int i, DType dtype, const Shape& shape) override {
    return values_.Allocate(node_, WantedOutput(i), dtype, shape);
  }
  Tensor& OutputOver(int i, int input, DType dtype, const Shape& shape) override {
    const int over = InputValue(input);
    if (over < 0) return Output(i, dtype, shape);
    return values_.AllocateOver(node_, WantedOutput(i), over, dtype, shape);
  }
  void Forward(int i, const Tensor& value) override {
    values_.Forward(WantedOutput(i), value, compiled_.inputs);
  }
  const RunContext& run() const override { return run_; }
  CudaStream& stream() const override {
    COHORT_CHECK(stream_ != nullptr, "a device's kernel runs on a device");
    return *stream_;
  }

 private:
  int InputValue(int i) const {
    return i < num_inputs() ? compiled_.inputs[static_cast<size_t>(i)] : -1;
  }
  int OutputValue(int i) const {
    return i < static_cast<int>(compiled_.outputs.size())
               ? compiled_.outputs[static_cast<size_t>(i)]
               : -1;
  }
  int WantedOutput(int i) const {
    COHORT_CHECK(OutputValue(i) >= 0, "a kernel writes wanted outputs only");
    return OutputValue(i);
  }

  const CompiledNode& compiled_;
  const int node_;
  ValueStore& values_;
  const RunContext& run_;
  // The stream of the device; null if the program runs on the processor only.
  CudaStream* const stream_;
  const Tensor absent_;
};

// The sizes of symbolic dimensions ("symbols") that this run has seen so far, each with the input
// that set the size.
using Symbols = std::map<std::string, std::pair<int64_t, std::string>>;

// Checks that one input has the declared rank and extents, and that dimensions with equal symbols
// have equal sizes.
absl::Status CheckDims(const InputSpec& spec, const Tensor& tensor, Symbols& symbols) {
  if (static_cast<size_t>(tensor.shape().rank()) != spec.dims.size()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "input '", spec.name, "' has rank ", spec.dims.size(), ", not ", tensor.TypeString()));
  }
  for (int axis = 0; axis < tensor.shape().rank(); ++axis) {
    const InputSpec::Dim& dim = spec.dims[static_cast<size_t>(axis)];
    const int64_t size = tensor.shape().dim(axis);
    if (dim.size >= 0 && dim.size != size) {
      return absl::InvalidArgumentError(absl::StrCat("input '", spec.name, "' has ", dim.size,
                                                     " along axis ", axis, ", not ",
                                                     tensor.TypeString()));
    }
    // The first input with a symbol sets the symbol's size.
    if (dim.symbol.empty()) continue;
    const auto [it, added] = symbols.try_emplace(dim.symbol, size, spec.name);
    if (!added && it->second.first != size) {
      return absl::InvalidArgumentError(absl::StrCat(
          "input '", spec.name, "' has ", size, " along axis ", axis, " ('", dim.symbol,
          "'), but input '", it->second.second, "' has ", it->second.first));
    }
  }
  return absl::OkStatus();
}

// Checks the number, types and shapes of a run's inputs.
absl::Status CheckInputs(const CompiledProgram& program, absl::Span<const Tensor> inputs) {
  if (inputs.size() != program.inputs.size()) {
    return absl::InvalidArgumentError(absl::StrCat("the program has ", program.inputs.size(),
                                                   " inputs, ", inputs.size(), " were given"));
  }
  Symbols symbols;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const InputSpec& spec = program.inputs[i];
    if (!inputs[i].has_value()) {
      return absl::InvalidArgumentError(absl::StrCat("input '", spec.name, "' has no value"));
    }
    if (spec.dtype != DType::kUndefined && spec.dtype != inputs[i].dtype()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "input '", spec.name, "' is ", DTypeName(spec.dtype), ", not ", inputs[i].TypeString()));
    }
    if (spec.has_shape) RETURN_IF_ERROR(CheckDims(spec, inputs[i], symbols));
  }
  return absl::OkStatus();
}

}  // namespace

// The state of a runner. A run executes the nodes in order, and is suspended at a node whose kernel
// waits. The kernel's answer comes on any thread, perhaps before the kernel's Start has returned.
// The return of Start and the answer both set one flag; the later of the two continues the run.
class ProgramRunner::Impl {
 public:
  Impl(std::shared_ptr<const CompiledProgram> program, AllocateBuffer allocate_outputs,
       std::shared_ptr<CudaStream> stream)
      : program_(std::move(program)),
        stream_(std::move(stream)),
        values_(*program_, std::move(allocate_outputs), stream_.get()) {}

  void Start(absl::Span<const Tensor> inputs, const RunContext& context, Post post, Done done) {
    if (absl::Status status = CheckInputs(*program_, inputs); !status.ok()) {
      return done(std::move(status));
    }
    // Runs queue up; only the first run in the queue is under way.
    runs_.push_back({{inputs.begin(), inputs.end()}, context, std::move(post), std::move(done)});
    if (runs_.size() == 1) Begin();
  }

  const ValueStore& values() const { return values_; }
  void FillDeadMemory() { values_.FillDeadMemory(); }

 private:
  struct Run {
    std::vector<Tensor> inputs;
    RunContext context;
    Post post;
    Done done;
  };

  void Begin() {
    // The inputs are moved out of the run, so that each input can be released after the last node
    // that reads it.
    const std::vector<Tensor> inputs = std::move(run().inputs);
    next_ = 0;
    values_.Begin(inputs);
    for (const BoundConstant& constant : program_->constants) {
      values_.Bind(constant.value, constant.tensor);
    }
    for (size_t i = 0; i < inputs.size(); ++i) values_.Bind(program_->inputs[i].value, inputs[i]);
    // Graph outputs that no node computes (inputs and weights) are passed on before the first node
    // runs.
    if (!Give(program_->given)) return;
    GoOn();
  }

  void GoOn() {
    while (next_ < program_->nodes.size()) {
      const CompiledNode& node = program_->nodes[next_];
      NodeContext context = ContextOf(node);
      if (const WaitingKernel* const waiting = node.kernel->AsWaiting(); waiting != nullptr) {
        if (!Answered(*waiting, context)) return;
        if (!TakeAnswer(node, context)) return;
      } else if (!EndNode(node, RunKernel(node, context))) {
        return;
      }
    }
    // Waits for posted work, which may still read inputs or write outputs on the device. Without a
    // copy to the host, no node has waited for this work.
    if (stream_ != nullptr) {
      if (absl::Status status = stream_->Wait(); !status.ok()) return Fail(std::move(status));
    }
    std::vector<Tensor> outputs;
    outputs.reserve(program_->outputs.size());
    for (const int value : program_->outputs) outputs.push_back(values_.value(value));
    values_.Finish();
    End(std::move(outputs));
  }

  NodeContext ContextOf(const CompiledNode& node) {
    return NodeContext(node, static_cast<int>(next_), values_, run().context, stream_.get());
  }

  absl::Status RunKernel(const CompiledNode& node, KernelContext& context) {
    RETURN_IF_ERROR(node.kernel->Run(context));
    // If posting work fails, the kernel's Run returns OK nevertheless; the failure is in the
    // stream's status.
    return node.on_device ? stream_->status() : absl::OkStatus();
  }

  // Starts a waiting kernel and returns whether its answer has come. If the answer has not come, a
  // task that is posted when the answer comes continues the run.
  bool Answered(const WaitingKernel& kernel, KernelContext& context) {
    one_of_two_has_come_ = false;
    // The callback has a copy of the run's `post`: the posted task may end the run and destroy the
    // run's own `post` while the call of `post` is still under way.
    kernel.Start(context, [this, post = run().post](absl::StatusOr<Tensor> answer) {
      answer_ = std::move(answer);
      // If Start has not returned yet, the answer came first. The thread that called Start then
      // continues the run.
      if (!one_of_two_has_come_.exchange(true)) return;
      post([this] {
        const CompiledNode& node = program_->nodes[next_];
        NodeContext waited = ContextOf(node);
        if (TakeAnswer(node, waited)) GoOn();
      });
    });
    return one_of_two_has_come_.exchange(true);
  }

  bool TakeAnswer(const CompiledNode& node, KernelContext& context) {
    const absl::StatusOr<Tensor> answer = std::exchange(answer_, absl::UnknownError("none yet"));
    if (answer.ok() && context.output_wanted(0)) context.Forward(0, *answer);
    return EndNode(node, answer.status());
  }

  // Ends a node: passes the node's graph outputs to the run's OutputTaker, and releases the values
  // that no later node reads. If the node or the OutputTaker has failed, ends the run with the
  // error and returns false.
  bool EndNode(const CompiledNode& node, const absl::Status& status) {
    if (!status.ok()) {
      Fail(Annotate(status, absl::StrCat("node '", node.name, "' (", node.op, ")")));
      return false;
    }
    if (!Give(node.gives)) return false;
    values_.Release(static_cast<int>(next_), node.dying);
    ++next_;
    return true;
  }

  // Passes graph outputs to the run's OutputTaker, if there is one. If the OutputTaker returns an
  // error, ends the run with the error and returns false.
  bool Give(const std::vector<size_t>& outputs) {
    OutputTaker* const taker = run().context.taker;
    if (taker == nullptr) return true;
    for (const size_t output : outputs) {
      absl::Status status = taker->Take(output, values_.value(program_->outputs[output]));
      if (status.ok()) continue;
      Fail(std::move(status));
      return false;
    }
    return true;
  }

  void Fail(absl::Status status) {
    // Posted work may still read inputs, so the stream is waited for. The stream's own status is
    // dropped, since the run ends with the error `status`.
    if (stream_ != nullptr) (void)stream_->Wait();
    values_.Abandon();
    End(std::move(status));
  }

  void End(absl::StatusOr<std::vector<Tensor>> outputs) {
    Done done = std::move(run().done);
    runs_.pop_front();
    // If no other run is queued, `done` may destroy this runner, so no member is used after the
    // call. If another run is queued, its caller keeps the runner alive.
    const bool more = !runs_.empty();
    done(std::move(outputs));
    if (more) Begin();
  }

  Run& run() { return runs_.front(); }

  // The compiled program, shared with other runners.
  const std::shared_ptr<const CompiledProgram> program_;
  // The stream, shared with the weights; null without a device.
  const std::shared_ptr<CudaStream> stream_;
  ValueStore values_;

  std::deque<Run> runs_;  // the first run is under way, all others are queued

  // The state of the run that is under way.
  size_t next_ = 0;  // index of the node that runs, or whose kernel the run waits for
  // The answer of the kernel for which the run waits.
  absl::StatusOr<Tensor> answer_ = absl::UnknownError("none yet");
  // True once either the current kernel's Start has returned or its answer has come. The second of
  // the two events finds the flag set and continues the run.
  std::atomic<bool> one_of_two_has_come_{false};
};

ProgramRunner::ProgramRunner(std::shared_ptr<const CompiledProgram> program,
                             AllocateBuffer allocate_outputs, std::shared_ptr<CudaStream> stream)
    : impl_(std::make_unique<Impl>(std::move(program), std::move(allocate_outputs),
                                   std::move(stream))) {}

ProgramRunner::~ProgramRunner() = default;

absl::StatusOr<std::vector<Tensor>> ProgramRunner::Run(absl::Span<const Tensor> inputs,
                                                       const RunContext& context) {
  COHORT_CHECK(context.exchange == nullptr,
               "a program that is run in one call has no exchange to wait for");
  std::optional<absl::StatusOr<std::vector<Tensor>>> result;
  impl_->Start(inputs, context, nullptr, [&](auto outputs) { result = std::move(outputs); });
  COHORT_CHECK(result.has_value(), "no other run is under way");
  return *std::move(result);
}

void ProgramRunner::Start(absl::Span<const Tensor> inputs, const RunContext& context, Post post,
                          Done done) {
  impl_->Start(inputs, context, std::move(post), std::move(done));
}

void ProgramRunner::FillDeadMemory() { impl_->FillDeadMemory(); }

MemoryStats ProgramRunner::memory() const {
  return {impl_->values().allocations(), impl_->values().arena_bytes()};
}

}  // namespace cohort

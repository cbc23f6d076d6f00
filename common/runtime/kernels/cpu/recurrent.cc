// LSTM, GRU, RNN and their gradients in float32. A walk (recurrent_walk.h) computes one direction.

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "common/runtime/kernels/cpu/fast_kernel.h"
#include "common/runtime/kernels/cpu/recurrent_loops.h"
#include "common/runtime/kernels/cpu/recurrent_walk.h"

namespace cohort {

namespace {

// Returns whether the walks compute this layer: float32, no peepholes, functions that have loops,
// and no empty tensor.
bool IsFast(const RecurrentInputs& inputs, const RecurrentParameters& parameters,
            const RecurrentShape& shape) {
  const auto has_loop = [](const Gate& gate) { return HasGateLoop(gate.function); };
  return IsFloat32(inputs.x) && inputs.x.num_elements() > 0 && shape.y.num_elements() > 0 &&
         !inputs.peepholes.has_value() &&
         std::all_of(parameters.gates.begin(), parameters.gates.end(), has_loop);
}

// Swaps the first two axes of x [a,b,size].
void SwapAxes(const float* in, int64_t a, int64_t b, int64_t size, float* out) {
  for (int64_t i = 0; i < a; ++i) {
    for (int64_t j = 0; j < b; ++j, in += size) {
      std::memcpy(out + (j * a + i) * size, in, static_cast<size_t>(size) * sizeof(float));
    }
  }
}

// The settings that all runs of a kernel share.
struct WalkSetup {
  GemmSettings products;
  std::shared_ptr<OutputPool> scratch;  // that of all kernels of a registry
};

// One run of a layer: what its directions share. Thread-compatible.
class LayerRun {
 public:
  LayerRun(const RecurrentInputs& inputs, const RecurrentParameters& parameters,
           const RecurrentShape& shape, const WalkSetup& setup)
      : inputs_(inputs),
        parameters_(parameters),
        shape_(shape),
        mask_(inputs, parameters, shape),
        setup_(setup),
        x_(inputs.x.data<float>()) {
    // Of one step or of one example both orders are the same.
    if (!Turns()) return;
    turned_.resize(static_cast<size_t>(inputs.x.num_elements()));
    SwapAxes(x_, shape.batch, shape.steps, shape.inputs, turned_.data());
    x_ = turned_.data();
  }

  // Returns whether rows of x are in another order than the rows of a walk.
  bool Turns() const { return shape_.batch_first && shape_.steps > 1 && shape_.batch > 1; }

  DirectionLayer Direction(int64_t d) const {
    const int64_t h = shape_.hidden;
    const int64_t rows = shape_.gates * h;
    const size_t functions = parameters_.gates.size() / static_cast<size_t>(shape_.directions);
    const auto state = [&](const Tensor& initial) {
      const int64_t stride = shape_.State(1, d) - shape_.State(0, d);
      const float* const data =
          initial.has_value() ? initial.data<float>() + shape_.State(0, d) : nullptr;
      return RowsOf{data, stride};
    };
    return {parameters_.cell,
            parameters_.linear_before_reset,
            shape_,
            mask_,
            parameters_.gates.data() + static_cast<size_t>(d) * functions,
            d,
            parameters_.Reverses(static_cast<int>(d)),
            parameters_.go_backwards,
            {x_, shape_.inputs},
            inputs_.w.data<float>() + d * rows * shape_.inputs,
            inputs_.r.data<float>() + d * rows * h,
            inputs_.b.has_value() ? inputs_.b.data<float>() + d * 2 * rows : nullptr,
            state(inputs_.initial_h),
            state(inputs_.initial_c),
            setup_.products,
            *setup_.scratch};
  }

  // Computes all directions. The outputs hold those of all directions.
  void Forward(const DirectionOutputs& out) const {
    for (int64_t d = 0; d < shape_.directions; ++d) {
      DirectionOutputs of_direction = out;
      of_direction.saved += shape_.Saved(0, 0, d);
      WalkForward(Direction(d), of_direction);
    }
  }

  // Computes the gradients of all directions from all saved rows. `out` holds those of all
  // directions; out.x has the order of x.
  void Backward(const float* saved, const OutputGradients& dy, const InputGradients& out) const {
    std::vector<float> turned(out.x != nullptr && Turns() ? turned_.size() : 0);
    const int64_t rows = shape_.gates * shape_.hidden;
    const auto part = [](float* all, int64_t offset) {
      return all == nullptr ? nullptr : all + offset;
    };
    for (int64_t d = 0; d < shape_.directions; ++d) {
      InputGradients of_direction = out;
      if (!turned.empty()) of_direction.x = turned.data();
      of_direction.first = d == 0;
      of_direction.w = part(out.w, d * rows * shape_.inputs);
      of_direction.r = part(out.r, d * rows * shape_.hidden);
      of_direction.b = part(out.b, d * 2 * rows);
      WalkBackward(Direction(d), saved + shape_.Saved(0, 0, d), dy, of_direction);
    }
    if (!turned.empty()) {
      SwapAxes(turned.data(), shape_.steps, shape_.batch, shape_.inputs, out.x);
    }
  }

 private:
  const RecurrentInputs& inputs_;
  const RecurrentParameters& parameters_;
  const RecurrentShape& shape_;
  const RecurrentMask mask_;
  const WalkSetup& setup_;
  const float* x_;             // time-major
  std::vector<float> turned_;  // the memory of x_ if x is not time-major
};

// Allocates an output in float32, and returns nullptr if it is not wanted.
float* WantedOutput(KernelContext& context, int output, const Shape& shape) {
  if (!context.output_wanted(output)) return nullptr;
  return context.Output(output, DType::kFloat32, shape).mutable_data<float>();
}

bool RunRecurrent(KernelContext& context, const RecurrentParameters& parameters,
                  const WalkSetup& setup) {
  const RecurrentInputs inputs = InputsOf(context, parameters);
  const absl::StatusOr<RecurrentShape> shape = ResolveRecurrent(inputs, parameters);
  if (!shape.ok() || !IsFast(inputs, parameters, *shape)) return false;
  const LayerRun run(inputs, parameters, *shape, setup);
  DirectionOutputs out;
  out.y = WantedOutput(context, 0, shape->y);
  out.h = WantedOutput(context, 1, shape->state);
  out.c = WantedOutput(context, 2, shape->state);
  out.saved = WantedOutput(context, 3, shape->saved);
  const int64_t saved = out.saved == nullptr ? shape->saved.num_elements() : 0;
  const ScratchFloats scratch(*setup.scratch, saved);
  if (out.saved == nullptr) out.saved = scratch.data();
  run.Forward(out);
  return true;
}

bool RunRecurrentGrad(KernelContext& context, const RecurrentParameters& parameters,
                      const WalkSetup& setup) {
  const RecurrentInputs inputs = InputsOf(context, parameters);
  const absl::StatusOr<RecurrentShape> shape = ResolveRecurrent(inputs, parameters);
  if (!shape.ok() || !IsFast(inputs, parameters, *shape) || context.output_wanted(6) ||
      !CheckRecurrentGrad(context, inputs.x, *shape).ok()) {
    return false;
  }
  const LayerRun run(inputs, parameters, *shape, setup);
  const auto gradient = [&](int input) {
    const Tensor& tensor = InputOr(context, input);
    return tensor.has_value() ? tensor.data<float>() : nullptr;
  };
  const OutputGradients dy = {gradient(kGradOfY), gradient(kGradOfH), gradient(kGradOfC)};
  const Tensor given = InputOr(context, kSavedRows);
  const ScratchFloats scratch(*setup.scratch, given.has_value() ? 0 : shape->saved.num_elements());
  const float* const saved = given.has_value() ? given.data<float>() : scratch.data();
  if (!given.has_value()) run.Forward({scratch.data(), nullptr, nullptr, nullptr});
  const int64_t rows = shape->gates * shape->hidden;
  InputGradients out;
  out.x = WantedOutput(context, 0, inputs.x.shape());
  out.first = true;
  out.w = WantedOutput(context, 1, inputs.w.shape());
  out.r = WantedOutput(context, 2, inputs.r.shape());
  out.b = WantedOutput(context, 3, Shape{shape->directions, 2 * rows});
  out.h = WantedOutput(context, 4, shape->state);
  out.c = WantedOutput(context, 5, shape->state);
  run.Backward(saved, dy, out);
  return true;
}

// The kernel of a layer or of its gradient. Immutable; thread-safe.
class RecurrentKernel : public Kernel {
 public:
  using Fast = bool (*)(KernelContext& context, const RecurrentParameters& parameters,
                        const WalkSetup& setup);

  RecurrentKernel(RecurrentParameters parameters, Fast fast, WalkSetup setup,
                  std::unique_ptr<Kernel> reference)
      : parameters_(std::move(parameters)),
        fast_(fast),
        setup_(std::move(setup)),
        reference_(std::move(reference)) {}

  absl::Status Run(KernelContext& context) const override {
    return fast_(context, parameters_, setup_) ? absl::OkStatus() : reference_->Run(context);
  }

 private:
  const RecurrentParameters parameters_;
  const Fast fast_;
  const WalkSetup setup_;
  const std::unique_ptr<Kernel> reference_;
};

}  // namespace

void RegisterCpuRecurrent(const CpuRegistration& registration, int threads) {
  const auto scratch = std::make_shared<OutputPool>();
  const auto add = [&](const std::string& domain, const std::string& op,
                       RecurrentParameters (*parse)(AttributeReader&), RecurrentKernel::Fast fast) {
    const KernelDefinition slow = registration.Reference(domain, op);
    const auto make = [parse, fast, threads, scratch, make_slow = slow.make](
                          const onnx::NodeProto& node) -> absl::StatusOr<std::unique_ptr<Kernel>> {
      ASSIGN_OR_RETURN(std::unique_ptr<Kernel> reference, make_slow(node));
      AttributeReader reader(node);
      const WalkSetup setup = {{threads, PrecisionHere(node)}, scratch};
      return std::make_unique<RecurrentKernel>(parse(reader), fast, setup, std::move(reference));
    };
    registration.registry.Add(domain, op, {slow.signature, make});
  };
  add("", "LSTM", ParseLstm, RunRecurrent);
  add("", "GRU", ParseGru, RunRecurrent);
  add("", "RNN", ParseRnn, RunRecurrent);
  add("cohort", "Recurrent", ParseRecurrent, RunRecurrent);
  add("cohort", "RecurrentGrad", ParseRecurrent, RunRecurrentGrad);
}

}  // namespace cohort

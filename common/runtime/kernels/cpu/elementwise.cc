
#include "common/runtime/kernels/broadcast.h"
#include "common/runtime/kernels/cpu/fast_kernel.h"
#include "common/runtime/kernels/cpu/span_loops.h"
#include "common/runtime/kernels/dropout_support.h"

namespace cohort {

namespace {

using None = CpuRegistration::NoParameters;

template <BinaryOp kOp>
bool RunBinary(KernelContext& context, const None&) {
  const Tensor a = context.input(0);
  const Tensor b = context.input(1);
  if (!IsFloat32(a) || !IsFloat32(b)) return false;
  const absl::StatusOr<Shape> shape = BroadcastShape(a.shape(), b.shape());
  if (!shape.ok()) return false;
  float* out = OutputOverEither(context, *shape).mutable_data<float>();
  const std::vector<BroadcastAxis> axes = BroadcastAxes(a.shape(), b.shape(), *shape);
  const BroadcastAxis run = axes.back();
  const float* data_a = a.data<float>();
  const float* data_b = b.data<float>();
  ForEachRun(axes, [&](int64_t from_a, int64_t from_b, int64_t to) {
    BinaryLoop(kOp, {data_a + from_a, run.stride_a}, {data_b + from_b, run.stride_b},
               {out + to, run.size});
  });
  return true;
}

template <UnaryOp kOp>
bool RunUnary(KernelContext& context, const None&) {
  const Tensor x = context.input(0);
  if (!IsFloat32(x)) return false;
  Tensor& y = context.OutputOver(0, 0, DType::kFloat32, x.shape());
  UnaryLoop(kOp, x.data<float>(), {y.mutable_data<float>(), x.num_elements()});
  return true;
}

template <GradOp kOp>
bool RunGrad(KernelContext& context, const None&) {
  const Tensor dy = context.input(0);
  const Tensor y = context.input(1);
  if (!AreFloat32Twins(dy, y)) return false;
  Tensor& dx = context.OutputOver(0, 0, DType::kFloat32, y.shape());
  GradLoop(kOp, dy.data<float>(), y.data<float>(), {dx.mutable_data<float>(), y.num_elements()});
  return true;
}

void AddArithmetic(const CpuRegistration& registration) {
  const auto add = [&](const std::string& domain, const std::string& op,
                       // Reads no attribute, because the elementwise operators have none.
                       bool (*fast)(KernelContext&, const None&)) {
    registration.Add<None>(domain, op, CpuRegistration::ParseNothing, fast);
  };
  add("", "Add", RunBinary<BinaryOp::kAdd>);
  add("", "Sub", RunBinary<BinaryOp::kSub>);
  add("", "Mul", RunBinary<BinaryOp::kMul>);
  add("", "Div", RunBinary<BinaryOp::kDiv>);
  add("", "Neg", RunUnary<UnaryOp::kNeg>);
  add("", "Sqrt", RunUnary<UnaryOp::kSqrt>);
  add("", "Exp", RunUnary<UnaryOp::kExp>);
  add("", "Log", RunUnary<UnaryOp::kLog>);
  add("", "Relu", RunUnary<UnaryOp::kRelu>);
  add("", "Sigmoid", RunUnary<UnaryOp::kSigmoid>);
  add("", "Tanh", RunUnary<UnaryOp::kTanh>);
  add("cohort", "ReluGrad", RunGrad<GradOp::kRelu>);
  add("cohort", "SigmoidGrad", RunGrad<GradOp::kSigmoid>);
  add("cohort", "TanhGrad", RunGrad<GradOp::kTanh>);
}

// Runs Dropout in training mode if both outputs are wanted, as in every train step. In all other
// cases the reference kernel runs. For example, a mask that is not wanted would need memory of its
// own here.
bool RunDropout(KernelContext& context, const DropoutParameters& parameters) {
  const Tensor x = context.input(0);
  const absl::StatusOr<DropoutMode> mode = ReadDropoutMode(context, 1);
  if (!mode.ok() || !mode->training || !IsFloat32(x)) return false;
  if (!context.output_wanted(0) || !context.output_wanted(1)) return false;
  bool* mask = context.Output(1, DType::kBool, x.shape()).mutable_data<bool>();
  Tensor& y = context.OutputOver(0, 0, DType::kFloat32, x.shape());
  // The mask is computed first. Each y then depends only on its own x, so y may overwrite x.
  MaskLoop(DropoutStream(parameters, context.run()),
           {mask, x.num_elements(), FirstElement(context.run(), x.shape()), mode->Threshold()});
  MaskedScaleLoop(static_cast<float>(mode->Scale()), x.data<float>(), mask,
                  {y.mutable_data<float>(), x.num_elements()});
  return true;
}

bool RunDropoutGrad(KernelContext& context, const None&) {
  const Tensor dy = context.input(0);
  const Tensor mask = context.input(1);
  const absl::StatusOr<DropoutMode> mode = ReadDropoutMode(context, 2);
  if (!mode.ok() || !mode->training || !IsFloat32(dy)) return false;
  if (mask.dtype() != DType::kBool || mask.shape() != dy.shape()) return false;
  Tensor& dx = context.OutputOver(0, 0, DType::kFloat32, dy.shape());
  MaskedScaleLoop(static_cast<float>(mode->Scale()), dy.data<float>(), mask.data<bool>(),
                  {dx.mutable_data<float>(), dy.num_elements()});
  return true;
}

void AddDropout(const CpuRegistration& registration) {
  registration.Add("", "Dropout", ParseDropout, RunDropout);
  registration.Add<None>("cohort", "DropoutGrad", CpuRegistration::ParseNothing, RunDropoutGrad);
}

}  // namespace

void RegisterCpuElementwise(const CpuRegistration& registration) {
  AddArithmetic(registration);
  AddDropout(registration);
}

}  // namespace cohort

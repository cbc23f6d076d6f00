// Kernels of the activation functions that have a loop of their own (activation_loops.h), and of
// UnaryGrad for the same functions.

#include <optional>

#include "common/runtime/kernels/cpu/activation_loops.h"
#include "common/runtime/kernels/cpu/fast_kernel.h"

namespace cohort {

namespace {

struct NamedActivation {
  const char* name;
  ActivationOp op;
};

constexpr NamedActivation kActivations[] = {{"Erf", ActivationOp::kErf},
                                            {"Softplus", ActivationOp::kSoftplus},
                                            {"Elu", ActivationOp::kElu},
                                            {"Selu", ActivationOp::kSelu},
                                            {"LeakyRelu", ActivationOp::kLeakyRelu},
                                            {"HardSigmoid", ActivationOp::kHardSigmoid},
                                            {"Gelu", ActivationOp::kGelu},
                                            {"GeluTanh", ActivationOp::kGeluTanh}};

// The function that a node computes, with its attributes. `op` is absent if the function has no
// loop of its own.
struct ActivationCall {
  std::optional<ActivationOp> op;
  UnaryParameters parameters;
};

ActivationCall CallOf(const std::string& function, AttributeReader& reader) {
  ActivationCall call;
  for (const NamedActivation& each : kActivations) {
    if (function == each.name) call.op = each.op;
  }
  call.parameters = ParseUnaryParameters(function, reader);
  return call;
}

ActivationCall ParseActivation(AttributeReader& reader) {
  const bool tanh = reader.String("approximate", "none") == "tanh";
  return CallOf(tanh ? "GeluTanh" : reader.node().op_type(), reader);
}

ActivationCall ParseSlope(AttributeReader& reader) {
  return CallOf(reader.String("function", ""), reader);
}

bool RunActivation(KernelContext& context, const ActivationCall& call) {
  const Tensor x = context.input(0);
  if (!call.op || !IsFloat32(x)) return false;
  Tensor& y = context.OutputOver(0, 0, DType::kFloat32, x.shape());
  ActivationLoop(*call.op, call.parameters, x.data<float>(),
                 {y.mutable_data<float>(), x.num_elements()});
  return true;
}

bool RunSlope(KernelContext& context, const ActivationCall& call) {
  const Tensor dy = context.input(0);
  const Tensor x = context.input(1);
  if (!call.op || !AreFloat32Twins(dy, x)) return false;
  Tensor& dx = context.OutputOver(0, 0, DType::kFloat32, x.shape());
  ActivationSlopeLoop(*call.op, call.parameters, {dy.data<float>(), x.data<float>()},
                      {dx.mutable_data<float>(), x.num_elements()});
  return true;
}

}  // namespace

void RegisterCpuElementwiseUnary(const CpuRegistration& registration) {
  for (const char* op : {"Erf", "Softplus", "Elu", "Selu", "LeakyRelu", "HardSigmoid"}) {
    registration.Add("", op, ParseActivation, RunActivation);
  }
  registration.Add("cohort", "Gelu", ParseActivation, RunActivation);
  registration.Add("cohort", "UnaryGrad", ParseSlope, RunSlope);
}

}  // namespace cohort

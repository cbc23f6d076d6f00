// Runs the regularizer and constraint cases: the object is read as that of a layer's weight, and
// what a variable of the case's shape adds to the loss, or becomes after an update, is compared.

#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/program/gradients.h"
#include "common/program/graph_builder.h"
#include "common/program/update_rule.h"
#include "common/runtime/update/make_update_kernel.h"
#include "coordinator/layers/constraint.h"
#include "coordinator/layers/penalty.h"
#include "coordinator/layers/regularizer.h"
#include "tests/models/run_case.h"

namespace cohort {
namespace {

using nlohmann::json;

constexpr char kInput[] = "x";
constexpr char kCotangent[] = "cotangent";

// Reads the case's object with one of the readers.
template <typename Spec>
absl::Status ReadObject(const ModelCase& one, void (*read)(const JsonPlace&, Spec&), Spec& spec) {
  const json form = ClassFormOf(one);
  JsonErrors errors;
  read({one.kind, errors, &form}, spec);
  return errors.ToStatus("case");
}

// Returns the graph whose outputs are the penalty, and its gradient if the case has one.
absl::StatusOr<onnx::ModelProto> PenaltyGraph(const RegularizerSpec& spec, const GoldenTensor& x,
                                              bool with_gradient) {
  GraphBuilder graph("case");
  graph.Input(kInput, DType::kFloat32, x.shape.dims());
  const std::string penalty =
      graph.Op("Identity", {AddPenalty(spec, kInput, x.shape, Nodes(graph))});
  graph.Output(penalty);
  if (!with_gradient) return graph.Finish();
  graph.Input(kCotangent, DType::kFloat32, {});
  const std::string loss = graph.Op("Mul", {penalty, kCotangent});
  graph.Output(loss);
  ASSIGN_OR_RETURN(const onnx::ModelProto forward, graph.Finish());
  ASSIGN_OR_RETURN(GradientGraph backward, AddGradients(forward, loss, {kInput}));
  return std::move(backward.model);
}

absl::StatusOr<std::string> CompareRegularizer(const ModelCase& one, const RegularizerSpec& spec,
                                               CaseKernels kernels) {
  const GoldenTensor x = TensorsOf(one.json, "inputs").at(0);
  const bool has_gradient = one.json.contains("gradients");
  ASSIGN_OR_RETURN(const onnx::ModelProto model, PenaltyGraph(spec, x, has_gradient));
  std::vector<Tensor> fed = {ToTensor(x)};
  if (has_gradient) fed.push_back(ToTensor(TensorsOf(one.json["gradients"], kCotangent).at(0)));
  ASSIGN_OR_RETURN(const std::vector<Tensor> results, RunCaseGraph(model, fed, kernels));
  const std::string difference =
      Difference(TensorsOf(one.json, "outputs").at(0), results.at(0), ToleranceOf(one.json));
  if (!difference.empty() || !has_gradient) return difference;
  const json& gradients = one.json["gradients"];
  const std::string wrong =
      Difference(TensorsOf(gradients, "inputs").at(0), results.back(), ToleranceOf(gradients));
  return wrong.empty() ? wrong : absl::StrCat("gradient of ", wrong);
}

absl::StatusOr<std::string> CompareConstraint(const ModelCase& one, const ConstraintSpec& spec) {
  const GoldenTensor x = TensorsOf(one.json, "inputs").at(0);
  ASSIGN_OR_RETURN(const auto parameters, ConstraintParameters(spec, x.shape));
  ASSIGN_OR_RETURN(const Tensor value, AfterConstraint(parameters, ToTensor(x)));
  return Difference(TensorsOf(one.json, "outputs").at(0), value, ToleranceOf(one.json));
}

Verdict VerdictOf(const absl::StatusOr<std::string>& difference) {
  if (!difference.ok()) return Verdict::Failed(difference.status().ToString());
  return difference->empty() ? Verdict::Passed() : Verdict::Failed(*difference);
}

}  // namespace

absl::StatusOr<Tensor> AfterConstraint(const std::map<std::string, double>& parameters,
                                       Tensor value) {
  proto::UpdateRule rule;
  rule.set_op("sgd");
  for (const auto& [name, number] : parameters) {
    proto::HyperParameter& parameter = *rule.add_parameters();
    parameter.set_name(name);
    parameter.set_value(number);
  }
  RETURN_IF_ERROR(DescribeUpdateRule(rule).status());
  RETURN_IF_ERROR(CheckRuleFits(rule, value.shape()));
  ASSIGN_OR_RETURN(const std::unique_ptr<UpdateKernel> kernel, MakeUpdateKernel(rule));
  const auto count = static_cast<size_t>(value.num_elements());
  const std::vector<float> gradient(count, 0);
  const absl::Span<float> span = absl::MakeSpan(value.mutable_data<float>(), count);
  UpdateStep step;
  step.gradient = gradient;
  step.value_in = step.value_out = span;
  step.learning_rate = 0;
  kernel->Apply(step);
  return value;
}

Verdict RunRegularizerCase(const ModelCase& one, CaseKernels kernels) {
  RegularizerSpec spec;
  const absl::Status read = ReadObject(one, ReadRegularizer, spec);
  if (!read.ok()) return Verdict::Refused(read);
  return VerdictOf(CompareRegularizer(one, spec, kernels));
}

Verdict RunConstraintCase(const ModelCase& one) {
  ConstraintSpec spec;
  const absl::Status read = ReadObject(one, ReadConstraint, spec);
  if (!read.ok()) return Verdict::Refused(read);
  return VerdictOf(CompareConstraint(one, spec));
}

}  // namespace cohort

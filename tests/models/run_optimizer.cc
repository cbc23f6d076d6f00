// Runs the optimizer cases: 15 steps on three variables. The gradients are clipped by the graph
// that the job's programs have for it, and the update kernels of the ps apply them.

#include <algorithm>
#include <map>
#include <memory>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/program/program.h"
#include "common/program/update_rule.h"
#include "common/runtime/update/make_update_kernel.h"
#include "coordinator/model/learning_rate.h"
#include "coordinator/model/model_programs.h"
#include "tests/models/run_case.h"

namespace cohort {
namespace {

using nlohmann::json;

// The model whose variables have as many elements as those of the cases: a convolution's kernel
// [2,2,1,3], and a Dense layer's kernel [3,4] and bias [4].
json ModelWithThreeVariables() {
  const json input = {{"class_name", "InputLayer"},
                      {"config", {{"batch_input_shape", {nullptr, 2, 2, 1}}}}};
  const json convolution = {
      {"class_name", "Conv2D"},
      {"config", {{"filters", 3}, {"kernel_size", {2, 2}}, {"use_bias", false}}}};
  const json flatten = {{"class_name", "Flatten"}, {"config", json::object()}};
  const json dense = {{"class_name", "Dense"}, {"config", {{"units", 4}}}};
  return {{"class_name", "Sequential"},
          {"config", {{"layers", {input, convolution, flatten, dense}}}}};
}

// The variables of the case in the order of the model's, and the model's in that of the case.
constexpr size_t kCaseOrder[] = {2, 0, 1};
constexpr size_t kModelOrder[] = {1, 2, 0};

proto::ComponentSpec ComponentOf(DType dtype, std::vector<int64_t> dims) {
  proto::ComponentSpec component;
  component.set_dtype(static_cast<int32_t>(dtype));
  component.mutable_dims()->Assign(dims.begin(), dims.end());
  return component;
}

// One variable with its slots and kernel, as a ps keeps them. Thread-compatible.
class CaseVariable {
 public:
  static absl::StatusOr<CaseVariable> Make(const proto::UpdateRule& rule, const Tensor& start) {
    CaseVariable variable;
    variable.value_ = start.Clone();
    ASSIGN_OR_RETURN(variable.spec_, DescribeUpdateRule(rule));
    ASSIGN_OR_RETURN(variable.kernel_, MakeUpdateKernel(rule));
    for (const SlotSpec& slot : variable.spec_.slots) {
      Tensor made(DType::kFloat32, ShapeOfSlot(slot, start.shape()));
      const absl::Span<float> values = SpanOf(made);
      std::fill(values.begin(), values.end(), slot.initial_value);
      variable.slots_.push_back(slot.starts_as_value ? start.Clone() : std::move(made));
    }
    return variable;
  }

  void Apply(const Tensor& gradient, double learning_rate, uint64_t step) {
    UpdateStep update;
    update.gradient = gradient.span<float>();
    update.value_in = update.value_out = SpanOf(value_);
    for (Tensor& slot : slots_) update.slots.push_back({SpanOf(slot), SpanOf(slot)});
    update.learning_rate = learning_rate;
    update.step = step;
    update.row_width = static_cast<size_t>(value_.num_elements() /
                                           (value_.shape().rank() > 0 ? value_.shape().dim(0) : 1));
    update.matrix = MatrixOf(value_.shape());
    kernel_->Apply(update);
  }

  const Tensor& value() const { return value_; }
  // Returns the moving average if the rule keeps one, else the value.
  const Tensor& average() const {
    const bool has = !spec_.slots.empty() && spec_.slots.back().name == kAverageSlot;
    return has ? slots_.back() : value_;
  }

 private:
  static absl::Span<float> SpanOf(Tensor& tensor) {
    return absl::MakeSpan(tensor.mutable_data<float>(), static_cast<size_t>(tensor.num_elements()));
  }

  UpdateRuleSpec spec_;
  std::unique_ptr<UpdateKernel> kernel_;
  Tensor value_;
  std::vector<Tensor> slots_;
};

// Returns row `step` of an array whose first dimension is the step.
GoldenTensor AtStep(const GoldenTensor& all, size_t step) {
  GoldenTensor one = all;
  one.name = absl::StrCat(all.name, " after step ", step + 1);
  const absl::Span<const int64_t> dims = all.shape.dims();
  one.shape = Shape(dims.subspan(1));
  const auto count = static_cast<size_t>(one.shape.num_elements());
  const auto begin = all.values.begin() + static_cast<std::ptrdiff_t>(step * count);
  one.values.assign(begin, begin + static_cast<std::ptrdiff_t>(count));
  return one;
}

// Clips the gradients of one step with the graph of the job, if the job clips.
absl::StatusOr<std::vector<Tensor>> Clipped(const ModelPrograms& programs,
                                            std::vector<Tensor> gradients, CaseKernels kernels) {
  if (programs.replicated_train_step.name().empty()) return gradients;
  onnx::ModelProto graph;
  graph.ParseFromString(programs.replicated_train_step.joined_model());
  std::vector<Tensor> inputs;
  for (size_t i = 0; i < gradients.size(); ++i) {
    inputs.push_back(gradients[kCaseOrder[i]].Reshaped(programs.variables[i].shape));
  }
  ASSIGN_OR_RETURN(const std::vector<Tensor> outputs, RunCaseGraph(graph, inputs, kernels));
  for (size_t i = 0; i < outputs.size(); ++i) {
    Tensor& gradient = gradients[kCaseOrder[i]];
    gradient = outputs[i].Reshaped(gradient.shape());
  }
  return gradients;
}

// Returns the array of this name, or null if the case has none.
const GoldenTensor* FindNamed(const std::vector<GoldenTensor>& tensors, const std::string& name) {
  for (const GoldenTensor& tensor : tensors) {
    if (tensor.name == name) return &tensor;
  }
  return nullptr;
}

// Returns the gradients of the loss. Those of the case are multiplied by loss_scale_factor, as
// Keras multiplies the loss, which a job does not.
std::vector<GoldenTensor> UnscaledGradients(const json& one) {
  std::vector<GoldenTensor> gradients = TensorsOf(one, "inputs");
  const json& config = one["config"];
  if (!config.contains("loss_scale_factor") || config["loss_scale_factor"].is_null()) {
    return gradients;
  }
  for (GoldenTensor& gradient : gradients) {
    for (double& value : gradient.values) value /= config["loss_scale_factor"].get<double>();
  }
  return gradients;
}

// The steps of one case. Lives for one call of RunOptimizerCase. Thread-compatible.
class OptimizerRun {
 public:
  OptimizerRun(const ModelCase& one, const JobSpec& job, const ModelPrograms& programs)
      : job_(job),
        programs_(programs),
        tolerance_(ToleranceOf(one.json)),
        gradients_(UnscaledGradients(one.json)),
        weights_(TensorsOf(one.json, "weights")),
        outputs_(TensorsOf(one.json, "outputs")) {}

  // Returns the first difference, or "".
  absl::StatusOr<std::string> Run(CaseKernels kernels) {
    for (const GoldenTensor& weight : weights_) {
      const VariableSpec& spec = programs_.variables[kModelOrder[variables_.size()]];
      ASSIGN_OR_RETURN(
          CaseVariable variable,
          CaseVariable::Make(spec.rule.value_or(programs_.update_rule), ToTensor(weight)));
      variables_.push_back(std::move(variable));
    }
    const auto steps = static_cast<size_t>(gradients_.at(0).shape.dim(0));
    for (size_t step = 0; step < steps; ++step) {
      ASSIGN_OR_RETURN(const std::string difference, RunStep(step, kernels));
      if (!difference.empty()) return difference;
    }
    return CompareFinalized();
  }

 private:
  absl::StatusOr<std::string> RunStep(size_t step, CaseKernels kernels) {
    std::vector<Tensor> gradients;
    for (const GoldenTensor& all : gradients_) gradients.push_back(ToTensor(AtStep(all, step)));
    ASSIGN_OR_RETURN(gradients, Clipped(programs_, std::move(gradients), kernels));
    const double rate = LearningRateAt(job_.compile.optimizer, static_cast<int64_t>(step));
    if (const GoldenTensor* rates = FindNamed(outputs_, "learning_rate")) {
      const std::string difference =
          Difference(AtStep(*rates, step), Tensor::Scalar(rate), tolerance_);
      if (!difference.empty()) return difference;
    }
    for (size_t i = 0; i < variables_.size(); ++i) {
      variables_[i].Apply(gradients[i], rate, step + 1);
      const GoldenTensor* const all = FindNamed(outputs_, absl::StrCat("weight_", i));
      if (all == nullptr) return std::string("the case has no outputs of each step");
      const std::string difference =
          Difference(AtStep(*all, step), variables_[i].value(), tolerance_);
      if (!difference.empty()) return difference;
    }
    return std::string();
  }

  std::string CompareFinalized() const {
    for (size_t i = 0; i < variables_.size(); ++i) {
      const GoldenTensor* const golden = FindNamed(outputs_, absl::StrCat("finalized_", i));
      if (golden == nullptr) continue;
      const std::string difference = Difference(*golden, variables_[i].average(), tolerance_);
      if (!difference.empty()) return difference;
    }
    return "";
  }

  const JobSpec& job_;
  const ModelPrograms& programs_;
  const GoldenTolerance tolerance_;
  const std::vector<GoldenTensor> gradients_, weights_, outputs_;
  std::vector<CaseVariable> variables_;
};

}  // namespace

Verdict RunOptimizerCase(const ModelCase& one, CaseKernels kernels) {
  json form = ClassFormOf(one);
  json model = ModelWithThreeVariables();
  if (absl::StartsWith(one.version, "k2")) model["keras_version"] = "2.15.0";
  const absl::StatusOr<JobSpec> job = ParseCaseJob(model, {{"optimizer", std::move(form)}});
  if (!job.ok()) return Verdict::Refused(job.status());
  proto::ElementSpec batch;
  *batch.add_components() = ComponentOf(DType::kFloat32, {1, 2, 2, 1});
  *batch.add_components() = ComponentOf(DType::kInt64, {1});
  const absl::StatusOr<ModelPrograms> programs = BuildPrograms(*job, batch);
  if (!programs.ok()) return Verdict::Refused(programs.status());
  const absl::StatusOr<std::string> difference = OptimizerRun(one, *job, *programs).Run(kernels);
  if (!difference.ok()) return Verdict::Failed(difference.status().ToString());
  return difference->empty() ? Verdict::Passed() : Verdict::Failed(*difference);
}

}  // namespace cohort

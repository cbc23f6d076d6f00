#include "coordinator/inspect/model_shapes.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status.h"
#include "coordinator/layers/layer_plan.h"
#include "coordinator/network/calls.h"

namespace cohort {

namespace {

// Two numbers to put in the place of open dimensions.
struct Sizes {
  int64_t first;
  int64_t second;
};

// Large numbers come first, because layers that make images smaller may need them, and small ones
// last, because three large dimensions may be more than kElementsMax.
constexpr std::array<Sizes, 3> kSizes = {{{256, 448}, {64, 96}, {16, 24}}};

bool IsInteger(DType dtype) { return dtype == DType::kInt32 || dtype == DType::kInt64; }

const InputType& InputTypeOf(const ModelSpec& model, size_t input) {
  return *model.layers[model.calls[model.inputs[input]].layer].input();
}

// Returns whether the model says what each of its inputs is, apart from open dimensions.
bool DeclaresInputs(const ModelSpec& model) {
  if (!model.has_inputs()) return false;
  for (size_t i = 0; i < model.inputs.size(); ++i) {
    if (!InputTypeOf(model, i).has_shape) return false;
  }
  return true;
}

bool HasOpenDimensions(const ModelSpec& model) {
  for (size_t i = 0; i < model.inputs.size(); ++i) {
    const std::vector<int64_t>& shape = InputTypeOf(model, i).shape;
    if (std::count(shape.begin(), shape.end(), -1) > 0) return true;
  }
  return false;
}

// Returns the types of the inputs with `size` in the place of open dimensions. If `as_ids`, numbers
// are int32: a layer may look up ids in a column that the file declares as float32, the default.
std::vector<TensorType> InputTypes(const ModelSpec& model, int64_t size, bool as_ids) {
  std::vector<TensorType> types;
  for (size_t i = 0; i < model.inputs.size(); ++i) {
    const InputType& input = InputTypeOf(model, i);
    std::vector<int64_t> dims = input.shape;
    std::replace(dims.begin(), dims.end(), int64_t{-1}, size);
    const DType dtype = as_ids && !IsInteger(input.dtype) ? DType::kInt32 : input.dtype;
    types.push_back({dtype, Shape(dims), static_cast<int>(i),
                     model.layers[model.calls[model.inputs[i]].layer].name});
  }
  return types;
}

OpenShape DimsOf(const Shape& shape) { return {shape.dims().begin(), shape.dims().end()}; }

// Plans the model for inputs of these types.
absl::StatusOr<ModelShapes> PlanFor(const ModelSpec& model, const std::vector<TensorType>& inputs) {
  LayerPlan plan(/*seed=*/0);
  RETURN_IF_ERROR(PlanCalls(model, {.trainable = model.trainable}, inputs, plan).status());
  ModelShapes shapes;
  shapes.known = true;
  shapes.variables = plan.Variables();
  // The plan has an entry for each call but those of InputLayers, in their order. Entries of nested
  // models have longer positions.
  auto next = plan.outputs().begin();
  for (size_t i = 0; i < model.calls.size(); ++i) {
    std::vector<OpenShape>& outputs = shapes.outputs.emplace_back();
    if (model.layers[model.calls[i].layer].input() != nullptr) {
      const auto input = std::find(model.inputs.begin(), model.inputs.end(), i);
      if (input == model.inputs.end()) continue;
      outputs.push_back(DimsOf(inputs[static_cast<size_t>(input - model.inputs.begin())].shape));
      continue;
    }
    while (next != plan.outputs().end() && next->depth != 1) ++next;
    COHORT_CHECK(next != plan.outputs().end(), "a call is missing in the plan");
    for (const TensorType& type : next->types) outputs.push_back(DimsOf(type.shape));
    ++next;
  }
  return shapes;
}

absl::StatusOr<ModelShapes> PlanWithSize(const ModelSpec& model, int64_t size) {
  absl::StatusOr<ModelShapes> shapes = PlanFor(model, InputTypes(model, size, /*as_ids=*/false));
  if (shapes.ok()) return shapes;
  absl::StatusOr<ModelShapes> of_ids = PlanFor(model, InputTypes(model, size, /*as_ids=*/true));
  return of_ids.ok() ? std::move(of_ids) : std::move(shapes);
}

// Writes -1 where two shapes of one tensor differ.
void OpenWhereDifferent(const OpenShape& other, OpenShape& shape) {
  for (size_t i = 0; i < shape.size() && i < other.size(); ++i) {
    if (shape[i] != other[i]) shape[i] = -1;
  }
}

// Joins what two sizes of the open dimensions gave. Errors: INVALID_ARGUMENT for a variable whose
// shape depends on the size.
absl::Status Join(const ModelShapes& other, ModelShapes& shapes) {
  for (size_t i = 0; i < shapes.variables.size() && i < other.variables.size(); ++i) {
    const VariableSpec& variable = shapes.variables[i];
    if (variable.shape == other.variables[i].shape) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("the shape of ", variable.name,
                     " follows from a dimension that the model leaves open (null); give the "
                     "InputLayer the whole shape"));
  }
  for (size_t i = 0; i < shapes.outputs.size(); ++i) {
    for (size_t j = 0; j < shapes.outputs[i].size(); ++j) {
      OpenWhereDifferent(other.outputs[i][j], shapes.outputs[i][j]);
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ModelShapes> PlanShapes(const ModelSpec& model) {
  if (!DeclaresInputs(model)) return ModelShapes();
  if (!HasOpenDimensions(model)) return PlanWithSize(model, 1);
  absl::Status first_error;
  for (const Sizes& sizes : kSizes) {
    absl::StatusOr<ModelShapes> shapes = PlanWithSize(model, sizes.first);
    const absl::StatusOr<ModelShapes> other = PlanWithSize(model, sizes.second);
    if (shapes.ok() && other.ok()) {
      RETURN_IF_ERROR(Join(*other, *shapes));
      return shapes;
    }
    if (!first_error.ok()) continue;
    first_error =
        Annotate(shapes.ok() ? other.status() : shapes.status(),
                 absl::StrCat("with ", shapes.ok() ? sizes.second : sizes.first,
                              " in the place of each dimension that the model leaves open (null)"));
  }
  return first_error;
}

std::string ShapeText(const OpenShape& shape) {
  std::string text = "(None";
  for (const int64_t dim : shape) {
    absl::StrAppend(&text, ", ");
    if (dim < 0) {
      absl::StrAppend(&text, "None");
    } else {
      absl::StrAppend(&text, dim);
    }
  }
  return absl::StrCat(text, ")");
}

}  // namespace cohort

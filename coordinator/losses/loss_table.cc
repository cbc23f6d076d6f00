#include "coordinator/losses/loss_table.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/check.h"

namespace cohort {
namespace {

// Returns whether two extents can be the same; -1 is unknown.
bool MayBeEqual(int64_t a, int64_t b) { return a < 0 || b < 0 || a == b; }

bool MayBeEqual(absl::Span<const int64_t> a, absl::Span<const int64_t> b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (!MayBeEqual(a[i], b[i])) return false;
  }
  return true;
}

std::string DimsText(absl::Span<const int64_t> dims) {
  std::vector<std::string> parts;
  for (size_t i = 0; i < dims.size(); ++i) {
    parts.push_back(dims[i] < 0 ? (i == 0 ? "N" : "?") : absl::StrCat(dims[i]));
  }
  return absl::StrCat("[", absl::StrJoin(parts, ","), "]");
}

// The change that makes labels fit: an axis of size 1 is added or removed at the end.
enum class LabelChange { kNone, kAddAxis, kDropAxis };

struct LabelFit {
  bool fits = false;
  LabelChange change = LabelChange::kNone;
  std::vector<int64_t> wanted;  // sizes that the labels must have
};

// Returns whether labels fit the sizes `wanted`, and by which change.
LabelFit FitTo(const NodeValue& labels, std::vector<int64_t> wanted) {
  LabelFit fit;
  fit.wanted = std::move(wanted);
  if (MayBeEqual(labels.dims, fit.wanted)) {
    fit.fits = true;
    return fit;
  }
  std::vector<int64_t> with_axis = labels.dims;
  with_axis.push_back(1);
  if (!fit.wanted.empty() && fit.wanted.back() == 1 && MayBeEqual(with_axis, fit.wanted)) {
    return {true, LabelChange::kAddAxis, fit.wanted};
  }
  with_axis = fit.wanted;
  with_axis.push_back(1);
  if (labels.rank() > 0 && labels.dims.back() == 1 && MayBeEqual(labels.dims, with_axis)) {
    return {true, LabelChange::kDropAxis, fit.wanted};
  }
  return fit;
}

LabelFit FitOf(LabelKind kind, const NodeValue& labels, const NodeValue& output) {
  std::vector<int64_t> dims = output.dims;
  switch (kind) {
    case LabelKind::kLikeOutput:
      return FitTo(labels, std::move(dims));
    case LabelKind::kClasses:
      if (!dims.empty()) dims.pop_back();
      return FitTo(labels, std::move(dims));
    case LabelKind::kClassRows:
      if (dims.size() > 1) dims.resize(1);
      return FitTo(labels, std::move(dims));
    case LabelKind::kSequences: {
      LabelFit fit;
      fit.wanted = {dims.empty() ? -1 : dims[0], -1};
      fit.fits = labels.rank() == 2 && output.rank() == 3 && MayBeEqual(labels.dims, fit.wanted);
      return fit;
    }
    case LabelKind::kAny:
      break;
  }
  return {true, LabelChange::kNone, labels.dims};
}

}  // namespace

const std::vector<LossRow>& LossTable() {
  static const auto* const table = [] {
    auto* const rows = new std::vector<LossRow>();
    for (auto family :
         {RegressionLosses, CrossentropyLosses, MarginLosses, OverlapLosses, EmbeddingLosses}) {
      for (LossRow& row : family()) rows->push_back(std::move(row));
    }
    return rows;
  }();
  return *table;
}

const LossRow* FindLossClass(absl::string_view class_name) {
  const std::vector<LossRow>& table = LossTable();
  const auto found = std::find_if(table.begin(), table.end(),
                                  [&](const LossRow& row) { return row.class_name == class_name; });
  return found == table.end() ? nullptr : &*found;
}

const LossRow* FindLossFunction(absl::string_view name) {
  const std::vector<LossRow>& table = LossTable();
  const auto found = std::find_if(table.begin(), table.end(), [&](const LossRow& row) {
    return std::find(row.names.begin(), row.names.end(), name) != row.names.end();
  });
  return found == table.end() ? nullptr : &*found;
}

const LossRow& RowOf(const LossSpec& spec) {
  const LossRow* const row = FindLossClass(spec.class_name);
  COHORT_CHECK(row != nullptr, "the loss has a row in the table");
  return *row;
}

LossSpec DefaultLoss(const LossRow& row, int keras) {
  LossSpec spec;
  spec.class_name = row.class_name;
  spec.keras = keras;
  spec.config = ClassConfig::Default(row.keys);
  return spec;
}

LossSpec DefaultLoss(absl::string_view class_name) {
  const LossRow* const row = FindLossClass(class_name);
  COHORT_CHECK(row != nullptr, "the loss has a row in the table");
  return DefaultLoss(*row, kKerasOtherwise);
}

ExampleLosses AddExampleLosses(const LossSpec& spec, const LossInputs& inputs,
                               FormulaNodes& nodes) {
  return RowOf(spec).add(LossSite{nodes, spec, inputs});
}

absl::Status CheckLabelShape(LabelKind kind, const NodeValue& labels, const NodeValue& output,
                             absl::string_view what) {
  const LabelFit fit = FitOf(kind, labels, output);
  const bool of_classes = kind != LabelKind::kLikeOutput && kind != LabelKind::kAny;
  if (fit.fits) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(what, " needs ", of_classes ? "integer " : "", "labels ", DimsText(fit.wanted),
                   " for the model's output ", DimsText(output.dims), ", but labels are ",
                   DTypeName(labels.dtype), DimsText(labels.dims)));
}

absl::StatusOr<NodeValue> FitLabels(LabelKind kind, const NodeValue& labels,
                                    const NodeValue& output, absl::string_view what,
                                    FormulaNodes& nodes) {
  const absl::Status status = CheckLabelShape(kind, labels, output, what);
  if (!status.ok()) return status;
  const LabelFit fit = FitOf(kind, labels, output);
  NodeValue fitted = labels;
  fitted.dims = fit.wanted;
  if (kind == LabelKind::kAny) return fitted;
  if (fit.change == LabelChange::kAddAxis) fitted.name = nodes.Unsqueeze(fitted.name, -1);
  if (fit.change == LabelChange::kDropAxis) fitted.name = nodes.Squeeze(fitted.name, -1);
  if (kind == LabelKind::kLikeOutput) {
    fitted.dims = output.dims;
    if (labels.dtype != DType::kFloat32) fitted.name = nodes.ToFloat(fitted.name);
    fitted.dtype = DType::kFloat32;
  } else if (labels.dtype != DType::kInt64) {
    // Class numbers that are floats are rounded towards 0, as Keras's cast does.
    fitted.name = nodes.Cast(fitted.name, DType::kInt64);
    fitted.dtype = DType::kInt64;
  }
  return fitted;
}

NodeValue OutputForLabels(LabelKind kind, const ClassConfig& config, const NodeValue& output) {
  NodeValue turned = output;
  if (kind != LabelKind::kClasses || !config.Has("axis")) return turned;
  const auto axis = static_cast<std::ptrdiff_t>(NormalAxisOf(config.Whole("axis"), output));
  const int64_t classes = output.dims[static_cast<size_t>(axis)];
  turned.dims.erase(turned.dims.begin() + axis);
  turned.dims.push_back(classes);
  return turned;
}

absl::Status CheckAxes(const ClassConfig& config, const NodeValue& output, absl::string_view what) {
  if (!config.Has("axis")) return absl::OkStatus();
  for (const int64_t axis : config.Wholes("axis")) {
    if (axis >= -output.rank() && axis < output.rank()) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(what, " has the axis ", axis, ", but the model's output has rank ",
                     output.rank(), " with its batch; give an axis of it, such as -1"));
  }
  return absl::OkStatus();
}

int64_t NormalAxisOf(int64_t axis, const NodeValue& value) {
  return axis < 0 ? axis + value.rank() : axis;
}

std::vector<int64_t> DimsWithout(const NodeValue& value, absl::Span<const int64_t> axes) {
  std::vector<int64_t> dims;
  for (int64_t i = 0; i < value.rank(); ++i) {
    const bool is_reduced = std::any_of(
        axes.begin(), axes.end(), [&](int64_t axis) { return NormalAxisOf(axis, value) == i; });
    if (!is_reduced) dims.push_back(value.dims[static_cast<size_t>(i)]);
  }
  return dims;
}

}  // namespace cohort

#include "coordinator/strategy/variable_creator.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status.h"
#include "common/program/aggregation.h"
#include "common/program/update_rule.h"
#include "common/tensor/slice_spec.h"
#include "common/wire/frame_limits.h"
#include "coordinator/strategy/variable_pieces.h"

namespace cohort {
namespace {

absl::Status CheckDims(const VariableSpec& spec) {
  for (const int64_t dim : spec.shape.dims()) {
    if (dim >= 1) continue;
    return absl::InvalidArgumentError(absl::StrCat("variable '", spec.name, "' has shape ",
                                                   spec.shape.ToString(),
                                                   "; every dimension must be at least 1"));
  }
  return absl::OkStatus();
}

// Checks the variable's synchronization: NONE is not supported, and ON_READ only for variables that
// are not trained.
absl::Status CheckSynchronization(const VariableSpec& spec, const proto::UpdateRule& rule) {
  const std::string variable = absl::StrCat("variable '", spec.name, "': synchronization ");
  switch (spec.synchronization) {
    case VariableSynchronization::kAuto:
    case VariableSynchronization::kOnWrite:
      return absl::OkStatus();
    case VariableSynchronization::kNone:
      return absl::InvalidArgumentError(absl::StrCat(
          variable, "NONE is not supported under a strategy: use AUTO, ON_WRITE or ON_READ"));
    case VariableSynchronization::kOnRead:
      if (rule.op() == "assign_add" && !spec.dynamic.has_value()) return absl::OkStatus();
      return absl::InvalidArgumentError(absl::StrCat(
          variable, "ON_READ is for variables that are not trained, and this is under rule '",
          rule.op(), "'", spec.dynamic.has_value() ? ", a dynamic table" : "",
          ": make it not trainable, or use ON_WRITE"));
  }
  // Only a value that is not an enumerator leads here. A cast may have produced it.
  return absl::InvalidArgumentError(absl::StrCat(
      "variable '", spec.name, "': invalid synchronization mode ",
      static_cast<int>(spec.synchronization), "; there are AUTO, NONE, ON_WRITE and ON_READ"));
}

// Checks a variable whose rule computes with the whole of it: it is one slice, and a slice must fit
// into a message.
absl::Status CheckWhole(const VariableSpec& spec, const proto::UpdateRule& rule) {
  const absl::StatusOr<UpdateRuleSpec> described = DescribeUpdateRule(rule);
  if (!described.ok()) return absl::OkStatus();  // the parameter server will refuse the rule
  const std::string variable = absl::StrCat("variable '", spec.name, "'");
  RETURN_IF_ERROR(Annotate(CheckRuleFits(rule, spec.shape), variable));
  if (!described->whole) return absl::OkStatus();
  const char* const what = spec.dynamic.has_value() ? " is a dynamic table" : " is too large";
  const auto elements_max = static_cast<double>(kCallBytesMax) / sizeof(float);
  double elements = 1;
  for (const int64_t dim : spec.shape.dims()) elements *= static_cast<double>(dim);
  if (!spec.dynamic.has_value() && elements <= elements_max) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(variable, what, ", and the optimizer ", rule.op(),
                   " computes with the whole variable, which must be a slice of at most ",
                   kCallBytesMax >> 20, " MiB; take another optimizer"));
}

// Returns the shape of the tensor whose rows are the values of all replicas.
Shape WithReplicas(const Shape& shape, int64_t replicas) {
  std::vector<int64_t> dims = {replicas};
  dims.insert(dims.end(), shape.dims().begin(), shape.dims().end());
  return Shape(absl::MakeConstSpan(dims));
}

}  // namespace

VariableCreator::VariableCreator(std::vector<int> ps,
                                 std::shared_ptr<const Partitioner> partitioner,
                                 PlacementPolicy policy)
    : partitioner_(std::move(partitioner)), ps_(std::move(ps)), placer_(ps_, policy) {}

absl::StatusOr<int64_t> VariableCreator::NumSlices(const VariableSpec& spec,
                                                   const proto::UpdateRule& rule) const {
  const absl::StatusOr<UpdateRuleSpec> described = DescribeUpdateRule(rule);
  // The parameter server refuses a rule that is not known here.
  if (described.ok() && described->whole) return 1;
  // Each ps gets a slice of a dynamic table, with a share of its keys.
  if (spec.dynamic.has_value()) return static_cast<int64_t>(ps_.size());
  if (partitioner_ == nullptr || spec.shape.rank() == 0) return 1;
  absl::StatusOr<std::vector<int64_t>> answer = partitioner_->Partition(spec.dtype, spec.shape);
  if (!answer.ok()) return Annotate(answer.status(), absl::StrCat("variable '", spec.name, "'"));
  const bool valid =
      !answer->empty() && answer->front() > 0 &&
      std::all_of(answer->begin() + 1, answer->end(), [](int64_t parts) { return parts == 1; });
  if (!valid) {
    return absl::InvalidArgumentError(absl::StrCat(
        "variable '", spec.name, "': the partitioner answered [", absl::StrJoin(*answer, ","),
        "]; it must give one number per axis, the first at least 1 and all others 1"));
  }
  // A variable cannot have more slices than rows.
  return std::min(answer->front(), spec.shape.dim(0));
}

uint32_t VariableCreator::Place(const VariableSpec& spec, int slice, int64_t bytes) {
  // For a dynamic table, slice i lies on server i, and does not advance the round robin.
  if (!spec.dynamic.has_value()) return placer_.Place(bytes);
  const auto ps = static_cast<uint32_t>(ps_[static_cast<size_t>(slice)]);
  placer_.Colocate(ps, bytes);
  return ps;
}

absl::StatusOr<uint32_t> VariableCreator::ColocatedPs(const VariableSpec& spec,
                                                      const std::string& with) const {
  // The name in `colocate_with` is looked up first among variables, and then among slices.
  if (const auto found = created_.find(with); found != created_.end()) {
    const proto::VariableLayout& target = found->second;
    if (target.slices_size() == 1) return target.slices(0).ps();
    return absl::FailedPreconditionError(absl::StrCat(
        "variable '", spec.name, "' is colocated with '", with, "', which has ",
        target.slices_size(), " slices; name a variable with one home or a slice such as '", with,
        "/part_0'"));
  }
  for (const auto& [name, layout] : created_) {
    for (int i = 0; i < layout.slices_size(); ++i) {
      if (SliceName(layout, i) == with) return layout.slices(i).ps();
    }
  }
  return absl::NotFoundError(absl::StrCat("variable '", spec.name, "' is colocated with '", with,
                                          "', which was not created here before"));
}

absl::StatusOr<proto::VariableLayout> VariableCreator::CreateVariable(
    const VariableSpec& spec, const proto::UpdateRule& rule, const VariableOptions& options) {
  if (spec.name.empty()) return absl::InvalidArgumentError("a variable needs a name");
  if (created_.contains(spec.name)) {
    return absl::InvalidArgumentError(
        absl::StrCat("variable '", spec.name, "' exists already; give this one another name"));
  }
  RETURN_IF_ERROR(CheckDims(spec));
  RETURN_IF_ERROR(Annotate(CheckAggregation(spec.aggregation, spec.dtype),
                           absl::StrCat("variable '", spec.name, "'")));
  RETURN_IF_ERROR(CheckSynchronization(spec, rule));
  const bool of_replicas =
      spec.synchronization == VariableSynchronization::kOnRead && options.replicas > 0;
  int64_t slices = 1;
  uint32_t colocated_ps = 0;
  const bool colocated = !options.per_worker && !options.colocate_with.empty();
  // The first case that matches decides, as in the table in variable_creator.h.
  if (options.per_worker) {
    slices = 0;
  } else if (colocated) {
    ASSIGN_OR_RETURN(colocated_ps, ColocatedPs(spec, options.colocate_with));
  } else if (spec.initializer.op().empty() && !options.loading) {
    return absl::InvalidArgumentError(
        absl::StrCat("variable '", spec.name, "' has no initial value; give it an initializer"));
  } else if (!of_replicas) {
    ASSIGN_OR_RETURN(slices, NumSlices(spec, rule));
  }

  proto::VariableLayout layout;
  layout.set_name(spec.name);
  layout.set_dtype(static_cast<int32_t>(spec.dtype));
  const Shape shape = of_replicas ? WithReplicas(spec.shape, options.replicas) : spec.shape;
  layout.mutable_dims()->Assign(shape.dims().begin(), shape.dims().end());
  if (of_replicas) layout.set_replicas(static_cast<uint32_t>(options.replicas));
  *layout.mutable_rule() = rule;
  *layout.mutable_initializer() = spec.initializer;
  if (spec.dynamic.has_value()) *layout.mutable_dynamic() = *spec.dynamic;
  layout.set_aggregation(spec.aggregation);
  // A row is never cut, so each row must fit into one message.
  RETURN_IF_ERROR(CheckRowBytes(layout));
  RETURN_IF_ERROR(CheckWhole(spec, rule));
  const int64_t rows = shape.rank() == 0 ? 1 : shape.dim(0);
  if (slices > 0) {
    for (const RowRange& range : DivRows(rows, slices)) {
      proto::SliceHome* home = layout.add_slices();
      home->set_slice_id(next_slice_id_++);
      home->set_row_begin(range.begin);
      home->set_row_count(range.count);
      const int64_t bytes = PieceBytes(layout, layout.slices_size() - 1);
      if (colocated) placer_.Colocate(colocated_ps, bytes);
      home->set_ps(colocated ? colocated_ps : Place(spec, layout.slices_size() - 1, bytes));
    }
  }
  created_.emplace(spec.name, layout);
  return layout;
}

}  // namespace cohort

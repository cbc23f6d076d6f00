#include "ps_server/slice/slice_layout.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status.h"
#include "common/program/aggregation.h"
#include "common/program/gpu_number.h"
#include "common/program/table_limit.h"
#include "common/tensor/slice_spec.h"
#include "common/wire/message.h"
#include "ps_server/table/row_layout.h"

namespace cohort {

namespace {

// Returns the operator, the parameters and the sparse mode of an update rule as text. SameLayout
// compares rules by this text.
std::string RuleString(const proto::UpdateRule& rule) {
  return absl::StrCat(
      rule.op(), "(",
      absl::StrJoin(rule.parameters(), ", ",
                    [](std::string* out, const proto::HyperParameter& parameter) {
                      absl::StrAppend(out, parameter.name(), "=", parameter.value());
                    }),
      ")", rule.sparse() == proto::DENSE_EXACT ? "" : " ",
      rule.sparse() == proto::DENSE_EXACT ? ""
                                          : SparseModeNames()[static_cast<size_t>(rule.sparse())]);
}

// Returns the shape `full` with its first dimension replaced by the number of rows in `rows`. A
// scalar's shape is returned unchanged.
Shape RowsOf(const Shape& full, RowRange rows) {
  absl::InlinedVector<int64_t, 4> dims(full.dims().begin(), full.dims().end());
  if (!dims.empty()) dims[0] = rows.count;
  return Shape(absl::MakeConstSpan(dims));
}

// Returns the lifetime of a table's rows after their last push. A ttl_ms of 0 means that rows never
// expire.
absl::Duration TtlOf(const proto::DynamicTable& table) {
  return table.ttl_ms() == 0 ? absl::InfiniteDuration() : absl::Milliseconds(table.ttl_ms());
}

// Returns the settings of a dynamic table from its layout message, after checking them.
absl::StatusOr<DynamicLayout> DynamicOf(const proto::DynamicTable& table,
                                        const SliceLayout& whole) {
  const Shape& shape = whole.full_shape;
  if (whole.dtype != DType::kFloat32 || shape.rank() != 2 || shape.dim(0) != kKeyBuckets) {
    return absl::InvalidArgumentError(absl::StrCat("a dynamic table is float32[", kKeyBuckets,
                                                   ",width], this one ", DTypeName(whole.dtype),
                                                   shape.ToString()));
  }
  DynamicLayout dynamic;
  ASSIGN_OR_RETURN(dynamic.row_dtype, DTypeFromNumber(table.row_dtype()));
  RowPolicy& policy = dynamic.policy;
  // A field with the value 0 was not set in the message; the policy then keeps the field's default.
  if (table.admit_after() != 0) policy.admit_after = table.admit_after();
  if (table.admit_probability() != 0) policy.admit_probability = table.admit_probability();
  policy.ttl = TtlOf(table);
  policy.bytes_max = table.max_bytes();
  if (table.evict_least_frequent()) policy.evict = RowPolicy::Evict::kLeastFrequentlyUsed;
  RETURN_IF_ERROR(CheckRowPolicy(whole.variable, policy));
  // This RowLayout is made only to check the table's settings. Each slice makes its own RowLayout
  // later.
  RETURN_IF_ERROR(
      RowLayout::Make({whole.variable, whole.row_width(), dynamic.row_dtype, whole.initializer},
                      whole.rule)
          .status());
  return dynamic;
}

// Checks the layout of a variable that has one row for each replica (synchronization ON_READ).
absl::Status CheckReplicas(const SliceLayout& whole, int slices) {
  if (whole.replicas == 0) return absl::OkStatus();
  const Shape& shape = whole.full_shape;
  const bool rows = shape.rank() > 0 && shape.dim(0) == whole.replicas && slices == 1;
  if (rows && whole.rule.op() == "assign_add" && !whole.dynamic.has_value()) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("it has values of ", whole.replicas,
                   " replicas: that is one slice with as many rows, under "
                   "rule assign_add; this is ",
                   shape.ToString(), " in ", slices, " under ", whole.rule.op()));
}

// Checks that a rule that needs the whole variable has it: in one slice, and not as a table.
absl::Status CheckWhole(const SliceLayout& whole, int slices) {
  RETURN_IF_ERROR(CheckRuleFits(whole.rule, whole.full_shape));
  if (!whole.rule_spec.whole) return absl::OkStatus();
  if (slices == 1 && !whole.dynamic.has_value()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "update rule '", whole.rule.op(), "' computes with the whole variable, and it is ",
      whole.dynamic.has_value() ? "a dynamic table" : "in several slices",
      "; leave it in one slice, or take another optimizer"));
}

absl::Status CheckDevice(const SliceLayout& whole) {
  if (whole.device.empty()) return absl::OkStatus();
  if (!IsGpu(whole.device)) {
    return absl::InvalidArgumentError(
        absl::StrCat("it is to be in the memory of '", whole.device,
                     "', which is not a GPU: name gpu:0, or nothing for the processor's"));
  }
  if (whole.rule_spec.on_processor) {
    return absl::InvalidArgumentError(absl::StrCat(
        "it is to be in the memory of ", whole.device, ", but update rule '", whole.rule.op(),
        "' with its parameters runs on the processor alone: leave the "
        "device out"));
  }
  if (whole.dtype == DType::kFloat32 && !whole.dynamic.has_value() && whole.replicas == 0) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("it is to be in the memory of ", whole.device,
                   ", which keeps float32 without keys and of no replicas: leave the device out"));
}

// Checks a layout message, and returns a layout of one slice that has all rows of the variable.
// Cut() then divides this slice.
absl::StatusOr<SliceLayout> WholeOf(const proto::VariableLayout& layout) {
  SliceLayout whole;
  if (layout.name().empty()) return absl::InvalidArgumentError("it has no name");
  whole.variable = layout.name();
  ASSIGN_OR_RETURN(whole.dtype, DTypeFromNumber(layout.dtype()));
  proto::TensorMeta meta;
  meta.set_dtype(layout.dtype());
  *meta.mutable_dims() = layout.dims();
  // BytesOf refuses negative dimensions and sizes that overflow. It is called first, because a
  // Shape must not be made of such dimensions.
  RETURN_IF_ERROR(BytesOf(meta).status());
  whole.full_shape =
      Shape(absl::MakeConstSpan(layout.dims().data(), static_cast<size_t>(layout.dims_size())));
  whole.rule = layout.rule();
  ASSIGN_OR_RETURN(whole.rule_spec, DescribeUpdateRule(layout.rule()));
  const bool whole_numbers = whole.dtype == DType::kInt32 || whole.dtype == DType::kInt64;
  if (whole.dtype != DType::kFloat32 && !(whole_numbers && whole.rule.op() == "assign_add")) {
    return absl::InvalidArgumentError(
        absl::StrCat("update rule '", whole.rule.op(), "' does not fit ", DTypeName(whole.dtype),
                     "; float32 takes any rule, int32 and int64 take assign_add"));
  }
  const proto::Initializer& initializer = layout.initializer();
  whole.initializer = {initializer.op(), initializer.a(), initializer.b(), initializer.seed()};
  RETURN_IF_ERROR(CheckInitializer(whole.initializer, whole.dtype));
  if (layout.has_dynamic()) {
    ASSIGN_OR_RETURN(whole.dynamic, DynamicOf(layout.dynamic(), whole));
  }
  whole.aggregation = layout.aggregation();
  whole.mirrored = layout.mirrored();
  whole.replicas = layout.replicas();
  whole.device = layout.device();
  RETURN_IF_ERROR(CheckReplicas(whole, layout.slices_size()));
  RETURN_IF_ERROR(CheckWhole(whole, layout.slices_size()));
  RETURN_IF_ERROR(CheckDevice(whole));
  RETURN_IF_ERROR(CheckAggregation(whole.aggregation, whole.dtype));
  return whole;
}

// Divides the variable into the slices that the layout message lists. The slices must cover all
// rows in order.
absl::StatusOr<std::vector<SliceLayout>> Cut(const SliceLayout& whole,
                                             const proto::VariableLayout& layout) {
  const int64_t rows = whole.full_shape.rank() == 0 ? 1 : whole.full_shape.dim(0);
  int64_t covered = 0;
  std::vector<SliceLayout> slices;
  for (const proto::SliceHome& home : layout.slices()) {
    // A slice may be empty only if the variable has no rows. `rows - covered` cannot overflow,
    // since `covered` never exceeds `rows`.
    const bool empty = home.row_count() <= 0 && rows > 0;
    if (home.row_begin() != covered || empty || home.row_count() < 0 ||
        home.row_count() > rows - covered) {
      return absl::InvalidArgumentError(absl::StrCat(
          "slice ", home.slice_id(), " has rows ", home.row_begin(), " + ", home.row_count(),
          ", but the slices before it cover ", covered, " of ", rows, " rows"));
    }
    covered += home.row_count();
    slices.push_back(whole);
    slices.back().slice_id = home.slice_id();
    slices.back().ps = home.ps();
    slices.back().rows = {home.row_begin(), home.row_count()};
  }
  if (slices.empty() || covered != rows) {
    return absl::InvalidArgumentError(
        absl::StrCat("its slices cover ", covered, " of ", rows, " rows"));
  }
  for (size_t i = 0; whole.dynamic.has_value() && i < slices.size(); ++i) {
    slices[i].dynamic->policy.bytes_max = TableLimitOf(layout, static_cast<int>(i));
  }
  return slices;
}

}  // namespace

Shape SliceLayout::shape() const { return RowsOf(full_shape, rows); }

Shape SliceLayout::full_shape_of(const SlotSpec& slot) const {
  return ShapeOfSlot(slot, full_shape);
}

RowRange SliceLayout::rows_of(const SlotSpec& slot) const {
  // A rule with such a slot has variables of a single slice (CheckWhole).
  if (slot.without_dim == 0 || full_shape.rank() < 2) return rows;
  return {0, full_shape_of(slot).dim(0)};
}

Shape SliceLayout::shape_of(const SlotSpec& slot) const {
  return RowsOf(full_shape_of(slot), rows_of(slot));
}

size_t SliceLayout::row_width() const {
  int64_t width = 1;
  for (int i = 1; i < full_shape.rank(); ++i) width *= full_shape.dim(i);
  return static_cast<size_t>(std::max<int64_t>(width, 1));
}

bool SliceLayout::Holds(int64_t id) const {
  const int64_t row = dynamic.has_value() ? KeyBucket(id) : id;
  return row >= rows.begin && row - rows.begin < rows.count;
}

std::string SliceLayout::WhyOutside(int64_t id) const {
  std::string what = absl::StrCat("id ", id);
  if (dynamic.has_value()) {
    what = absl::StrCat("key ", id, " is in bucket ", KeyBucket(id), ", which");
  }
  return absl::StrCat(what, " is not in [", rows.begin, ", ", rows.begin + rows.count, ")");
}

size_t SliceLayout::resident_bytes() const {
  if (dynamic.has_value()) return dynamic->policy.bytes_max;
  size_t bytes = static_cast<size_t>(shape().num_elements()) * ElementSize(dtype);
  for (const SlotSpec& slot : rule_spec.slots) {
    bytes += static_cast<size_t>(shape_of(slot).num_elements()) * sizeof(float);
  }
  return bytes;
}

std::string SliceLayout::ToString() const {
  return absl::StrCat("slice ", slice_id, ": ", variable, " ", DTypeName(dtype),
                      full_shape.ToString(), dynamic.has_value() ? " keys of buckets " : " rows ",
                      rows.begin, " to ", rows.begin + rows.count - 1, ", ", RuleString(rule), ", ",
                      initializer.op, device.empty() ? "" : absl::StrCat(", on ", device));
}

absl::StatusOr<std::vector<SliceLayout>> SlicesOf(const proto::VariableLayout& layout) {
  const std::string context = absl::StrCat("variable '", layout.name(), "'");
  absl::StatusOr<SliceLayout> whole = WholeOf(layout);
  if (!whole.ok()) return Annotate(whole.status(), context);
  absl::StatusOr<std::vector<SliceLayout>> slices = Cut(*whole, layout);
  if (!slices.ok()) return Annotate(slices.status(), context);
  return slices;
}

bool SameLayout(const SliceLayout& a, const SliceLayout& b) {
  return a.slice_id == b.slice_id && a.variable == b.variable && a.dtype == b.dtype &&
         a.full_shape == b.full_shape && a.rows == b.rows && a.aggregation == b.aggregation &&
         a.mirrored == b.mirrored && a.replicas == b.replicas && a.device == b.device &&
         RuleString(a.rule) == RuleString(b.rule) && a.dynamic == b.dynamic;
}

}  // namespace cohort

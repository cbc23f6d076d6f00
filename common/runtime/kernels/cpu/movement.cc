// Gather, Concat and their gradients, which move whole rows.

#include <vector>

#include "absl/types/optional.h"
#include "common/runtime/kernels/cpu/fast_kernel.h"
#include "common/runtime/kernels/cpu/row_loops.h"

namespace cohort {

namespace {

struct AxisOf {
  int64_t axis = 0;
};

AxisOf ParseAxis(AttributeReader& reader) { return {reader.Int("axis", 0)}; }

// Returns `shape` seen as [outer, size, inner] around the axis, or nothing if `shape` does not have
// the axis.
absl::optional<AxisView> ViewAround(const Shape& shape, int64_t axis) {
  const absl::StatusOr<int> normal = NormalAxis(axis, shape.rank());
  if (!normal.ok()) return absl::nullopt;
  return ViewAroundAxis(shape, *normal);
}

Shape GatheredRows(const Shape& table, const Shape& indices) {
  absl::InlinedVector<int64_t, 4> dims(indices.dims().begin(), indices.dims().end());
  dims.insert(dims.end(), table.dims().begin() + 1, table.dims().end());
  return Shape(absl::MakeConstSpan(dims));
}

// Gathers rows of `table` along axis 0. Returns false, without allocating an output, if an index is
// negative or out of range.
template <typename Index>
bool GatherBy(KernelContext& context, const Tensor& table, const Tensor& indices) {
  const AxisView view = ViewAroundAxis(table.shape(), 0);
  if (!AreInside(indices.span<Index>(), view.size)) return false;
  const size_t bytes = static_cast<size_t>(view.inner) * ElementSize(table.dtype());
  Tensor& out = context.Output(0, table.dtype(), GatheredRows(table.shape(), indices.shape()));
  if (bytes > 0) GatherRows({table.raw(), bytes}, indices.span<Index>(), out.mutable_raw());
  return true;
}

bool RunGather(KernelContext& context, const AxisOf& parameters) {
  const Tensor table = context.input(0);
  const Tensor indices = context.input(1);
  // Along an axis other than 0, the elements that one index selects are not contiguous, so the
  // reference kernel runs.
  if (parameters.axis != 0 || table.shape().rank() < 1) return false;
  if (indices.dtype() == DType::kInt32) return GatherBy<int32_t>(context, table, indices);
  if (indices.dtype() == DType::kInt64) return GatherBy<int64_t>(context, table, indices);
  return false;
}

// Computes Gather's gradient: adds up the gradients of each row in double, in the order of the
// indices, as the reference kernel does. Returns false if an index is negative or out of range.
template <typename Index>
bool ScatterBy(KernelContext& context, const Tensor& dy, const Tensor& indices,
               const Shape& table) {
  const AxisView view = ViewAroundAxis(table, 0);
  if (!AreInside(indices.span<Index>(), view.size)) return false;
  std::vector<double> sums(static_cast<size_t>(table.num_elements()), 0);
  AddToRows({dy.data<float>(), static_cast<size_t>(view.inner)}, indices.span<Index>(),
            sums.data());
  RoundLoop(sums, context.Output(0, DType::kFloat32, table).mutable_data<float>());
  return true;
}

bool RunGatherGrad(KernelContext& context, const AxisOf& parameters) {
  const Tensor dy = context.input(0);
  const Tensor indices = context.input(1);
  const Shape table = context.input(2).shape();
  if (parameters.axis != 0 || table.rank() < 1 || !IsFloat32(dy)) return false;
  if (dy.shape() != GatheredRows(table, indices.shape())) return false;
  if (indices.dtype() == DType::kInt32) return ScatterBy<int32_t>(context, dy, indices, table);
  if (indices.dtype() == DType::kInt64) return ScatterBy<int64_t>(context, dy, indices, table);
  return false;
}

// Returns the shape of the inputs from number `first` on, concatenated along the axis. Returns
// nothing if the inputs' shapes do not fit together.
absl::optional<Shape> JoinedShape(const KernelContext& context, int first, int64_t axis) {
  const Tensor model = context.input(first);
  const absl::StatusOr<int> normal = NormalAxis(axis, model.shape().rank());
  if (!normal.ok()) return absl::nullopt;
  absl::InlinedVector<int64_t, 4> dims(model.shape().dims().begin(), model.shape().dims().end());
  for (int i = first + 1; i < context.num_inputs(); ++i) {
    const Tensor& part = context.input(i);
    if (part.shape().rank() != model.shape().rank()) return absl::nullopt;
    for (int each = 0; each < part.shape().rank(); ++each) {
      if (each != *normal && part.shape().dim(each) != model.shape().dim(each)) {
        return absl::nullopt;
      }
    }
    dims[static_cast<size_t>(*normal)] += part.shape().dim(*normal);
  }
  return Shape(absl::MakeConstSpan(dims));
}

size_t ColumnBytes(const Shape& part, int64_t axis, DType dtype) {
  const AxisView view = *ViewAround(part, axis);
  return static_cast<size_t>(view.size * view.inner) * ElementSize(dtype);
}

bool RunConcat(KernelContext& context, const AxisOf& parameters) {
  const Tensor first = context.input(0);
  const absl::optional<Shape> shape = JoinedShape(context, 0, parameters.axis);
  if (!shape) return false;
  std::vector<ConstColumn> columns;
  for (int i = 0; i < context.num_inputs(); ++i) {
    const Tensor& part = context.input(i);
    if (part.dtype() != first.dtype()) return false;
    columns.push_back({part.raw(), ColumnBytes(part.shape(), parameters.axis, first.dtype())});
  }
  const int64_t rows = ViewAround(*shape, parameters.axis)->outer;
  JoinColumns(columns, rows, context.Output(0, first.dtype(), *shape).mutable_raw());
  return true;
}

bool RunConcatGrad(KernelContext& context, const AxisOf& parameters) {
  const Tensor dy = context.input(0);
  const absl::optional<Shape> shape = JoinedShape(context, 1, parameters.axis);
  if (!shape || *shape != dy.shape()) return false;
  std::vector<Column> columns;
  for (int i = 1; i < context.num_inputs(); ++i) {
    const Shape part = context.input(i).shape();
    const size_t bytes = ColumnBytes(part, parameters.axis, dy.dtype());
    // ConcatGrad's input 0 is dy, so output i - 1 is the gradient of input i.
    const bool wanted = context.output_wanted(i - 1);
    columns.push_back(
        {wanted ? context.Output(i - 1, dy.dtype(), part).mutable_raw() : nullptr, bytes});
  }
  SplitColumns(dy.raw(), ViewAround(*shape, parameters.axis)->outer, columns);
  return true;
}

}  // namespace

void RegisterCpuMovement(const CpuRegistration& registration) {
  registration.Add("", "Gather", ParseAxis, RunGather);
  registration.Add("cohort", "GatherGrad", ParseAxis, RunGatherGrad);
  registration.Add("", "Concat", ParseAxis, RunConcat);
  registration.Add("cohort", "ConcatGrad", ParseAxis, RunConcatGrad);
}

}  // namespace cohort

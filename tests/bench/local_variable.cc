#include "tests/bench/local_variable.h"

#include <algorithm>
#include <utility>

#include "common/base/status.h"
#include "common/runtime/update/make_update_kernel.h"
#include "common/runtime/update/sparse_update.h"
#include "common/tensor/initializer.h"

namespace cohort::bench {

namespace {

constexpr size_t kBlock = 4096;  // elements; a home takes 16 KiB of a gradient at a time

absl::Span<float> Floats(Tensor& tensor) {
  return absl::MakeSpan(tensor.mutable_data<float>(), static_cast<size_t>(tensor.num_elements()));
}

Tensor InitialSlot(const SlotSpec& slot, const Tensor& value) {
  if (slot.starts_as_value) return value.Clone();
  Tensor tensor(DType::kFloat32, ShapeOfSlot(slot, value.shape()));
  std::fill_n(tensor.mutable_data<float>(), tensor.num_elements(), slot.initial_value);
  return tensor;
}

}  // namespace

absl::StatusOr<LocalVariable> LocalVariable::Create(const VariableSpec& spec,
                                                    const proto::UpdateRule& rule) {
  LocalVariable variable;
  variable.trainable_ = spec.trainable;
  ASSIGN_OR_RETURN(variable.spec_, DescribeUpdateRule(rule));
  ASSIGN_OR_RETURN(variable.kernel_, MakeUpdateKernel(rule));
  const proto::Initializer& initial = spec.initializer;
  const int64_t rows = spec.shape.rank() > 0 ? spec.shape.dim(0) : 1;
  ASSIGN_OR_RETURN(variable.value_,
                   InitialRows({initial.op(), initial.a(), initial.b(), initial.seed()}, spec.name,
                               spec.dtype, spec.shape, {0, rows}));
  variable.row_width_ =
      static_cast<size_t>(variable.value_.num_elements() / std::max<int64_t>(rows, 1));
  for (const SlotSpec& slot : variable.spec_.slots) {
    variable.slots_.push_back(InitialSlot(slot, variable.value_));
    variable.slot_widths_.push_back(slot.per_row ? variable.row_width_ : 1);
  }
  return variable;
}

Tensor LocalVariable::Rows(absl::Span<const int64_t> rows) const {
  std::vector<int64_t> dims(value_.shape().dims().begin(), value_.shape().dims().end());
  dims[0] = static_cast<int64_t>(rows.size());
  Tensor copy(DType::kFloat32, Shape(dims));
  float* out = copy.mutable_data<float>();
  for (const int64_t row : rows) {
    out =
        std::copy_n(value_.data<float>() + static_cast<size_t>(row) * row_width_, row_width_, out);
  }
  return copy;
}

void LocalVariable::Assign(const Tensor& value) {
  const absl::Span<const float> from = value.span<float>();
  std::copy(from.begin(), from.end(), value_.mutable_data<float>());
}

UpdateStep LocalVariable::StepAt(const UpdateNumber& at) const {
  UpdateStep step;
  step.learning_rate = at.learning_rate;
  step.step = at.step;
  step.row_width = row_width_;
  step.matrix = MatrixOf(value_.shape());
  step.slots.resize(slots_.size());
  return step;
}

void LocalVariable::SetSpans(size_t begin, size_t count, UpdateStep& step) {
  step.value_in = step.value_out = Floats(value_).subspan(begin, count);
  for (size_t i = 0; i < slots_.size(); ++i) {
    const absl::Span<float> all = Floats(slots_[i]);
    const size_t width = slot_widths_[i];
    // A rule of the whole variable is given whole slots, which may have any shape.
    const absl::Span<float> slot = spec_.whole ? all : all.subspan(begin / width, count / width);
    step.slots[i] = {slot, slot};
  }
}

void LocalVariable::Apply(const Tensor& gradient, const UpdateNumber& at) {
  UpdateStep step = StepAt(at);
  const auto count = static_cast<size_t>(value_.num_elements());
  // A block has whole rows, because a slot may have one element for each row.
  const size_t rows = std::max<size_t>(kBlock / std::max<size_t>(row_width_, 1), 1);
  const size_t block = spec_.whole ? count : rows * row_width_;
  for (size_t begin = 0; begin < count; begin += block) {
    const size_t size = std::min(block, count - begin);
    step.gradient = gradient.span<float>().subspan(begin, size);
    SetSpans(begin, size, step);
    kernel_->Apply(step);
  }
}

void LocalVariable::ApplyRows(absl::Span<const int64_t> rows, const Tensor& gradient,
                              const UpdateNumber& at) {
  UpdateStep step = StepAt(at);
  const MergedRows merged(rows, gradient.span<float>(), row_width_);
  if (spec_.sweeps) {
    const auto memory = [&](size_t first, size_t count, UpdateStep& part) {
      SetSpans(first * row_width_, count * row_width_, part);
      return count;
    };
    const size_t num_rows = static_cast<size_t>(value_.num_elements()) / row_width_;
    return UpdateAllRows(*kernel_, merged, num_rows, step, memory);
  }
  SetSpans(0, row_width_, step);  // the lengths count; each row has its own places
  UpdateSomeRows(*kernel_, merged, step, [&](size_t row, RowUpdate& place) {
    place.value = value_.mutable_data<float>() + row * row_width_;
    for (size_t i = 0; i < slots_.size(); ++i) {
      place.slots[i] = slots_[i].mutable_data<float>() + row * (row_width_ / slot_widths_[i]);
    }
  });
}

}  // namespace cohort::bench

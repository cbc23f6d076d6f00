// How a push changes a slice: Apply and ApplyRows.

#include <algorithm>
#include <type_traits>

#include "common/base/status.h"
#include "common/runtime/update/sparse_update.h"
#include "ps_server/slice/variable_shard.h"

namespace cohort {

namespace {

constexpr size_t kBlockFloats = kBlockBytes / sizeof(float);

// The next `count` elements. A row that is longer than a block of the cursor is put together in
// `wide_row`.
absl::Span<const float> NextFloats(PayloadCursor& cursor, size_t count,
                                   std::vector<float>& wide_row) {
  if (wide_row.empty()) {
    return {reinterpret_cast<const float*>(cursor.Next(count * sizeof(float))), count};
  }
  cursor.CopyTo(reinterpret_cast<std::byte*>(wide_row.data()), count * sizeof(float));
  return {wide_row.data(), count};
}

template <typename T>
void Add(const T* in, const T* added, T* out, size_t count) {
  using Unsigned = std::make_unsigned_t<T>;  // wraps around; a peer's numbers must not be undefined
  for (size_t i = 0; i < count; ++i) {
    out[i] = static_cast<T>(static_cast<Unsigned>(in[i]) + static_cast<Unsigned>(added[i]));
  }
}

}  // namespace

absl::StatusOr<bool> VariableShard::AdmitLocked(const UpdateContext& context, AskGate gate) {
  ASSIGN_OR_RETURN(const ClosureWindow window, gate());
  EnterLocked(window);
  return history_.applied.Insert(context.closure_id);
}

absl::StatusOr<VariableShard::Applied> VariableShard::Apply(PayloadCursor& gradient,
                                                            const UpdateContext& context,
                                                            AskGate gate) {
  MutexLock lock(mutex_);
  if (context.round != 0) return ApplyInRoundLocked(std::nullopt, gradient, context, gate);
  ASSIGN_OR_RETURN(const bool is_new, AdmitLocked(context, gate));
  if (!is_new) {
    gradient.Skip(num_bytes_);
    return Applied{true, history_.version};
  }
  UpdateAllLocked(gradient, context);
  return Applied{false, history_.version++};
}

absl::StatusOr<VariableShard::Applied> VariableShard::ApplyRows(absl::Span<const int64_t> rows,
                                                                PayloadCursor& gradient,
                                                                const UpdateContext& context,
                                                                AskGate gate) {
  MutexLock lock(mutex_);
  if (context.round != 0) return ApplyInRoundLocked(rows, gradient, context, gate);
  ASSIGN_OR_RETURN(const bool is_new, AdmitLocked(context, gate));
  if (!is_new) {
    gradient.Skip(rows.size() * RowBytes());
    return Applied{true, history_.version};
  }
  UpdateRowsLocked(rows, gradient, context);
  return Applied{false, history_.version++};
}

void VariableShard::UpdateAllLocked(PayloadCursor& gradient, const UpdateContext& context) {
  switch (layout_.dtype) {
    case DType::kInt32:
      return AddLocked<int32_t>(gradient);
    case DType::kInt64:
      return AddLocked<int64_t>(gradient);
    default:
      return ApplyFloatsLocked(gradient, context);
  }
}

void VariableShard::UpdateRowsLocked(absl::Span<const int64_t> rows, PayloadCursor& gradient,
                                     const UpdateContext& context) {
  switch (layout_.dtype) {
    case DType::kInt32:
      return AddRowsLocked<int32_t>(rows, gradient);
    case DType::kInt64:
      return AddRowsLocked<int64_t>(rows, gradient);
    default:
      return ApplyFloatRowsLocked(rows, gradient, context);
  }
}

UpdateStep VariableShard::StepOf(const UpdateContext& context) const {
  UpdateStep step;
  step.learning_rate = context.learning_rate;
  step.step = context.step;
  step.row_width = slot_widths_.row;
  for (const size_t width : slot_widths_.slots) {
    const size_t in_row = slot_widths_.row / width;
    step.slots.push_back({{nullptr, in_row}, {nullptr, in_row}});
  }
  return step;
}

void VariableShard::ApplyFloatsLocked(PayloadCursor& gradient, const UpdateContext& context) {
  UpdateStep step = StepOf(context);
  PageWriter writer(value_, slots_, slot_widths_.slots);
  if (memory_->in_one_piece()) {
    if (num_bytes_ == 0) return;
    std::shared_ptr<Buffer> copy;
    const size_t count = value_.elements_of(0);
    step.gradient = {reinterpret_cast<const float*>(gradient.NextWhole(num_bytes_, copy)), count};
    writer.Enter(0);
    writer.SetSpans(0, count, step);
    return kernel_->Apply(step);
  }
  // Whole rows, where a slot has one element for each.
  const size_t width = slot_widths_.largest;
  const size_t whole_rows = std::max<size_t>(kBlockFloats / width, 1) * width;
  std::vector<float> wide_row(whole_rows > kBlockFloats ? whole_rows : 0);
  for (size_t page = 0; page < value_.num_pages(); ++page) {
    writer.Enter(page);
    const size_t count = value_.elements_of(page);
    for (size_t begin = 0; begin < count; begin += whole_rows) {
      const size_t block = std::min(whole_rows, count - begin);
      step.gradient = NextFloats(gradient, block, wide_row);
      writer.SetSpans(begin, block, step);
      kernel_->Apply(step);
    }
  }
}

void VariableShard::ApplyFloatRowsLocked(absl::Span<const int64_t> rows, PayloadCursor& gradient,
                                         const UpdateContext& context) {
  if (rows_ != nullptr) {
    return rows_->Push(rows, gradient, {context.learning_rate, context.step},
                       {context.time_ms, history_of_});
  }
  const size_t width = slot_widths_.row;
  std::vector<int64_t> here(rows.begin(), rows.end());
  for (int64_t& row : here) row -= layout_.rows.begin;
  std::shared_ptr<Buffer> copy;
  const auto* const floats =
      reinterpret_cast<const float*>(gradient.NextWhole(rows.size() * RowBytes(), copy));
  const MergedRows merged(here, {floats, rows.size() * width}, width);
  UpdateStep step = StepOf(context);
  if (layout_.rule_spec.sweeps) {
    PageWriter writer(value_, slots_, slot_widths_.slots);
    const auto memory = [&](size_t first, size_t count, UpdateStep& step) {
      return writer.SetRowSpans(first, count, width, step);
    };
    UpdateAllRows(*kernel_, merged, static_cast<size_t>(layout_.rows.count), step, memory);
    return;
  }
  RowPlaces places(value_, slots_, slot_widths_.slots, width);
  UpdateSomeRows(*kernel_, merged, step,
                 [&](size_t row, RowUpdate& place) { places.Find(row, place); });
  copied_bytes_ += places.copied_bytes();
}

template <typename T>
void VariableShard::AddLocked(PayloadCursor& gradient) {
  constexpr size_t kBlock = kBlockBytes / sizeof(T);
  for (size_t page = 0; page < value_.num_pages(); ++page) {
    ValueBuffer& buffer = value_.page(page);
    T* const out = buffer.Next().mutable_data<T>();
    const T* const in = buffer.current().data<T>();
    const size_t count = value_.elements_of(page);
    for (size_t begin = 0; begin < count; begin += kBlock) {
      const size_t block = std::min(kBlock, count - begin);
      const auto* const added = reinterpret_cast<const T*>(gradient.Next(block * sizeof(T)));
      Add(in + begin, added, out + begin, block);
    }
    buffer.Commit();
  }
}

// Whole numbers are the same in whatever order they are added up.
template <typename T>
void VariableShard::AddRowsLocked(absl::Span<const int64_t> rows, PayloadCursor& gradient) {
  const size_t width = slot_widths_.row;
  std::shared_ptr<Buffer> copy;
  const auto* added =
      reinterpret_cast<const T*>(gradient.NextWhole(rows.size() * RowBytes(), copy));
  for (const int64_t row : rows) {
    const size_t place = PlaceOf(row);
    ValueBuffer& buffer = value_.page(place / page_rows_);
    T* const out =
        buffer.InPlace(copied_bytes_).mutable_data<T>() + place % page_rows_ * width;
    Add(out, added, out, width);
    added += width;
  }
}

}  // namespace cohort

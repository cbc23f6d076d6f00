#include "ps_server/variable_shard.h"

#include <algorithm>
#include <cstring>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "ps_server/table/prefetch.h"

namespace cohort {

namespace {

constexpr size_t kBlockFloats = kBlockBytes / sizeof(float);

absl::Span<const float> Floats(const Tensor& tensor, size_t begin, size_t count) {
  return {reinterpret_cast<const float*>(tensor.raw()) + begin, count};
}
absl::Span<float> MutableFloats(Tensor& tensor, size_t begin, size_t count) {
  return {reinterpret_cast<float*>(tensor.mutable_raw()) + begin, count};
}

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

}  // namespace

absl::StatusOr<std::unique_ptr<VariableShard>> VariableShard::Create(SliceLayout layout) {
  std::unique_ptr<UpdateKernel> kernel;
  if (layout.dtype == DType::kFloat32) {
    ASSIGN_OR_RETURN(kernel, MakeUpdateKernel(layout.rule));
  }
  ASSIGN_OR_RETURN(State initial, InitialState(layout));
  return std::unique_ptr<VariableShard>(
      new VariableShard(std::move(layout), std::move(initial), std::move(kernel)));
}

absl::StatusOr<VariableShard::State> VariableShard::InitialState(const SliceLayout& layout) {
  State state;
  ASSIGN_OR_RETURN(state.value, InitialRows(layout.initializer, layout.variable, layout.dtype,
                                            layout.full_shape, layout.rows));
  for (const SlotSpec& slot : layout.rule_spec.slots) {
    if (slot.starts_as_value) {
      state.slots.push_back(state.value.Clone());
      continue;
    }
    const Shape shape = layout.shape_of(slot);
    state.slots.push_back(Tensor(DType::kFloat32, shape));
    const absl::Span<float> floats =
        MutableFloats(state.slots.back(), 0, static_cast<size_t>(shape.num_elements()));
    std::fill(floats.begin(), floats.end(), slot.initial_value);
  }
  state.history = History();
  return state;
}

VariableShard::VariableShard(SliceLayout layout, State initial,
                             std::unique_ptr<UpdateKernel> kernel)
    : layout_(std::move(layout)),
      shape_(layout_.shape()),
      num_bytes_(initial.value.num_bytes()),
      kernel_(std::move(kernel)),
      slot_widths_(WidthsOf(layout_)),
      value_(std::move(initial.value)) {
  for (Tensor& slot : initial.slots) slots_.emplace_back(std::move(slot), kSlotSpareBlocksMax);
}

VariableShard::SlotWidths VariableShard::WidthsOf(const SliceLayout& layout) {
  SlotWidths widths;
  widths.row = layout.row_width();
  for (const SlotSpec& slot : layout.rule_spec.slots) {
    widths.slots.push_back(slot.per_row ? widths.row : 1);
    widths.largest = std::max(widths.largest, widths.slots.back());
  }
  return widths;
}

void VariableShard::EnterLocked(const ClosureWindow& window) {
  if (history_of_ != window.coordinator_incarnation) {
    history_.applied = AppliedSet();
    history_of_ = window.coordinator_incarnation;
  }
  history_.applied.RaiseWatermark(window.watermark);
}

VariableShard::Reading VariableShard::Read() const {
  MutexLock lock(mutex_);
  return {{value_.Lease(), value_.current().raw(), num_bytes_}, history_.version};
}

uint64_t VariableShard::ReadRows(absl::Span<const int64_t> rows, absl::Span<std::byte> out) const {
  constexpr size_t kAhead = 16;  // rows that are fetched ahead of the one that is copied
  const size_t row_bytes = slot_widths_.row * ElementSize(layout_.dtype);
  COHORT_CHECK(out.size() == rows.size() * row_bytes, "room for these rows");
  MutexLock lock(mutex_);
  const std::byte* const first = value_.current().raw();
  const auto at = [&](size_t i) {
    return first + static_cast<size_t>(rows[i] - layout_.rows.begin) * row_bytes;
  };
  for (size_t i = 0; i < rows.size(); ++i) {
    if (i + kAhead < rows.size()) PrefetchLine(at(i + kAhead));
    std::memcpy(out.data() + i * row_bytes, at(i), row_bytes);
  }
  return history_.version;
}

absl::StatusOr<VariableShard::Applied> VariableShard::Apply(PayloadCursor& gradient,
                                                            const UpdateContext& context,
                                                            AskGate gate) {
  MutexLock lock(mutex_);
  ASSIGN_OR_RETURN(const ClosureWindow window, gate());
  EnterLocked(window);
  ASSIGN_OR_RETURN(const bool is_new, history_.applied.Insert(context.closure_id));
  if (!is_new) {
    gradient.Skip(num_bytes_);
    return Applied{true, history_.version};
  }
  switch (layout_.dtype) {
    case DType::kInt32:
      AddLocked<int32_t>(gradient);
      break;
    case DType::kInt64:
      AddLocked<int64_t>(gradient);
      break;
    default:
      ApplyFloatsLocked(gradient, context);
      break;
  }
  return Applied{false, history_.version++};
}

void VariableShard::ApplyFloatsLocked(PayloadCursor& gradient, const UpdateContext& context) {
  const Tensor& in = value_.current();
  Tensor& out = value_.Next();
  const size_t count = static_cast<size_t>(in.num_elements());
  UpdateStep step;
  step.learning_rate = context.learning_rate;
  step.step = context.step;
  step.row_width = slot_widths_.row;
  step.slots.resize(slots_.size());
  for (ValueBuffer& slot : slots_) slot.Next();
  // Whole rows, where a slot has one element for each.
  const size_t width = slot_widths_.largest;
  const size_t whole_rows = std::max<size_t>(kBlockFloats / width, 1) * width;
  std::vector<float> wide_row(whole_rows > kBlockFloats ? whole_rows : 0);
  for (size_t begin = 0; begin < count; begin += whole_rows) {
    const size_t block = std::min(whole_rows, count - begin);
    step.gradient = NextFloats(gradient, block, wide_row);
    step.value_in = Floats(in, begin, block);
    step.value_out = MutableFloats(out, begin, block);
    for (size_t i = 0; i < slots_.size(); ++i) {
      const size_t slot_width = slot_widths_.slots[i];
      step.slots[i] = {Floats(slots_[i].current(), begin / slot_width, block / slot_width),
                       MutableFloats(slots_[i].next(), begin / slot_width, block / slot_width)};
    }
    kernel_->Apply(step);
  }
  value_.Commit();
  for (ValueBuffer& slot : slots_) slot.Commit();
}

template <typename T>
void VariableShard::AddLocked(PayloadCursor& gradient) {
  using Unsigned = std::make_unsigned_t<T>;  // wraps around; a peer's numbers must not be undefined
  constexpr size_t kBlock = kBlockBytes / sizeof(T);
  const T* const in = value_.current().data<T>();
  T* const out = value_.Next().mutable_data<T>();
  const size_t count = static_cast<size_t>(value_.current().num_elements());
  for (size_t begin = 0; begin < count; begin += kBlock) {
    const size_t block = std::min(kBlock, count - begin);
    const T* const added = reinterpret_cast<const T*>(gradient.Next(block * sizeof(T)));
    for (size_t i = 0; i < block; ++i) {
      out[begin + i] =
          static_cast<T>(static_cast<Unsigned>(in[begin + i]) + static_cast<Unsigned>(added[i]));
    }
  }
  value_.Commit();
}

absl::Status VariableShard::Assign(PayloadCursor& value, absl::FunctionRef<absl::Status()> admit) {
  MutexLock lock(mutex_);
  RETURN_IF_ERROR(admit());
  value.CopyTo(value_.Next().mutable_raw(), num_bytes_);
  value_.Commit();
  return absl::OkStatus();
}

absl::Status VariableShard::CheckHasAverage() const {
  const std::vector<SlotSpec>& slots = layout_.rule_spec.slots;
  if (!slots.empty() && slots.back().name == kAverageSlot) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(layout_.ToString(), " has no moving average"));
}

absl::Status VariableShard::AssignAverage(absl::FunctionRef<absl::Status()> admit) {
  RETURN_IF_ERROR(CheckHasAverage());
  MutexLock lock(mutex_);
  RETURN_IF_ERROR(admit());
  const Tensor& average = slots_.back().current();
  if (num_bytes_ == 0) return absl::OkStatus();
  std::memcpy(value_.Next().mutable_raw(), average.raw(), num_bytes_);
  value_.Commit();
  return absl::OkStatus();
}

absl::StatusOr<VariableShard::Snapshot> VariableShard::TakeSnapshot(AskGate gate) {
  MutexLock lock(mutex_);
  ASSIGN_OR_RETURN(const ClosureWindow window, gate());
  EnterLocked(window);
  Snapshot snapshot{value_.current(), {}, history_, {value_.Lease()}};
  for (const ValueBuffer& slot : slots_) {
    snapshot.slots.push_back(slot.current());
    snapshot.leases.push_back(slot.Lease());
  }
  return snapshot;
}

absl::Status VariableShard::Restore(const State& state, AskGate gate) {
  COHORT_CHECK(state.value.num_bytes() == num_bytes_, "a value of the slice's shape");
  COHORT_CHECK(state.slots.empty() || state.slots.size() == layout_.rule_spec.slots.size(),
               "all slots or none");
  MutexLock lock(mutex_);
  ASSIGN_OR_RETURN(const ClosureWindow window, gate());
  if (state.history.has_value()) {
    history_ = *state.history;
    history_of_ = window.coordinator_incarnation;
  }
  EnterLocked(window);
  if (num_bytes_ == 0) return absl::OkStatus();
  std::memcpy(value_.Next().mutable_raw(), state.value.raw(), num_bytes_);
  value_.Commit();
  for (size_t i = 0; i < state.slots.size(); ++i) {
    const Tensor& slot = state.slots[i];
    COHORT_CHECK(slot.num_bytes() == slots_[i].current().num_bytes(),
                 "a slot of the slice's shape");
    std::memcpy(slots_[i].Next().mutable_raw(), slot.raw(), slot.num_bytes());
    slots_[i].Commit();
  }
  return absl::OkStatus();
}

absl::StatusOr<size_t> VariableShard::Settle(AskGate gate) {
  MutexLock lock(mutex_);
  ASSIGN_OR_RETURN(const ClosureWindow window, gate());
  EnterLocked(window);
  return history_.applied.size();
}

size_t VariableShard::resident_bytes() const {
  MutexLock lock(mutex_);
  size_t bytes = value_.resident_bytes();
  for (const ValueBuffer& slot : slots_) bytes += slot.resident_bytes();
  return bytes;
}

}  // namespace cohort

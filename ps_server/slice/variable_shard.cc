#include "ps_server/slice/variable_shard.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/prefetch.h"
#include "common/base/status.h"
#include "common/program/replica_rows.h"

namespace cohort {

namespace {

absl::Span<float> MutableFloats(Tensor& tensor, size_t begin, size_t count) {
  return {reinterpret_cast<float*>(tensor.mutable_raw()) + begin, count};
}

void ReplaceBy(const Tensor& tensor, PagedValue& paged) {
  size_t done = 0;
  paged.Replace([&](std::byte* out, size_t size) {
    COHORT_CHECK(done + size <= tensor.num_bytes(), "a tensor of the slice's shape");
    std::memcpy(out, tensor.raw() + done, size);
    done += size;
  });
  COHORT_CHECK(done == tensor.num_bytes(), "a tensor of the slice's shape");
}

size_t PageRowsOf(const SliceLayout& layout, const VariableMemory& memory) {
  const size_t rows = memory.in_one_piece()
                          ? static_cast<size_t>(layout.rows.count)
                          : kPageBytes / (layout.row_width() * ElementSize(layout.dtype));
  return std::max<size_t>(rows, 1);
}

// A new tensor's bytes, there. Those of the processor are there.
absl::Status MoveTo(VariableMemory& memory, Tensor& tensor) {
  if (&memory == HostMemory().get()) return absl::OkStatus();
  ASSIGN_OR_RETURN(std::shared_ptr<Buffer> buffer, memory.Allocate(tensor.num_bytes()));
  Tensor moved(tensor.dtype(), tensor.shape(), std::move(buffer), 0);
  if (moved.num_bytes() > 0) std::memcpy(moved.mutable_raw(), tensor.raw(), moved.num_bytes());
  tensor = std::move(moved);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<VariableShard>> VariableShard::Create(
    SliceLayout layout, std::shared_ptr<VariableMemory> memory) {
  Parts parts;
  parts.memory = std::move(memory);
  if (layout.dynamic.has_value()) {
    ASSIGN_OR_RETURN(parts.rows, DynamicRows::Create(layout));
  } else if (layout.dtype == DType::kFloat32) {
    ASSIGN_OR_RETURN(parts.kernel, parts.memory->MakeKernel(layout.rule));
  }
  ASSIGN_OR_RETURN(parts.initial, InitialState(layout));
  RETURN_IF_ERROR(MoveTo(*parts.memory, parts.initial.value));
  for (Tensor& slot : parts.initial.slots) RETURN_IF_ERROR(MoveTo(*parts.memory, slot));
  return std::unique_ptr<VariableShard>(new VariableShard(std::move(layout), std::move(parts)));
}

absl::StatusOr<VariableShard::State> VariableShard::InitialState(const SliceLayout& layout) {
  State state;
  state.history = History();
  if (layout.dynamic.has_value()) {
    state.value = Tensor(layout.dtype, Shape{0});
    return state;
  }
  // All replicas begin with one value.
  const RowRange rows = layout.replicas > 0 ? RowRange{0, 1} : layout.rows;
  ASSIGN_OR_RETURN(state.value, InitialRows(layout.initializer, layout.variable, layout.dtype,
                                            layout.full_shape, rows));
  if (layout.replicas > 0) {
    state.value = RowsWithEach(RowOfReplica(state.value, 0), layout.replicas);
  }
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
  return state;
}

VariableShard::VariableShard(SliceLayout layout, Parts parts)
    : layout_(std::move(layout)),
      memory_(std::move(parts.memory)),
      shape_(layout_.shape()),
      num_bytes_(parts.initial.value.num_bytes()),
      kernel_(std::move(parts.kernel)),
      slot_widths_(WidthsOf(layout_)),
      page_rows_(PageRowsOf(layout_, *memory_)),
      rows_(std::move(parts.rows)),
      value_(parts.initial.value, *memory_, {page_rows_ * slot_widths_.row, kSpareBlocksMax}) {
  const size_t page_elements = page_rows_ * slot_widths_.row;
  for (size_t i = 0; i < parts.initial.slots.size(); ++i) {
    slots_.emplace_back(parts.initial.slots[i], *memory_,
                        PagedValue::Pages{page_elements / slot_widths_.slots[i],
                                          kSlotSpareBlocksMax});
  }
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
    history_.round = 0;
    ForgetRoundsLocked();
    history_of_ = window.coordinator_incarnation;
  }
  history_.applied.RaiseWatermark(window.watermark);
  round_.DropBelow(window.watermark);
}

bool VariableShard::ReadsBeforeLocked(const RoundRead& round) const {
  // Before the first call that changes something under another coordinator, what was before a round
  // is that of the last one's.
  return before_.IsFor(round.round) && history_of_ == round.coordinator;
}

VariableShard::Reading VariableShard::ReadFor(const RoundRead& round) const {
  MutexLock lock(mutex_);
  if (ReadsBeforeLocked(round)) return {before_.All(value_), before_.version()};
  return {value_.Lease(), history_.version};
}

uint64_t VariableShard::ReadRowsFor(const RoundRead& round, absl::Span<const int64_t> rows,
                                    absl::Span<std::byte> out) const {
  COHORT_CHECK(out.size() == rows.size() * RowBytes(), "room for these rows");
  MutexLock lock(mutex_);
  const bool before = ReadsBeforeLocked(round);
  const absl::Time now = rows_ == nullptr ? absl::InfinitePast() : rows_->now();
  ReadRowsLocked(rows, before ? before_.now() : now, out);
  if (!before) return history_.version;
  before_.TakeBack(rows, out);
  return before_.version();
}

void VariableShard::ReadRowsLocked(absl::Span<const int64_t> rows, absl::Time at,
                                   absl::Span<std::byte> out) const {
  constexpr size_t kAhead = 16;  // rows that are fetched ahead of the one that is copied
  const size_t row_bytes = RowBytes();
  if (rows_ != nullptr) return rows_->Read(rows, at, out);
  const auto row_at = [&](size_t i) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const size_t place = PlaceOf(rows[i]);
    return value_.page(place / page_rows_).current().raw() + place % page_rows_ * row_bytes;
  };
  for (size_t i = 0; i < rows.size(); ++i) {
    if (i + kAhead < rows.size()) PrefetchLine(row_at(i + kAhead));
    std::memcpy(out.data() + i * row_bytes, row_at(i), row_bytes);
  }
}

absl::Status VariableShard::Assign(PayloadCursor& value, absl::FunctionRef<absl::Status()> admit) {
  MutexLock lock(mutex_);
  RETURN_IF_ERROR(admit());
  before_.Forget();
  value_.Replace([&](std::byte* out, size_t size) { value.CopyTo(out, size); });
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
  before_.Forget();
  if (rows_ != nullptr) {
    rows_->TakeAverages();
    return absl::OkStatus();
  }
  const PagedValue& average = slots_.back();
  size_t page = 0;
  value_.Replace([&](std::byte* out, size_t size) {
    std::memcpy(out, average.page(page++).current().raw(), size);
  });
  return absl::OkStatus();
}

absl::StatusOr<VariableShard::Snapshot> VariableShard::TakeSnapshot(AskGate gate) {
  MutexLock lock(mutex_);
  ASSIGN_OR_RETURN(const ClosureWindow window, gate());
  EnterLocked(window);
  Snapshot snapshot{value_.Lease(), {}, history_};
  for (const PagedValue& slot : slots_) snapshot.slots.push_back(slot.Lease());
  if (rows_ != nullptr) snapshot.table = rows_->Save();
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
    ForgetRoundsLocked();
    history_of_ = window.coordinator_incarnation;
  }
  EnterLocked(window);
  before_.Forget();
  if (rows_ != nullptr) rows_->Load(state.table);
  ReplaceBy(state.value, value_);
  for (size_t i = 0; i < state.slots.size(); ++i) ReplaceBy(state.slots[i], slots_[i]);
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
  size_t bytes = value_.resident_bytes() + before_.copied_bytes();
  if (rows_ != nullptr) {
    const RowTableUse use = rows_->Use();
    bytes += use.row_bytes + use.index_bytes;
  }
  for (const PagedValue& slot : slots_) bytes += slot.resident_bytes();
  return bytes;
}

RowTableUse VariableShard::table_use() const {
  MutexLock lock(mutex_);
  return rows_ == nullptr ? RowTableUse() : rows_->Use();
}

uint64_t VariableShard::copied_bytes() const {
  MutexLock lock(mutex_);
  return copied_bytes_;
}

}  // namespace cohort

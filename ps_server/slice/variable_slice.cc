#include "ps_server/slice/variable_slice.h"

#include <algorithm>
#include <cstring>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/prefetch.h"
#include "common/base/status.h"
#include "common/program/aggregation.h"
#include "ps_server/slice/whole_update.h"

namespace cohort {

namespace {

absl::Span<float> MutableFloats(Tensor& tensor, size_t begin, size_t count) {
  return {reinterpret_cast<float*>(tensor.mutable_raw()) + begin, count};
}

// Replaces the content of a value or slot by the content of `tensor`, which has the same shape.
void ReplaceBy(const Tensor& tensor, PagedValue& paged) {
  size_t done = 0;
  paged.Replace([&](std::byte* out, size_t size) {
    COHORT_CHECK(done + size <= tensor.num_bytes(), "a tensor of the slice's shape");
    std::memcpy(out, tensor.raw() + done, size);
    done += size;
  });
  COHORT_CHECK(done == tensor.num_bytes(), "a tensor of the slice's shape");
}

// Returns the number of rows in a page. In a GPU's memory all rows form one page, because a GPU
// updates the slice as a whole.
size_t PageRowsOf(const SliceLayout& layout, const VariableMemory& memory) {
  const size_t rows = memory.in_one_piece()
                          ? static_cast<size_t>(layout.rows.count)
                          : kPageBytes / (layout.row_width() * ElementSize(layout.dtype));
  return std::max<size_t>(rows, 1);
}

// Moves a tensor into `memory`. The initializer has made the tensor in host memory, so nothing is
// done if `memory` is the host's.
absl::Status MoveTo(VariableMemory& memory, Tensor& tensor) {
  if (&memory == HostMemory().get()) return absl::OkStatus();
  ASSIGN_OR_RETURN(std::shared_ptr<Buffer> buffer, memory.Allocate(tensor.num_bytes()));
  Tensor moved(tensor.dtype(), tensor.shape(), std::move(buffer), 0);
  if (moved.num_bytes() > 0) std::memcpy(moved.mutable_raw(), tensor.raw(), moved.num_bytes());
  tensor = std::move(moved);
  return absl::OkStatus();
}

constexpr size_t kBlockFloats = kBlockBytes / sizeof(float);

// Returns the next `count` floats of the cursor. A block of whole rows can be longer than a block
// of the cursor: `wide_row` is then not empty, and the floats are copied to it.
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
  // Integers are added as unsigned numbers, which wrap around, because the overflow of signed
  // numbers would be undefined behaviour and the numbers come from a peer.
  using Unsigned = std::make_unsigned_t<T>;
  for (size_t i = 0; i < count; ++i) {
    out[i] = static_cast<T>(static_cast<Unsigned>(in[i]) + static_cast<Unsigned>(added[i]));
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<VariableSlice>> VariableSlice::Create(
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
  return std::unique_ptr<VariableSlice>(new VariableSlice(std::move(layout), std::move(parts)));
}

absl::StatusOr<SliceState> VariableSlice::InitialState(const SliceLayout& layout) {
  SliceState state;
  state.history = SliceHistory();
  if (layout.dynamic.has_value()) {
    state.value = Tensor(layout.dtype, Shape{0});
    return state;
  }
  // All replicas begin with the same value, so the initializer makes one row, which is copied for
  // each replica.
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

VariableSlice::VariableSlice(SliceLayout layout, Parts parts)
    : layout_(std::move(layout)),
      memory_(std::move(parts.memory)),
      shape_(layout_.shape()),
      num_bytes_(parts.initial.value.num_bytes()),
      kernel_(std::move(parts.kernel)),
      slot_widths_(WidthsOf(layout_)),
      page_rows_(PageRowsOf(layout_, *memory_)),
      rows_(std::move(parts.rows)),
      value_(parts.initial.value, *memory_, {page_rows_ * slot_widths_.row, kSpareBlocksMax}) {
  // Each page of a slot has the same rows as the value's page with the same index.
  const size_t page_elements = page_rows_ * slot_widths_.row;
  for (size_t i = 0; i < parts.initial.slots.size(); ++i) {
    slots_.emplace_back(
        parts.initial.slots[i], *memory_,
        PagedValue::Pages{page_elements / slot_widths_.slots[i], kSlotSpareBlocksMax});
  }
}

VariableSlice::SlotWidths VariableSlice::WidthsOf(const SliceLayout& layout) {
  SlotWidths widths;
  widths.row = layout.row_width();
  for (const SlotSpec& slot : layout.rule_spec.slots) {
    widths.slots.push_back(slot.per_row ? widths.row : 1);
    widths.largest = std::max(widths.largest, widths.slots.back());
  }
  return widths;
}

void VariableSlice::EnterLocked(const ClosureWindow& window) {
  // Each coordinator counts its own closure ids and rounds, so the slice forgets the ids and rounds
  // of the former coordinator.
  if (history_of_ != window.coordinator_incarnation) {
    history_.applied = AppliedSet();
    history_.round = 0;
    ForgetRoundsLocked();
    history_of_ = window.coordinator_incarnation;
  }
  history_.applied.RaiseWatermark(window.watermark);
  round_.DropBelow(window.watermark);
}

bool VariableSlice::ReadsBeforeLocked(const RoundRead& round) const {
  // `before_` may still belong to a round of a former coordinator, whose number must not be
  // compared with rounds of the present coordinator.
  return before_.IsFor(round.round) && history_of_ == round.coordinator;
}

VariableSlice::Reading VariableSlice::ReadFor(const RoundRead& round) const {
  MutexLock lock(mutex_);
  if (ReadsBeforeLocked(round)) return {before_.All(value_), before_.version()};
  return {value_.Lease(), history_.version};
}

uint64_t VariableSlice::ReadRowsFor(const RoundRead& round, absl::Span<const int64_t> rows,
                                    absl::Span<std::byte> out) const {
  COHORT_CHECK(out.size() == rows.size() * RowBytes(), "the output has the size of the rows");
  MutexLock lock(mutex_);
  const bool before = ReadsBeforeLocked(round);
  const absl::Time now = rows_ == nullptr ? absl::InfinitePast() : rows_->now();
  // All rows are copied with their present content. If the step must read the value from before the
  // round, TakeBack() then puts back the former content of the rows that the round changed.
  ReadRowsLocked(rows, before ? before_.now() : now, out);
  if (!before) return history_.version;
  before_.TakeBack(rows, out);
  return before_.version();
}

void VariableSlice::ReadRowsLocked(absl::Span<const int64_t> rows, absl::Time at,
                                   absl::Span<std::byte> out) const {
  constexpr size_t kAhead = 16;  // number of rows by which the prefetch is ahead of the copy
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

absl::Status VariableSlice::Assign(PayloadCursor& value, absl::FunctionRef<absl::Status()> admit) {
  MutexLock lock(mutex_);
  RETURN_IF_ERROR(admit());
  before_.Forget();
  // The value from before the last round is forgotten, because all steps must read the assigned
  // value from now on.
  value_.Replace([&](std::byte* out, size_t size) { value.CopyTo(out, size); });
  return absl::OkStatus();
}

absl::Status VariableSlice::CheckHasAverage() const {
  const std::vector<SlotSpec>& slots = layout_.rule_spec.slots;
  if (!slots.empty() && slots.back().name == kAverageSlot) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(layout_.ToString(), " has no moving average"));
}

absl::Status VariableSlice::AssignAverage(absl::FunctionRef<absl::Status()> admit) {
  RETURN_IF_ERROR(CheckHasAverage());
  MutexLock lock(mutex_);
  RETURN_IF_ERROR(admit());
  before_.Forget();
  if (rows_ != nullptr) {
    rows_->TakeAverages();
    return absl::OkStatus();
  }
  // The moving average has the shape of the value, so both are divided into the same pages.
  const PagedValue& average = slots_.back();
  size_t page = 0;
  value_.Replace([&](std::byte* out, size_t size) {
    std::memcpy(out, average.page(page++).current().raw(), size);
  });
  return absl::OkStatus();
}

absl::StatusOr<SliceSnapshot> VariableSlice::TakeSnapshot(AskGate gate) {
  MutexLock lock(mutex_);
  ASSIGN_OR_RETURN(const ClosureWindow window, gate());
  EnterLocked(window);
  // Value, slots and history are taken under one lock, so they belong to the same version.
  SliceSnapshot snapshot{value_.Lease(), {}, history_};
  for (const PagedValue& slot : slots_) snapshot.slots.push_back(slot.Lease());
  if (rows_ != nullptr) snapshot.table = rows_->Save();
  return snapshot;
}

absl::Status VariableSlice::Restore(const SliceState& state, AskGate gate) {
  COHORT_CHECK(state.value.num_bytes() == num_bytes_, "a value of the slice's shape");
  COHORT_CHECK(state.slots.empty() || state.slots.size() == layout_.rule_spec.slots.size(),
               "a state has all slots of the rule, or none");
  MutexLock lock(mutex_);
  ASSIGN_OR_RETURN(const ClosureWindow window, gate());
  if (state.history.has_value()) {
    // Closure ids in the restored history count as ids of the coordinator that restores now, even
    // if they were saved under another incarnation.
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

absl::StatusOr<size_t> VariableSlice::Settle(AskGate gate) {
  MutexLock lock(mutex_);
  ASSIGN_OR_RETURN(const ClosureWindow window, gate());
  EnterLocked(window);
  return history_.applied.size();
}

size_t VariableSlice::resident_bytes() const {
  MutexLock lock(mutex_);
  size_t bytes = value_.resident_bytes() + before_.copied_bytes();
  if (rows_ != nullptr) {
    const RowTableUse use = rows_->Use();
    bytes += use.row_bytes + use.index_bytes;
  }
  for (const PagedValue& slot : slots_) bytes += slot.resident_bytes();
  return bytes;
}

RowTableUse VariableSlice::table_use() const {
  MutexLock lock(mutex_);
  return rows_ == nullptr ? RowTableUse() : rows_->Use();
}

uint64_t VariableSlice::copied_bytes() const {
  MutexLock lock(mutex_);
  return copied_bytes_;
}

// From here to the end of the file: changes of the slice by pushes.

absl::StatusOr<bool> VariableSlice::AdmitLocked(const SlicePush& context, AskGate gate) {
  ASSIGN_OR_RETURN(const ClosureWindow window, gate());
  EnterLocked(window);
  return history_.applied.Insert(context.closure_id);
}

absl::StatusOr<AppliedPush> VariableSlice::Apply(PayloadCursor& gradient, const SlicePush& context,
                                                 AskGate gate) {
  MutexLock lock(mutex_);
  if (context.round != 0) return ApplyInRoundLocked(std::nullopt, gradient, context, gate);
  ASSIGN_OR_RETURN(const bool is_new, AdmitLocked(context, gate));
  if (!is_new) {
    // The gradient of a duplicate push is skipped in the payload, because the gradients of other
    // slices follow it there.
    gradient.Skip(num_bytes_);
    return AppliedPush{true, history_.version};
  }
  UpdateAllLocked(gradient, context);
  return AppliedPush{false, history_.version++};
}

absl::StatusOr<AppliedPush> VariableSlice::ApplyRows(absl::Span<const int64_t> rows,
                                                     PayloadCursor& gradient,
                                                     const SlicePush& context, AskGate gate) {
  MutexLock lock(mutex_);
  if (context.round != 0) return ApplyInRoundLocked(rows, gradient, context, gate);
  ASSIGN_OR_RETURN(const bool is_new, AdmitLocked(context, gate));
  if (!is_new) {
    gradient.Skip(rows.size() * RowBytes());
    return AppliedPush{true, history_.version};
  }
  UpdateRowsLocked(rows, gradient, context);
  return AppliedPush{false, history_.version++};
}

void VariableSlice::UpdateAllLocked(PayloadCursor& gradient, const SlicePush& context) {
  switch (layout_.dtype) {
    case DType::kInt32:
      return AddLocked<int32_t>(gradient);
    case DType::kInt64:
      return AddLocked<int64_t>(gradient);
    default:
      return ApplyFloatsLocked(gradient, context);
  }
}

void VariableSlice::UpdateRowsLocked(absl::Span<const int64_t> rows, PayloadCursor& gradient,
                                     const SlicePush& context) {
  switch (layout_.dtype) {
    case DType::kInt32:
      return AddRowsLocked<int32_t>(rows, gradient);
    case DType::kInt64:
      return AddRowsLocked<int64_t>(rows, gradient);
    default:
      return ApplyFloatRowsLocked(rows, gradient, context);
  }
}

UpdateStep VariableSlice::StepOf(const SlicePush& context) const {
  UpdateStep step;
  step.learning_rate = context.learning_rate;
  step.step = context.step;
  step.row_width = slot_widths_.row;
  step.matrix = MatrixOf(layout_.full_shape);
  for (const size_t width : slot_widths_.slots) {
    const size_t in_row = slot_widths_.row / width;
    step.slots.push_back({{nullptr, in_row}, {nullptr, in_row}});
  }
  return step;
}

void VariableSlice::ApplyFloatsLocked(PayloadCursor& gradient, const SlicePush& context) {
  if (layout_.rule_spec.whole) return ApplyWholeLocked(gradient, context);
  UpdateStep step = StepOf(context);
  PageWriter writer(value_, slots_, slot_widths_.slots);
  if (memory_->in_one_piece()) {
    // A GPU updates the whole slice with one kernel call, so the gradient must be contiguous.
    if (num_bytes_ == 0) return;
    std::shared_ptr<Buffer> copy;
    const size_t count = value_.elements_of(0);
    step.gradient = {reinterpret_cast<const float*>(gradient.NextWhole(num_bytes_, copy)), count};
    writer.Enter(0);
    writer.SetSpans(0, count, step);
    return kernel_->Apply(step);
  }
  // A block has whole rows if a slot has one element per row. The borders of blocks do not depend
  // on the message's memory slices, so the arithmetic gives the same bits every time.
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

void VariableSlice::ApplyFloatRowsLocked(absl::Span<const int64_t> rows, PayloadCursor& gradient,
                                         const SlicePush& context) {
  if (rows_ != nullptr) {
    return rows_->Push(rows, gradient, {context.learning_rate, context.step},
                       {context.time_ms, history_of_});
  }
  const size_t width = slot_widths_.row;
  // `here` has the positions of the rows within the slice, by which the update kernel finds the
  // rows.
  std::vector<int64_t> here(rows.begin(), rows.end());
  for (int64_t& row : here) row -= layout_.rows.begin;
  std::shared_ptr<Buffer> copy;
  const auto* const floats =
      reinterpret_cast<const float*>(gradient.NextWhole(rows.size() * RowBytes(), copy));
  const MergedRows merged(here, {floats, rows.size() * width}, width);
  if (layout_.rule_spec.whole) return ApplyWholeRowsLocked(merged, context);
  UpdateStep step = StepOf(context);
  // An update rule that sweeps also changes the rows without a gradient, so it writes new pages.
  // Any other rule changes only the given rows, in place.
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

void VariableSlice::ApplyWholeLocked(PayloadCursor& gradient, const SlicePush& context) {
  if (num_bytes_ == 0) return;
  std::shared_ptr<Buffer> copy;
  const size_t count = num_bytes_ / sizeof(float);
  const auto* const floats = reinterpret_cast<const float*>(gradient.NextWhole(num_bytes_, copy));
  UpdateStep step = StepOf(context);
  step.gradient = {floats, count};
  UpdateWhole(*kernel_, step, value_, slots_);
}

void VariableSlice::ApplyWholeRowsLocked(const MergedRows& gradients, const SlicePush& context) {
  const std::vector<float> all = WithAllRows(gradients, num_bytes_ / sizeof(float));
  UpdateStep step = StepOf(context);
  step.gradient = all;
  UpdateWhole(*kernel_, step, value_, slots_);
}

template <typename T>
void VariableSlice::AddLocked(PayloadCursor& gradient) {
  constexpr size_t kBlock = kBlockBytes / sizeof(T);
  for (size_t page = 0; page < value_.num_pages(); ++page) {
    ValueBuffer& buffer = value_.page(page);
    // `in` and `out` are the same memory if the page is not leased, which Add() permits.
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

// The gradients of equal rows need not be added up first, because integers can be added in any
// order with the same result.
template <typename T>
void VariableSlice::AddRowsLocked(absl::Span<const int64_t> rows, PayloadCursor& gradient) {
  const size_t width = slot_widths_.row;
  std::shared_ptr<Buffer> copy;
  const auto* added =
      reinterpret_cast<const T*>(gradient.NextWhole(rows.size() * RowBytes(), copy));
  for (const int64_t row : rows) {
    const size_t place = PlaceOf(row);
    ValueBuffer& buffer = value_.page(place / page_rows_);
    T* const out = buffer.InPlace(copied_bytes_).mutable_data<T>() + place % page_rows_ * width;
    Add(out, added, out, width);
    added += width;
  }
}

// Synchronous pushes: a slice keeps the first `aggregate` pushes of a round and then applies them
// as one push.

std::optional<AppliedPush> VariableSlice::LateOrRepeatedLocked(const SlicePush& context) {
  AppliedPush applied;
  applied.version_before = history_.version;
  // The push is late: its round was applied, or a push of a later round has arrived because the
  // coordinator has given this round up.
  if (context.round <= history_.round || context.round < round_.round()) {
    // The closure of a late push is remembered like that of an applied push, so that a repetition
    // of the push counts as a duplicate. If the applied set has no room for the closure, the round
    // number still keeps the push from being applied.
    applied.dropped = history_.applied.Insert(context.closure_id).value_or(false);
    applied.duplicate = !applied.dropped;
    return applied;
  }
  if (context.round != round_.round() || !round_.Has(context.closure_id)) return std::nullopt;
  // `aggregate` may be lower in this repeated push than in the first one, because a closure of the
  // round has failed. If the kept pushes are enough now, this push completes the round.
  if (round_.size() >= context.aggregate) return std::nullopt;
  applied.duplicate = applied.kept = true;
  return applied;
}

absl::StatusOr<AppliedPush> VariableSlice::ApplyInRoundLocked(
    const std::optional<absl::Span<const int64_t>>& rows, PayloadCursor& gradient,
    const SlicePush& context, AskGate gate) {
  const size_t bytes = rows.has_value() ? rows->size() * RowBytes() : num_bytes_;
  ASSIGN_OR_RETURN(const ClosureWindow window, gate());
  EnterLocked(window);
  if (const std::optional<AppliedPush> known = LateOrRepeatedLocked(context)) {
    gradient.Skip(bytes);
    return *known;
  }
  if (context.round > round_.round()) {
    round_.Begin(context.round);
    // Earlier rounds are over, so no step reads the value from before them any more.
    before_.Forget();
  }
  RoundPushes::Part part;
  if (rows.has_value()) {
    part.kind = RoundPushes::Kind::kSomeRows;
    part.rows.assign(rows->begin(), rows->end());
  } else if (context.assign) {
    part.kind = RoundPushes::Kind::kValue;
  }
  // Pushes of different kinds cannot be joined into one push.
  if (round_.kind().value_or(part.kind) != part.kind) {
    return absl::InvalidArgumentError(absl::StrCat(layout_.ToString(), " gets pushes of two kinds ",
                                                   "(all rows, some rows, values) in round ",
                                                   context.round));
  }
  AppliedPush applied;
  applied.version_before = history_.version;
  // The round needs only this push, which is applied at once, without a copy of its gradient.
  if (round_.size() == 0 && context.aggregate <= 1) {
    const RoundPushes::Joined alone = {{context.closure_id}, part.kind, std::move(part.rows), {}};
    ApplyRoundLocked(alone, gradient, context);
    return applied;
  }
  // The gradient is copied, because the message's memory is freed at the end of the call, and the
  // push stays here until its round is complete.
  part.elements = Buffer::Allocate(bytes);
  gradient.CopyTo(part.elements->data(), bytes);
  round_.Keep(context.closure_id, std::move(part));
  applied.kept = round_.size() < context.aggregate;
  if (applied.kept) return applied;
  const auto update = context.assign ? ReplicaUpdate::kAssign : ReplicaUpdate::kPush;
  const ReplicaContext replicas{layout_.variable, layout_.rule, layout_.aggregation, update};
  const RoundPushes::Joined joined = round_.Take(replicas.How(), layout_.dtype);
  PayloadCursor cursor(joined.elements);
  ApplyRoundLocked(joined, cursor, context);
  return applied;
}

void VariableSlice::ForgetRoundsLocked() {
  round_ = RoundPushes();
  before_.Forget();
}

void VariableSlice::ApplyRoundLocked(const RoundPushes::Joined& pushes, PayloadCursor& elements,
                                     const SlicePush& context) {
  const bool some_rows = pushes.kind == RoundPushes::Kind::kSomeRows;
  // First, the value from before the round is kept for steps of the round that run again.
  ValueBefore::Of of = {context.round, history_.version, RowBytes(), page_rows_,
                        layout_.rows.begin};
  if (rows_ != nullptr) of.now = rows_->now();
  // Copies of the pushed rows suffice only if the update rule leaves all other rows unchanged.
  if (some_rows && (rows_ != nullptr || !layout_.rule_spec.sweeps)) {
    before_.KeepRows(
        of, pushes.rows,
        [&](absl::Span<const int64_t> rows, absl::Span<std::byte> out)
            ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { ReadRowsLocked(rows, of.now, out); });
  } else {
    before_.KeepAll(of, value_);
  }
  if (pushes.kind == RoundPushes::Kind::kValue) {
    value_.Replace([&](std::byte* out, size_t size) { elements.CopyTo(out, size); });
  } else if (some_rows) {
    UpdateRowsLocked(pushes.rows, elements, context);
  } else {
    UpdateAllLocked(elements, context);
  }
  history_.round = context.round;
  ++history_.version;
  // If the applied set has no room for a closure, the round number still prevents its push from
  // being applied again. A repetition of the push then counts as dropped, not as a duplicate.
  for (const uint64_t closure : pushes.closures) history_.applied.Insert(closure).IgnoreError();
}

}  // namespace cohort

#include "ps_server/slice/dynamic_rows.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "common/base/check.h"
#include "common/base/status.h"
#include "common/runtime/update/sparse_update.h"
#include "common/tensor/slice_spec.h"

namespace cohort {

namespace {

// The time in milliseconds by which one step advances the clock of a table that counts steps
// instead of time. The time stamps of rows (RowTime) have units of 62.5 ms, so different steps get
// different stamps.
constexpr uint64_t kStepMs = 63;
static_assert(kStepMs * 1000 > 62'500, "steps have stamps of their own (RowTime)");

absl::Span<const uint64_t> Bits(absl::Span<const int64_t> keys) {
  return {reinterpret_cast<const uint64_t*>(keys.data()), keys.size()};
}

// Returns whether the keys of a push may contain one key twice. Workers send each key once, in
// ascending order of the keys' hashes; strictly ascending hashes prove that no key is repeated.
bool MayRepeat(absl::Span<const int64_t> keys) {
  const auto not_before = [](int64_t a, int64_t b) { return KeyOrder(a) >= KeyOrder(b); };
  return std::adjacent_find(keys.begin(), keys.end(), not_before) != keys.end();
}

}  // namespace

absl::StatusOr<std::unique_ptr<DynamicRows>> DynamicRows::Create(const SliceLayout& layout) {
  COHORT_CHECK(layout.dynamic.has_value(), "a dynamic table's slice");
  RowTableOptions options;
  options.row = {layout.variable, layout.row_width(), layout.dynamic->row_dtype,
                 layout.initializer};
  options.policy = layout.dynamic->policy;
  options.rule = layout.rule;
  ASSIGN_OR_RETURN(std::unique_ptr<RowTable> table, RowTable::Create(options));
  return std::unique_ptr<DynamicRows>(new DynamicRows(layout, std::move(table)));
}

void DynamicRows::Read(absl::Span<const int64_t> keys, absl::Time at,
                       absl::Span<std::byte> out) const {
  const size_t floats = keys.size() * layout_.row_width();
  COHORT_CHECK(out.size() == floats * sizeof(float), "the output has the size of the rows");
  if (reinterpret_cast<uintptr_t>(out.data()) % alignof(float) == 0) {
    return table_->Pull(Bits(keys), at, {reinterpret_cast<float*>(out.data()), floats});
  }
  // RowTable writes to aligned memory only, so for an unaligned `out` the rows are read into
  // aligned memory and then copied.
  std::vector<float> aligned(floats);
  table_->Pull(Bits(keys), at, absl::MakeSpan(aligned));
  std::memcpy(out.data(), aligned.data(), out.size());
}

void DynamicRows::Push(absl::Span<const int64_t> keys, PayloadCursor& gradient,
                       const PushRates& rates, const StepClock::StepTime& time) {
  // If rows never expire, the table's clock counts steps instead of time. Eviction compares time
  // stamps, so it then removes the same rows in every run of a job.
  const bool expires = layout_.dynamic->policy.ttl != absl::InfiniteDuration();
  clock_.Advance(expires ? time : StepClock::StepTime{rates.step * kStepMs, time.coordinator});
  const size_t width = layout_.row_width();
  std::shared_ptr<Buffer> copy;
  const auto* const floats =
      reinterpret_cast<const float*>(gradient.NextWhole(keys.size() * width * sizeof(float), copy));
  const absl::Span<const float> gradients(floats, keys.size() * width);
  if (!MayRepeat(keys)) return table_->Push(Bits(keys), gradients, rates, now());
  // The gradients of a repeated key are added up and applied once, because most update rules give
  // another result for two updates than for one update by the sum.
  const MergedRows merged(keys, gradients, width);
  std::vector<uint64_t> merged_keys;
  std::vector<float> sums;
  for (size_t i = 0; i < merged.size(); ++i) {
    merged_keys.push_back(static_cast<uint64_t>(merged.row(i)));
    const absl::Span<const float> sum = merged.gradient(i);
    sums.insert(sums.end(), sum.begin(), sum.end());
  }
  table_->Push(merged_keys, sums, rates, now());
}

SavedTable DynamicRows::Save() const {
  SavedTable saved{table_->SaveState(), table_->Save(now())};
  saved.state.clock = clock_;
  return saved;
}

// The clock becomes the latest clock of the saved slices. Rows are saved with their ages instead of
// time stamps, so any clock would be correct; the saved clock gives the rows the same stamps as
// before.
void DynamicRows::Load(const LoadedTable& loaded) {
  clock_ = StepClock();
  for (const TableState& state : loaded.states) {
    if (state.clock.ms >= clock_.ms) clock_ = state.clock;
  }
  // The clock is set before the rows are loaded, because a row's time stamp is computed from the
  // clock and the row's saved age.
  table_->Load(
      loaded.rows, [&](uint64_t key) { return layout_.Holds(static_cast<int64_t>(key)); }, now());
  table_->LoadState(loaded.states);
}

}  // namespace cohort

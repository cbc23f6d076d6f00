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

// The length of one step in a table that counts steps instead of time. It is longer than one unit
// of a row's time stamp (RowTime), so each step has a stamp of its own.
constexpr uint64_t kStepMs = 63;
static_assert(kStepMs * 1000 > 62'500, "steps have stamps of their own (RowTime)");

absl::Span<const uint64_t> Bits(absl::Span<const int64_t> keys) {
  return {reinterpret_cast<const uint64_t*>(keys.data()), keys.size()};
}

// Returns whether a key may occur twice. Workers send the keys of a push in the order of their
// hashes, each key once, so strictly ascending hashes exclude repetitions.
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
  COHORT_CHECK(out.size() == floats * sizeof(float), "room for these rows");
  if (reinterpret_cast<uintptr_t>(out.data()) % alignof(float) == 0) {
    return table_->Pull(Bits(keys), at, {reinterpret_cast<float*>(out.data()), floats});
  }
  // The table writes aligned floats, so an unaligned destination gets the rows through a copy.
  std::vector<float> aligned(floats);
  table_->Pull(Bits(keys), at, absl::MakeSpan(aligned));
  std::memcpy(out.data(), aligned.data(), out.size());
}

void DynamicRows::Push(absl::Span<const int64_t> keys, PayloadCursor& gradient,
                       const PushRates& rates, const StepClock::StepTime& time) {
  // Without expiry the table counts steps instead of time. The row that was pushed longest ago is
  // then the same in every run of a job.
  const bool expires = layout_.dynamic->policy.ttl != absl::InfiniteDuration();
  clock_.Advance(expires ? time : StepClock::StepTime{rates.step * kStepMs, time.coordinator});
  const size_t width = layout_.row_width();
  std::shared_ptr<Buffer> copy;
  const auto* const floats =
      reinterpret_cast<const float*>(gradient.NextWhole(keys.size() * width * sizeof(float), copy));
  const absl::Span<const float> gradients(floats, keys.size() * width);
  if (!MayRepeat(keys)) return table_->Push(Bits(keys), gradients, rates, now());
  // An update rule is not linear in general, so the gradients of a repeated key are added up first.
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

// Takes the latest clock of all saved slices. Each saved row says how old it is, so any clock is
// correct; with the slice's own clock the rows' time stamps begin where they did.
void DynamicRows::Load(const LoadedTable& loaded) {
  clock_ = StepClock();
  for (const TableState& state : loaded.states) {
    if (state.clock.ms >= clock_.ms) clock_ = state.clock;
  }
  // The clock is set before the rows, because the ages of the rows count back from it.
  table_->Load(
      loaded.rows, [&](uint64_t key) { return layout_.Holds(static_cast<int64_t>(key)); }, now());
  table_->LoadState(loaded.states);
}

}  // namespace cohort

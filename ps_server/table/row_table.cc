#include "ps_server/table/row_table.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <limits>
#include <thread>
#include <utility>

#include "common/base/check.h"
#include "common/base/machine.h"
#include "common/base/status.h"
#include "common/runtime/update/make_update_kernel.h"
#include "ps_server/table/huge_pages.h"

namespace cohort {

namespace {

// Returns the age in ticks of RowTime at which a row expires, rounded up. 0 means that rows never
// expire.
int32_t TtlTicks(absl::Duration ttl) {
  if (ttl == absl::InfiniteDuration()) return 0;
  return static_cast<int32_t>((ttl + RowTime::kTick - absl::Nanoseconds(1)) / RowTime::kTick);
}

// Returns the maximum number of rows in a stripe with which the stripe's rows, index and counters
// fit into the stripe's share of the policy's limit of bytes; 0 means no limit. The shares leave
// out one huge page, because the table's last huge page may be only partly used.
size_t StripeRowsMax(const RowPolicy& policy, size_t row_bytes) {
  if (policy.bytes_max == 0) return 0;
  const size_t bytes = (policy.bytes_max - kHugePage) / RowTable::kStripes -
                       (policy.admit_after > 1 ? SightCounts::kBytes : 0);
  size_t fits = 1;
  // The maximum is found by a binary search, because the size of an index grows in steps.
  for (size_t most = bytes / row_bytes; fits < most;) {
    const size_t rows = fits + (most - fits + 1) / 2;
    if (RowSlabs::BytesFor(rows, row_bytes) + RowIndex::BytesFor(rows) <= bytes) {
      fits = rows;
    } else {
      most = rows - 1;
    }
  }
  return fits;
}

// The addresses, in the tensors of a TableRows, at which the next row is to be written.
struct Columns {
  int64_t* keys;
  int32_t* uses;
  std::byte* values;
  std::vector<float*> slots;
};

// Allocates the tensors of a TableRows for `count` rows.
TableRows MakeRows(const RowLayout& layout, size_t count) {
  const auto rows = static_cast<int64_t>(count);
  const auto width = static_cast<int64_t>(layout.width());
  TableRows all{Tensor(DType::kInt64, Shape{rows}),
                Tensor(DType::kInt32, Shape{rows, 2}),
                Tensor(layout.dtype(), Shape{rows, width}),
                {}};
  for (const RowLayout::Slot& slot : layout.slots()) {
    all.slots.push_back(Tensor(DType::kFloat32, RowLayout::SlotShape(slot.per_row, rows, width)));
  }
  return all;
}

// Returns the addresses at which row `number` begins in the tensors of `rows`.
Columns ColumnsAt(const RowLayout& layout, TableRows& rows, size_t number) {
  Columns columns{rows.keys.mutable_data<int64_t>() + number,
                  rows.uses.mutable_data<int32_t>() + 2 * number,
                  rows.values.mutable_raw() + number * layout.value_bytes(),
                  {}};
  for (size_t i = 0; i < rows.slots.size(); ++i) {
    columns.slots.push_back(rows.slots[i].mutable_data<float>() +
                            number * layout.slots()[i].elements);
  }
  return columns;
}

// Copies one row of a table to the addresses `out`, and advances `out` to the next row.
void CopyRow(const RowLayout& layout, std::byte* row, uint32_t now, Columns& out) {
  const RowHeader& header = RowLayout::Header(row);
  *out.keys++ = static_cast<int64_t>(header.key);
  *out.uses++ = RowTime::Age(header.stamp, now);
  *out.uses++ = static_cast<int32_t>(header.uses);
  std::memcpy(out.values, RowLayout::Values(row), layout.value_bytes());
  out.values += layout.value_bytes();
  for (size_t i = 0; i < out.slots.size(); ++i) {
    const RowLayout::Slot& slot = layout.slots()[i];
    std::memcpy(out.slots[i], RowLayout::SlotOf(row, slot), slot.elements * sizeof(float));
    out.slots[i] += slot.elements;
  }
}

// The number of bytes from which on copying by several threads is faster than by one.
constexpr size_t kBytesForThreads = size_t{16} << 20;

// Calls visit(i) for each i below `count`. If `bytes`, the number of bytes to copy, is large, the
// calls run on as many threads as there are processors, because pushes and pulls must wait for the
// copy.
void ForEachAtOnce(size_t count, size_t bytes, absl::FunctionRef<void(size_t)> visit) {
  std::atomic<size_t> next = 0;
  const auto take = [&] {
    for (size_t i = next++; i < count; i = next++) visit(i);
  };
  const size_t threads =
      bytes < kBytesForThreads ? 1 : std::min(count, static_cast<size_t>(ProcessorCount()));
  std::vector<std::thread> others;
  for (size_t i = 1; i < threads; ++i) others.emplace_back(take);
  take();
  for (std::thread& other : others) other.join();
}

}  // namespace

struct RowTable::Batch {
  std::vector<KeyAt> keys;    // the keys in the order in which the caller gave them
  std::vector<KeyAt> sorted;  // the same keys, sorted by stripe
};

RowTable::RowTable(RowRules rules, std::unique_ptr<UpdateKernel> kernel)
    : rules_(std::move(rules)), kernel_(std::move(kernel)), regions_(rules_.layout.row_bytes()) {
  for (size_t i = 0; i < kStripes; ++i) {
    stripes_.push_back(std::make_unique<LockedStripe>(rules_, regions_));
  }
}

RowTable::~RowTable() = default;

absl::StatusOr<std::unique_ptr<RowTable>> RowTable::Create(const RowTableOptions& options) {
  RETURN_IF_ERROR(CheckRowPolicy(options.row.table, options.policy));
  ASSIGN_OR_RETURN(std::unique_ptr<UpdateKernel> kernel, MakeUpdateKernel(options.rule));
  ASSIGN_OR_RETURN(RowLayout layout, RowLayout::Make(options.row, options.rule));
  const size_t rows_max = StripeRowsMax(options.policy, layout.row_bytes());
  RowRules rules{std::move(layout), options.policy, TtlTicks(options.policy.ttl), rows_max};
  return std::unique_ptr<RowTable>(new RowTable(std::move(rules), std::move(kernel)));
}

std::unique_ptr<RowTable::Batch> RowTable::TakeBatch() const {
  MutexLock lock(mutex_);
  if (batches_.empty()) return std::make_unique<Batch>();
  std::unique_ptr<Batch> batch = std::move(batches_.back());
  batches_.pop_back();
  return batch;
}

void RowTable::ReturnBatch(std::unique_ptr<Batch> batch) const {
  MutexLock lock(mutex_);
  batches_.push_back(std::move(batch));
}

void RowTable::ForStripes(
    absl::Span<const uint64_t> keys,
    absl::FunctionRef<void(RowStripe&, absl::Span<const KeyAt>)> visit) const {
  COHORT_CHECK(keys.size() < std::numeric_limits<uint32_t>::max(),
               "a batch has fewer keys than 2^32");
  std::unique_ptr<Batch> batch = TakeBatch();
  batch->keys.resize(keys.size());
  batch->sorted.resize(keys.size());
  // The keys are sorted by stripe with a counting sort, which keeps the order of keys within a
  // stripe: repeated keys must be updated in the order of the batch.
  std::array<uint32_t, kStripes + 1> begins = {};
  for (size_t i = 0; i < keys.size(); ++i) {
    const uint64_t hash = RowStripe::HashOf(keys[i]);
    batch->keys[i] = {hash, keys[i], static_cast<uint32_t>(i)};
    ++begins[hash % kStripes + 1];
  }
  for (size_t i = 0; i < kStripes; ++i) begins[i + 1] += begins[i];
  std::array<uint32_t, kStripes + 1> ends = begins;
  for (const KeyAt& key : batch->keys) batch->sorted[ends[key.hash % kStripes]++] = key;
  // Each batch begins with the stripe of its first key, so that concurrent batches rarely begin
  // with the same lock and wait for each other at every stripe.
  const size_t first = keys.empty() ? 0 : batch->keys[0].hash % kStripes;
  for (size_t i = 0; i < kStripes; ++i) {
    const size_t stripe = (first + i) % kStripes;
    if (begins[stripe] == begins[stripe + 1]) continue;
    LockedStripe& locked = *stripes_[stripe];
    MutexLock lock(locked.mutex);
    visit(locked.rows, absl::MakeConstSpan(batch->sorted)
                           .subspan(begins[stripe], begins[stripe + 1] - begins[stripe]));
  }
  ReturnBatch(std::move(batch));
}

void RowTable::Pull(absl::Span<const uint64_t> keys, absl::Time now, absl::Span<float> out) const {
  COHORT_CHECK(out.size() == keys.size() * layout().width(), "a row of values for each key");
  ForStripes(keys, [&](RowStripe& stripe, absl::Span<const KeyAt> part) {
    stripe.Pull(part, RowTime::At(now), out.data());
  });
}

void RowTable::Push(absl::Span<const uint64_t> keys, absl::Span<const float> gradients,
                    const PushRates& rates, absl::Time now) {
  COHORT_CHECK(gradients.size() == keys.size() * layout().width(),
               "there is one row of gradients for each row");
  UpdateStep step;
  step.learning_rate = rates.learning_rate;
  step.step = rates.step;
  step.row_width = layout().width();
  for (const RowLayout::Slot& slot : layout().slots()) {
    // Only the lengths of the slots in `step` are used. The addresses of the slots are set for each
    // row.
    step.slots.push_back({{nullptr, slot.elements}, {nullptr, slot.elements}});
  }
  const RowPush push = {*kernel_, gradients.data(), step, RowTime::At(now)};
  ForStripes(keys,
             [&](RowStripe& stripe, absl::Span<const KeyAt> part) { stripe.Push(part, push); });
}

RowTableUse RowTable::Use() const {
  RowTableUse use;
  for (const std::unique_ptr<LockedStripe>& stripe : stripes_) {
    MutexLock lock(stripe->mutex);
    const RowCounts& counts = stripe->rows.counts();
    use.rows += stripe->rows.rows();
    use.index_bytes += stripe->rows.index_bytes();
    use.counts.Add(counts);
  }
  use.row_bytes = regions_.bytes();
  use.payload_bytes = use.rows * layout().payload_bytes();
  return use;
}

TableRows RowTable::Save(absl::Time now) const {
  const uint32_t at = RowTime::At(now);
  const RowLayout& layout = rules_.layout;
  const size_t bytes = regions_.bytes();
  // Index in the result of the first row of each stripe.
  std::array<size_t, kStripes + 1> begins = {};
  for (size_t i = 0; i < kStripes; ++i) {
    MutexLock lock(stripes_[i]->mutex);
    begins[i + 1] = begins[i] + stripes_[i]->rows.rows();
  }
  // The number of rows in a stripe does not change after its lock is released, because nothing is
  // pushed during Save.
  TableRows all = MakeRows(layout, begins.back());
  AdviseHugePages(all.values.mutable_raw(), all.values.num_bytes());
  for (Tensor& slot : all.slots) AdviseHugePages(slot.mutable_raw(), slot.num_bytes());
  // Each stripe writes its own part of the tensors, so the threads do not conflict.
  ForEachAtOnce(kStripes, bytes, [&](size_t i) {
    Columns out = ColumnsAt(layout, all, begins[i]);
    MutexLock lock(stripes_[i]->mutex);
    stripes_[i]->rows.ForEachRow([&](std::byte* row) { CopyRow(layout, row, at, out); });
  });
  return all;
}

void RowTable::LoadRow(const TableRows& rows, size_t at, uint32_t now) {
  const auto key = static_cast<uint64_t>(rows.keys.data<int64_t>()[at]);
  const uint64_t hash = RowStripe::HashOf(key);
  LockedStripe& stripe = *stripes_[hash % kStripes];
  MutexLock lock(stripe.mutex);
  std::byte* const row = stripe.rows.Add({hash, key, 0}, now);
  // The table has no free row number, so the saved row is left out.
  if (row == nullptr) return;
  if (rows.slots.empty()) layout().Fill(key, /*step=*/1, row);
  const int32_t* const uses = rows.uses.data<int32_t>() + 2 * at;
  RowHeader& header = RowLayout::Header(row);
  // Rows are saved with their ages instead of time stamps, because this table's clock may differ
  // from that of the saved table.
  header.stamp = now - static_cast<uint32_t>(uses[0]);
  // The number of uses is set to at least 1, because 0 would mark memory without a row.
  header.uses = std::max(static_cast<uint32_t>(uses[1]), 1u);
  const size_t value_bytes = layout().value_bytes();
  std::memcpy(RowLayout::Values(row), rows.values.raw() + at * value_bytes, value_bytes);
  for (size_t i = 0; i < rows.slots.size(); ++i) {
    const RowLayout::Slot& slot = layout().slots()[i];
    std::memcpy(RowLayout::SlotOf(row, slot), rows.slots[i].data<float>() + at * slot.elements,
                slot.elements * sizeof(float));
  }
}

void RowTable::AssignFromLastSlot() {
  const RowLayout::Slot& slot = layout().slots().back();
  COHORT_CHECK(slot.elements == layout().width(), "a slot of the values' size");
  for (const std::unique_ptr<LockedStripe>& stripe : stripes_) {
    MutexLock lock(stripe->mutex);
    stripe->rows.ForEachRow(
        [&](std::byte* row) { layout().Write(RowLayout::SlotOf(row, slot), row); });
  }
}

void RowTable::Load(absl::Span<const TableRows> parts, absl::FunctionRef<bool(uint64_t)> takes,
                    absl::Time now) {
  for (const std::unique_ptr<LockedStripe>& stripe : stripes_) {
    MutexLock lock(stripe->mutex);
    stripe->rows.Clear();
  }
  for (const TableRows& rows : parts) {
    const absl::Span<const int64_t> keys = rows.keys.span<int64_t>();
    for (size_t i = 0; i < keys.size(); ++i) {
      if (takes(static_cast<uint64_t>(keys[i]))) LoadRow(rows, i, RowTime::At(now));
    }
  }
}

TableState RowTable::SaveState() const {
  TableState state;
  state.stripes = Tensor(DType::kInt64, TableState::StripesShape());
  state.sights = Tensor(DType::kUint8, Shape{0});
  int64_t* fields = state.stripes.mutable_data<int64_t>();
  for (size_t i = 0; i < kStripes; ++i) {
    MutexLock lock(stripes_[i]->mutex);
    const SightCounts& sights = stripes_[i]->rows.sights();
    *fields++ = static_cast<int64_t>(sights.sights());
    *fields++ = static_cast<int64_t>(stripes_[i]->rows.swept());
    state.counts.Add(stripes_[i]->rows.counts());
    // The saved counters of a stripe that has seen no key are zero. If no stripe has seen a key,
    // the tensor has no elements.
    if (sights.current().empty()) continue;
    if (state.sights.num_elements() == 0) {
      state.sights = Tensor::Zeros(DType::kUint8, TableState::SightsShape());
    }
    uint8_t* const out = state.sights.mutable_data<uint8_t>() + i * SightCounts::kBytes;
    std::copy(sights.last().begin(), sights.last().end(),
              std::copy(sights.current().begin(), sights.current().end(), out));
  }
  return state;
}

void RowTable::LoadState(absl::Span<const TableState> parts) {
  for (const TableState& state : parts) {
    const absl::Span<const int64_t> fields = state.stripes.span<int64_t>();
    for (size_t i = 0; i < kStripes; ++i) {
      MutexLock lock(stripes_[i]->mutex);
      RowStripe& stripe = stripes_[i]->rows;
      // If there are several states, the search for expired rows continues at the hash in the last
      // state. Any hash is correct, because the search goes through all hashes again and again.
      stripe.SweepFrom(static_cast<uint64_t>(fields[2 * i + 1]));
      // Only the sum of the counts over the stripes is ever asked for, so the first stripe gets all
      // of them.
      if (i == 0) stripe.counts().Add(state.counts);
      if (state.sights.num_elements() == 0) continue;
      const absl::Span<const uint8_t> counters =
          state.sights.span<uint8_t>().subspan(i * SightCounts::kBytes, SightCounts::kBytes);
      stripe.sights().Merge(counters.first(SightCounts::kCounters),
                            counters.last(SightCounts::kCounters),
                            static_cast<size_t>(std::max<int64_t>(fields[2 * i], 0)));
    }
  }
}

}  // namespace cohort

#include "ps_server/table/row_table.h"

#include <array>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status.h"
#include "common/runtime/update/make_update_kernel.h"

namespace cohort {

namespace {

// Returns the lifetime of a row in ticks of RowTime, rounded up; 0 means that rows never expire.
int32_t TtlTicks(absl::Duration ttl) {
  if (ttl == absl::InfiniteDuration()) return 0;
  return static_cast<int32_t>((ttl + RowTime::kTick - absl::Nanoseconds(1)) / RowTime::kTick);
}

// Returns the maximum number of rows that a stripe may have within its share of the policy's limit,
// or 0 without a limit. One huge page is left out of the shares, because the table's last huge page
// may be used only in part.
size_t StripeRowsMax(const RowPolicy& policy, size_t row_bytes) {
  if (policy.bytes_max == 0) return 0;
  const size_t bytes = (policy.bytes_max - kHugePage) / RowTable::kStripes -
                       (policy.admit_after > 1 ? SightCounts::kBytes : 0);
  size_t fits = 1;
  // A binary search finds the limit, because the bytes of an index do not grow evenly with its
  // rows.
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

}  // namespace

struct RowTable::Batch {
  std::vector<KeyAt> keys;    // keys in the order of the batch
  std::vector<KeyAt> sorted;  // keys sorted by stripe
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
  COHORT_CHECK(keys.size() < std::numeric_limits<uint32_t>::max(), "a batch of 32-bit size");
  std::unique_ptr<Batch> batch = TakeBatch();
  batch->keys.resize(keys.size());
  batch->sorted.resize(keys.size());
  // A counting sort by stripe keeps the order of the keys within a stripe: equal keys must be
  // updated in the order of the batch.
  std::array<uint32_t, kStripes + 1> begins = {};
  for (size_t i = 0; i < keys.size(); ++i) {
    const uint64_t hash = RowStripe::HashOf(keys[i]);
    batch->keys[i] = {hash, keys[i], static_cast<uint32_t>(i)};
    ++begins[hash % kStripes + 1];
  }
  for (size_t i = 0; i < kStripes; ++i) begins[i + 1] += begins[i];
  std::array<uint32_t, kStripes + 1> ends = begins;
  for (const KeyAt& key : batch->keys) batch->sorted[ends[key.hash % kStripes]++] = key;
  // Batches of several threads begin at different stripes, so that they do not wait for each other
  // at one lock after another.
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
  COHORT_CHECK(gradients.size() == keys.size() * layout().width(), "a row of gradients each");
  UpdateStep step;
  step.learning_rate = rates.learning_rate;
  step.step = rates.step;
  step.row_width = layout().width();
  for (const RowLayout::Slot& slot : layout().slots()) {
    // The kernel needs only the lengths of the slots in `step`; each row brings the addresses.
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
    use.counts.dropped += counts.dropped;
    use.counts.expired += counts.expired;
    use.counts.evicted += counts.evicted;
  }
  use.row_bytes = regions_.bytes();
  use.payload_bytes = use.rows * layout().payload_bytes();
  return use;
}

}  // namespace cohort
